"""Python reads or writes a tensor one element at a time."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar, Literal

from forwardlens.model import Fix
from forwardlens.rules.batched import RefusedError
from forwardlens.rules.callers import by_loop, rounds_of
from forwardlens.rules.catalogue.embedding_in_loop import EmbeddingInLoop
from forwardlens.rules.catalogue.masking_in_loop import MaskingInLoop
from forwardlens.rules.contract import Context, Example, Match, Rule
from forwardlens.rules.evidence import Sites, index_items, percent, sites_of
from forwardlens.rules.loops import ends_early
from forwardlens.rules.readouts import Elements, elements_of, elements_read, read_before, reads_number
from forwardlens.rules.repeated import body, depends_in_round, head, in_rounds, place
from forwardlens.rules.rounds import (
    claimed,
    first_of_the_costliest,
    first_of_the_largest,
    independent,
    is_element,
    only_elements,
    pairs,
    share_of,
    working,
)
from forwardlens.rules.vectorise import vectorised
from forwardlens.source.tree import Comprehension, Looping, walk


class ScalarAccessInLoop(Rule):
    """## What it does
    Finds loops that take a tensor apart element by element: `starts[i].item()`, `int(lengths[b])`, conditions such as
    `x[i] == y[j]`, arithmetic on `x[i, j]`, or writes to one element at a time.

    ## Why it costs
    Every element costs an indexing operator and a Python object, thousands of times what the arithmetic costs. Where
    the value becomes a Python number, the host also waits for the device, once per element.

    ## When to ignore it
    When a value ends the loop early and so saves work: that is not reported. Where values decide between branches,
    `torch.where` with `gather` and `scatter` is the form for all elements, which needs a human look: positions that
    occur twice count once there.

    ## Fix safety
    Reading once is offered as safe if the loop leaves the tensor alone and indexes it by counters only: `tolist()`
    in front of the loop gives the same numbers. Elements that are compared with each other must have been of one dtype
    in the run, or all whole numbers: torch rounds before it compares a whole number with another one. Work on single
    elements is replaced as a whole if every round is independent and each expression has a form for all rounds.
    """

    name: ClassVar[str] = "scalar-access-in-loop"
    covers: ClassVar[Mapping[str, Literal["expression", "loop"]]] = {"host-sync": "expression"}
    summary: ClassVar[str] = "A tensor read or written one element at a time"
    examples: ClassVar[tuple[Example, ...]] = (
        Example(
            "items-by-counter",
            """\
import torch
from torch import nn


class Spans(nn.Module):
    def forward(self, starts, sizes):
        spans = []
        for i in range(len(starts)):
            spans.append((starts[i].item(), int(sizes[i])))  #!
        return torch.tensor(spans)


def build():
    return Spans(), (torch.arange(40), torch.arange(40))
""",
            """\
import torch
from torch import nn


class Spans(nn.Module):
    def forward(self, starts, sizes):
        spans = []
        starts_list = starts.tolist()
        sizes_list = sizes.long().tolist()
        for i in range(len(starts)):
            spans.append((starts_list[i], sizes_list[i]))
        return torch.tensor(spans)


def build():
    return Spans(), (torch.arange(40), torch.arange(40))
""",
        ),
        Example(
            "elements-that-pick-elements",
            """\
import torch
from torch import nn


class Tokens(nn.Module):
    def forward(self, scores, places):
        tokens = scores.argmax(dim=-1)
        found = []
        for i in range(len(places)):
            found.append(tokens[places[i].item()].item())  #!
        return found


def build():
    return Tokens(), (torch.randn(40, 8), torch.randperm(40))
""",
            """\
import torch
from torch import nn


class Tokens(nn.Module):
    def forward(self, scores, places):
        tokens = scores.argmax(dim=-1)
        found = []
        tokens_list = tokens.tolist()
        places_list = places.tolist()
        for i in range(len(places)):
            found.append(tokens_list[places_list[i]])
        return found


def build():
    return Tokens(), (torch.randn(40, 8), torch.randperm(40))
""",
        ),
        Example(
            "items-of-a-table",
            """\
