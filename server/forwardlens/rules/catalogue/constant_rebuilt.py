"""A tensor made of nothing but constants, again in every forward."""

from __future__ import annotations

import ast
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar

from forwardlens.model import Edit, Fix, Related
from forwardlens.rules.callers import own_property
from forwardlens.rules.constant_functions import Made, constant_tensors, functions_of
from forwardlens.rules.constants import attribute_stores, attribute_value, constructor
from forwardlens.rules.contract import Context, Example, Match, Rule
from forwardlens.rules.evidence import Sites, percent, sites_of, times
from forwardlens.rules.heads import size_expression
from forwardlens.rules.layout import only_read
from forwardlens.rules.loops import leading_shape
from forwardlens.rules.operations import is_torch_function, numpy_name, torch_function, torch_name
from forwardlens.rules.repeated import reads_of
from forwardlens.source.dataflow import bindings, changes, definition, names_bound, names_used, overlap
from forwardlens.source.rewrite import (
    checked,
    has_comment,
    insert_before,
    offsets,
    replace_node,
    splice,
    stands_alone,
)
from forwardlens.source.tree import Function, Tree, dotted, module_aliases, walk

_LITERALS = frozenset({"tensor", "as_tensor"})
# Made of sizes and numbers alone: the same call gives the same tensor.
_CREATED = frozenset(
    """arange linspace logspace eye hann_window hamming_window blackman_window bartlett_window kaiser_window
    tril_indices triu_indices""".split()
)
# Quick to make; only what is made of them may be worth keeping.
_FILLED = frozenset({"zeros", "ones", "full"})
# Of one such tensor and numbers.
_SHAPED = frozenset(
    "tril triu unsqueeze view reshape bool float long int to flip cumsum exp log sqrt sin cos pow".split()
)
# Made of a list, in a type of their own, and how a tensor of another type is turned into it.
_TYPED: Mapping[str, str] = {
    "Tensor": ".to({torch}.get_default_dtype())",
    "FloatTensor": ".float()",
    "DoubleTensor": ".double()",
    "HalfTensor": ".half()",
    "BFloat16Tensor": ".bfloat16()",
    "LongTensor": ".long()",
    "IntTensor": ".int()",
    "ShortTensor": ".short()",
    "CharTensor": ".char()",
    "ByteTensor": ".byte()",
    "BoolTensor": ".bool()",
}
_LISTS = (ast.Name, ast.Attribute, ast.List, ast.Tuple, ast.ListComp)
# Reading a number out of an array takes several times as long as out of a list.
_SLOW_NS = 40
# Below this share of the forward a table of what was made before is not worth its lines.
_LEAST_OF_SHAPES = 0.05
# What `nn.Module` has a meaning for, and names that say nothing.
_TAKEN = frozenset(
    "forward training parameters buffers modules children apply train eval type tensor as_tensor float bool to".split()
)


