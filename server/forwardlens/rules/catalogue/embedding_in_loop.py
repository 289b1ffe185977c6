"""One embedding look-up per token, step or row where one look-up would do."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache
from typing import ClassVar

from forwardlens.model import Edit, ExpressionCost, Fix, Related
from forwardlens.rules.batched import RefusedError
from forwardlens.rules.callers import loop_around, rounds_of
from forwardlens.rules.contract import Context, Example, Match, Rule
from forwardlens.rules.evidence import Sites, percent, sites_of
from forwardlens.rules.relation import relation
from forwardlens.rules.vectorise import hoisted, vectorised
from forwardlens.source.tree import Looping, dotted, walk

# Fewer rounds than this are cheap to leave alone.
LEAST_ROUNDS = 4


class EmbeddingInLoop(Rule):
    """## What it does
    Finds an embedding that looks up one token, step or row per round of a loop, although the indices of all rounds
    are known before the loop starts.

    ## Why it costs
    A look-up of a few rows is nearly all dispatch: each call pays the way through Python, the module and the
    dispatcher, and on a GPU a kernel launch. One look-up of the whole index tensor pays that once and copies the same
    rows.

    ## When to ignore it
    When an index depends on what an earlier round computed, as in decoding: that is not reported. Loops over
    several tables are reported without a fix, because one look-up then needs one joint table with offsets.

    ## Fix safety
    The fix is offered as safe if every round is independent, the loop cannot end early, and the run showed the ranks
    of all operands. If the whole loop has a form without a loop it is replaced, otherwise only the look-up moves in
    front of it. `max_norm` changes the table at each look-up and `scale_grad_by_freq` counts within one look-up, so
    neither gets a fix. More rows are held at once than before.
    """

    name: ClassVar[str] = "embedding-in-loop"
    summary: ClassVar[str] = "One embedding look-up per round of a loop"
    examples: ClassVar[tuple[Example, ...]] = (
        Example(
            "append-and-stack",
            """\
import torch
from torch import nn


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.word = nn.Embedding(100, 8)

    def forward(self, ids):
        rows = []
        for t in range(ids.size(1)):
            rows.append(self.word(ids[:, t]))  #!
        words = torch.stack(rows, dim=1)
        return words.mean(dim=1)


def build():
    return Words(), (torch.randint(0, 100, (4, 24)),)
""",
            """\
import torch
from torch import nn


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.word = nn.Embedding(100, 8)

    def forward(self, ids):
        words = self.word(ids)
        return words.mean(dim=1)


def build():
    return Words(), (torch.randint(0, 100, (4, 24)),)
""",
        ),
        Example(
            "with-layer-after",
            """\
import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(100, 8)
        self.mix = nn.Linear(8, 8)

    def forward(self, codes):
        steps, batch = codes.shape
        out = torch.zeros(batch, steps, 8, device=codes.device)
        for t in range(steps):
            # one step at a time
            row = self.table(codes[t])  #!
            out[:, t] = self.mix(row).relu()
        return out


def build():
    return Tagger(), (torch.randint(0, 100, (24, 4)),)
""",
            """\
import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(100, 8)
        self.mix = nn.Linear(8, 8)

    def forward(self, codes):
        steps, batch = codes.shape
        # one step at a time
        row = self.table(codes)
        out = self.mix(row).relu().permute(1, 0, 2).contiguous()
        return out


def build():
    return Tagger(), (torch.randint(0, 100, (24, 4)),)
""",
        ),
        Example(
            "comprehension",
            """\
import torch
from torch import nn