import torch
from torch import nn


class Table(nn.Module):
    def forward(self, costs):
        best = 0.0
        for i in range(costs.size(0)):
            for j in range(costs.size(1)):
                best = max(best, float(costs[i, j]))  #!
        return torch.tensor(best)


def build():
    return Table(), (torch.rand(8, 9),)
""",
            """\
import torch
from torch import nn


class Table(nn.Module):
    def forward(self, costs):
        best = 0.0
        costs_list = costs.tolist()
        for i in range(costs.size(0)):
            for j in range(costs.size(1)):
                best = max(best, float(costs_list[i][j]))
        return torch.tensor(best)


def build():
    return Table(), (torch.rand(8, 9),)
""",
        ),
        Example(
            "iterated",
            """\
import torch
from torch import nn


class Sizes(nn.Module):
    def forward(self, sizes):
        ends, end = [], 0
        for size in sizes:
            end += size.item()  #!
            ends.append(end)
        return torch.tensor(ends)


def build():
    return Sizes(), (torch.arange(40),)
""",
            """\
import torch
from torch import nn


class Sizes(nn.Module):
    def forward(self, sizes):
        ends, end = [], 0
        for size in sizes.tolist():
            end += size
            ends.append(end)
        return torch.tensor(ends)


def build():
    return Sizes(), (torch.arange(40),)
""",
        ),
        Example(
            "slice-bounds",
            """\
import torch
from torch import nn


class Means(nn.Module):
    def forward(self, x, lengths):
        return torch.stack([x[b, : lengths[b]].mean() for b in range(x.size(0))])  #!


def build():
    return Means(), (torch.rand(24, 9), torch.arange(24) % 8 + 1)
""",
            """\
import torch
from torch import nn


class Means(nn.Module):
    def forward(self, x, lengths):
        lengths_list = lengths.tolist()
        return torch.stack([x[b, : lengths_list[b]].mean() for b in range(x.size(0))])


def build():
    return Means(), (torch.rand(24, 9), torch.arange(24) % 8 + 1)
""",
        ),
        Example(
            "ends-of-spans",
            """\
import torch
from torch import nn


def spans_of(marks):
    for low, high in zip(marks[:-1], marks[1:]):
        yield slice(low.item(), int(high))  #!


class Peaks(nn.Module):
    def forward(self, x, marks):
        return torch.stack([x[span].amax() for span in spans_of(marks)])


def build():
    return Peaks(), (torch.rand(160), torch.arange(41) * 4)
""",
            """\
import torch
from torch import nn


def spans_of(marks):
    for low, high in zip(marks[:-1].tolist(), marks[1:].tolist()):
        yield slice(low, int(high))


class Peaks(nn.Module):
    def forward(self, x, marks):
        return torch.stack([x[span].amax() for span in spans_of(marks)])


def build():
    return Peaks(), (torch.rand(160), torch.arange(41) * 4)
""",
        ),
        Example(
            "rows-unpacked",
            """\
import torch
from torch import nn


class Roll(nn.Module):
    def draw(self, notes):
        roll = torch.zeros(60, 12)
        for note in notes:
            pitch, start, length, loud = (v.item() for v in note)  #!
            roll[start : start + length, pitch] = loud
        return roll

    def forward(self, notes):
        return self.draw(notes) * 2


def build():
    return Roll(), (torch.arange(160).view(40, 4) % 12,)
""",
            """\
import torch
from torch import nn


class Roll(nn.Module):
    def draw(self, notes):
        roll = torch.zeros(60, 12)
        for note in notes.tolist():
            pitch, start, length, loud = note
            roll[start : start + length, pitch] = loud
        return roll

    def forward(self, notes):
        return self.draw(notes) * 2


def build():
    return Roll(), (torch.arange(160).view(40, 4) % 12,)
""",
        ),
        Example(
            "rows-by-position",
            """\
import torch
from torch import nn


class Roll(nn.Module):
    def draw(self, notes):
        roll = torch.zeros(60, 12)
        for note in notes:
            start = int(note[1])  #!
            roll[start : start + note[2].item(), int(note[0])] = int(note[3]) / 4
        return roll

    def forward(self, notes):
        return self.draw(notes) * 2


