"""Attention spelled out as matmul, softmax, matmul."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import ClassVar

from forwardlens.model import Fix
from forwardlens.rules.attention.chain import Chain
from forwardlens.rules.attention.errors import NoAttentionError, NoCounterpartError
from forwardlens.rules.attention.fused import fused
from forwardlens.rules.attention.operands import sums_over_keys
from forwardlens.rules.attention.products import Product, product_of
from forwardlens.rules.contract import Context, Example, Match, Rule
from forwardlens.rules.evidence import Sites, percent, sites_of
from forwardlens.rules.operations import PRODUCT_OPERATORS
from forwardlens.source.dataflow import METADATA, names_bound
from forwardlens.source.tree import walk

# Steps that often only give the same memory in other words.
_FREE = frozenset(
    f"aten::{name}"
    for name in """to contiguous transpose permute mT swapaxes type_as view reshape flatten unflatten squeeze
    unsqueeze""".split()
)


class ManualAttention(Rule):
    """## What it does
    Finds attention written out as a product of queries and keys, a scale, a mask, `softmax`, dropout and a product
    with the values, where the weights serve for nothing else.

    ## Why it costs
    Every step reads and writes a tensor of length times length for each head, which grows with the square of the
    length. `scaled_dot_product_attention` computes the same in blocks that stay in the cache, and never holds the
    whole of it.

    ## When to ignore it
    When the weights are returned, kept or changed in another way: that is not reported. Short sequences gain little.

    ## Fix safety
    The fix is offered as safe if scale, masks and dropout have an exact counterpart: the scale is a number, hidden
    scores are filled with a very low number or -inf, and dropout only happens in training. Results differ in the last
    digits, because sums run in another order; a softmax in float32 between operands of half precision is what the fused
    operator does as well. A row that hides everything has other gradients, and zeros where -inf
    gave `nan`; a hidden score that is `nan` itself stays so. Active dropout draws other random numbers, so that fix is
    offered with this as its reason.
    """

    name: ClassVar[str] = "manual-attention"
    summary: ClassVar[str] = "Attention spelled out in several operators"
    examples: ClassVar[tuple[Example, ...]] = (
        Example(
            "causal-with-a-buffer",
            """\
import math

import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, width=16, heads=2, longest=64):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.dp = nn.Dropout(0.1)
        self.register_buffer("keep", torch.tril(torch.ones(longest, longest)).view(1, 1, longest, longest))

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.keep[:, :, :n, :n] == 0, float("-inf"))
        att = F.softmax(att, dim=-1)  #!
        att = self.dp(att)
        y = att @ v
        return y.transpose(1, 2).reshape(b, n, c)


def build():
    return Attention().eval(), (torch.randn(1, 32, 16),)
""",
            """\
import math

import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, width=16, heads=2, longest=64):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.dp = nn.Dropout(0.1)
        self.register_buffer("keep", torch.tril(torch.ones(longest, longest)).view(1, 1, longest, longest))

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(
            q, k, v, dropout_p=self.dp.p if self.dp.training else 0.0, is_causal=True, scale=1.0 / math.sqrt(k.size(-1))
        )
        return y.transpose(1, 2).reshape(b, n, c)


def build():
    return Attention().eval(), (torch.randn(1, 32, 16),)
""",
        ),
        Example(
            "optional-padding-mask",
            """\
import torch
from torch import nn


class Attention(nn.Module):
    def forward(self, q, k, v, pad=None):
        scores = torch.matmul(q, k.transpose(2, 3)) / q.size(-1) ** 0.5
        if pad is not None:
            scores = scores.masked_fill(pad, -1e9)
        weights = torch.softmax(scores, dim=-1)  #!
        return torch.matmul(weights, v)


def build():
    q, k, v = (torch.randn(2, 4, 96, 32) for _ in range(3))
    return Attention(), (q, k, v, torch.rand(2, 1, 1, 96) < 0.2)
""",
            """\
import torch
from torch import nn


class Attention(nn.Module):
    def forward(self, q, k, v, pad=None):
        return nn.functional.scaled_dot_product_attention(
            q, k, v, attn_mask=None if pad is None else torch.where(pad, torch.finfo(q.dtype).min / 2, q.new_zeros(()))
        )


def build():
    q, k, v = (torch.randn(2, 4, 96, 32) for _ in range(3))
    return Attention(), (q, k, v, torch.rand(2, 1, 1, 96) < 0.2)