class ConstantRebuilt(Rule):
    """## What it does
    Finds tensors that every forward makes anew from the same constants: `torch.tensor([...])` of literals or of a
    list that `__init__` made, `arange`, `hann_window` or `tril(ones(n, n))` of fixed sizes, also where a function, a
    method or a property of the file makes them. What a function makes of lengths alone, as the mask of shifted
    windows, is told from 5 % of the forward on. A tensor made from a list of arrays, by `torch.tensor` or
    `torch.FloatTensor`, is reported too: it is read number by number.

    ## Why it costs
    A Python list is converted one number at a time, at about 50 ns each. On a GPU each new tensor is also a copy from
    the host, which waits for the device, or a kernel launch.

    ## When to ignore it
    When a size, the dtype or the contents change from forward to forward: that is not reported. Small constants cost
    little, and stay below the threshold.

    ## Fix safety
    The fix is offered as safe if nothing in the file can change what the constant is made of, nothing writes to the
    tensor, and it follows the device of the module: a buffer with `persistent=False` moves with the module and leaves
    `state_dict` as it was. A module that is converted to another dtype converts its buffers too, which trying the fix
    shows. For arrays, `np.stack` and `np.array` make a new array, so nothing is shared with the caller.
    """

    name: ClassVar[str] = "constant-rebuilt"
    summary: ClassVar[str] = "A constant tensor made again in every forward"
    examples: ClassVar[tuple[Example, ...]] = (
        Example(
            "mask-of-the-same-shapes",
            """\
import torch
from torch import nn


class Windows(nn.Module):
    def __init__(self, size=4):
        super().__init__()
        self.size = size

    def mask(self, height, width, device):
        parts = torch.zeros(height, width, device=device)
        number = 0
        for rows in (slice(-self.size), slice(-self.size, None)):
            for columns in (slice(-self.size), slice(-self.size, None)):
                parts[rows, columns] = number
                number += 1
        parts = parts.view(-1)
        return (parts[:, None] != parts).float() * -100

    def forward(self, x):
        height, width = x.shape
        return (x.view(-1, 1) + self.mask(height, width, x.device)).sum()  #!


def build():
    return Windows(), (torch.randn(8, 8),)
""",
        ),
        Example(
            "kernel-over-several-lines",
            """\
import torch
import torch.nn.functional as F
from torch import nn


class Edges(nn.Module):
    def __init__(self, weight=5.0):
        super().__init__()
        self.weight = weight

    def forward(self, x):
        kernel = torch.tensor(
            [
                [-1.0, 0.0, 1.0],  # the left side is dark
                [-2.0, 0.0, 2.0],
                [-1.0, 0.0, 1.0],
            ],
            device=x.device,
        )  #!
        return F.conv2d(x, kernel.reshape(1, 1, 3, 3)) * self.weight


def build():
    return Edges(), (torch.randn(1, 1, 8, 8),)
""",
            """\
import torch
import torch.nn.functional as F
from torch import nn


class Edges(nn.Module):
    def __init__(self, weight=5.0):
        super().__init__()
        self.weight = weight
        self.register_buffer("kernel", torch.tensor([
                [-1.0, 0.0, 1.0],  # the left side is dark
                [-2.0, 0.0, 2.0],
                [-1.0, 0.0, 1.0],
            ]), persistent=False)

    def forward(self, x):
        kernel = self.kernel
        return F.conv2d(x, kernel.reshape(1, 1, 3, 3)) * self.weight


def build():
    return Edges(), (torch.randn(1, 1, 8, 8),)
""",
        ),
        Example(
            "list-made-in-init",
            """\
import torch
from torch import nn


class Lanes(nn.Module):
    def __init__(self, total=600):
        super().__init__()
        self.lanes = [i for i in range(total) if i % 3]

    def forward(self, x):
        picked = torch.tensor(self.lanes, device=x.device)  #!
        return x.index_select(1, picked)


def build():
    return Lanes(), (torch.randn(2, 600),)
""",
            """\
import torch
from torch import nn


class Lanes(nn.Module):
    def __init__(self, total=600):
        super().__init__()
        self.lanes = [i for i in range(total) if i % 3]
        self.register_buffer("picked", torch.tensor(self.lanes), persistent=False)

    def forward(self, x):
        picked = self.picked
        return x.index_select(1, picked)


def build():
    return Lanes(), (torch.randn(2, 600),)
""",
        ),
        Example(
            "literal-list",
            """\
import torch
from torch import nn


class Normalise(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        mean = torch.tensor([0.485, 0.456, 0.406], device=x.device).view(1, 3, 1, 1)  #!
        return x - mean


def build():
    return Normalise(), (torch.rand(2, 3, 8, 8),)
""",
            """\
import torch
from torch import nn


class Normalise(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.tensor([0.485, 0.456, 0.406]), persistent=False)

    def forward(self, x):
        mean = self.mean.view(1, 3, 1, 1)
        return x - mean


def build():
    return Normalise(), (torch.rand(2, 3, 8, 8),)
""",
        ),
        Example(
            "window-of-fixed-size",
            """\
import torch
from torch import nn


class Frames(nn.Module):
    def __init__(self, size=512):
        super().__init__()
        self.size = size

    def forward(self, x):
        return x * torch.hann_window(self.size, device=x.device)  #!


def build():
    return Frames(), (torch.randn(4, 512),)
""",
            """\
import torch
from torch import nn


class Frames(nn.Module):
    def __init__(self, size=512):
        super().__init__()
        self.size = size
        self.register_buffer("hann_window", torch.hann_window(self.size), persistent=False)

    def forward(self, x):
        return x * self.hann_window


def build():
    return Frames(), (torch.randn(4, 512),)
""",
        ),
        Example(
            "causal-mask-of-fixed-size",
            """\
import torch
from torch import nn


class Causal(nn.Module):
    def __init__(self):
        super().__init__()
        self.longest = 64

    def forward(self, scores):
        keep = torch.tril(torch.ones(self.longest, self.longest, device=scores.device)).bool()  #!
        return scores.masked_fill(~keep, -1e9)


def build():
    return Causal(), (torch.randn(2, 64, 64),)
""",
            """\
import torch
from torch import nn


class Causal(nn.Module):
    def __init__(self):
        super().__init__()
        self.longest = 64
        self.register_buffer("keep", torch.tril(torch.ones(self.longest, self.longest)).bool(), persistent=False)

    def forward(self, scores):
        keep = self.keep
        return scores.masked_fill(~keep, -1e9)


def build():
    return Causal(), (torch.randn(2, 64, 64),)
""",
        ),
        Example(
            "list-of-arrays",
            """\
import numpy as np
import torch
from torch import nn


class Batch(nn.Module):
    def forward(self, rows):
        return torch.tensor(rows).mean(dim=1)  #!


class Replay(nn.Module):
    def __init__(self):
        super().__init__()
        self.rows = [np.full(64, i, dtype=np.float32) for i in range(64)]
        self.batch = Batch()

    def forward(self, x):
        return x + self.batch(self.rows)


def build():
    return Replay(), (torch.zeros(64),)
""",
            """\
import numpy as np
import torch
from torch import nn


class Batch(nn.Module):
    def forward(self, rows):
        return torch.from_numpy(np.stack(rows)).mean(dim=1)


class Replay(nn.Module):
    def __init__(self):
        super().__init__()
        self.rows = [np.full(64, i, dtype=np.float32) for i in range(64)]
        self.batch = Batch()

    def forward(self, x):
        return x + self.batch(self.rows)


def build():
    return Replay(), (torch.zeros(64),)
""",
        ),
        Example(
            "several-made-by-a-method",
            """\
import math

import torch
from torch import nn


class Modulated(nn.Module):
    def __init__(self, size=512):
        super().__init__()
        self.size = size

    @staticmethod
    def waves(size, device=None):
        t = torch.arange(size, device=device) / size
        rates = torch.tensor([0.5, 1.0, 2.0, 4.0], device=device)[:, None]
        phase = 2 * math.pi * rates * t
        return phase.cos(), torch.sin(phase)

    def forward(self, x):
        real, imag = self.waves(self.size, device=x.device)  #!
        return x @ real.t() + x @ imag.t()


def build():
    return Modulated(), (torch.randn(2, 512),)
""",
            """\
import math

import torch
from torch import nn


class Modulated(nn.Module):
    def __init__(self, size=512):
        super().__init__()
        self.size = size
        real, imag = self.waves(self.size, device=None)
        self.register_buffer("real", real, persistent=False)
        self.register_buffer("imag", imag, persistent=False)

    @staticmethod
    def waves(size, device=None):
        t = torch.arange(size, device=device) / size
        rates = torch.tensor([0.5, 1.0, 2.0, 4.0], device=device)[:, None]
        phase = 2 * math.pi * rates * t
        return phase.cos(), torch.sin(phase)

    def forward(self, x):
        real, imag = self.real, self.imag
        return x @ real.t() + x @ imag.t()


def build():
    return Modulated(), (torch.randn(2, 512),)
""",
        ),
        Example(
            "made-by-a-method",
            """\
import torch
from torch import nn


class Banded(nn.Module):
    def __init__(self, length=96, width=3):
        super().__init__()
        self.length, self.width = length, width

    def band(self):
        keep = torch.zeros(self.length, self.length)
        for row in range(self.length):
            keep[row, max(0, row - self.width) : row + self.width + 1] = 1.0
        return keep.bool()

    def forward(self, scores):
        return scores.masked_fill(~self.band(), -1e9)  #!


def build():
    return Banded(), (torch.randn(2, 96, 96),)
""",
            """\
import torch
from torch import nn


class Banded(nn.Module):
    def __init__(self, length=96, width=3):
        super().__init__()
        self.length, self.width = length, width
        self.register_buffer("band_2", self.band(), persistent=False)

    def band(self):
        keep = torch.zeros(self.length, self.length)
        for row in range(self.length):
            keep[row, max(0, row - self.width) : row + self.width + 1] = 1.0
        return keep.bool()

    def forward(self, scores):
        return scores.masked_fill(~self.band_2, -1e9)


def build():
    return Banded(), (torch.randn(2, 96, 96),)
""",
        ),
        Example(
            "made-by-a-function-of-what-changes",
            """\
import torch
from torch import nn

HEIGHTS = [0.1] * 64


def noise(size):
    return torch.tensor(HEIGHTS) * torch.rand(size)


def ramp(size, like):
    return torch.arange(size) * like


def steps(size):
    return torch.ones(size).cumsum(0)


class Noisy(nn.Module):
    def __init__(self):
        super().__init__()
        self.size = 64

    def forward(self, x):
        start = steps(self.size)
        start += x.mean(dim=0)
        return x + noise(self.size) * 0 + ramp(self.size, x) + start


def build():
    return Noisy(), (torch.rand(2, 64),)
""",
        ),
        Example(
            "arrays-in-a-type-of-their-own",
            """\
import torch
from torch import nn


class Batch(nn.Module):
    def forward(self, steps):
        states = torch.FloatTensor([step["state"] for step in steps])  #!
        rewards = torch.FloatTensor([step["reward"] for step in steps])
        return states.mean(dim=1) * rewards


class Replay(nn.Module):
    def __init__(self):
        super().__init__()
        self.steps = [{"state": torch.rand(64).double().numpy(), "reward": 0.5} for _ in range(64)]
        self.batch = Batch()

    def forward(self, x):
        return x + self.batch(self.steps)


def build():
    torch.manual_seed(0)
    return Replay(), (torch.zeros(64),)
""",
            """\
import numpy as np
import torch
from torch import nn


class Batch(nn.Module):
    def forward(self, steps):
        states = torch.from_numpy(np.array([step["state"] for step in steps])).float()
        rewards = torch.FloatTensor([step["reward"] for step in steps])
        return states.mean(dim=1) * rewards


class Replay(nn.Module):
    def __init__(self):
        super().__init__()
        self.steps = [{"state": torch.rand(64).double().numpy(), "reward": 0.5} for _ in range(64)]
        self.batch = Batch()

    def forward(self, x):
        return x + self.batch(self.steps)


def build():
    torch.manual_seed(0)
    return Replay(), (torch.zeros(64),)
""",
        ),
        Example(
            "arrays-in-the-default-type",
            """\
import numpy
import torch
from torch import nn


class Batch(nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.right = numpy.arange(2000.0), numpy.ones(2000)

    def forward(self, x):
        both = torch.Tensor([self.left, self.right])  #!
        return x + both.sum(dim=0)


def build():
    return Batch(), (torch.zeros(2000),)
""",
            """\
import numpy
import torch
from torch import nn


class Batch(nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.right = numpy.arange(2000.0), numpy.ones(2000)

    def forward(self, x):
        both = torch.from_numpy(numpy.array([self.left, self.right])).to(torch.get_default_dtype())
        return x + both.sum(dim=0)


def build():
    return Batch(), (torch.zeros(2000),)
""",
        ),
        Example(
            "property-of-fixed-sizes",
            """\
import math

import torch
from torch import nn


class Cosines(nn.Module):
    def __init__(self, size=96):
        super().__init__()
        self.size = size

    @property
    def basis(self):
        n = self.size
        k = torch.arange(n, dtype=torch.float32)
        waves = torch.cos(math.pi / n * (k + 0.5) * k.unsqueeze(1))
        waves[0] *= math.sqrt(0.5)
        return waves

    def forward(self, x):
        return self.basis @ x @ self.basis.t()  #!


def build():
    return Cosines(), (torch.rand(96, 96),)
""",
        ),
        Example(
            "property-of-what-a-forward-changes",
            """\
import torch
from torch import nn


class Growing(nn.Module):
    def __init__(self):
        super().__init__()
        self.sizes = [96]

    @property
    def ramp(self):
        sizes = self.sizes
        sizes.append(sizes[-1] + 1)
        return torch.arange(sizes[0]).cos().exp()

    def forward(self, x):
        return x + self.ramp


def build():
    return Growing(), (torch.rand(96),)
""",
        ),
        Example(
            "list-that-grows",
            """\
import torch
from torch import nn


class Log(nn.Module):
    def __init__(self):
        super().__init__()
        self.seen = [0.0] * 200

    def forward(self, x):
        self.seen[0] += 1.0
        return x + torch.tensor(self.seen, device=x.device).sum()


def build():
    return Log(), (torch.rand(8),)
""",
        ),
        Example(
            "size-of-the-input",
            """\
import torch
from torch import nn


class Places(nn.Module):
    def forward(self, x):
        return x + torch.arange(x.size(1), device=x.device)


def build():
    return Places(), (torch.rand(2, 64),)
""",
        ),
        Example(
            "written-to-afterwards",
            """\
import torch
from torch import nn


class Steps(nn.Module):
    def __init__(self):
        super().__init__()
        self.size = 512

    def forward(self, x):
        total = torch.zeros(self.size, device=x.device)
        total += x
        return total


def build():
    return Steps(), (torch.rand(512),)
""",
        ),
    )

    def find(self, context: Context) -> Iterator[Match]:
        sites = sites_of(context)
        if sites is None:
            return
        calls = [node for node in walk(sites.tree.module) if isinstance(node, ast.Call)]
        by_function = {call: match for call in calls if (match := _constant_of_function(sites, call)) is not None}
        by_property = _constant_properties(sites)
        in_property = _run_by(sites, by_property)
        yield from (_kept_of_property(sites, reads) for reads in by_property.values())
        # A part of what a property makes is worth a line where a fix can keep it: none can keep the whole.
        yield from (m for call, m in by_function.items() if m.fixes or sites.tree.function(call) not in in_property)
        yield from (match for call in calls if call not in by_function and (match := _constant_of_shapes(sites, call)))
        made = (_by_function(sites, call) for call in by_function)
        called = _run_by(sites, (one.function for one in made if one is not None))
        for node in calls:
            match, function = _constant(sites, node) or _arrays(sites, node), sites.tree.function(node)
            if match is not None and function not in called and (match.fixes or function not in in_property):
                yield match


