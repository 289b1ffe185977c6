"""Small independent tensor work, round by round, where all rounds could be one operator."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from math import prod
from typing import ClassVar, Literal

from forwardlens.model import ExpressionCost, Fix
from forwardlens.rules.batched import RefusedError
from forwardlens.rules.callers import by_loop, loop_around, rounds_of
from forwardlens.rules.catalogue.embedding_in_loop import EmbeddingInLoop
from forwardlens.rules.catalogue.expert_loop import ExpertLoop
from forwardlens.rules.catalogue.masking_in_loop import MaskingInLoop
from forwardlens.rules.catalogue.per_parameter_loop import PerParameterLoop
from forwardlens.rules.catalogue.scalar_access_in_loop import ScalarAccessInLoop
from forwardlens.rules.contract import Context, Example, Match, Rule
from forwardlens.rules.evidence import Sites, depends_on_order, percent, sites_of
from forwardlens.rules.loops import loop_of
from forwardlens.rules.readouts import reads_number
from forwardlens.rules.repeated import LEAST_ROUNDS, body, bound_in, head, place
from forwardlens.rules.rounds import (
    claimed,
    costs_in,
    first_of_the_costliest,
    independent,
    is_ragged,
    is_small,
    only_elements,
    outermost,
    pairs,
    share_of,
    sorting,
    works,
)
from forwardlens.rules.vectorise import vectorised
from forwardlens.source.dataflow import names_bound, names_read
from forwardlens.source.tree import Looping

_MODULES = frozenset({"aten::linear", "aten::conv1d", "aten::conv2d", "aten::layer_norm", "aten::addmm"})
# All pairs at once hold this many elements at most: 256 MB of `float32`.
_MOST_ELEMENTS = 1 << 26


# One cause is one finding: on the same loop these say more.
_MORE_SPECIFIC = (EmbeddingInLoop(), MaskingInLoop(), ExpertLoop(), PerParameterLoop())
# This one says more too, unless the elements that it sees only choose which pairs are computed.
_ELEMENTS = ScalarAccessInLoop()


class ElementwiseLoop(Rule):
    """## What it does
    Finds loops over samples, classes, channels, heads or pairs whose rounds run small operators and need nothing of
    each other.

    ## Why it costs
    An operator on a few elements is nearly all dispatch: Python, the dispatcher and an allocation, and on a GPU a
    kernel launch. A loop pays that once per round and operator. Written for all rounds at once, it pays once per
    operator, and the operator has enough elements to use the hardware.

    ## When to ignore it
    When the rounds have large tensors: those are not reported, nor are rounds that carry a state, have ragged shapes,
    draw random numbers or update statistics, as dropout and batch normalisation do in training. A loop with side
    effects besides tensor work may have to stay.

    ## Fix safety
    The fix is offered as safe if every expression of a round has a direct form for all rounds and the run showed the
    ranks of all operands. Sums over rounds are added in another order, so the last digits may differ. A branch on a
    round's own value becomes `torch.where`, unless it may guard what it computes. A tensor that is made to be filled
    is left out where the rounds fill all of it; one of another dtype than their values shows when the fix is tried.
    All pairs at once take more memory than one after the other: beyond 64 million elements there is no fix. Where
    elements are read to choose the pairs, and no direct form is known, the fix reads them once before the loop. Loops
    over layers with weights of their own are reported without one: they need joint weights
    (`torch.func.stack_module_state` and `torch.vmap`).

    A module or a function that is called for each frame, view or patch takes all of them as one batch if it treats the
    samples of a batch one by one: its own code is followed, a library's module is known by the operators that it ran.
    With batch normalisation or dropout that holds outside of training only, and the fix is unsafe.
    """

    name: ClassVar[str] = "elementwise-loop"
    summary: ClassVar[str] = "Small independent tensor work, one round of a loop at a time"
    covers: ClassVar[Mapping[str, Literal["expression", "loop"]]] = {"scalar-access-in-loop": "loop"}
    examples: ClassVar[tuple[Example, ...]] = (
        Example(
            "rows-gathered-sample-by-sample",
            """\
import torch
from torch import nn


class Pick(nn.Module):
    def forward(self, x, places):
        rows = []
        for b in range(x.size(0)):
            rows.append(x[b, places[b]] * 2)  #!
        return torch.stack(rows)


def build():
    return Pick(), (torch.randn(40, 9, 4), torch.randint(0, 9, (40, 3)))
""",
            """\
import torch
from torch import nn


class Pick(nn.Module):
    def forward(self, x, places):
        return x[torch.arange(x.size(0), device=x.device)[:, None], places] * 2