def build():
    return Roll(), (torch.arange(160).view(40, 4) % 12,)
""",
            """\
import torch
from torch import nn


class Roll(nn.Module):
    def draw(self, notes):
        roll = torch.zeros(60, 12)
        for note in notes.tolist():
            start = int(note[1])
            roll[start : start + note[2], int(note[0])] = int(note[3]) / 4
        return roll

    def forward(self, notes):
        return self.draw(notes) * 2


def build():
    return Roll(), (torch.arange(160).view(40, 4) % 12,)
""",
        ),
        Example(
            "rows-used-as-tensors-too",
            """\
import torch
from torch import nn


class Roll(nn.Module):
    def draw(self, notes):
        roll = torch.zeros(60, 12)
        for note in notes:
            pitch, start = [v.item() for v in note[:2]]  #!
            roll[start, pitch] = note.sum()
        return roll

    def forward(self, notes):
        return self.draw(notes) * 2


def build():
    return Roll(), (torch.arange(160).view(40, 4) % 12,)
""",
            """\
import torch
from torch import nn


class Roll(nn.Module):
    def draw(self, notes):
        roll = torch.zeros(60, 12)
        for note in notes:
            pitch, start = note[:2].tolist()
            roll[start, pitch] = note.sum()
        return roll

    def forward(self, notes):
        return self.draw(notes) * 2


def build():
    return Roll(), (torch.arange(160).view(40, 4) % 12,)
""",
        ),
        Example(
            "compared-one-by-one",
            """\
import torch
from torch import nn


def errors(hyp, ref):
    before = list(range(len(ref) + 1))
    for i in range(1, len(hyp) + 1):
        row = [i]
        for j in range(1, len(ref) + 1):
            swap = before[j - 1] + (0 if hyp[i - 1] == ref[j - 1] else 1)  #!
            row.append(min(before[j] + 1, row[j - 1] + 1, swap))
        before = row
    return before[-1]


class Errors(nn.Module):
    def forward(self, hyp, ref):
        return torch.tensor(errors(hyp, ref))


def build():
    return Errors(), (torch.arange(12) % 5, torch.arange(14) % 3)
""",
            """\
import torch
from torch import nn


def errors(hyp, ref):
    before = list(range(len(ref) + 1))
    hyp_list = hyp.tolist()
    ref_list = ref.tolist()
    for i in range(1, len(hyp) + 1):
        row = [i]
        for j in range(1, len(ref) + 1):
            swap = before[j - 1] + (0 if hyp_list[i - 1] == ref_list[j - 1] else 1)
            row.append(min(before[j] + 1, row[j - 1] + 1, swap))
        before = row
    return before[-1]


class Errors(nn.Module):
    def forward(self, hyp, ref):
        return torch.tensor(errors(hyp, ref))


def build():
    return Errors(), (torch.arange(12) % 5, torch.arange(14) % 3)
""",
        ),
        Example(
            "conditions-of-elements",
            """\
import torch
from torch import nn


class Wrong(nn.Module):
    def forward(self, classes, labels, used):
        wrong = []
        for found, label, counts in zip(classes, labels, used):
            if counts and found != label:  #!
                wrong.append(1)
            else:
                wrong.append(0)
        return torch.tensor(wrong)


def build():
    return Wrong(), (torch.arange(40) % 4, torch.arange(40) % 3, torch.arange(40) > 2)
""",
            """\
import torch
from torch import nn


class Wrong(nn.Module):
    def forward(self, classes, labels, used):
        wrong = []
        for found, label, counts in zip(classes.tolist(), labels.tolist(), used.tolist()):
            if counts and found != label:
                wrong.append(1)
            else:
                wrong.append(0)
        return torch.tensor(wrong)


def build():
    return Wrong(), (torch.arange(40) % 4, torch.arange(40) % 3, torch.arange(40) > 2)
""",
        ),
        Example(
            "whole-and-other-numbers-compared",
            """\
import torch
from torch import nn


