"""A measured table, as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """`bar` says what was to be reached, `verdict` what was."""

    title: str
    bar: str
    verdict: str
    header: Sequence[str]
    rows: Sequence[Sequence[object]]

    def markdown(self) -> str:
        lines = [f"### {self.title}", "", f"Bar: {self.bar}. Measured: {self.verdict}.", ""]
        lines += ["| " + " | ".join(self.header) + " |", "|" + "---|" * len(self.header)]
        lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in self.rows]
        return "\n".join(lines)