def build():
    return Pick(), (torch.randn(40, 9, 4), torch.randint(0, 9, (40, 3)))
""",
        ),
        Example(
            "distances-of-several-pairs-of-sets",
            """\
import torch
from torch import nn


def distances(x, y):
    dist = torch.zeros(x.size(0), y.size(0))
    for i in range(x.size(0)):
        dist[i, :] = (x[i].expand(y.shape) - y).square().sum(dim=1)  #!
    return dist


class Gap(nn.Module):
    def forward(self, x, y):
        return distances(x, x).mean() + distances(y, y).mean() - 2 * distances(x, y).mean()


def build():
    return Gap(), (torch.randn(40, 8), torch.randn(30, 8))
""",
            """\
import torch
from torch import nn


def distances(x, y):
    dist = (x[:, None, :].expand(-1, *y.shape) - y).square().sum(dim=2)
    return dist


class Gap(nn.Module):
    def forward(self, x, y):
        return distances(x, x).mean() + distances(y, y).mean() - 2 * distances(x, y).mean()


def build():
    return Gap(), (torch.randn(40, 8), torch.randn(30, 8))
""",
        ),
        Example(
            "frames-through-a-network",
            """\
import torch
from torch import nn


class Video(nn.Module):
    def __init__(self):
        super().__init__()
        self.network = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())

    def forward(self, frames):
        features = []
        for t in range(frames.size(1)):
            features.append(self.network(frames[:, t]))  #!
        features = torch.stack(features, dim=1)
        return features.mean(dim=1)


def build():
    return Video().eval(), (torch.randn(2, 24, 3, 8, 8),)
""",
            """\
import torch
from torch import nn


class Video(nn.Module):
    def __init__(self):
        super().__init__()
        self.network = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())

    def forward(self, frames):
        features = self.network(frames.flatten(0, 1)).unflatten(0, frames.shape[:2])
        return features.mean(dim=1)


def build():
    return Video().eval(), (torch.randn(2, 24, 3, 8, 8),)
""",
        ),
        Example(
            "frames-through-a-network-with-statistics",
            """\
import torch
from torch import nn


class Video(nn.Module):
    def __init__(self):
        super().__init__()
        layers = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()
        self.network = nn.Sequential(*layers)

    def forward(self, frames):
        features = []
        for t in range(frames.size(1)):
            features.append(self.network(frames[:, t]))  #!
        features = torch.stack(features, dim=1)
        return features.mean(dim=1)


def build():
    return Video().eval(), (torch.randn(2, 24, 3, 8, 8),)
""",
        ),
        Example(
            "overlap-class-by-class",
            """\
import torch
from torch import nn


class Overlap(nn.Module):
    def forward(self, guess, truth):
        loss = 0.0
        for c in range(guess.size(1)):
            loss += 1 - (guess[:, c] * truth[:, c]).sum() / guess[:, c].sum()  #!
        return loss


def build():
    return Overlap(), (torch.rand(2, 24, 5, 5), torch.rand(2, 24, 5, 5))
""",
            """\
import torch
from torch import nn


class Overlap(nn.Module):
    def forward(self, guess, truth):
        loss = 0.0
        loss += (1 - (guess * truth).sum((0, 2, 3)) / guess.sum((0, 2, 3))).sum(0)
        return loss


def build():
    return Overlap(), (torch.rand(2, 24, 5, 5), torch.rand(2, 24, 5, 5))
""",
        ),
        Example(
            "score-added-up",
            """\
import torch
from torch import nn


class Score(nn.Module):
    def forward(self, guess, truth):
        total = guess.new_zeros(())
        for g, t in zip(guess, truth):
            total = total + (g - t).square().mean()  #!
        return total / len(guess)


def build():
    return Score(), (torch.rand(24, 5, 5), torch.rand(24, 5, 5))
""",
            """\
import torch
from torch import nn


class Score(nn.Module):
    def forward(self, guess, truth):
        total = guess.new_zeros(())
        total = total + (guess - truth).square().mean((-2, -1)).sum(0)
        return total / len(guess)


def build():
    return Score(), (torch.rand(24, 5, 5), torch.rand(24, 5, 5))
""",
        ),
        Example(
            "heads-one-by-one",
            """\
import torch
from torch import nn


class Heads(nn.Module):
    def forward(self, q, k, v):
        out = torch.zeros_like(q)
        for h in range(q.size(1)):
            weights = (q[:, h] @ k[:, h].transpose(-1, -2)).softmax(dim=-1)  #!
            out[:, h] = weights @ v[:, h]
        return out