@dataclass(frozen=True)
class _Made:
    """A creation from constants: its text in `__init__`, which has no device, and the device it asked for."""

    text: str
    device: ast.expr | None


def _constant(sites: Sites, node: ast.Call) -> Match | None:
    cost = sites.cost(node)
    if not _in_forward(sites, node) or cost is None or not cost.ops or not _is_creation(sites, node):
        return None
    # The largest expression that is still made of constants alone.
    whole = _outermost(sites, node)
    made = _made(sites, whole)
    if made is None or (whole is node and _leaf(node) in _FILLED) or not only_read(sites, whole):
        return None
    return _kept(sites, whole, cost.calls, sites.share(whole), _buffer(sites, whole, made))


def _in_forward(sites: Sites, node: ast.expr) -> bool:
    function = sites.tree.function(node)
    return function is not None and function.name != "__init__" and sites.tree.owner(function) is not None


def _kept(sites: Sites, whole: ast.expr, calls: int, share: float, fix: Fix | None, several: bool = False) -> Match:
    place = _source_of(sites, whole)
    given = "tensors in every forward and is called" if several else "tensor in every forward and is made"
    would_do = "tensors" if several else "one"
    return Match(
        sites.source.span(whole),
        f"`{_short(sites.tree.text(whole))}` gives the same {given} {times(calls)} "
        f"in each, {percent(share)} of it: {would_do} made in `__init__` would do",
        share,
        {"calls": calls},
        (Related(sites.source.span(place), "what it is made of"),) if place is not None else (),
        (fix,) if fix is not None else (),
    )