""",
        ),
        Example(
            "added-mask-that-the-run-had-not",
            """\
import torch
from torch import nn


class Attention(nn.Module):
    def forward(self, q, k, v, bias=None):
        scores = q @ k.transpose(-1, -2) * q.size(-1) ** -0.5
        if bias is not None:
            scores = scores + bias
        return scores.softmax(dim=-1) @ v  #!


def build():
    return Attention(), tuple(torch.randn(2, 4, 96, 32) for _ in range(3))
""",
            """\
import torch
from torch import nn


class Attention(nn.Module):
    def forward(self, q, k, v, bias=None):
        return nn.functional.scaled_dot_product_attention(
            q, k, v, attn_mask=None if bias is None else bias.to(q.dtype)
        )


def build():
    return Attention(), tuple(torch.randn(2, 4, 96, 32) for _ in range(3))
""",
        ),
        Example(
            "result-changed-in-place",
            """\
import torch
from torch import nn


class Reset(nn.Module):
    def forward(self, q, k, v, gone):
        scores = q @ k.transpose(-1, -2) / q.size(-1) ** 0.5
        out = torch.softmax(scores, dim=-1) @ v  #!
        out[gone] = 0.0
        return out


def build():
    return Reset(), (torch.randn(4, 4, 64, 16), *torch.randn(2, 4, 4, 64, 16), torch.rand(4, 4, 64) > 0.5)
""",
        ),
        Example(
            "padding-filled-in-place",
            """\
import math

import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def forward(self, query, key, value, mask):
        scores = query @ key.transpose(-1, -2).contiguous() / math.sqrt(query.size(-1))
        visible = mask > 0
        scores[:, :, :, : mask.size(1)].masked_fill_(~visible[:, None, None, :], -1e9)
        return torch.softmax(scores, dim=-1) @ value  #!


def build():
    q, k, v = (torch.randn(2, 4, 96, 32) for _ in range(3))
    return Attention(), (q, k, v, (torch.rand(2, 96) < 0.8).long())
""",
            """\
import math

import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def forward(self, query, key, value, mask):
        visible = mask > 0
        return F.scaled_dot_product_attention(
            query,
            key,
            value,
            attn_mask=torch.where(visible[:, None, None, :], query.new_zeros(()), torch.finfo(query.dtype).min / 2),
        )


def build():
    q, k, v = (torch.randn(2, 4, 96, 32) for _ in range(3))
    return Attention(), (q, k, v, (torch.rand(2, 96) < 0.8).long())
""",
        ),
        Example(
            "part-of-the-scores-hidden",
            """\
import math

import torch
from torch import nn


class Attention(nn.Module):
    def forward(self, query, key, value, mask):
        scores = query @ key.transpose(-1, -2) / math.sqrt(query.size(-1))
        scores[:, :, :, : mask.size(1)].masked_fill_(mask[:, None, None, :], -1e9)
        return torch.softmax(scores, dim=-1) @ value


def build():
    q, k, v = (torch.randn(2, 4, 96, 32) for _ in range(3))
    return Attention(), (q, k, v, torch.rand(2, 48) < 0.2)
""",
        ),
        Example(
            "one-head-with-added-mask",
            """\
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 32**-0.5

    def forward(self, q, k, v, bias):
        scores = torch.bmm(q, k.transpose(1, 2)) * self.scale + bias
        return torch.bmm(scores.softmax(-1), v)  #!


def build():
    q, k, v = (torch.randn(6, 128, 32) for _ in range(3))
    return Attention(), (q, k, v, torch.randn(128, 128))
""",
            """\
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 32**-0.5

    def forward(self, q, k, v, bias):
        return nn.functional.scaled_dot_product_attention(
            q.unsqueeze(1), k.unsqueeze(1), v.unsqueeze(1), attn_mask=bias, scale=self.scale
        ).squeeze(1)


def build():
    q, k, v = (torch.randn(6, 128, 32) for _ in range(3))
    return Attention(), (q, k, v, torch.randn(128, 128))
""",
        ),
        Example(
            "einsum-with-heads-behind-the-length",
            """\
import torch
import torch.nn.functional as F
from torch import einsum, nn