def build():
    return Heads(), tuple(torch.randn(2, 12, 5, 4) for _ in range(3))
""",
            """\
import torch
from torch import nn


class Heads(nn.Module):
    def forward(self, q, k, v):
        weights = (q @ k.permute(0, 1, 3, 2)).softmax(dim=-1)
        out = weights @ v
        return out


def build():
    return Heads(), tuple(torch.randn(2, 12, 5, 4) for _ in range(3))
""",
        ),
        Example(
            "columns-reduced-in-the-words-of-numpy",
            """\
import torch
from torch import nn


class Prototypes(nn.Module):
    def __init__(self):
        super().__init__()
        self.centres = nn.Parameter(torch.randn(24, 4))

    def forward(self, x):
        gaps = x.new_zeros(x.shape[0], self.centres.shape[0])
        for c, centre in enumerate(self.centres):
            gap = x - centre
            gaps[:, c] = (gap**2).sum(axis=-1)  #!
        return gaps


def build():
    return Prototypes(), (torch.randn(6, 4),)
""",
            """\
import torch
from torch import nn


class Prototypes(nn.Module):
    def __init__(self):
        super().__init__()
        self.centres = nn.Parameter(torch.randn(24, 4))

    def forward(self, x):
        gap = x[:, None, :] - self.centres
        gaps = (gap**2).sum(axis=-1)
        return gaps


def build():
    return Prototypes(), (torch.randn(6, 4),)
""",
        ),
        Example(
            "equal-pieces-under-one-name",
            """\
import torch
from torch import nn


class Norms(nn.Module):
    def forward(self, x, gain):
        parts = x.chunk(24, dim=-1)
        parts = [nn.functional.normalize(p, dim=-1) * g for p, g in zip(parts, gain)]  #!
        return torch.cat(parts, dim=-1)


def build():
    return Norms(), (torch.randn(2, 3, 96), torch.rand(24))
""",
            """\
import torch
from torch import nn


class Norms(nn.Module):
    def forward(self, x, gain):
        parts = (nn.functional.normalize(x.unflatten(2, (24, -1)), dim=-1) * gain[:, None]).flatten(2, 3)
        return parts


def build():
    return Norms(), (torch.randn(2, 3, 96), torch.rand(24))
""",
        ),
        Example(
            "each-sample-against-its-own-pair",
            """\
import torch
from torch import nn


class Contrast(nn.Module):
    def forward(self, one, other):
        scores = one @ other.t()
        losses = []
        for i in range(scores.size(0)):
            losses.append(scores[i].logsumexp(0) - scores[i, i])  #!
        return torch.stack([loss for loss in losses])


def build():
    return Contrast(), (torch.randn(24, 4), torch.randn(24, 4))
""",
            """\
import torch
from torch import nn


class Contrast(nn.Module):
    def forward(self, one, other):
        scores = one @ other.t()
        return scores.logsumexp(1) - scores.diagonal()


def build():
    return Contrast(), (torch.randn(24, 4), torch.randn(24, 4))
""",
        ),
        Example(
            "pieces-of-each-piece",
            """\
import torch
from torch import nn


class Gates(nn.Module):
    def forward(self, x):
        parts = (t.chunk(12, dim=-1) for t in x.chunk(2, dim=-1))
        outs = []
        for gate, value in zip(*parts):
            outs.append(gate.softmax(dim=-1) * value)  #!
        return torch.cat(outs, dim=-1)


def build():
    return Gates(), (torch.randn(2, 5, 96),)
""",
            """\
import torch
from torch import nn


class Gates(nn.Module):
    def forward(self, x):
        pieces = x.chunk(2, dim=-1)
        return (pieces[0].unflatten(2, (12, -1)).softmax(dim=-1) * pieces[1].unflatten(2, (12, -1))).flatten(2, 3)


def build():
    return Gates(), (torch.randn(2, 5, 96),)
""",
        ),
        Example(
            "mean-of-each-class",
            """\
import torch
from torch import nn


class Centres(nn.Module):
    def forward(self, x, labels):
        centres = torch.zeros(24, x.size(1))
        for c in range(24):
            centres[c] = x[labels == c].mean(dim=0)  #!
        return centres


def build():
    return Centres(), (torch.randn(96, 4), torch.arange(96) % 24)
""",
        ),
        Example(
            "share-of-each-class",
            """\
import torch
from torch import nn


class Shares(nn.Module):
    def forward(self, labels):
        return torch.stack([(labels == c).float().mean() for c in range(24)])  #!