class Hits(nn.Module):
    def forward(self, ids, values):
        hits = 0
        for i in range(len(ids)):
            if ids[i] == values[i]:  #!
                hits += 1
        return torch.tensor(hits)


def build():
    return Hits(), (torch.arange(40), torch.arange(40.0))
""",
        ),
        Example(
            "added-up-by-position",
            """\
import torch
from torch import nn


class Evidence(nn.Module):
    def forward(self, rows, weights):
        grid = torch.zeros(8)
        for row, weight in zip(rows, weights):
            grid[row.item()] += weight * row  #!
        return grid


def build():
    return Evidence(), (torch.arange(40) % 8, torch.rand(40))
""",
        ),
        Example(
            "number-under-the-same-name",
            """\
import torch
from torch import nn


class Last(nn.Module):
    def forward(self, x, lengths):
        found = []
        for row, n in zip(x, lengths):
            n = n.item()  #!
            found.append(row[:n].sum() / n)
        return torch.stack(found)


def build():
    return Last(), (torch.rand(24, 9), torch.arange(24) % 8 + 1)
""",
            """\
import torch
from torch import nn


class Last(nn.Module):
    def forward(self, x, lengths):
        found = []
        for row, n in zip(x, lengths.tolist()):
            found.append(row[:n].sum() / n)
        return torch.stack(found)


def build():
    return Last(), (torch.rand(24, 9), torch.arange(24) % 8 + 1)
""",
        ),
        Example(
            "three-ways-for-each-element",
            """\
import torch
from torch import nn


class Bands(nn.Module):
    def forward(self, x):
        scaled = []
        for value in x:
            if value < 0:  #!
                scaled.append(value)
            elif value > 1:
                scaled.append(value / 4)
            else:
                scaled.append(value * value)
        return torch.stack(scaled)


def build():
    return Bands(), (torch.linspace(-1, 4, 40),)
""",
        ),
        Example(
            "element-by-element",
            """\
import torch
from torch import nn


class Blend(nn.Module):
    def forward(self, x, y):
        out = torch.zeros_like(x)
        for i in range(x.size(0)):
            out[i] = x[i] * y[i]  #!
        return out


def build():
    return Blend(), (torch.rand(40), torch.rand(40))
""",
            """\
import torch
from torch import nn


class Blend(nn.Module):
    def forward(self, x, y):
        out = x * y
        return out


def build():
    return Blend(), (torch.rand(40), torch.rand(40))
""",
        ),
        Example(
            "score-of-a-path",
            """\
import torch
from torch import nn


class Path(nn.Module):
    def __init__(self):
        super().__init__()
        self.moves = nn.Parameter(torch.randn(9, 9))

    def forward(self, fit, tags):
        score = fit.new_zeros(1)
        for i, row in enumerate(fit):
            score = score + self.moves[tags[i], tags[i + 1]] * row.sum()  #!
        return score


def build():
    return Path(), (torch.randn(40, 9), torch.arange(41) % 9)
""",
            """\
import torch
from torch import nn


class Path(nn.Module):
    def __init__(self):
        super().__init__()
        self.moves = nn.Parameter(torch.randn(9, 9))

    def forward(self, fit, tags):
        score = fit.new_zeros(1)
        score = score + (self.moves[tags[: len(fit)], tags[1 : len(fit) + 1]] * fit.sum(-1)).sum(0)
        return score


def build():
    return Path(), (torch.randn(40, 9), torch.arange(41) % 9)
""",
        ),
        Example(
            "value-decides-the-branch",
            """\
import torch
from torch import nn


class Fold(nn.Module):
    def forward(self, x):
        x = x.clone()
        for i in range(x.size(0)):
            if x[i] < 0: x[i] *= -1.0  #!
        return x


def build():
    return Fold(), (torch.randn(40),)
""",
            """\
import torch
from torch import nn


class Fold(nn.Module):
    def forward(self, x):
        x = x.clone()
        x[:] = torch.where(x < 0, x * -1.0, x)
        return x


def build():
    return Fold(), (torch.randn(40),)