class Attention(nn.Module):
    def __init__(self, width=64, drop=0.1):
        super().__init__()
        self.drop, self.scale = drop, width**-0.5

    def forward(self, q, k, v, bias):
        dots = einsum("bihd,bjhd->bhij", q, k) * self.scale
        weights = F.softmax(dots + bias, dim=-1, dtype=torch.float32).to(q.dtype)  #!
        weights = F.dropout(weights, p=self.drop, training=self.training)
        return einsum("bhij,bjhd->bihd", weights, v)


def build():
    q, k, v = (torch.randn(2, 96, 4, 32) for _ in range(3))
    return Attention().eval(), (q, k, v, (torch.rand(2, 1, 1, 96) < 0.2) * -1e4)
""",
            """\
import torch
import torch.nn.functional as F
from torch import einsum, nn


class Attention(nn.Module):
    def __init__(self, width=64, drop=0.1):
        super().__init__()
        self.drop, self.scale = drop, width**-0.5

    def forward(self, q, k, v, bias):
        return F.scaled_dot_product_attention(
            q.transpose(1, 2),
            k.transpose(1, 2),
            v.transpose(1, 2),
            dropout_p=self.drop if self.training else 0.0,
            attn_mask=bias,
            scale=self.scale,
        ).transpose(1, 2)


def build():
    q, k, v = (torch.randn(2, 96, 4, 32) for _ in range(3))
    return Attention().eval(), (q, k, v, (torch.rand(2, 1, 1, 96) < 0.2) * -1e4)
""",
        ),
        Example(
            "function-given-its-dropout",
            """\
import torch
from torch import nn


def attend(q, k, v, pad, scale, drop):
    blank = torch.empty(q.size(0), q.size(1), k.size(1), dtype=q.dtype, device=q.device)
    scores = torch.baddbmm(blank, q, k.transpose(-1, -2), beta=0, alpha=scale)
    lowest = -torch.finfo(scores.dtype).max
    if pad is not None:
        far = pad[:, None]
        scores = scores.masked_fill(far, lowest)
    return torch.bmm(drop(torch.softmax(scores.float(), -1).type_as(v)), v)  #!


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.1)

    def forward(self, q, k, v, pad):
        return attend(q, k, v, pad, 32**-0.5, self.drop)


def build():
    q, k, v = (torch.randn(6, 128, 32) for _ in range(3))
    return Attention().eval(), (q, k, v, torch.rand(6, 128) < 0.2)
""",
            """\
import torch
from torch import nn


def attend(q, k, v, pad, scale, drop):
    if pad is not None:
        far = pad[:, None]
    return nn.functional.scaled_dot_product_attention(
        q.unsqueeze(1),
        k.unsqueeze(1),
        v.unsqueeze(1),
        dropout_p=drop.p if drop.training else 0.0,
        attn_mask=None if pad is None else torch.where(far, torch.finfo(q.dtype).min / 2, q.new_zeros(())).unsqueeze(1),
        scale=scale,
    ).squeeze(1)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.1)

    def forward(self, q, k, v, pad):
        return attend(q, k, v, pad, 32**-0.5, self.drop)


def build():
    q, k, v = (torch.randn(6, 128, 32) for _ in range(3))
    return Attention().eval(), (q, k, v, torch.rand(6, 128) < 0.2)
""",
        ),
        Example(
            "added-mask-that-hides-what-comes-later",
            """\
import torch
from torch import nn


class Attention(nn.Module):
    def forward(self, q, k, v):
        n = q.size(2)
        future = torch.full((n, n), float("-inf")).triu(diagonal=1)
        scores = q @ k.transpose(-1, -2) / q.size(-1) ** 0.5 + future
        return scores.softmax(dim=-1) @ v  #!


def build():
    return Attention(), tuple(torch.randn(2, 4, 96, 32) for _ in range(3))
""",
            """\
import torch
from torch import nn


class Attention(nn.Module):
    def forward(self, q, k, v):
        n = q.size(2)
        return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def build():
    return Attention(), tuple(torch.randn(2, 4, 96, 32) for _ in range(3))
""",
        ),
        Example(
            "keys-shared-by-heads",
            """\
import torch
from torch import nn


class Readout(nn.Module):
    def __init__(self):
        super().__init__()
        self.interests = nn.Parameter(torch.randn(4, 64, 32))

    def forward(self, key, value):
        fit = torch.einsum("hid,btd->bhit", self.interests, key) / 32**0.5
        return torch.einsum("bhit,btd->bihd", torch.softmax(fit, -1), value)  #!