# -- made by a function of the file


def _constant_of_function(sites: Sites, node: ast.Call) -> Match | None:
    """`make_window(512)`, `real, imag = self.filters()`: a function that is given constants and makes tensors."""
    cost = sites.cost(node)
    wall = sites.context.profile.forward.wall_ms.median
    if not _in_forward(sites, node) or cost is None or not cost.calls or not wall:
        return None
    made = _by_function(sites, node)
    if made is None:
        return None
    whole = _outermost(sites, node) if made.count is None else node
    if not only_read(sites, whole):
        return None
    share = sites.share(whole) - cost.share + cost.total_ms / wall
    if made.count is not None:
        return _kept(sites, node, cost.calls, share, _buffers(sites, node, made, made.count), several=True)
    one = _made(sites, whole)
    return _kept(sites, whole, cost.calls, share, _buffer(sites, whole, one)) if one is not None else None


def _constant_properties(sites: Sites) -> Mapping[Function, Sequence[ast.Attribute]]:
    """The reads of `self.basis` for each property that makes the same tensor whenever it is read."""
    found: dict[Function, list[ast.Attribute]] = defaultdict(list)
    for node in walk(sites.tree.module):
        if isinstance(node, ast.Attribute) and _in_forward(sites, node) and sites.cost(node) is not None:
            made = _by_function(sites, node) if own_property(sites, node) is not None else None
            if made is not None and made.count is None and only_read(sites, node):
                found[made.function].append(node)
    return found


