"""Truth, marked by hand: which expression runs which operator.

A mark at the end of a line, `#: add x + y ; mul a * b`, names operators that some expression starting on that line
runs, each with the expression's exact text (white space collapsed). An operator that any mark names must be marked
everywhere it occurs, so a cost that lands on the wrong expression fails twice.
"""

import contextlib
import functools
import operator

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint


def arithmetic(x, y):
    a = x + y  #: add x + y
    b = a * x - y  #: mul a * x ; sub a * x - y
    c = (a + b) / (x.abs() + 1.5)  #: add a + b ; abs x.abs() ; add x.abs() + 1.5 ; div (a + b) / (x.abs() + 1.5)
    d = -c  #: neg -c
    e = d**2  #: pow d**2
    f = 2.0 - e  #: rsub 2.0 - e
    g = f % 3.0  #: remainder f % 3.0
    h = g // 0.5  #: floor_divide g // 0.5
    return h


def augmented(x):
    y = x.clone()  #: clone x.clone()
    y += x  #: add_ y += x
    y *= 2.0  #: mul_ y *= 2.0
    y -= 0.5  #: sub_ y -= 0.5
    return y


def comparisons(x, y):
    less = x < y  #: lt x < y
    more = x >= 0.25  #: ge x >= 0.25
    same = x == y  #: eq x == y
    both = less & more  #: __and__ less & more
    either = both | same  #: __or__ both | same
    return ~either  #: bitwise_not ~either


def matrices(x, w):
    a = x @ w  #: matmul x @ w
    b = torch.matmul(a, w.transpose(0, 1))  #: transpose w.transpose(0, 1) ; matmul torch.matmul(a, w.transpose(0, 1))
    c = b.T @ a  #: numpy_T b.T ; matmul b.T @ a
    return torch.einsum("ij,kj->ik", c, w)  #: einsum torch.einsum("ij,kj->ik", c, w)


def indexing(x, ids):
    row = x[0]  #: select x[0]
    column = x[:, 1]  #: select x[:, 1]
    part = x[1:3]  #: slice x[1:3]
    taken = x[ids]  #: index x[ids]
    new_axis = row[None]  #: unsqueeze row[None]
    nested = x[ids[0]]  #: select ids[0] ; select x[ids[0]] ; item x[ids[0]]
    return column.sum() + part.sum() + taken.sum() + new_axis.sum() + nested.sum()  #: sum column.sum() ; sum part.sum() ; sum taken.sum() ; sum new_axis.sum() ; sum nested.sum() ; add column.sum() + part.sum() ; add column.sum() + part.sum() + taken.sum() ; add column.sum() + part.sum() + taken.sum() + new_axis.sum() ; add column.sum() + part.sum() + taken.sum() + new_axis.sum() + nested.sum()


def writes(x, mask):
    y = torch.zeros_like(x)  #: zeros_like torch.zeros_like(x)
    y[0] = x[1]  #: select y[0] ; select x[1] ; copy_ y[0]
    y[mask] = 0.5  #: index_put_ y[mask]
    y[:, 2] += 1.0  #: select y[:, 2] ; add_ y[:, 2] += 1.0 ; copy_ y[:, 2]
    y[1:2].fill_(3.0)  #: slice y[1:2] ; fill_ y[1:2].fill_(3.0)
    return y


def implicit_bool(x):
    if x.sum() > 0:  #: sum x.sum() ; gt x.sum() > 0 ; is_nonzero x.sum() > 0
        x = x.sin()  #: sin x.sin()
    while x.max() > 0.99:  #: max x.max() ; gt x.max() > 0.99 ; is_nonzero x.max() > 0.99
        x = x.cos()  #: cos x.cos()
    picked = x.exp() if x.min() < 9 else x.log()  #: min x.min() ; lt x.min() < 9 ; is_nonzero x.min() < 9 ; exp x.exp()
    assert (picked == picked).all()  #: eq picked == picked ; all (picked == picked).all() ; is_nonzero (picked == picked).all()
    flag = not picked.any()  #: any picked.any() ; is_nonzero not picked.any()
    return picked if flag else picked.tanh()  #: tanh picked.tanh()


def tests_in_parts(x, known=None):
    if known is None and (known is not None or x.isfinite().all()):  #: isfinite x.isfinite() ; all x.isfinite().all() ; is_nonzero x.isfinite().all()
        x = x.asinh()  #: asinh x.asinh()
    if not x.isnan().any():  #: isnan x.isnan() ; any x.isnan().any() ; is_nonzero x.isnan().any()
        x = x.atan()  #: atan x.atan()
    endless = x.isinf().any()  #: isinf x.isinf() ; any x.isinf().any()
    while endless:  #: is_nonzero endless
        break
    if (low := x.amin()) or x.amax():  #: amin x.amin() ; is_nonzero x.amin()
        x = x + low  #: add x + low
    return x.any() and x  #: any x.any() ; is_nonzero x.any()


