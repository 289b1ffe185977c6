"""Random programs from a grammar of tensor statements: loops in many dresses, and what models write around them.

Every expression is built for a dtype and named dimensions, so that nearly all programs run, at any size of B, T and D.
The same seed always gives the same program.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

Dims = tuple[str, ...]
DType = Literal["float", "int", "bool"]

VOCABULARY = 11
_HEAD = f"""\
import math

import torch
import torch.nn.functional as F
from torch import nn


class Encoder(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner = nn.Linear(width, width)
        self.row = nn.Parameter(torch.linspace(-0.5, 1.0, width))

    def forward(self, x):
{{encoder}}


class Program(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.encode = Encoder(width)
        self.stack = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, width))
        self.embed = nn.Embedding({VOCABULARY}, width)
        self.mix = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.act = nn.GELU()
        self.drop = nn.Dropout(0.3)
        self.scale = nn.Parameter(torch.linspace(0.5, 1.5, width))
        self.gain = 0.25
        self.register_buffer("offset", torch.linspace(-1.0, 1.0, width))

    def half(self, value):
        return value * 0.5 + self.offset.sum()

    def forward(self, x, y, s, u, ids, mask, lengths):
"""
_TAIL = f"""

def build(batch=6, length=9, width=4):
    torch.manual_seed(0)
    model = Program(width).eval()
    x, y = torch.randn(batch, length, width), torch.randn(batch, length, width)
    s, u = torch.randn(batch, length), torch.randn(length, width)
    ids = torch.randint(0, {VOCABULARY}, (batch, length))
    mask = torch.rand(batch, length) > 0.4
    lengths = torch.randint(0, length + 1, (batch,))
    return model, (x, y, s, u, ids, mask, lengths)