def _kept_of_property(sites: Sites, reads: Sequence[ast.Attribute]) -> Match:
    """All reads of one property. There is no fix: a buffer cannot have the name of a property."""
    costs = [cost for read in reads if (cost := sites.cost(read)) is not None]
    wall = sites.context.profile.forward.wall_ms.median
    share = sum(cost.total_ms for cost in costs) / wall if wall else 0.0
    match = _kept(sites, reads[0], sum(cost.calls for cost in costs), share, None)
    others = tuple(Related(sites.source.span(read), "reads it again") for read in reads[1:])
    return replace(match, related=(*match.related, *others))


def _constant_of_shapes(sites: Sites, node: ast.Call) -> Match | None:
    """`self.shift_mask(h, w, x.device)`: the same tensors in every forward whose inputs have the same shapes."""
    cost, caller = sites.cost(node), sites.tree.function(node)
    wall = sites.context.profile.forward.wall_ms.median
    if caller is None or not _in_forward(sites, node) or cost is None or not cost.calls or not wall:
        return None
    share = cost.total_ms / wall
    if share < _LEAST_OF_SHAPES:
        return None
    sizes = [a for a in (*node.args, *(k.value for k in node.keywords)) if _is_size(sites.tree, caller, a)]
    if not sizes or not only_read(sites, node):
        return None
    if constant_tensors(sites, node, lambda a: a in sizes or _is_constant(sites, a), as_run=True) is None:
        return None
    given = " and ".join(f"`{_short(sites.tree.text(size))}`" for size in sizes)
    return Match(
        sites.source.span(node),
        f"`{_short(sites.tree.text(node))}` gives the same for the same {given} and is computed {times(cost.calls)} in "
        f"every forward, {percent(share)} of it: keep what it gave for each of them. No automatic fix: how many shapes "
        "there will be, and which are worth keeping, only you know",
        share,
        {"calls": cost.calls},
    )


def _is_size(tree: Tree, function: Function, node: ast.expr, depth: int = 3) -> bool:
    """Whether a number is made of lengths of tensors alone: `x.size(1)`, `h` of `b, h = x.shape`, `h // 2`."""
    if size_expression(node) is not None:
        return True
    if isinstance(node, ast.BinOp):
        sides = (node.left, node.right)
        return all(isinstance(s, ast.Constant) or _is_size(tree, function, s, depth) for s in sides) and depth > 0
    made = definition(tree, function, node.id) if isinstance(node, ast.Name) and depth else None
    if made is None or not isinstance(node, ast.Name):
        return False
    target = made.targets[0] if len(made.targets) == 1 else None
    if isinstance(target, ast.Tuple):
        return leading_shape(made.value) is not None
    return _is_size(tree, function, made.value, depth - 1)


def _by_function(sites: Sites, node: ast.Call | ast.Attribute) -> Made | None:
    return constant_tensors(sites, node, lambda argument: _is_constant(sites, argument))


def _run_by(sites: Sites, functions: Iterable[Function]) -> set[Function]:
    return {inner for function in functions for inner in functions_of(sites, function)}


def _undevised(sites: Sites, node: ast.Call, made: Made) -> _Made:
    """The call in `__init__`, where the module has no device yet."""
    text = splice(sites.source, node, dict.fromkeys(made.devices, "None"))
    return _Made(text, made.devices[0] if made.devices else None)


def _buffers(sites: Sites, node: ast.Call, made: Made, count: int) -> Fix | None:
    """A buffer for each of the tensors that a call gives, by the names that they are unpacked to."""
    one = _undevised(sites, node, made)
    init = constructor(sites.tree, node)
    if init is None or not _may_be_buffer(sites, node, one):
        return None
    statement = sites.tree.parent(node)
    whole = isinstance(statement, ast.Assign) and statement.value is node
    targets = statement.targets if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else []
    target = targets[0] if targets and isinstance(targets[0], (ast.Tuple, ast.List)) else None
    elements: list[ast.expr] = list(target.elts) if target is not None and len(target.elts) == count else []
    result = made.function.body[-1]
    if not elements and isinstance(result, ast.Return) and isinstance(result.value, ast.Tuple):
        elements = list(result.value.elts)
    wanted = [element.id if isinstance(element, ast.Name) else _leaf(node) for element in elements]
    names = [_free_attribute(sites, e, node, name) for e, name in zip(elements, wanted, strict=True)]
    if len(names) != count or len(set(names)) != count:
        return None
    held = [sites.fresh_name(init, e, name) for e, name in zip(elements, names, strict=True)]
    lines = [f"{', '.join(held)} = {one.text}"]
    lines += [f'self.register_buffer("{n}", {h}, persistent=False)' for n, h in zip(names, held, strict=True)]
    read = ", ".join(f"self.{name}" for name in names)
    return _appended(sites, init, lines, replace_node(sites.source, node, read if whole else f"({read})"))


def _leaf(node: ast.Call) -> str:
    return (dotted(node.func) or "").split(".")[-1]


def _short(text: str) -> str:
    first = " ".join(text.split())
    return first if len(first) <= 60 else f"{first[:57]}..."


def _is_creation(sites: Sites, node: ast.Call) -> bool:
    return _leaf(node) in _LITERALS | _CREATED | _FILLED and is_torch_function(sites.tree.module, node.func)


def _outermost(sites: Sites, node: ast.expr) -> ast.expr:
    best, above = node, sites.tree.parent(node)
    while isinstance(above, (ast.expr, ast.keyword)):
        if isinstance(above, ast.expr) and not _is_view(above) and _made(sites, above) is not None:
            best = above
        above = sites.tree.parent(above)
    return best


