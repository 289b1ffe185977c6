"""A case file, as its judge sees it."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.corpus.kinds import RULES


@dataclass(frozen=True)
class Case:
    file: Path
    positive: bool
    kind: str
    lines: frozenset[int]
    must_not: str
    auto_fix_safe: bool
    speedup: float | None

    @property
    def number(self) -> str:
        return self.file.name.partition("_")[0]

    @property
    def rules(self) -> frozenset[str]:
        return RULES.get(self.kind, frozenset())

    @property
    def must_stay_unflagged(self) -> bool:
        return not self.positive and self.must_not.startswith("flag")


def cases_in(folder: Path) -> list[Case]:
    return [_case(file) for file in sorted(folder.glob("[0-9][0-9]*_*.py"))]


def _case(file: Path) -> Case:
    expected = _expected(file)
    return Case(
        file,
        expected["polarity"] == "positive",
        expected["kind"],
        frozenset(expected["hot_lines"]),
        expected.get("must_not", ""),
        bool(expected.get("auto_fix_safe")),
        expected.get("speedup_cpu"),
    )


def _expected(file: Path) -> dict[str, Any]:
    """The literal that a case binds to `expected`, read without running the case."""
    for statement in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Assign) and [ast.unparse(t) for t in statement.targets] == ["expected"]:
            return ast.literal_eval(statement.value)
    raise ValueError(f"{file} binds no `expected`")
