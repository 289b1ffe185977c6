"""What a reader of the library's source said of each finding."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.corpus.libraries.observed import Key

FILE = Path(__file__).with_name("judgements.toml")


@dataclass(frozen=True)
class Judgement:
    """`right`: the diagnosis is true in that place, and what it advises is sensible for that code."""

    right: bool
    why: str


def read(file: Path = FILE) -> Mapping[Key, Judgement]:
    """Raises `ValueError` where two entries are about the same finding."""
    found: dict[Key, Judgement] = {}
    for entry in tomllib.loads(file.read_text(encoding="utf-8"))["finding"]:
        key = Key(entry["rule"], entry["place"], entry["code"])
        if key in found:
            raise ValueError(f"{file} judges {key} twice")
        found[key] = Judgement(entry["right"], entry["why"])
    return found