def _is_view(node: ast.expr) -> bool:
    """A view of a constant costs nothing: it stays where it is."""
    return isinstance(node, ast.Call) and _leaf_of(node.func) in {"view", "unsqueeze", "reshape"}


def _leaf_of(func: ast.expr) -> str:
    return func.attr if isinstance(func, ast.Attribute) else ""


def _made(sites: Sites, node: ast.expr) -> _Made | None:
    """How `__init__` would make the same tensor; None if anything in it may differ from forward to forward."""
    tree = sites.tree
    if isinstance(node, ast.BinOp):
        return _made_of_two(sites, node)
    own = _by_function(sites, node) if isinstance(node, ast.Call) else None
    if own is not None and isinstance(node, ast.Call):
        return _undevised(sites, node, own) if own.count is None else None
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    if any(isinstance(a, ast.Starred) for a in node.args):
        return None
    function = is_torch_function(tree.module, node.func)
    name = node.func.attr
    if function and name in _LITERALS | _CREATED | _FILLED:
        return _plain(sites, node)
    if name not in _SHAPED:
        return None
    base, rest = (node.args[0], node.args[1:]) if function and node.args else (node.func.value, node.args)
    inner = _made(sites, base)
    others = [*rest, *(k.value for k in node.keywords)]
    if inner is None or not all(_is_constant(sites, a) for a in others):
        return None
    return _Made(splice(sites.source, node, {base: inner.text}), inner.device)


def _made_of_two(sites: Sites, node: ast.BinOp) -> _Made | None:
    parts = {side: _made(sites, side) for side in (node.left, node.right)}
    if not any(parts.values()) or not all(made or _is_constant(sites, side) for side, made in parts.items()):
        return None
    device = next((made.device for made in parts.values() if made is not None and made.device is not None), None)
    return _Made(splice(sites.source, node, {side: made.text for side, made in parts.items() if made}), device)


def _plain(sites: Sites, node: ast.Call) -> _Made | None:
    tree, device = sites.tree, None
    kept: list[str] = []
    for argument in node.args:
        if not _is_constant(sites, argument):
            return None
        kept.append(tree.text(argument))
    for keyword in node.keywords:
        if keyword.arg == "device":
            device = keyword.value
        elif keyword.arg not in {"requires_grad", "out", "pin_memory", None} and _is_constant(sites, keyword.value):
            kept.append(tree.text(keyword))
        else:
            return None
    return _Made(f"{tree.text(node.func)}({', '.join(kept)})", device)


def _is_constant(sites: Sites, node: ast.expr) -> bool:
    """Whether an expression has the same value in every forward and in `__init__`."""
    tree = sites.tree
    if isinstance(node, ast.Constant):
        return not isinstance(node.value, str)
    if isinstance(node, (ast.Tuple, ast.List)):
        return all(_is_constant(sites, element) for element in node.elts)
    if isinstance(node, ast.UnaryOp):
        return _is_constant(sites, node.operand)
    if isinstance(node, ast.BinOp):
        return _is_constant(sites, node.left) and _is_constant(sites, node.right)
    if isinstance(node, ast.Call):
        called = dotted(node.func) or ""
        known = called.startswith("math.") or called in {"int", "float", "len", "range"}
        return known and not node.keywords and all(_is_constant(sites, a) for a in node.args)
    place = dotted(node)
    if place is None:
        return False
    owner, _, leaf = place.rpartition(".")
    if owner in module_aliases(tree.module, "torch") | {"torch"}:
        # A dtype, or a number such as `torch.pi`.
        return True
    if owner == "self":
        return _is_frozen(sites, node, leaf)
    return not owner and _is_module_constant(tree, node, leaf)


def _is_frozen(sites: Sites, node: ast.expr, name: str) -> bool:
    """`self.name` is set once, in `__init__`, to numbers or a list, and changed nowhere in the file."""
    tree = sites.tree
    value = attribute_value(tree, node, name)
    if value is None or not _holds_numbers(tree, value):
        return False
    for function in _functions_by_attribute(tree).get(name, ()):
        for changed, place in changes(function):
            if place is not None and overlap(place, f"self.{name}"):
                inside = isinstance(changed, ast.Attribute) and changed in set(attribute_stores(tree, node, name))
                if not inside:
                    return False
    return not _handed_on(tree, name)


@lru_cache(maxsize=64)
def _functions_by_attribute(tree: Tree) -> Mapping[str, Sequence[Function]]:
    """The functions of a file by the names of the attributes that they mention."""
    found: dict[str, list[Function]] = defaultdict(list)
    for function in tree.functions():
        for name in {n.attr for n in walk(function) if isinstance(n, ast.Attribute)}:
            found[name].append(function)
    return found


def _handed_on(tree: Tree, name: str) -> bool:
    """Whether the object may get another name under which it changes."""
    return any(
        isinstance(node, ast.Attribute) and node.attr == name and isinstance(node.ctx, ast.Load) and _leaves(tree, node)
        for node in walk(tree.module)
    )


def _leaves(tree: Tree, node: ast.AST) -> bool:
    """Whether a read hands the object on: out of its function, to one that changes it, or to a name that is changed."""
    parent = tree.parent(node)
    if isinstance(parent, ast.Assign) and parent.value is node:
        return not all(_is_only_read_as(tree, target) for target in parent.targets)
    if isinstance(parent, (ast.Return, ast.Yield)):
        return True
    return isinstance(parent, ast.Call) and node in parent.args and _changes_arguments(tree, parent)


