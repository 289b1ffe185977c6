"""Where the lines of a measured text are in the text of now.

A line that only moved keeps what was measured on it. A line that was edited has a counterpart at most: a place for
a number that is marked stale.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import lru_cache

from forwardlens.model import Span
from forwardlens.source.text import SourceText

# Lines that agree out of order count as moved only in runs of this many: a lone `return x` proves nothing.
_SMALLEST_MOVE = 3


@dataclass(frozen=True, slots=True)
class LineMap:
    """Both tables are from old to new 1-based line numbers; a line in neither was deleted."""

    _same: Mapping[int, int]
    _edited: Mapping[int, int]

    def line(self, old: int) -> int | None:
        """Where the unchanged line `old` is now."""
        return self._same.get(old)

    def edited_line(self, old: int) -> int | None:
        """The line that stands where the changed line `old` was."""
        return self._edited.get(old)

    def span(self, old: Span) -> Span | None:
        """Where `old` is now, if none of its lines changed and none came between them."""
        first = self.line(old.line)
        if first is None:
            return None
        shift = first - old.line
        if any(self.line(line) != line + shift for line in range(old.line + 1, old.end_line + 1)):
            return None
        return replace(old, line=first, end_line=old.end_line + shift)


def line_map(old: SourceText, new: SourceText) -> LineMap:
    """How the lines of `old` became those of `new`; line ends do not matter."""
    return _line_map(old.text, new.text)


@lru_cache(maxsize=64)
def _line_map(old: str, new: str) -> LineMap:
    return _map_lines(_lines(old), _lines(new))


def _lines(text: str) -> list[str]:
    # The three line ends of `SourceText`, without its per-line cost.
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _map_lines(old: Sequence[str], new: Sequence[str]) -> LineMap:
    head = _common_prefix(old, new)
    tail = _common_prefix(old[: head - 1 if head else None : -1], new[: head - 1 if head else None : -1])
    old_end, new_end = len(old) - tail, len(new) - tail
    same = {line: line for line in range(1, head + 1)}
    same.update((old_end + k, new_end + k) for k in range(1, tail + 1))

    edited: dict[int, int] = {}
    matcher = SequenceMatcher(None, old[head:old_end], new[head:new_end])
    for kind, i1, i2, j1, j2 in matcher.get_opcodes():
        pairs = ((head + i + 1, head + j + 1) for i, j in zip(range(i1, i2), range(j1, j2), strict=False))
        if kind == "equal":
            same.update(pairs)
        elif kind == "replace":
            edited.update(pairs)
    same.update(_moved(old, new, same))
    taken = set(same.values())
    return LineMap(same, {i: j for i, j in edited.items() if i not in same and j not in taken})


def _moved(old: Sequence[str], new: Sequence[str], same: Mapping[int, int]) -> dict[int, int]:
    """Blocks that agree in another order, such as a function cut here and pasted there."""
    moved: dict[int, int] = {}
    while True:
        known, taken = same.keys() | moved.keys(), {*same.values(), *moved.values()}
        left = [line for line in range(1, len(old) + 1) if line not in known]
        right = [line for line in range(1, len(new) + 1) if line not in taken]
        matcher = SequenceMatcher(None, [old[i - 1] for i in left], [new[j - 1] for j in right])
        found: dict[int, int] = {}
        for block in matcher.get_matching_blocks():
            lines = left[block.a : block.a + block.size]
            if _is_move(old, lines):
                found.update(zip(lines, right[block.b : block.b + block.size], strict=True))
        if not found:
            return moved
        moved.update(found)


def _is_move(old: Sequence[str], lines: Iterable[int]) -> bool:
    return sum(1 for line in lines if old[line - 1].strip()) >= _SMALLEST_MOVE


def _common_prefix(a: Sequence[str], b: Sequence[str]) -> int:
    count = 0
    for left, right in zip(a, b, strict=False):
        if left != right:
            break
        count += 1
    return count