""",
        ),
        Example(
            "tensor-changes-meanwhile",
            """\
import torch
from torch import nn


class Queue(nn.Module):
    def forward(self, x):
        x, seen = x.clone(), []
        for i in range(x.size(0)):
            seen.append(x[i].item())  #!
            x += 1
        return torch.tensor(seen)


def build():
    return Queue(), (torch.zeros(40),)
""",
        ),
        Example(
            "ends-early",
            """\
import torch
from torch import nn


class First(nn.Module):
    def forward(self, x):
        for i in range(x.size(0)):
            if x[i].item() > 0.9:
                break
        return x + i


def build():
    return First(), (torch.linspace(0, 1, 40),)
""",
        ),
        Example(
            "read-once",
            """\
import torch
from torch import nn


class Spans(nn.Module):
    def forward(self, starts):
        return torch.tensor([(start, start + 1) for start in starts.tolist()])


def build():
    return Spans(), (torch.arange(40),)
""",
        ),
        Example(
            "decay-per-step",
            """\
import torch
from torch import nn


class Decay(nn.Module):
    def forward(self, x, decay):
        state = x[0]
        for t in range(x.size(0)):
            state = state * decay[t] + x[t]
        return state


def build():
    return Decay(), (torch.randn(40, 8), torch.rand(40))