def _is_only_read_as(tree: Tree, target: ast.expr) -> bool:
    """Whether `n` of `n = self.size` has no other value, and every read of it leaves the object where it is."""
    function = tree.function(target)
    if function is None or not isinstance(target, ast.Name) or len(bindings(function, target.id)) != 1:
        return False
    changed = any(place is None or overlap(place, target.id) for _, place in changes(function))
    return not changed and not any(_leaves(tree, read) for read in reads_of(function, target.id))


def _changes_arguments(tree: Tree, call: ast.Call) -> bool:
    """Whether a function of the file that has the name of the called one changes what it is given."""
    name = (dotted(call.func) or "").split(".")[-1]
    for function in (f for f in tree.functions() if f.name == name):
        given = {n.arg for n in walk(function.args) if isinstance(n, ast.arg)} - {"self"}
        if any(place is None or place.split(".")[0] in given for _, place in changes(function)):
            return True
    return False


def _holds_numbers(tree: Tree, value: ast.expr) -> bool:
    """Numbers, or lists and tuples of them: nothing that autograd, a device or another object has a part in."""
    if isinstance(value, ast.Constant):
        return True
    if isinstance(value, ast.Name):
        init = tree.function(value)
        arguments = [a.arg for a in (*init.args.args, *init.args.kwonlyargs)] if init is not None else []
        return value.id in arguments or (init is not None and _local_numbers(tree, init, value.id))
    if isinstance(value, (ast.List, ast.Tuple)):
        return all(_holds_numbers(tree, element) for element in value.elts)
    if isinstance(value, ast.ListComp):
        return not any(isinstance(n, ast.Call) and (dotted(n.func) or "").startswith("torch") for n in walk(value))
    if isinstance(value, ast.Call):
        return dotted(value.func) in {"list", "tuple", "range", "sorted", "int", "float", "len", "max", "min", "round"}
    if isinstance(value, ast.BinOp):
        return _holds_numbers(tree, value.left) and _holds_numbers(tree, value.right)
    if isinstance(value, ast.UnaryOp):
        return _holds_numbers(tree, value.operand)
    if isinstance(value, ast.BoolOp):
        return all(_holds_numbers(tree, part) for part in value.values)
    if isinstance(value, ast.IfExp):
        return _holds_numbers(tree, value.body) and _holds_numbers(tree, value.orelse)
    return isinstance(value, ast.Attribute) and dotted(value) == f"self.{value.attr}"


def _local_numbers(tree: Tree, init: Function, name: str) -> bool:
    values = [
        n.value
        for n in walk(init)
        if isinstance(n, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in n.targets)
    ]
    return bool(values) and all(not isinstance(v, ast.Name) and _holds_numbers(tree, v) for v in values)


def _is_module_constant(tree: Tree, node: ast.expr, name: str) -> bool:
    function = tree.function(node)
    if (
        function is None
        or name in names_bound(function)
        or name in {a.arg for a in walk(function) if isinstance(a, ast.arg)}
    ):
        return False
    stores = [
        n for n in walk(tree.module) if isinstance(n, ast.Name) and n.id == name and not isinstance(n.ctx, ast.Load)
    ]
    if len(stores) != 1:
        return False
    statement = tree.parent(stores[0])
    top = isinstance(statement, ast.Assign) and statement in tree.module.body
    changed = any(place is not None and overlap(place, name) for _, place in changes(tree.module))
    return top and isinstance(statement, ast.Assign) and not changed and _holds_numbers(tree, statement.value)


def _source_of(sites: Sites, node: ast.expr) -> ast.expr | None:
    for below in walk(node):
        if isinstance(below, ast.Attribute) and dotted(below) == f"self.{below.attr}":
            value = attribute_value(sites.tree, node, below.attr)
            if value is not None:
                return value
    return None


# -- a buffer in place of it


def _buffer(sites: Sites, node: ast.expr, made: _Made) -> Fix | None:
    init = constructor(sites.tree, node)
    if init is None or not _may_be_buffer(sites, node, made):
        return None
    name = _buffer_name(sites, node)
    opening = f'self.register_buffer("{name}", '
    line = f"{opening}{_moved_lines(sites, init, node, made.text, len(opening))}, persistent=False)"
    return _appended(sites, init, [line], replace_node(sites.source, node, f"self.{name}"))


def _may_be_buffer(sites: Sites, node: ast.expr, made: _Made) -> bool:
    comments = sites.tree.text(node).count("#") == made.text.count("#")
    return comments and _follows_module(made) and _is_module_class(sites, node)


def _moved_lines(sites: Sites, init: Function, node: ast.expr, text: str, behind: int) -> str:
    """The text of `node` as it stands in `init`, `behind` columns from the start of a line.

    Lines that are aligned with the first one move with it.
    """
    source = sites.source
    first, *rest = text.split(source.newline)
    if first.rstrip().endswith(("(", "[")) or any(line.startswith("\t") for line in rest):
        return text
    shift = len(source.indentation(init.body[0].lineno)) + behind - source.span(node).column
    moved = (" " * max(0, len(line) - len(line.lstrip(" ")) + shift) + line.lstrip(" ") for line in rest)
    return source.newline.join([first, *moved])