def comprehensions(x):
    rows = [row.sigmoid() for row in x]  #: unbind x ; sigmoid row.sigmoid()
    table = {i: x[i].relu() for i in range(3)}  #: select x[i] ; relu x[i].relu()
    total = sum(row.erf() for row in rows)  #: erf row.erf() ; add sum(row.erf() for row in rows)
    lazy = (value.ceil() for value in table.values())  #: ceil value.ceil()
    return total + torch.stack(list(lazy)).sum(0)  #: stack torch.stack(list(lazy)) ; sum torch.stack(list(lazy)).sum(0) ; add total + torch.stack(list(lazy)).sum(0)


def lambdas(x):
    twice = lambda t: t.floor() + t  #: floor t.floor() ; add t.floor() + t
    y = twice(x)
    z = functools.reduce(lambda a, b: a.trunc() - b, [y, x, x])  #: trunc a.trunc() ; sub a.trunc() - b
    w = list(map(torch.frac, [z, z]))  #: frac list(map(torch.frac, [z, z]))
    return operator.mul(w[0], w[1])  #: mul operator.mul(w[0], w[1])


def multi_line(x, y):
    return (  #: clamp ( x.reciprocal() - y.rsqrt() ).clamp( min=-1.0, max=torch.tensor( 1.0, ).item(), )
        x.reciprocal()  #: reciprocal x.reciprocal() ; sub x.reciprocal() - y.rsqrt()
        - y.rsqrt()  #: rsqrt y.rsqrt()
    ).clamp(
        min=-1.0,
        max=torch.tensor(  #: to torch.tensor( 1.0, ) ; item torch.tensor( 1.0, ).item()
            1.0,
        ).item(),
    )


def chained(x):
    return x.square().mean(-1).sqrt().unsqueeze(0).expand(2, -1)  #: square x.square() ; mean x.square().mean(-1) ; sqrt x.square().mean(-1).sqrt() ; unsqueeze x.square().mean(-1).sqrt().unsqueeze(0) ; expand x.square().mean(-1).sqrt().unsqueeze(0).expand(2, -1)


def unpacking(x):
    first, second, *_ = x  #: unbind first, second, *_
    left, right = x.chunk(2, dim=1)  #: chunk x.chunk(2, dim=1)
    both = torch.cat([left, right])  #: cat torch.cat([left, right])
    return first.log1p(), second.expm1(), both  #: log1p first.log1p() ; expm1 second.expm1()


def loops(x):
    out = []
    for i, row in enumerate(x):  #: unbind enumerate(x)
        out.append(row.asinh())  #: asinh row.asinh()
    for a, b in zip(x.split(2), out):  #: split x.split(2)
        a = a.atan() * b  #: atan a.atan() ; mul a.atan() * b
    count = 0
    while count < 2:
        x = x.sinh().neg()  #: sinh x.sinh() ; neg x.sinh().neg()
        count += 1
    return x


def nested_functions(x):
    def inner(t):
        def innermost(u):
            return u.cosh()  #: cosh u.cosh()

        return innermost(t).acosh()  #: acosh innermost(t).acosh()

    return inner(x)


def doubled(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs).deg2rad()  #: deg2rad function(*args, **kwargs).deg2rad()

    return wrapper


@doubled
def decorated(x, *, scale):
    return x.rad2deg() * scale  #: rad2deg x.rad2deg() ; mul x.rad2deg() * scale


def generators(x):
    def halves(t):
        yield t.round()  #: round t.round()
        yield from (t.sign() for _ in range(2))  #: sign t.sign()

    total = None
    for part in halves(x):
        total = part if total is None else torch.maximum(total, part)  #: maximum torch.maximum(total, part)
    return total


@contextlib.contextmanager
def shifted(x):
    yield x.roll(1)  #: roll x.roll(1)


def contexts(x):
    with shifted(x) as moved:
        y = moved.flip(0)  #: flip moved.flip(0)
    with torch.no_grad():
        z = y.cumsum(0)  #: cumsum y.cumsum(0)
    try:
        z = z.cumprod(0)  #: cumprod z.cumprod(0)
        raise ValueError
    except ValueError:
        z = z.logcumsumexp(0)  #: logcumsumexp z.logcumsumexp(0)
    finally:
        w = z.triu()  #: triu z.triu()
    return w