""",
        ),
    )

    def find(self, context: Context) -> Iterator[Match]:
        sites = sites_of(context)
        if sites is None:
            return
        nodes = [
            n
            for n, c in sites.items()
            if (in_rounds(c) and (reads_number(sites, n) or is_element(sites, n))) or _reads_short_rows(sites, n)
        ]
        loops = by_loop(sites, nodes)
        taken = claimed(context, sites, (EmbeddingInLoop(), MaskingInLoop())) if loops else {}
        for loop, accesses in loops.items():
            assert isinstance(loop, Looping)
            if loop not in taken and not ends_early(loop):
                match = _reading(sites, loop, accesses) or _working(sites, loop, accesses)
                if match is None or not match.fixes:
                    match = _asking(sites, loop, accesses) or match
                if match is not None:
                    yield match


# -- elements that become Python numbers


def _reads_short_rows(sites: Sites, node: ast.AST) -> bool:
    """Whether a comprehension of few rounds that reads numbers runs in every round of another loop."""
    around = [*sites.tree.loops(node)]
    return len(around) > 1 and isinstance(around[0], Comprehension) and reads_number(sites, node)


def _reading(sites: Sites, loop: Looping, nodes: list[ast.AST]) -> Match | None:
    reading = [n for n in nodes if reads_number(sites, n)]
    found = elements_read(sites, loop, reading) if reading else None
    if found is None:
        return None
    try:
        fix = _at_once(sites, loop) or Fix("Read all elements before the loop", "safe", read_before(sites, loop, found))
    except RefusedError as refused:
        return _read_one_by_one(sites, loop, found, None, str(refused))
    return _read_one_by_one(sites, loop, found, fix)


def _asking(sites: Sites, loop: Looping, nodes: list[ast.AST]) -> Match | None:
    """Elements that conditions ask for, if all of them can be read before the loop."""
    found = elements_read(sites, loop, [n for n in nodes if reads_number(sites, n)], asked=True)
    try:
        edits = read_before(sites, loop, found) if found is not None else ()
    except RefusedError:
        return None
    if _at_once(sites, loop) is not None:
        # Rules that do without the loop have more to give.
        return None
    fix = Fix("Read all elements before the loop", "safe", edits)
    return _read_one_by_one(sites, loop, found, fix) if found is not None else None


def _read_one_by_one(sites: Sites, loop: Looping, found: Elements, fix: Fix | None, obstacle: str = "") -> Match:
    hot = first_of_the_largest({node: sites.share(node) for node in found.costly})
    share = sites.share(*found.costly, *found.nodes)
    calls = sum(cost.op_calls("aten::item") for n in found.costly if (cost := sites.cost(n)) is not None)
    message = (
        f"This loop makes Python numbers of single elements {calls} times in one forward, {percent(share)} of it: "
        "each pays an indexing operator and makes the host wait for the device"
    )
    summed = _summed_at(sites, loop, found)
    if summed is not None:
        message = (
            f"{message}; without the loop, `index_put_` with `accumulate=True` adds to all positions of `{summed}` in "
            "one operator, in another order"
        )
    if fix is None:
        message = f"{message}; read them once with `tolist()`, or keep them tensors. No automatic fix: {obstacle}"
    return Match(
        place(sites, hot),
        message,
        share,
        {"reads": calls},
        (head(sites, loop),),
        (fix,) if fix is not None else (),
    )


def _summed_at(sites: Sites, loop: Looping, found: Elements) -> str | None:
    """The tensor that a loop does nothing but add to, at positions that it reads: `grid[row, col] += value`."""
    statement = loop.body[0] if isinstance(loop, ast.For) and len(loop.body) == 1 else None
    if isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Add):
        target, uses = statement.target, 1
    elif isinstance(statement, ast.Assign) and isinstance(statement.value, ast.BinOp):
        target, uses = statement.targets[0], 2
        sides = {sites.tree.text(statement.value.left), sites.tree.text(statement.value.right)}
        if not isinstance(statement.value.op, ast.Add) or sites.tree.text(target) not in sides:
            return None
    else:
        return None
    if not isinstance(target, ast.Subscript) or not isinstance(target.value, ast.Name):
        return None
    name, items = target.value.id, index_items(target)
    positions = all(any(n in found.nodes for n in walk(item)) for item in items)
    alone = sum(isinstance(n, ast.Name) and n.id == name for n in walk(loop)) == uses
    return name if positions and alone else None


def _at_once(sites: Sites, loop: Looping) -> Fix | None:
    """Without the loop nothing has to be read at all."""
    try:
        return Fix("Do all elements at once", "safe", vectorised(sites, loop))
    except RefusedError:
        return None


# -- work on single elements


def _working(sites: Sites, loop: Looping, nodes: list[ast.AST]) -> Match | None:
    elements = [n for n in nodes if is_element(sites, n)]
    work = working(sites, loop)
    if not work or not only_elements(sites, loop) or pairs(sites, loop):
        return None
    share = share_of(sites, loop)
    if elements:
        calls = sum(c.calls for n in elements if (c := sites.cost(n)) is not None)
        weight = sites.tree.statement if isinstance(loop, ast.For) else _itself
        hot = first_of_the_largest({node: sites.share(weight(node)) for node in elements})
        message = f"This loop reads or writes single elements {calls} times in one forward, {percent(share)} of it"
    elif _takes_apart(sites, loop):
        calls = max(rounds_of(sites, n) for n in work)
        hot = first_of_the_costliest(work)
        message = (
            f"This loop takes a tensor apart into {calls} elements and works on one after the other, "
            f"{percent(share)} of the forward"
        )
    else:
        return None
    message = f"{message}: each access costs an operator and a Python object for one number"
    fix: Fix | None = None
    try:
        if any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in walk(loop)):
            raise RefusedError("each element is handed out by itself")
        if not independent(sites, loop, work):
            raise RefusedError("a round may depend on another one, or on the values")
        fix = Fix("Do all elements at once", "safe", vectorised(sites, loop))
    except RefusedError as refused:
        message = (
            f"{message}; use `gather`, `where` and `scatter` on all of them, or read them once with `tolist()`. "
            f"No automatic fix: {refused}"
        )
    return Match(
        place(sites, hot),
        message,
        share,
        {"accesses": calls},
        (head(sites, loop),),
        (fix,) if fix is not None else (),
    )


def _itself(node: ast.AST) -> ast.AST:
    return node


def _takes_apart(sites: Sites, loop: Looping) -> bool:
    """Whether the loop's variables are elements of tensors, and decide what a round does."""
    taken = {name for name, _, _ in elements_of(sites, loop)}
    decided = [n.test for part in body(loop) for n in walk(part) if isinstance(n, (ast.If, ast.IfExp))]
    return bool(taken) and any(depends_in_round(loop, test, taken) for test in decided)