def _appended(sites: Sites, init: Function, lines: Sequence[str], replaced: Edit) -> Fix | None:
    """`lines` at the end of `__init__`, where everything that they are made of is set."""
    source, last = sites.source, init.body[-1]
    row = last.end_lineno or last.lineno
    rest = source.line(row)[source.span(last).end_column :].strip(" \t\f")
    ends = isinstance(last, (ast.Return, ast.If, ast.For, ast.While, ast.With, ast.Try))
    if ends or (rest and not rest.startswith("#")):
        return None
    indent = source.indentation(init.body[0].lineno).replace("\f", "")
    at = (row, len(source.line(row)))
    added = Edit(source.path, at, at, "".join(f"{source.newline}{indent}{line}" for line in lines))
    edits = checked(source, [added, replaced])
    return Fix("Keep it as a buffer", "safe", edits) if edits else None


def _follows_module(made: _Made) -> bool:
    """A buffer is where the module is: where a tensor for a named device may not be."""
    return made.device is None or (dotted(made.device) or "").split(".")[-1] in {"device", "dev"}


def _is_module_class(sites: Sites, node: ast.AST) -> bool:
    function = sites.tree.function(node)
    owner = sites.tree.owner(function) if function is not None else None
    return owner is not None and any((dotted(base) or "").split(".")[-1] == "Module" for base in owner.bases)


def _buffer_name(sites: Sites, node: ast.expr) -> str:
    """The name that the tensor gets in `forward`, or that of what makes it, as long as nothing else has it."""
    statement = sites.tree.statement(node)
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    made = next(_leaf(n) for n in walk(node) if isinstance(n, ast.Call))
    return _free_attribute(sites, node, node, target.id if isinstance(target, ast.Name) else made)


def _free_attribute(sites: Sites, key: ast.expr, node: ast.expr, wanted: str) -> str:
    """A name that nothing on the object of the method around `node` has, for what stands at `key`."""
    if wanted in _TAKEN:
        wanted = "constant"
    module = sites.tree.module
    used = {n.attr for n in walk(module) if isinstance(n, ast.Attribute) and dotted(n.value) == "self"}
    used |= {n.name for n in walk(module) if isinstance(n, ast.FunctionDef)}
    used |= {n.value for n in walk(module) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    function = sites.tree.function(node)
    owner = None if function is None else sites.tree.owner(function)
    return sites.fresh_name(owner or module, key, wanted, used)


# -- a list of arrays


def _arrays(sites: Sites, node: ast.Call) -> Match | None:
    """`torch.tensor(rows)` where each row is a NumPy array: PyTorch converts number by number and warns about it."""
    name = torch_function(sites.tree.module, node.func)
    cost = sites.cost(node)
    if name not in _LITERALS | _TYPED.keys() or cost is None or len(node.args) != 1:
        return None
    if not isinstance(node.args[0], _LISTS) and not _is_list_call(node.args[0]):
        return None
    if _is_constant(sites, node.args[0]):
        return None
    shape = next((op.shapes[0] for op in cost.ops if op.name in {"aten::lift_fresh", "aten::to"} and op.shapes), ())
    elements = math.prod(shape)
    if len(shape) < 2 or not elements or 1e6 * cost.self_ms / max(cost.calls, 1) / elements < _SLOW_NS:
        return None
    share = sites.share(node)
    fix, why = _stacked(sites, node, name)
    message = (
        f"`{_short(sites.tree.text(node))}` reads a list number by number, {elements:,} of them, {percent(share)} of "
        "the forward: arrays stacked by NumPy are copied row by row"
    )
    return Match(
        sites.source.span(node),
        message if fix else f"{message}. No automatic fix: {why}",
        share,
        {"elements": elements, "calls": cost.calls},
        (),
        (fix,) if fix else (),
    )


def _is_list_call(node: ast.expr) -> bool:
    """`list(rows)`, `tuple(t.state for t in batch)`."""
    return isinstance(node, ast.Call) and dotted(node.func) in {"list", "tuple"} and len(node.args) == 1


def _stacked(sites: Sites, node: ast.Call, name: str) -> tuple[Fix | None, str]:
    """The list as one array, which a tensor takes over. What `array` makes of an empty list has no type to keep."""
    module, source = sites.tree.module, sites.source
    torch, numpy = torch_name(module), numpy_name(module)
    if torch is None:
        return None, "`torch` is not imported by a name of its own"
    if has_comment(source, *offsets(source, node)):
        return None, "a comment stands inside it"
    if any(k.arg not in ({"dtype", "device"} if name in _LITERALS else ()) for k in node.keywords):
        return None, "it is given more than a dtype and a device"
    converted = _TYPED[name].format(torch=torch) if name in _TYPED else _moved(sites, node)
    typed = name in _TYPED or any(k.arg == "dtype" for k in node.keywords)
    added = [] if numpy is not None else _numpy_import(sites)
    if added is None:
        return None, "NumPy is not imported, and `np` is something else"
    made = f"{numpy or 'np'}.{'array' if typed else 'stack'}({sites.tree.text(node.args[0])})"
    edits = checked(source, [*added, replace_node(source, node, f"{torch}.from_numpy({made}){converted}")])
    return (Fix("Stack the arrays first", "safe", edits), "") if edits else (None, "the text does not allow it")


def _moved(sites: Sites, node: ast.Call) -> str:
    given = ", ".join(sites.tree.text(k) for k in node.keywords)
    return f".to({given})" if given else ""


def _numpy_import(sites: Sites) -> list[Edit] | None:
    """`import numpy as np` in front of the file's first plain import of torch; None where `np` is taken."""
    module = sites.tree.module
    first = next((s for s in module.body if isinstance(s, ast.Import) and s.names[0].name == "torch"), None)
    if "np" in names_used(module) or first is None or not stands_alone(sites.tree, first):
        return None
    return [insert_before(sites.tree, first, ["import numpy as np"])]