def conversions(x):
    number = float(x.norm())  #: linalg_vector_norm x.norm() ; item float(x.norm())
    whole = int(x.argmax())  #: argmax x.argmax() ; item int(x.argmax())
    half = x.half()  #: to x.half()
    listed = x.prod().item()  #: prod x.prod() ; item x.prod().item()
    return half.to(torch.float32) * (number + whole + listed)  #: to half.to(torch.float32) ; mul half.to(torch.float32) * (number + whole + listed)


def calls(x):
    options = {"dim": -1}
    a = torch.softmax(x, **options)  #: softmax torch.softmax(x, **options)
    b = F.log_softmax(a, dim=-1)  #: log_softmax F.log_softmax(a, dim=-1)
    c = F.gelu(b) + F.silu(a)  #: gelu F.gelu(b) ; silu F.silu(a) ; add F.gelu(b) + F.silu(a)
    if (d := c.erfinv()) is not None:  #: erfinv c.erfinv()
        c = d
    d, e = c.sort()  #: sort c.sort()
    return torch.where(d > 0, d, e.to(d.dtype))  #: gt d > 0 ; to e.to(d.dtype) ; where torch.where(d > 0, d, e.to(d.dtype))


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.lgamma()  #: lgamma x.lgamma()

    @staticmethod
    def backward(ctx, grad):
        return grad


class Indexed:
    def __init__(self, tensor):
        self.tensor = tensor

    def __getitem__(self, i):
        return self.tensor.narrow(0, i, 1)  #: narrow self.tensor.narrow(0, i, 1)

    def __add__(self, other):
        return self.tensor.hypot(other)  #: hypot self.tensor.hypot(other)

    @property
    def flat(self):
        return self.tensor.flatten()  #: flatten self.tensor.flatten()

    def __call__(self):
        return self.tensor.digamma()  #: digamma self.tensor.digamma()


def objects(x):
    thing = Indexed(x)
    return thing[0], thing + x, thing.flat, thing()


class Base(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first = nn.Linear(width, width)

    def forward(self, x):
        return self.first(x)  #: linear self.first(x)


class Derived(Base):
    def forward(self, x):
        return super().forward(x).softmax(-1)  #: softmax super().forward(x).softmax(-1)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        return self.norm(F.relu(self.up(x)))  #: linear self.up(x) ; relu F.relu(self.up(x)) ; layer_norm self.norm(F.relu(self.up(x)))


def before_hook(module, args):
    return (args[0].arctan(),)  #: arctan args[0].arctan()


def after_hook(module, args, output):
    return output.arcsinh()  #: arcsinh output.arcsinh()


class Zoo(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.derived = Derived(width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(2))
        self.chain = nn.Sequential(Block(width), nn.Hardtanh(), nn.Linear(width, width))
        self.hooked = nn.Softplus()
        self.hooked.register_forward_pre_hook(before_hook)
        self.hooked.register_forward_hook(after_hook)
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.embed = nn.Embedding(16, width)
        self.scripted = torch.jit.trace(lambda t: t.tan().exp2(), torch.ones(2))

    def modules_in_use(self, x, ids):
        x = self.derived(x)
        for block in self.blocks:
            x = block(x)
        x = self.chain(x)  #: hardtanh self.chain(x) ; linear self.chain(x)
        x = self.hooked(x)  #: softplus self.hooked(x)
        x = x + self.embed(ids)  #: embedding self.embed(ids) ; add x + self.embed(ids)
        return x

    def special(self, x):
        a = checkpoint(self.blocks[0], x, use_reentrant=False)
        b = torch.func.vmap(lambda row: row.softmax(0))(a)  #: softmax row.softmax(0)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            c = b.mm(b.t())  #: mm b.mm(b.t()) ; t b.t()
        d = Scale.apply(b)
        return c, d, self.scripted(b)

    def forward(self, x, ids, mask):
        arithmetic(x, x)
        augmented(x)
        comparisons(x, x)
        matrices(x, x)
        indexing(x, ids)
        writes(x, mask)
        implicit_bool(x)
        tests_in_parts(x)
        comprehensions(x)
        lambdas(x)
        multi_line(x, x)
        chained(x)
        unpacking(x)
        loops(x)
        nested_functions(x)
        decorated(x, scale=2.0)
        generators(x)
        contexts(x)
        conversions(x)
        calls(x)
        objects(x)
        y = self.modules_in_use(x, ids)
        return self.special(y)


def build():
    torch.manual_seed(0)
    x = torch.rand(8, 8) * 0.5 + 1.2
    return Zoo().eval(), (x, torch.arange(8), x > 1.4)