def build():
    return Readout(), tuple(torch.randn(2, 96, 32) for _ in range(2))
""",
            """\
import torch
from torch import nn


class Readout(nn.Module):
    def __init__(self):
        super().__init__()
        self.interests = nn.Parameter(torch.randn(4, 64, 32))

    def forward(self, key, value):
        return nn.functional.scaled_dot_product_attention(
            self.interests.expand(key.size(0), -1, -1, -1),
            key.unsqueeze(1).expand(-1, self.interests.size(0), -1, -1),
            value.unsqueeze(1).expand(-1, self.interests.size(0), -1, -1),
            scale=1 / 32**0.5,
        ).transpose(1, 2)


def build():
    return Readout(), tuple(torch.randn(2, 96, 32) for _ in range(2))
""",
        ),
        Example(
            "queries-shared-by-the-batch",
            """\
import torch
from torch import nn


class Pool(nn.Module):
    def __init__(self):
        super().__init__()
        self.latents = nn.Parameter(torch.randn(64, 32))

    def forward(self, x, v):
        weights = torch.einsum("id,btd->bit", self.latents, x).softmax(dim=-1)  #!
        return torch.einsum("bit,btd->bid", weights, v)


def build():
    return Pool(), tuple(torch.randn(4, 128, 32) for _ in range(2))
""",
            """\
import torch
from torch import nn


class Pool(nn.Module):
    def __init__(self):
        super().__init__()
        self.latents = nn.Parameter(torch.randn(64, 32))

    def forward(self, x, v):
        return nn.functional.scaled_dot_product_attention(
            self.latents.expand(x.size(0), -1, -1).unsqueeze(1), x.unsqueeze(1), v.unsqueeze(1), scale=1.0
        ).squeeze(1)


def build():
    return Pool(), tuple(torch.randn(4, 128, 32) for _ in range(2))
""",
        ),
        Example(
            "heads-apart-for-a-bias",
            """\
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.1)

    def forward(self, q, k, v, bias):
        both, n = q.shape[:2]
        scores = torch.baddbmm(q.new_zeros(()), q, k.mT, beta=0, alpha=32**-0.5)
        scores = scores.view(-1, *bias.shape) + bias
        weights = self.drop(scores.softmax(-1))  #!
        return torch.bmm(weights.reshape(both, n, -1), v)


def build():
    q, k, v = (torch.randn(12, 128, 32) for _ in range(3))
    return Attention().eval(), (q, k, v, torch.randn(4, 128, 128))
""",
        ),
        Example(
            "weights-cut-into-pieces",
            """\
import torch
from torch import nn


class Pieces(nn.Module):
    def forward(self, q, k, v):
        weights = torch.bmm(q, k.mT).softmax(-1)
        return torch.bmm(weights.view(q.size(0), -1, v.size(1)), v)


def build():
    return Pieces(), (*torch.randn(2, 12, 128, 32), torch.randn(12, 64, 32))
""",
        ),
        Example(
            "softmax-over-the-queries",
            """\
import torch
from torch import nn


class Attention(nn.Module):
    def forward(self, q, k, v):
        share = torch.einsum("bid,bjd->bij", q, k).softmax(dim=1)
        shared = torch.einsum("bij,bjd->bid", share, v)
        weights = torch.einsum("bid,bjd->bij", q, k).softmax(dim=-1)
        return shared + torch.einsum("bji,bjd->bid", weights, v)


def build():
    return Attention(), tuple(torch.randn(2, 64, 32) for _ in range(3))
""",
        ),
        Example(
            "active-dropout",
            """\
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.1)

    def forward(self, q, k, v):
        scores = q @ k.transpose(-1, -2) / q.size(-1) ** 0.5
        weights = self.drop(scores.softmax(dim=-1))  #!
        return weights @ v


def build():
    return Attention(), tuple(torch.randn(2, 4, 64, 32) for _ in range(3))
""",
        ),
        Example(
            "weights-returned",
            """\
import torch
from torch import nn


class Attention(nn.Module):
    def forward(self, q, k, v):
        weights = (q @ k.transpose(-1, -2) / q.size(-1) ** 0.5).softmax(dim=-1)
        return weights @ v, weights


def build():
    return Attention(), tuple(torch.randn(2, 4, 64, 32) for _ in range(3))
""",
        ),
        Example(
            "weights-changed",
            """\
import torch
from torch import nn