"""
FILLS = ("0.0", "-1.0", 'float("-inf")')


# What a module of the program does with a batch: some treat its samples one by one, some do not.
_ENCODERS = (
    ("h = torch.tanh(self.inner(x))", "return h * 0.5 + x"),
    ("h = F.softmax(self.inner(x), dim=-1)", "return h * self.row"),
    ("h = self.inner(x)", "return h - h.mean(dim=-1, keepdim=True)"),
    ("h = self.inner(x)", "return h - h.mean(dim=0, keepdim=True)"),
    ("h = self.inner(x)", "h = h / x.size(0)", "return h"),
    ("return self.inner(x).flip(0)",),
    ("w = self.inner(x).softmax(dim=1)", "return x * w"),
    ("w = self.inner(x).softmax(dim=0)", "return x * w"),
    ("return torch.cat([self.inner(x)[:, 1:], x[:, :1]], dim=1)",),
    ("h = x.relu()", "h += x", "return h @ self.inner.weight"),
    ("b = x.size(0)", "return self.inner(x).view(b, -1).view(x.shape)"),
    ("h = self.inner(x)", "return torch.where(h > h.amax(dim=1, keepdim=True) * 0.5, h, x)"),
)


@dataclass(frozen=True)
class Var:
    """A name or expression that can be used, with its type."""

    text: str
    dtype: DType
    dims: Dims


_GIVEN = (
    Var("x", "float", ("B", "T", "D")),
    Var("y", "float", ("B", "T", "D")),
    Var("s", "float", ("B", "T")),
    Var("u", "float", ("T", "D")),
    Var("ids", "int", ("B", "T")),
    Var("mask", "bool", ("B", "T")),
    Var("lengths", "int", ("B",)),
    Var("self.scale", "float", ("D",)),
    Var("self.offset", "float", ("D",)),
)
_SIZES: dict[str, Sequence[str]] = {
    "B": ("x.size(0)", "x.shape[0]", "len(x)", "b", "ids.shape[0]", "mask.size(0)"),
    "T": ("x.size(1)", "x.shape[1]", "t", "ids.size(1)", "s.shape[-1]", "len(u)", "x.size(-2)"),
    "D": ("x.size(-1)", "x.shape[2]", "d", "len(self.scale)"),
}
_UNARY = (
    "torch.tanh({0})",
    "torch.relu({0})",
    "F.relu({0})",
    "{0}.abs()",
    "-{0}",
    "torch.sigmoid({0})",
    "{0}.clamp(min=0.1)",
    "torch.clamp({0}, -1.0, 1.0)",
    "F.gelu({0})",
    "self.act({0})",
    "{0}.square()",
    "{0}.contiguous()",
    "{0}.clone()",
    "({0} * 2.0)",
    "(1.0 - {0})",
    "(0.5 + {0}) / 3.0",
    "{0} ** 2",
    "{0} * self.gain",
    "{0}.to(x.dtype)",
    "{0}.exp().clamp(max=3.0)",
    "torch.round({0})",
    "self.drop({0})",
    "self.half({0})",
    "{0}.detach()",
    "torch.add({0}, 1.0)",
    "torch.nan_to_num({0})",
    "{0}.clone().mul_(0.5)",
    "F.leaky_relu({0}, 0.2)",
)
_LAYERS = ("self.mix({0})", "self.norm({0})", "F.linear({0}, self.mix.weight)", "torch.relu(self.mix({0}))")
_MODULES = ("self.encode({0})", "self.encode({0})", "self.stack({0})")
_LOOKUPS = ("self.embed({0})", "self.embed({0})", "F.embedding({0}, self.embed.weight)", "self.embed.weight[{0}]")


@dataclass
class Writer:
    """Writes one program. `names` are the values in scope, `counters` the loop variables by the axis they run over."""

    rng: random.Random
    names: list[Var] = field(default_factory=lambda: list(_GIVEN))
    counters: dict[str, str] = field(default_factory=dict[str, str])
    lines: list[str] = field(default_factory=list[str])
    depth: int = 2
    made: int = 0
    # Plain programs have short expressions, one loop and few turns: what fixes are made for.
    plain: bool = False
    # Queries and keys that are infinite make no attention.
    finite: bool = False

    # -- small choices

    @property
    def rare(self) -> float:
        """How often a turn is taken that most loops do not take."""
        return 0.03 if self.plain else 0.12

    def one(self, options: Sequence[str]) -> str:
        return self.rng.choice(options)

    def chance(self, part: float) -> bool:
        return self.rng.random() < part

    def size(self, dim: str) -> str:
        return self.one(_SIZES[dim]) if dim in _SIZES else dim

    def fresh(self, stem: str) -> str:
        self.made += 1
        return f"{stem}{self.made}"

    def emit(self, text: str) -> None:
        self.lines.append(f"{'    ' * self.depth}{text}")

    def define(self, stem: str, text: str, dtype: DType, dims: Dims) -> Var:
        var = Var(self.fresh(stem), dtype, dims)
        self.emit(f"{var.text} = {text}")
        self.names.append(var)
        return var

    # -- expressions

    def leaves(self, dtype: DType, dims: Dims) -> list[str]:
        """Names of this type, and slices of names by the counters of the loops around."""
        found: list[str] = []
        for var in self.names:
            if var.dtype != dtype:
                continue
            if var.dims == dims:
                found += [var.text] * 2
            for dim, counter in self.counters.items():
                if var.dims.count(dim) == 1 and tuple(d for d in var.dims if d != dim) == dims:
                    found += [self.sliced(var, dim, counter)] * 3
            counter = next(iter(self.counters.values()), None)
            if counter and dims == () and var.dims == ("B", "T") and len(self.counters) == 1:
                found.append(f"{var.text}[{f'0, {counter}' if 'T' in self.counters else f'{counter}, 0'}]")
            both = [d for d in self.counters if var.dims.count(d) == 1]
            if len(both) > 1 and tuple(d for d in var.dims if d not in both) == dims:
                entries = [self.counters[d] if d in both else ":" for d in var.dims]
                found += [f"{var.text}[{', '.join(_stripped(entries))}]"] * 3
        return found

    def sliced(self, var: Var, dim: str, counter: str) -> str:
        """`x[:, t]`, in one of the ways that people write it."""
        entries = [counter if d == dim else ":" for d in var.dims]
        forms = [f"{var.text}[{', '.join(_stripped(entries))}]"] * 4
        if len(entries) > 1:
            forms.append(f"{var.text}[{', '.join(entries)}]")
        if entries[-1] == counter and len(entries) > 1:
            forms.append(f"{var.text}[..., {counter}]")
        forms.append(f"{var.text}.select({entries.index(counter)}, {counter})")
        return self.one(forms)

    def expr(self, dtype: DType, dims: Dims, depth: int = 2) -> str:
        if dtype == "float":
            return self.float(dims, depth)
        return self.bool(dims, depth) if dtype == "bool" else self.int(dims, depth)

    def float(self, dims: Dims, depth: int) -> str:
        leaves = self.leaves("float", dims)
        if depth <= 0 or (leaves and self.chance(0.25)):
            return self.one(leaves) if leaves else self.constant(dims)
        common: list[Callable[[], str]] = [
            lambda: self.one(_UNARY).format(self.atom(self.float(dims, depth - 1))),
            lambda: self.binary(dims, depth),
            lambda: self.binary(dims, depth),
            lambda: self.choice(dims, depth),
            lambda: self.filled(dims, depth),
        ]
        if self.plain:
            return self.plain_float(dims, depth, common)
        options = [
            *common,
            lambda: self.reduced(dims, depth),
            lambda: f"{self.atom(self.bool(dims, depth - 1))}.{self.one(('to(s.dtype)', 'type_as(x)', 'float()'))}",
            lambda: f"{self.atom(self.int(dims, depth - 1))}.to(s.dtype)",
        ]
        if not leaves or self.chance(0.3):
            options.append(lambda: self.constant(dims))
        if dims and dims[-1] == "D":
            options += [
                lambda: self.one(_LAYERS).format(self.float(dims, depth - 1)),
                lambda: self.one(_LAYERS).format(self.float(dims, depth - 1)),
                lambda: f"{self.atom(self.float(dims, depth - 1))} @ self.mix.weight",
                lambda: self.one(_LOOKUPS).format(self.int(dims[:-1], depth - 1)),
            ]
        if dims:
            options += [
                lambda: f"torch.softmax({self.float(dims, depth - 1)}, dim={self.axis(dims)})",
                lambda: f"{self.atom(self.float(dims, depth - 1))}.cumsum({self.axis(dims)})",
                lambda: f"{self.atom(self.float((*dims[:-1], '1'), depth - 1))}.expand({self.sizes(dims)})",
                lambda: self.scaled(dims, depth),
            ]
        if len(dims) >= 2:
            options += [
                lambda: f"{self.atom(self.float((*dims[:-2], dims[-1], dims[-2]), depth - 1))}.transpose(-1, -2)",
                lambda: f"{self.atom(self.float(('1', *dims[1:]), depth - 1))}.repeat({self.repeats(dims)})",
            ]
        return self.rng.choice(options)()

    def plain_float(self, dims: Dims, depth: int, common: Sequence[Callable[[], str]]) -> str:
        options = list(common)
        if len(dims) > 1 and dims[-1] == "D":
            options += [lambda: self.one(_MODULES).format(self.float(dims, depth - 1))] * (3 if self.counters else 1)
        if dims and dims[-1] == "D":
            options += [
                lambda: self.one(_LAYERS).format(self.float(dims, depth - 1)),
                lambda: self.one(_LOOKUPS).format(self.int(dims[:-1], depth - 1)),
                lambda: self.scaled(dims, depth),
            ]
        if self.chance(0.15):
            options = [lambda: self.reduced(dims, depth)]
        return self.rng.choice(options)()

    @staticmethod
    def atom(text: str) -> str:
        """`text` in parentheses if it needs them in front of a dot or behind an operator."""
        node = ast.parse(text, mode="eval").body
        return text if isinstance(node, (ast.Name, ast.Call, ast.Subscript, ast.Attribute)) else f"({text})"

    def axis(self, dims: Dims) -> str:
        place = self.rng.randrange(len(dims))
        return str(place if self.chance(0.5) else place - len(dims))

    def sizes(self, dims: Dims) -> str:
        return ", ".join(self.size(d) for d in dims)

    def repeats(self, dims: Dims) -> str:
        return ", ".join([self.size(dims[0]), *("1" for _ in dims[1:])])

    def binary(self, dims: Dims, depth: int) -> str:
        left = self.atom(self.float(dims, depth - 1))
        if self.chance(0.2):
            left, right = (left, self.number()) if self.chance(0.7) else (self.number(), left)
            return f"{left} {self.one('+-*')} {right}"
        right = self.atom(self.float(self.broadcast(dims), depth - 1))
        if self.chance(0.3):
            left, right = right, left
        operator = self.one("++--**/")
        return f"{left} / (1.5 + {right}.abs())" if operator == "/" else f"{left} {operator} {right}"

    def broadcast(self, dims: Dims) -> Dims:
        """Other dimensions that broadcast to `dims` without making it larger."""
        cut = self.rng.randrange(len(dims) + 1) if self.chance(0.5) else 0
        kept = dims[cut:]
        return tuple("1" if self.chance(0.15) else d for d in kept)

    def number(self) -> str:
        floats = [var.text for var in self.names if var.dims == ("number",)]
        counters = [f"{c}" for c in self.counters.values()]
        options = ["2.0", "0.5", "3", "-1.0", "self.gain", *floats * 2, *counters]
        return self.one(options)

    def scaled(self, dims: Dims, depth: int) -> str:
        """`x * m.unsqueeze(-1)`."""
        narrow = self.atom(self.float(dims[:-1], depth - 1))
        form = self.one(("{0}.unsqueeze(-1)", "{0}[..., None]"))
        return f"{self.atom(self.float(dims, depth - 1))} * {form.format(narrow)}"

    def choice(self, dims: Dims, depth: int) -> str:
        condition = self.bool(self.broadcast(dims), depth - 1)
        first = self.float(dims, depth - 1)
        other = self.one(("0.0", "1.0", self.float(self.broadcast(dims), depth - 1)))
        first, other = (other, first) if self.chance(0.3) else (first, other)
        return f"torch.where({condition}, {first}, {other})"

    def filled(self, dims: Dims, depth: int) -> str:
        value = self.one(("0.0", "-1.0", "1", *(() if self.finite else ('float("-inf")',))))
        condition = self.bool(self.broadcast(dims), depth - 1)
        return f"{self.atom(self.float(dims, depth - 1))}.masked_fill({condition}, {value})"

    def reduced(self, dims: Dims, depth: int) -> str:
        extra = self.one(("B", "T", "D", "D"))
        place = self.rng.randrange(len(dims) + 1)
        wide = (*dims[:place], extra, *dims[place:])
        axis = place if self.chance(0.5) else place - len(wide)
        how = self.one(("sum({0})", "mean({0})", "amax({0})", "sum(dim={0})", "amin(dim={0})", "norm(dim={0})"))
        return f"{self.atom(self.float(wide, depth - 1))}.{how.format(axis)}"

    def unit(self, dtype: DType, dims: Dims) -> str | None:
        """A value with an axis of one in it, made from one without."""
        if "1" not in dims or not self.chance(0.8):
            return None
        place = dims.index("1")
        rest = self.atom(self.expr(dtype, (*dims[:place], *dims[place + 1 :]), 1))
        return f"{rest}.unsqueeze({place})" if place < len(dims) - 1 or self.chance(0.5) else f"{rest}[..., None]"

    def constant(self, dims: Dims) -> str:
        shape = self.sizes(dims)
        if (made := self.unit("float", dims)) is not None:
            return made
        if not dims:
            return self.one(("torch.tensor(0.5)", "torch.zeros(())", "x.new_ones(())"))
        options = [
            f"torch.zeros({shape})",
            f"torch.ones({shape})",
            f"torch.full(({shape},), 0.5)",
            f"x.new_zeros({shape})",
            f"torch.zeros(({shape},), device=x.device)",
        ]
        if len(dims) == 1:
            options += [f"torch.arange({shape}).to(x.dtype)", f"torch.linspace(0.0, 1.0, {shape})"]
        like = self.leaves("float", dims)
        if like:
            options += [f"torch.zeros_like({self.one(like)})", f"torch.ones_like({self.one(like)})"]
        if all(d == "1" for d in dims):
            options.append(f"torch.tensor({'[' * len(dims)}0.5{']' * len(dims)})")
        return self.one(options)

    def int(self, dims: Dims, depth: int) -> str:
        """Integers below the vocabulary."""
        leaves = [leaf for leaf in self.leaves("int", dims) if not leaf.startswith("lengths")]
        if leaves and (depth <= 0 or self.chance(0.9 if self.plain else 0.6)):
            return self.one(leaves)
        options: list[Callable[[], str]] = [
            lambda: f"torch.full(({self.sizes(dims)}{',' if dims else ''}), 2)" if dims else "torch.tensor(2)",
            lambda: f"torch.zeros({self.sizes(dims) or '()'}, dtype=torch.long)",
        ]
        if len(dims) == 1:
            options.append(lambda: f"torch.arange({self.sizes(dims)}) % {VOCABULARY}")
        if depth > 0:
            options += [
                lambda: f"({self.atom(self.int(dims, depth - 1))} + {self.one(('1', '3'))}) % {VOCABULARY}",
                lambda: f"{self.atom(self.int(dims, depth - 1))}.clamp(max=4)",
                lambda: f"{self.atom(self.bool(dims, depth - 1))}.long()",
                lambda: f"{self.atom(self.float((*dims, 'D'), depth - 1))}.argmax(-1) % {VOCABULARY}",
                lambda: f"torch.where({self.bool(dims, depth - 1)}, {self.int(dims, depth - 1)}, 0)",
            ]
        return self.rng.choice(options)()

    def bool(self, dims: Dims, depth: int) -> str:
        leaves = self.leaves("bool", dims)
        if leaves and (depth <= 0 or self.chance(0.5)):
            return self.one(leaves)
        if (made := self.unit("bool", dims)) is not None:
            return made
        options: list[Callable[[], str]] = []
        counter = self.counters.get("T")
        if counter is not None and dims == ("B",):
            options += [lambda: f"{counter} < lengths", lambda: f"lengths > {counter}", lambda: f"lengths == {counter}"]
        if depth <= 0:
            sources = [f"{v} > 0" for v in self.leaves("float", dims)] + [f"{v} == 2" for v in self.leaves("int", dims)]
            if sources:
                return self.one(sources)
            return (
                self.rng.choice(options)() if options else f"torch.ones({self.sizes(dims) or '()'}, dtype=torch.bool)"
            )
        options += [
            lambda: f"{self.atom(self.float(dims, depth - 1))} {self.one(('>', '<', '>=', '<='))} 0.1",
            lambda: (
                f"{self.atom(self.float(dims, depth - 1))} > {self.atom(self.float(self.broadcast(dims), depth - 1))}"
            ),
            lambda: f"{self.atom(self.int(dims, depth - 1))} {self.one(('==', '!=', '<'))} 3",
            lambda: f"~{self.atom(self.bool(dims, depth - 1))}",
            lambda: (
                f"{self.atom(self.bool(dims, depth - 1))} & {self.atom(self.bool(self.broadcast(dims), depth - 1))}"
            ),
            lambda: f"{self.atom(self.bool(dims, depth - 1))} | {self.atom(self.bool(dims, depth - 1))}",
            lambda: f"torch.isfinite({self.float(dims, depth - 1)})",
        ]
        return self.rng.choice(options)()

    # -- statements

    def block(self) -> None:
        """One piece of the forward: a loop, or one of the idioms that stand outside of loops."""
        kinds = [self.loop] * 8 + [
            self.collected,
            self.collected,
            self.masked,
            self.attention,
            self.repeated,
            self.straight,
            self.head,
        ]
        self.rng.choice(kinds)()

    def straight(self) -> None:
        dims = self.rng.choice([("B", "T", "D"), ("B", "D"), ("B", "T"), ("D",)])
        self.define("v", self.float(dims, 3), "float", dims)

    def collected(self) -> None:
        """`torch.stack([... for ...])`."""
        dim = self.one(("B", "T"))
        head, inner = self.loop_head(dim)
        saved = list(self.names), dict(self.counters)
        inner()
        dims = self.item_dims(dim)
        item = self.float(dims, 2)
        self.names, self.counters = saved
        place = self.rng.randrange(len(dims) + 1)
        result = (*dims[:place], dim, *dims[place:])
        if self.counters:
            return
        opened = self.one(("[{0}]", "[{0}]", "tuple({0})", "list({0})"))
        joined = f"torch.stack({opened.format(f'{item} for {head}')}, dim={place})"
        self.define("c", joined, "float", result)

    def item_dims(self, dim: str) -> Dims:
        return self.rng.choice(
            [("B", "D"), ("B",), ("B", "D")] if dim == "T" else [("T", "D"), ("T",), ("D",), ("T", "D")]
        )

    def loop_head(self, dim: str, *, counted: bool = False) -> tuple[str, Callable[[], None]]:
        """The head of a `for` over an axis, without the word, and what puts its variables into scope.

        `counted` asks for a head with a counter.
        """
        counter = self.one(("i", "j", "step"))
        while counter in self.counters.values():
            counter += "_"
        bases = [v for v in self.names if dim in v.dims and v.dims.count(dim) == 1 and not v.text.startswith("self.")]
        base = self.rng.choice(bases)
        axis = base.dims.index(dim)
        rest = tuple(d for d in base.dims if d != dim)
        row = self.fresh("row")

        def count() -> None:
            self.counters[dim] = counter

        def element() -> None:
            self.names.append(Var(row, base.dtype, rest))

        def both() -> None:
            count()
            element()

        forms: list[tuple[str, Callable[[], None]]] = [(f"{counter} in range({self.size(dim)})", count)] * 4
        forms += [
            (f"{row} in {base.text}.unbind({axis})", element),
            (f"{row} in torch.unbind({base.text}, dim={axis})", element),
        ]
        forms += [(f"{counter}, {row} in enumerate({base.text}.unbind({axis}))", both)]
        if self.chance(0.3):
            forms += [(f"{counter} in range(1, {self.size(dim)})", count)] * 2
            forms += [(f"{counter} in range({self.one(('2', '3'))})", count)]
        if axis == 0:
            forms += [(f"{row} in {base.text}", element), (f"{counter}, {row} in enumerate({base.text})", both)]
            others = [v for v in bases if v.dims[0] == dim]
            other = self.rng.choice(others)
            second = self.fresh("row")

            def two() -> None:
                element()
                self.names.append(Var(second, other.dtype, other.dims[1:]))

            forms += [(f"{row}, {second} in zip({base.text}, {other.text})", two)] * 2
        if counted:
            forms = [form for form in forms if form[1] in {count, both}]
        return self.rng.choice(forms)

    def loop(self) -> None:
        dim = self.one(("B", "T", "T"))
        if dim in self.counters:
            return
        first = len(self.lines)
        finish = [self.before_loop(dim) for _ in range(1 if self.plain else self.rng.randint(1, 2))]
        saved_names, saved_counters, saved_lines = list(self.names), dict(self.counters), list(self.lines)
        if self.chance(0.8 * self.rare):
            counter = self.fresh("n")
            self.emit(f"{counter} = 0")
            self.emit(f"while {counter} < {self.size(dim)}:")
            self.counters[dim] = counter
            end = f"{counter} += 1"
        else:
            writes = any(line.strip().startswith("z") for line in self.lines[first:])
            head, inner = self.loop_head(dim, counted=writes and self.chance(0.95))
            self.emit(f"for {head}:")
            inner()
            end = ""
        self.depth += 1
        for _ in range(self.rng.choice((0, 0, 1)) if self.plain else self.rng.randint(0, 2)):
            self.temporary(dim)
        if self.chance(self.rare) and not end:
            self.leave(dim)
        if len(self.counters) == 1 and self.chance(self.rare):
            self.loop()
        for body, _ in finish:
            body()
        if end:
            self.emit(end)
        self.depth -= 1
        self.names, self.counters = saved_names, saved_counters
        if self.lines[-1].endswith(":"):
            self.lines = saved_lines
            return
        for _, after in finish:
            after()

    def leave(self, dim: str) -> None:
        counter = self.counters.get(dim)
        tests = [f"{self.float((), 1)} > 1.0", f"{self.atom(self.bool(('B',), 1))}.all()"]
        if counter:
            tests += [f"{counter} == 1", f"{counter} % 2 == 0"]
        self.emit(f"if {self.one(tests)}:")
        self.emit(f"    {self.one(('continue', 'break'))}")

    def temporary(self, dim: str) -> None:
        dims = self.item_dims(dim)
        kinds: list[DType] = ["float", "float", "float", "bool", "int"]
        dtype = self.rng.choice(kinds)
        if dtype != "float":
            dims = dims[:1] if dims[0] in "BT" else ()
        var = self.define("v", self.expr(dtype, dims), dtype, dims)
        if dtype == "float" and self.chance(self.rare):
            self.emit(self.one((f"{var.text}.mul_(0.5)", f"{var.text} += 1.0", f"{var.text}[{var.text} > 1] = 0.0")))
        if self.chance(0.6 * self.rare):
            number = self.fresh("k")
            self.emit(f"{number} = {self.one(('float({0})', '{0}.item()')).format(self.atom(self.float((), 1)))}")
            self.names.append(Var(number, "float", ("number",)))

    def before_loop(self, dim: str) -> tuple[Callable[[], None], Callable[[], None]]:
        """What a loop fills: emits what stands before it; gives what stands in it and what stands after it."""
        kinds = [self.list_of, self.list_of, self.slots, self.slots, self.slots, self.carried, self.grown, self.numbers]
        return self.rng.choice(kinds)(dim)

    def guarded(self, dim: str, emit: Callable[[], None]) -> None:
        """`emit`, now and then under an `if`."""
        if not self.chance(self.rare):
            emit()
            return
        counter = self.counters.get(dim)
        tests = [f"{self.float((), 1)} > 0", f"{self.atom(self.bool(('B',), 1))}.any()"]
        tests += [f"{counter} % 2 == 0", f"{counter} > 0", f"{counter} < 2"] if counter else []
        self.emit(f"if {self.one(tests)}:")
        self.depth += 1
        emit()
        self.depth -= 1

    def list_of(self, dim: str) -> tuple[Callable[[], None], Callable[[], None]]:
        name, dims = self.fresh("parts"), self.item_dims(dim)
        self.emit(f"{name} = []")
        place = self.rng.randrange(len(dims) + 1)
        joined = self.chance(0.35)
        result = (*dims[:place], dim, *dims[place:])

        def body() -> None:
            item = self.float(dims, 2)
            if joined:
                item = f"{self.atom(item)}.unsqueeze({place})"
            self.guarded(dim, lambda: self.emit(f"{name}.append({item})"))

        def after() -> None:
            call = "cat" if joined else "stack"
            self.define("r", f"torch.{call}({name}, dim={place})", "float", result)

        return body, after

    def slots(self, dim: str) -> tuple[Callable[[], None], Callable[[], None]]:
        """A tensor that the loop writes slice by slice: a new one, a copy, or another name of an input."""
        dims = self.rng.choice([("B", "T", "D"), ("B", "T")])
        if self.chance(0.12):
            return self.other_slots(dim)
        bases = [v for v in self.names if v.dims == dims and v.dtype == "float"]
        base = self.rng.choice(bases)
        start = self.one(
            (
                f"torch.zeros({self.sizes(dims)})",
                f"torch.empty({self.sizes(dims)})",
                f"torch.zeros_like({base.text})",
                f"{base.text}.clone()",
                f"{base.text}.clone()",
                f"{base.text} * 1.0",
                base.text,
                f"{base.text}[:]",
            )
        )
        if start.startswith("torch.empty"):
            start += ".fill_(0.5)"
        target = self.define("z", start, "float", dims)
        rest = tuple(d for d in dims if d != dim)

        def body() -> None:
            counter = self.counters.get(dim)
            if counter is None:
                self.guarded(
                    dim,
                    lambda: self.emit(
                        f"{target.text} += {self.float(rest, 1)}" if dim == "B" else f"{target.text} *= 0.5"
                    ),
                )
                return
            place = ", ".join(_stripped([counter if d == dim else ":" for d in dims]))
            slot = f"{target.text}[{place}]"
            self.guarded(dim, lambda: self.emit(self.write(slot, rest)))

        return body, lambda: None

    def other_slots(self, dim: str) -> tuple[Callable[[], None], Callable[[], None]]:
        """Slots of integers or truth values, into which other types are converted when written."""
        whole: list[DType] = ["int", "bool"]
        dtype = self.rng.choice(whole)
        starts = {
            "int": ("torch.zeros_like(ids)", f"torch.zeros({self.sizes(('B', 'T'))}, dtype=torch.long)", "ids.clone()"),
            "bool": (
                "torch.zeros_like(mask)",
                f"torch.ones({self.sizes(('B', 'T'))}, dtype=torch.bool)",
                "mask.clone()",
            ),
        }
        target = self.define("z", self.one(starts[dtype]), dtype, ("B", "T"))
        rest = ("B",) if dim == "T" else ("T",)

        def body() -> None:
            counter = self.counters.get(dim)
            if counter is not None:
                slot = f"{target.text}[{counter}]" if dim == "B" else f"{target.text}[:, {counter}]"
                sources: list[DType] = [dtype, dtype, "float", "bool"]
                given = self.rng.choice(sources)
                self.guarded(dim, lambda: self.emit(f"{slot} = {self.expr(given, rest)}"))
            else:
                self.emit(f"{target.text} = ~{target.text}")

        def after() -> None:
            if dtype == "int":  # what was converted may be beyond the vocabulary
                self.emit(f"{target.text} = {target.text} % {VOCABULARY}")

        return body, after

    def write(self, slot: str, rest: Dims) -> str:
        condition = self.bool(self.broadcast(rest), 1)
        narrow = self.bool(rest[:1], 1)
        return self.one(
            (
                *[f"{slot} = {self.float(rest, 2)}"] * 3,
                f"{slot} += {self.float(self.broadcast(rest), 2)}",
                f"{slot} *= {self.float(self.broadcast(rest), 1)}",
                f"{slot} = torch.where({condition}, {self.float(rest, 1)}, {slot})",
                f"{slot} = {slot}.masked_fill({condition}, 0.0)",
                f"{slot}[{self.bool(rest, 1)}] = {self.one(FILLS)}",
                f"{slot}[{narrow}] = {self.one(('0.0', '2.0'))}",
                f"{slot}.masked_fill_({condition}, 0.0)",
                f"{slot} = {self.one(('0.0', '1.0'))}",
                f"{slot}.mul_({self.float(rest, 1)})",
                f"{slot}.copy_({self.float(rest, 1)})",
            )
        )

    def carried(self, dim: str) -> tuple[Callable[[], None], Callable[[], None]]:
        dims = self.rng.choice([("B", "D"), ("B",), ("D",), ()])
        start = self.one((self.constant(dims), self.constant(dims), self.float(dims, 1)))
        state = self.define("h", start, "float", dims)

        def body() -> None:
            name, new = state.text, self.float(dims, 2)
            update = self.one(
                (
                    f"{name} = {name} + {self.atom(new)}",
                    f"{name} += {new}",
                    f"{name} = torch.tanh({self.atom(new)} + {name})",
                    f"{name} = torch.where({self.bool(dims, 1)}, {new}, {name})",
                    f"{name} = torch.maximum({name}, {new})",
                    f"{name} = 0.9 * {name} + 0.1 * {self.atom(new)}",
                    f"{name} = {new}",
                )
            )
            self.guarded(dim, lambda: self.emit(update))

        return body, lambda: None

    def grown(self, dim: str) -> tuple[Callable[[], None], Callable[[], None]]:
        """A tensor that grows by `cat`."""
        dims = self.rng.choice([("B", "D"), ("B",)] if dim == "T" else [("T",), ("T", "D")])
        place = self.rng.randrange(len(dims) + 1)
        shape = ", ".join([*(self.size(d) for d in dims[:place]), "0", *(self.size(d) for d in dims[place:])])
        name = self.fresh("g")
        first = self.chance(0.5)
        self.emit(
            f"{name} = torch.zeros({shape})"
            if not first
            else f"{name} = {self.atom(self.float(dims, 1))}.unsqueeze({place})"
        )

        def body() -> None:
            new = self.atom(self.float(dims, 2))
            pieces = f"{name}, {new}.unsqueeze({place})" if self.chance(0.8) else f"{new}.unsqueeze({place}), {name}"
            self.guarded(dim, lambda: self.emit(f"{name} = torch.cat([{pieces}], dim={place})"))

        def after() -> None:
            kept = (*dims[:place], dim, *dims[place:])
            if first:
                self.define("r", f"{name}.narrow({place}, 1, {name}.size({place}) - 1)", "float", kept)
            else:
                self.names.append(Var(name, "float", kept))

        return body, after

    def numbers(self, dim: str) -> tuple[Callable[[], None], Callable[[], None]]:
        """Python numbers read out of tensors, one by one."""
        total, listed = self.fresh("total"), self.fresh("values")
        both = self.chance(0.5)
        self.emit(f"{total} = 0.0")
        if both:
            self.emit(f"{listed} = []")

        def body() -> None:
            value = self.atom(self.float((), 1))
            whole = self.atom(self.int((), 1))
            form = self.one((f"{value}.item()", f"float({value})", f"int({whole})", f"{whole}.item()"))
            if both:
                self.guarded(dim, lambda: self.emit(f"{listed}.append({form})"))
            else:
                self.guarded(dim, lambda: self.emit(f"{total} += {form}"))

        def after() -> None:
            if both:
                self.emit(f"{total} = sum({listed})")
            self.names.append(Var(total, "float", ("number",)))

        return body, after

    def masked(self) -> None:
        """Boolean indexing outside of loops."""
        base = self.rng.choice([v for v in self.names if v.dims == ("B", "T", "D") and v.dtype == "float"])
        other = self.float(("B", "T", "D"), 1)
        where = self.define("m", self.bool(("B", "T"), 2), "bool", ("B", "T")).text if self.chance(0.6) else "mask"
        start = self.one((f"{base.text}.clone()", f"{base.text} + 1.0", base.text))
        target = self.define("z", start, "float", ("B", "T", "D"))
        z = target.text
        self.emit(
            self.one(
                (
                    f"{z}[{where}] = {self.atom(other)}[{where}]",
                    f"{z}[{where}] = 0.0",
                    f"{z}[~{where}] = self.scale",
                    f"{z}[{where}] += 1.0",
                    f"{z}[{where}] = {z}[{where}] * 2.0",
                    f"{z}[{where}] = -{z}[{where}].clone()",
                    f"{z} = {z} * {where}.unsqueeze(-1)",
                    f"{z} = {z} + {z}[{where}].sum()",
                    f"{z} = {z} + torch.masked_select({z}, {where}[..., None]).sum()",
                    f"{z} = torch.where({where}[:, :, None], {z}, {other})",
                    f"{z}[{z} > 0.5] = {z}[{z} > 0.5] * 0.1",
                )
            )
        )

    def attention(self) -> None:
        self.finite = True
        q, k, v = (self.float(("B", "T", "D"), 1) for _ in range(3))
        self.finite = False
        self.emit(f"q, k, v = {q}, {k}, {v}")
        scale = self.one(("math.sqrt(q.size(-1))", "2.0", "q.size(-1) ** 0.5"))
        self.emit(f"att = (q @ k.transpose(-2, -1)) / {scale}")
        if self.chance(0.6):
            # Each row sees one key at least: a row that hides everything is what the rule's page speaks of.
            self.emit(f"seen = mask | (torch.arange({self.size('T')}) == 0)")
            hidden = self.one(("~seen[:, None, :]", "~seen.unsqueeze(1)"))
            value = self.one(('float("-inf")', "-1e9", "0.0"))
            self.emit(
                self.one(
                    (
                        f"att = att.masked_fill({hidden}, {value})",
                        f"att = att + torch.where({hidden[1:]}, 0.0, {value})",
                    )
                )
            )
        self.emit(self.one(("p = torch.softmax(att, dim=-1)", "p = att.softmax(-1)", "p = F.softmax(att, dim=-1)")))
        if self.chance(0.2):
            self.emit("p = self.drop(p)")
        name = self.define("a", self.one(("p @ v", "torch.matmul(p, v)", "torch.bmm(p, v)")), "float", ("B", "T", "D"))
        if self.chance(0.2):
            self.emit(f"{name.text} = {name.text} + p.sum()")

    def repeated(self) -> None:
        """A repeat or expand that broadcasting could do, or one whose copy matters."""
        row = self.define("n", f"self.scale.unsqueeze(0).repeat({self.size('B')}, 1)", "float", ("B", "D"))
        form = self.one(("repeat(1, {0}, 1)", "expand(-1, {0}, -1).contiguous()")).format(self.size("T"))
        wide = self.define("w", f"{row.text}.unsqueeze(1).{form}", "float", ("B", "T", "D"))
        if self.chance(0.3):
            self.emit(f"{wide.text}[:, 0] = 0.0")
        self.define(
            "v", f"{self.atom(self.float(('B', 'T', 'D'), 1))} {self.one('+*')} {wide.text}", "float", ("B", "T", "D")
        )

    def head(self) -> None:
        """A layer for all positions of which some are used."""
        inner = self.float(("B", "T", "D"), 1)
        self.emit(f"hidden = {inner}")
        self.emit(self.one(("logits = self.mix(hidden)", "logits = self.norm(self.mix(hidden))")))
        place = self.one(("0", "-1"))
        self.define("v", f"logits[:, {place}]", "float", ("B", "D"))
        if self.chance(0.2):
            self.define("v", "logits.mean(1)", "float", ("B", "D"))

    def finish(self) -> None:
        """The return: what was made, in one of the forms that models give."""
        made = [var for var in self.names if var not in _GIVEN]
        self.rng.shuffle(made)
        kept = [var.text for var in made[: self.rng.randint(1, 4)]] or ["x"]
        if self.chance(0.1):
            kept.append("x")
        forms = [
            ", ".join(kept),
            f"[{', '.join(kept)}]",
            f"{{{', '.join(f'{n!r}: {n}' for n in dict.fromkeys(kept))}}}",
        ]
        self.emit(f"return {self.one(forms)}")


def _stripped(entries: list[str]) -> list[str]:
    """Index entries without the `:` at the end, which say nothing."""
    while len(entries) > 1 and entries[-1] == ":":
        entries = entries[:-1]
    return entries


def program(seed: int) -> str:
    """The text of a module with a `build(batch, length, width)`."""
    rng = random.Random(seed)
    writer = Writer(rng, plain=rng.random() < 0.7)
    writer.emit("b, t, d = x.shape")
    if writer.chance(0.15):
        writer.emit("x = x.clone()")
    for _ in range(rng.choice((1, 1, 2)) if writer.plain else rng.randint(1, 3)):
        writer.block()
    writer.finish()
    return whole("\n".join(writer.lines) + "\n", writer.rng.choice(_ENCODERS))


def whole(forward: str, encoder: Sequence[str] = _ENCODERS[0]) -> str:
    """A program with the lines of its `forward` and of its module's."""
    return _HEAD.replace("{encoder}", "\n".join(f"        {line}" for line in encoder)) + forward + _TAIL
