"""Slices that a loop needs only if two tensors differ in length.

`for b in range(len(x)): out.append(x[b] * y[b])` reads the first `len(x)` rows of `y`. Written out that is
`x * y[: len(x)]`. But where `y` meets `x` in an operator a longer `y` would be an error, not another result, so the
slice says nothing that a reader needs. Where `y` meets nothing of the loop's own length the slice has to stay.

While a loop is lifted such slices are marked in the text. `Lengths` notes what meets what, and `finished` leaves out
the slices that turned out to say nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from forwardlens.rules.batched import Batched

# Characters for private use, which no source has a reason to hold.
_OPEN, _BETWEEN, _CLOSE, _GONE = "\ue000", "\ue001", "\ue002", "\ue003"
_MARK = re.compile(f"{_OPEN}([^{_BETWEEN}]*){_BETWEEN}([^{_CLOSE}]*){_CLOSE}")
_NAME = re.compile(r"[^\W\d]\w*")


def marked(loop: str, place: str, cut: str) -> str:
    """The slice `cut` of the tensor at `place`, which covers the rounds of a loop."""
    return f"{_OPEN}{loop}|{place}{_BETWEEN}{cut}{_CLOSE}"


def plain_text(text: str) -> str:
    """`text` with all marked slices left in."""
    return _MARK.sub(lambda mark: mark[2], text)


def places_in(text: str) -> frozenset[str]:
    """The marked places in a text."""
    return frozenset(mark[1] for mark in _MARK.finditer(text))


@dataclass
class Lengths:
    """Which tensors a loop's rounds bring together, so that their lengths have to agree.

    `names` tells for a name of the rounds what its value was made of, `zipped` for a loop what its `zip` runs over,
    `seen` how long the run saw a place, `shapes` how many different shapes a `zip` ran over. `longer` are the places
    that a round reads further on than its own number: of them a slice always leaves something out.
    """

    names: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    zipped: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    groups: list[set[str]] = field(default_factory=list[set[str]])
    seen: dict[str, int] = field(default_factory=dict[str, int])
    shapes: dict[str, int] = field(default_factory=dict[str, int])
    longer: set[str] = field(default_factory=set[str])

    def places(self, text: str) -> set[str]:
        """The marked places in a text, also through names."""
        found = {*places_in(text)}
        bare = _MARK.sub("", text)
        return found.union(*(self.names[name] for name in _NAME.findall(bare) if name in self.names))

    def name(self, name: str, text: str) -> None:
        self.names[name] = self.names.get(name, set()) | self.places(text)

    def meet(self, loops: Sequence[str], values: Iterable[Batched]) -> None:
        """Note that the values are operands of one operator."""
        every = list(values)
        for number, loop in enumerate(loops):
            group: set[str] = set()
            for value in every:
                if value.loops[number] is not None:
                    own = {p for p in self.places(value.text) if p.startswith(f"{loop}|")}
                    if not own and not any(p.startswith(f"{loop}|") for p in value.places):
                        # Without a slice the value has the loop's own length.
                        own = {f"{loop}|"}
                    group |= own
            self._join(group)

    def see(self, loop: str, window: str, length: int) -> None:
        """Note how long the run saw the axis that a loop covers by `window`."""
        mark = _MARK.fullmatch(window)
        self.seen[mark[1] if mark is not None else f"{loop}|"] = length

    def exceed(self, loop: str, place: str) -> None:
        """Note that a tensor is longer than the loop has rounds."""
        self.longer.add(f"{loop}|{place}")

    def _join(self, group: set[str]) -> None:
        apart = [g for g in self.groups if not g & group]
        self.groups = [*apart, group.union(*(g for g in self.groups if g & group))]

    def finished(self, text: str) -> str:
        """`text` without the marks, and without the slices that say nothing."""
        text = _MARK.sub(lambda mark: _GONE if self._is_idle(mark[1]) else mark[2], text)
        while _GONE in text:
            text = _without_slice(text, text.index(_GONE))
        return text

    def settled(self, value: Batched) -> Batched:
        """A value without the marks, and without the slices that say nothing."""
        cut = value.cut
        if cut is not None:
            slices = tuple(_MARK.sub(lambda mark: ":" if self._is_idle(mark[1]) else mark[2], s) for s in cut.slices)
            cut = replace(cut, stem=self.finished(cut.stem), slices=slices)
        return replace(value, text=self.finished(value.text), cut=cut)

    def _is_idle(self, place: str) -> bool:
        if place in self.longer:
            return False
        group = next((g for g in self.groups if place in g), set[str]())
        loop = place.split("|")[0]
        needed = self.zipped.get(loop)
        own = self.seen.get(f"{loop}|", self.seen.get(place))
        if self.seen.get(place, own) != own:
            return False
        if needed is not None and self.shapes.get(loop) != 1:
            # Of several shapes the run does not tell whether their lengths were the same.
            return False
        return needed <= group if needed is not None else f"{loop}|" in group


def _without_slice(text: str, at: int) -> str:
    """`text` without the item at `at` of an index, and without the index if nothing else is in it."""
    start, depth = at, 0
    while depth >= 0:
        start -= 1
        depth += {"]": 1, ")": 1, "[": -1, "(": -1}.get(text[start], 0)
    end, depth = at, 0
    while depth >= 0:
        end += 1
        depth += {"[": 1, "(": 1, "]": -1, ")": -1}.get(text[end], 0)
    items = _items(text[start + 1 : end].replace(_GONE, ":", 1))
    kept = [*items]
    while kept and kept[-1] == ":":
        kept.pop()
    if not kept:
        return text[:start] + text[end + 1 :]
    shown = [*kept, ":"] if kept[-1] == "None" and len(kept) < len(items) else kept
    return f"{text[: start + 1]}{', '.join(shown)}{text[end:]}"


def _items(text: str) -> list[str]:
    """The items of an index, split at the commas that are not inside brackets."""
    items, depth, begin = list[str](), 0, 0
    for at, character in enumerate(text):
        depth += {"[": 1, "(": 1, "]": -1, ")": -1}.get(character, 0)
        if character == "," and not depth:
            items.append(text[begin:at].strip())
            begin = at + 1
    return [*items, text[begin:].strip()]