class Attention(nn.Module):
    def forward(self, q, k, v):
        weights = (q @ k.transpose(-1, -2) / q.size(-1) ** 0.5).softmax(dim=-1)
        weights = weights.pow(2)
        return weights @ v


def build():
    return Attention(), tuple(torch.randn(2, 4, 64, 32) for _ in range(3))
""",
        ),
    )

    def find(self, context: Context) -> Iterator[Match]:
        sites = sites_of(context)
        if sites is None:
            return
        for node in walk(sites.tree.module):
            product = product_of(sites, node)
            if product is not None and isinstance(node, ast.expr):
                match = _match(sites, node, product, left=True) or _match(sites, node, product, left=False)
                if match is not None:
                    yield match


def _match(sites: Sites, node: ast.expr, product: Product, *, left: bool) -> Match | None:
    """The attention whose weights are the left or the right operand of a product."""
    final = sites.tree.statement(node)
    function = sites.tree.function(node)
    if function is None or product.added is not None:
        return None
    chain = Chain(sites, final)
    obstacle: str | None = None
    try:
        chain.weights(product.left if left else product.right, final)
        others = _other_readers(chain, function)
        if not all(_asks_for_metadata(sites, read) for read in others):
            return None
        obstacle = chain.regrouped or next((f"the shape of `{read.id}` is read as well" for read in others), None)
    except NoAttentionError:
        return None
    except NoCounterpartError as refused:
        obstacle = str(refused)
    if chain.softmax is None or not sums_over_keys(chain, product, weights_left=left):
        return None
    if chain.regrouped is not None and not _ends_in_keys(chain, node, 0 if left else 1):
        return None
    fix: Fix | None = None
    if obstacle is None:
        fix, obstacle = fused(chain, node, product, weights_left=left)
    elif not _weights_only_multiplied(chain, function):
        return None
    costs = [cost for step in (*chain.steps, node) if (cost := sites.cost(step)) is not None]
    operators = sum(
        any(op.outermost and op.name not in _FREE for op in cost.ops) or cost.alloc_bytes > 0 for cost in costs
    )
    share = sum(cost.share for cost in costs)
    shape = next(op.shapes[0] for op in (sites.op(chain.softmax, "aten::softmax"),) if op is not None)
    weights = " x ".join(str(size) for size in shape)
    message = (
        f"Attention in {operators} operators writes its {weights} weights again and again, "
        f"{percent(share)} of the forward: `scaled_dot_product_attention` never holds all of them"
    )
    return Match(
        sites.source.span(chain.softmax),
        message if fix else f"{message}. No automatic fix: {obstacle}",
        share,
        {"operators": operators, "length": shape[-1]},
        (),
        (fix,) if fix else (),
    )


def _other_readers(chain: Chain, function: ast.AST) -> list[ast.Name]:
    """What reads what the chain computes, beside the chain itself."""
    end = chain.final.end_lineno or chain.final.lineno
    rebinds = names_bound(chain.final)
    loops = any(chain.sites.tree.loops(chain.final))
    reads = [n for n in walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
    reads = [n for n in reads if n.id in chain.names and n not in chain.consumed]
    return [n for n in reads if loops or n.lineno <= end or n.id not in rebinds]


def _asks_for_metadata(sites: Sites, read: ast.Name) -> bool:
    """`scores.shape` and the like, which need no element."""
    above = sites.tree.parent(read)
    return isinstance(above, ast.Attribute) and above.attr in METADATA


def _ends_in_keys(chain: Chain, node: ast.expr, position: int) -> bool:
    """Whether the last dimension of what a product takes at `position` is still the one that the softmax ran over."""
    op = chain.sites.op(node, *PRODUCT_OPERATORS)
    return op is not None and op.shapes[position][-1:] == chain.shape[-1:]


def _weights_only_multiplied(chain: Chain, function: ast.AST) -> bool:
    """For an attention that was not followed to its end: the names after the softmax are read by the chain alone."""
    weights = {n.id for n in chain.consumed}
    bound_after = {
        t.id
        for s in chain.statements
        if isinstance(s, ast.Assign) and chain.softmax in set(walk(s))
        for t in s.targets
        if isinstance(t, ast.Name)
    }
    reads = [
        n
        for n in walk(function)
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and n.id in weights & bound_after
    ]
    return all(n in chain.consumed or _asks_for_metadata(chain.sites, n) for n in reads)