def build():
    return Shares(), (torch.arange(96) % 24,)
""",
            """\
import torch
from torch import nn


class Shares(nn.Module):
    def forward(self, labels):
        return (labels[:, None] == torch.arange(24, device=labels.device)).float().mean(0)


def build():
    return Shares(), (torch.arange(96) % 24,)
""",
        ),
        Example(
            "pairs",
            """\
import torch
from torch import nn


class Distances(nn.Module):
    def forward(self, x):
        n = len(x)
        table = torch.zeros(n, n)
        for i in range(n):
            for j in range(n):
                table[i, j] = (x[i] - x[j]).norm()  #!
        return table


def build():
    return Distances(), (torch.randn(12, 4),)
""",
            """\
import torch
from torch import nn


class Distances(nn.Module):
    def forward(self, x):
        n = len(x)
        table = (x[:, None, :] - x).norm(dim=-1)
        return table


def build():
    return Distances(), (torch.randn(12, 4),)
""",
        ),
        Example(
            "first-pair-that-fits",
            """\
import torch
from torch import nn


class First(nn.Module):
    def forward(self, score, grade):
        loss = score.new_zeros(())
        for i in range(len(score)):
            for j in range(len(score)):
                if grade[i] > grade[j]:
                    loss = loss + nn.functional.softplus(score[j] - score[i])
                    break
        return loss


def build():
    return First(), (torch.randn(16), torch.arange(16) % 4)
""",
        ),
        Example(
            "several-layers-on-one-input",
            """\
import torch
from torch import nn


class Many(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleList(nn.Linear(8, 3) for _ in range(24))

    def forward(self, x):
        return torch.stack([head(x) for head in self.heads], dim=1)  #!


def build():
    return Many(), (torch.randn(4, 8),)
""",
        ),
        Example(
            "layers-in-a-row",
            """\
import torch
from torch import nn


class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(24))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x).relu()
        return x


def build():
    return Deep(), (torch.randn(4, 8),)
""",
        ),
        Example(
            "random-draws",
            """\
import torch
from torch import nn


class Noisy(nn.Module):
    def forward(self, x):
        rows = []
        for row in x:
            rows.append(row + torch.randn_like(row))
        return torch.stack(rows)


def build():
    return Noisy(), (torch.zeros(24, 4),)
""",
        ),
        Example(
            "ragged-rows",
            """\
import torch
from torch import nn


class Ragged(nn.Module):
    def forward(self, rows):
        return torch.stack([rows[: n + 1].square().mean() for n in range(24)])


def build():
    return Ragged(), (torch.randn(24),)
""",
        ),
        Example(
            "large-tensors",
            """\
import torch
from torch import nn


class Large(nn.Module):
    def forward(self, x):
        return torch.stack([part.exp() for part in x])


def build():
    return Large(), (torch.randn(4, 100000),)
