"""What an editor sends when a text changes: the part that differs."""

from __future__ import annotations

import re

from lsprotocol import types

_UNITS = {"utf-8": 1, "utf-16-le": 2, "utf-32-le": 4}


def change_between(before: str, after: str, encoding: str = "utf-16") -> types.TextDocumentContentChangePartial:
    """The smallest change that makes `after` of `before` and cuts no line end in half."""
    start = _common(before, after)
    start -= start > 0 and before[start - 1] == "\r"
    end = _common(before[start:][::-1], after[start:][::-1])
    end -= end > 0 and before[len(before) - end] == "\n"
    first, last = (_position(before, offset, encoding) for offset in (start, len(before) - end))
    return types.TextDocumentContentChangePartial(types.Range(first, last), after[start : len(after) - end])


def _common(one: str, other: str) -> int:
    """How many characters two texts begin with alike."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((number for number, (a, b) in pairs if a != b), min(len(one), len(other)))


def _position(text: str, offset: int, encoding: str) -> types.Position:
    lines = re.split(r"\r\n|\n|\r", text[:offset])
    codec = encoding if encoding == "utf-8" else f"{encoding}-le"
    return types.Position(len(lines) - 1, len(lines[-1].encode(codec, "surrogatepass")) // _UNITS[codec])