class Columns(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(100, 8)

    def forward(self, ids):
        return torch.cat([self.table(column).unsqueeze(1) for column in ids.unbind(1)], dim=1)  #!


def build():
    return Columns(), (torch.randint(0, 100, (4, 24)),)
""",
            """\
import torch
from torch import nn


class Columns(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(100, 8)

    def forward(self, ids):
        return self.table(ids)


def build():
    return Columns(), (torch.randint(0, 100, (4, 24)),)
""",
        ),
        Example(
            "shorter-than-the-tensor",
            """\
import torch
from torch import nn


class Prefix(nn.Module):
    def __init__(self):
        super().__init__()
        self.word = nn.Embedding(100, 8)
        self.place = nn.Embedding(100, 8)

    def forward(self, ids, places):
        rows = []
        for t in range(ids.size(1)):
            rows.append(self.word(ids[:, t]) + 0.5 * self.place(places[t]))  #!
        return torch.stack(rows)


def build():
    return Prefix(), (torch.randint(0, 100, (4, 24)), torch.arange(40))
""",
            """\
import torch
from torch import nn


class Prefix(nn.Module):
    def __init__(self):
        super().__init__()
        self.word = nn.Embedding(100, 8)
        self.place = nn.Embedding(100, 8)

    def forward(self, ids, places):
        return (self.word(ids) + 0.5 * self.place(places[: ids.size(1)])).permute(1, 0, 2).contiguous()


def build():
    return Prefix(), (torch.randint(0, 100, (4, 24)), torch.arange(40))
""",
        ),
        Example(
            "recurrence-around-it",
            """\
import torch
from torch import nn


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.word = nn.Embedding(100, 8)
        self.cell = nn.GRUCell(8, 8)

    def forward(self, ids):
        state = torch.zeros(ids.size(0), 8)
        for t in range(ids.size(1)):
            state = self.cell(self.word(ids[:, t]), state)  #!
        return state


def build():
    return Reader(), (torch.randint(0, 100, (4, 24)),)
""",
            """\
import torch
from torch import nn


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.word = nn.Embedding(100, 8)
        self.cell = nn.GRUCell(8, 8)

    def forward(self, ids):
        state = torch.zeros(ids.size(0), 8)
        word_rows = self.word(ids)
        for t in range(ids.size(1)):
            state = self.cell(word_rows[:, t], state)
        return state


def build():
    return Reader(), (torch.randint(0, 100, (4, 24)),)
""",
        ),
        Example(
            "renormalised-table",
            """\
import torch
from torch import nn


class Renormalised(nn.Module):
    def __init__(self):
        super().__init__()
        self.word = nn.Embedding(100, 8, max_norm=1.0)

    def forward(self, ids):
        return torch.stack([self.word(ids[:, t]) for t in range(ids.size(1))], dim=1)  #!


def build():
    return Renormalised(), (torch.randint(0, 100, (4, 24)),)
""",
        ),
        Example(
            "decoding",
            """\
import torch
from torch import nn


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.word = nn.Embedding(100, 100)

    def forward(self, token):
        tokens = []
        for _ in range(24):
            token = self.word(token).argmax(dim=-1)
            tokens.append(token)
        return torch.stack(tokens, dim=1)


def build():
    return Decoder(), (torch.arange(4),)
""",
        ),
        Example(
            "one-look-up",
            """\
import torch
from torch import nn


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.word = nn.Embedding(100, 8)

    def forward(self, ids):
        return self.word(ids).mean(dim=1)


def build():
    return Words(), (torch.randint(0, 100, (4, 24)),)
""",
        ),
    )

    def find(self, context: Context) -> Iterator[Match]:
        sites = sites_of(context)
        if sites is None:
            return
        for node, cost in sites.items():
            found = loop_around(sites, node)
            if found is None or not isinstance(node, ast.Call) or not _looks_up_often(sites, node, cost):
                continue
            loop, repeated = found
            assert isinstance(repeated, ast.expr)
            if relation(sites, loop, repeated) == "independent":
                yield _match(sites, node, cost, loop)


def _looks_up_often(sites: Sites, node: ast.Call, cost: ExpressionCost) -> bool:
    lookups = any(op.outermost and op.name == "aten::embedding" for op in cost.ops)
    return lookups and rounds_of(sites, node) >= LEAST_ROUNDS


def _match(sites: Sites, node: ast.Call, cost: ExpressionCost, loop: Looping) -> Match:
    table = sites.tree.text(node.func)
    share = sites.share(node)
    fix, obstacle = _fix(sites, node, loop)
    message = (
        f"`{table}` ran {cost.calls} times in one forward, {percent(share)} of it: "
        "each call pays the dispatch cost that one lookup of all indices would pay once"
    )
    return Match(
        sites.source.span(node),
        message if fix else f"{message}. No automatic fix: {obstacle}",
        share,
        {"calls": cost.calls, "calls_per_entry": rounds_of(sites, node), "table": table},
        (Related(_head(sites, loop), "the loop that repeats it"),),
        (fix,) if fix else (),
    )


def _head(sites: Sites, loop: Looping):
    node = (
        loop.iter if isinstance(loop, (ast.For, ast.AsyncFor)) else loop.test if isinstance(loop, ast.While) else loop
    )
    return sites.source.span(node)


def _fix(sites: Sites, node: ast.Call, loop: Looping) -> tuple[Fix | None, str]:
    """The best fix there is, or what stands in its way."""
    keyword = _order_dependent(sites.tree.module)
    if keyword is not None:
        return None, f"`{keyword}` makes a look-up depend on how many indices it gets"
    try:
        return _safe("Look up all indices at once", vectorised(sites, loop)), ""
    except RefusedError as whole:
        if loop not in sites.tree.loops(node):
            return None, str(whole)
        try:
            wanted = f"{(dotted(node.func) or 'looked').split('.')[-1].strip('_') or 'looked'}_rows"
            return _safe("Look up all indices before the loop", hoisted(sites, node, wanted)), ""
        except RefusedError as part:
            return None, str(part) if str(part) != "" else str(whole)


def _safe(title: str, edits: tuple[Edit, ...]) -> Fix:
    return Fix(title, "safe", edits)


@lru_cache(maxsize=64)
def _order_dependent(module: ast.Module) -> str | None:
    """An option of an embedding in this file that ties a look-up's meaning to its size.

    Which module was built with it is not followed: one anywhere in the file is reason enough to leave the loop.
    """
    for node in walk(module):
        if not isinstance(node, ast.keyword) or node.arg not in {"max_norm", "scale_grad_by_freq"}:
            continue
        if not isinstance(node.value, ast.Constant) or node.value.value:
            return node.arg
    return None