""",
        ),
    )

    def find(self, context: Context) -> Iterator[Match]:
        sites = sites_of(context)
        if sites is None:
            return
        loops = by_loop(sites, (n for n, c in sites.items() if works(c) and rounds_of(sites, n) >= LEAST_ROUNDS))
        chosen = _chosen_pairs(context, sites, loops)
        taken = set(claimed(context, sites, (*_MORE_SPECIFIC, _ELEMENTS))) - set(chosen) if loops else set[ast.AST]()
        done: list[ast.AST] = []
        # Innermost first: a loop around one that is reported gets its turn once that one is gone.
        for loop in sorted(loops, key=lambda n: -sum(1 for _ in sites.tree.loops(n))):
            if loop in taken or any(loop in sites.tree.ancestors(inner) for inner in (*done, *taken)):
                continue
            match = _match(sites, loop, loops[loop], chosen.get(loop))
            if match is not None or loop in chosen:
                done.append(loop)
            if match is not None:
                yield match


def _chosen_pairs(context: Context, sites: Sites, loops: Mapping[Looping, list[ast.AST]]) -> dict[ast.AST, Match]:
    """The loops that compute with pairs and read single elements to choose them, with what is found of the reads."""
    found: dict[ast.AST, Match] = {}
    for match in context.matches(_ELEMENTS) if loops else ():
        around = loop_around(sites, sites.tree.at(match.span)[0])
        loop = around[0] if around is not None else None
        if loop is not None and loop in loops and pairs(sites, loop) and _computing(sites, loops[loop]):
            found[loop] = match
    return found


def _computing(sites: Sites, nodes: Iterable[ast.AST]) -> list[ast.AST]:
    """What still computes something with tensors once all elements that the rounds read are numbers."""
    return [n for n in nodes if not any(reads_number(sites, around) for around in (n, *sites.tree.ancestors(n)))]


def _match(sites: Sites, loop: ast.AST, nodes: list[ast.AST], reads: Match | None = None) -> Match | None:
    assert isinstance(loop, Looping)
    costs = costs_in(sites, loop)
    work = {node: cost for node, cost in costs.items() if node in nodes}
    classes, together = sorting(sites, loop), pairs(sites, loop)
    if not work or isinstance(loop, ast.AsyncFor) or (isinstance(loop, ast.While) and loop_of(sites, loop) is None):
        return None
    if not all(is_small(c) for c in work.values()):
        return None
    if not classes and any(is_ragged(sites, loop, n, c) for n, c in work.items()):
        return None
    if (
        depends_on_order(costs.values(), training=sites.context.profile.grad.training)
        or (only_elements(sites, loop) and not together)
        or not independent(sites, loop, nodes)
    ):
        return None
    wanted = work if reads is None else {node: work[node] for node in _computing(sites, work)}
    hot = first_of_the_costliest(_varying(sites, loop, wanted) or wanted)
    cost, share = work[hot], share_of(sites, loop)
    calls = sum(op.calls for c in work.values() for op in outermost(c))
    message = (
        f"This loop runs {calls} small operators in {cost.calls} independent rounds, {percent(share)} of the forward: "
        "each of them costs its dispatch for a few elements"
    )
    fixes: tuple[Fix, ...] = ()
    try:
        if together and elements_of_all(work.values()) > _MOST_ELEMENTS:
            raise RefusedError("all pairs at once would take too much memory")
        fixes = (_all_at_once(sites, loop, changes_in_training=depends_on_order(costs.values()) is not None),)
    except RefusedError as refused:
        fixes = reads.fixes if reads is not None else ()
        obstacle = "The fix keeps the loop and reads once what chooses the pairs" if fixes else "No automatic fix"
        message = f"{message}; {_advice(work, loop, together, bool(classes))}. {obstacle}: {refused}"
    return Match(
        place(sites, hot),
        message,
        share,
        {"rounds": cost.calls, "operators": calls},
        (head(sites, loop),),
        fixes,
    )


def _varying(sites: Sites, loop: Looping, work: Mapping[ast.AST, ExpressionCost]) -> dict[ast.AST, ExpressionCost]:
    """The work that is not the same in every round, as far as the source shows."""
    names, around = bound_in(loop), sites.tree.function(loop)
    return {n: cost for n, cost in work.items() if sites.tree.function(n) is not around or names_read(n) & names}


def _all_at_once(sites: Sites, loop: Looping, *, changes_in_training: bool) -> Fix:
    """Raises `RefusedError`."""
    if not changes_in_training:
        return Fix("Do all rounds at once", "safe", vectorised(sites, loop))
    reason = "in training, batch normalisation or dropout would see the samples of all rounds at once"
    return Fix("Do all rounds at once", "unsafe", vectorised(sites, loop, in_evaluation=True), reason)


def elements_of_all(costs: Iterable[ExpressionCost]) -> int:
    """How many elements the largest operand would have if all rounds were done at once."""
    return max((cost.calls * prod(shape) for cost in costs for op in outermost(cost) for shape in op.shapes), default=0)


def _advice(work: dict[ast.AST, ExpressionCost], loop: Looping, together: bool, classes: bool) -> str:
    names = {op.name for cost in work.values() for op in outermost(cost)}
    if together and any(isinstance(n, ast.If) for n in body(loop)):
        return "do all pairs at once with `x[:, None]` against `x[None]`, and leave out the others with `torch.where`"
    if together:
        return "do all pairs at once with one matrix product, `torch.cdist`, or `x[:, None]` against `x[None]`"
    if classes:
        return "sort out all classes at once with `one_hot` and a product, `index_add` or `scatter_reduce`"
    varied = {name for g in _targets(loop) for name in names_bound(g)}
    modules = any(isinstance(n, ast.Call) and names_read(n.func) & varied for n in work)
    if modules and names & _MODULES:
        return "join the weights into one layer, or stack them and use one batched product (`torch.func`, `vmap`)"
    return "write it for all rounds at once by broadcasting, with batched operators or `torch.vmap`"


def _targets(loop: Looping) -> list[ast.expr]:
    if isinstance(loop, (ast.For, ast.AsyncFor)):
        return [loop.target]
    return [] if isinstance(loop, ast.While) else [g.target for g in loop.generators]
