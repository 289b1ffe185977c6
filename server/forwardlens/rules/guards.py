"""Tests that only leave out a change to a tensor which is none where the test is false.

`if (x.abs() > 3).any(): x = x.clamp(-3, 3)`: without the test, values within the bounds stay as they are.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from forwardlens.rules.callers import own_function
from forwardlens.rules.constants import is_number
from forwardlens.rules.effects import changes
from forwardlens.rules.escape import private_since
from forwardlens.rules.evidence import Sites, index_items
from forwardlens.rules.layout import LayoutMattersError, LayoutReaders, require_no_writes
from forwardlens.rules.operations import POSITIONWISE_MODULES, call_operands, is_repeatable, is_torch_function
from forwardlens.rules.starts import last_binding
from forwardlens.source.dataflow import names_read, overlap
from forwardlens.source.tree import Function, Tree, dotted, integer, walk

_CLAMPS = frozenset({"clamp", "clip", "clamp_min", "clamp_max"})
_CHANGES = _CLAMPS | {"nan_to_num", "masked_fill", "where"}
_FLIPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {ast.Gt: ast.Lt, ast.GtE: ast.LtE, ast.Lt: ast.Gt, ast.LtE: ast.GtE}
# What a count is compared with to ask whether there is anything to count.
_LEAST: dict[type[ast.cmpop], int] = {ast.Gt: 0, ast.NotEq: 0, ast.GtE: 1}
# Their results are never whole numbers.
_FLOATING = frozenset(
    """lerp softmax log_softmax sigmoid tanh exp expm1 log log1p log2 sqrt rsqrt sin cos erf mean std var norm gelu silu
    softplus logsigmoid linear conv1d conv2d conv3d layer_norm batch_norm group_norm interpolate rand randn randn_like
    rand_like float half double bfloat16 true_divide""".split()
)
_FLOATING_MODULES = POSITIONWISE_MODULES - {"aten::relu", "aten::leaky_relu", "aten::hardtanh"} | {
    "aten::conv1d",
    "aten::conv2d",
    "aten::conv3d",
    "aten::batch_norm",
    "aten::embedding",
}
# Results of the kind of number of the tensor that they are of.
_KEEPING = frozenset(
    """roll view reshape flatten unsqueeze squeeze transpose permute expand abs neg relu clamp clip clone contiguous
    cumsum masked_fill flip detach nan_to_num""".split()
)
_DEPTH = 6
_Negated = tuple[ast.expr, bool]
# What a false test says about every element: it is no more or no less than a bound, or it is not nan or infinite.
_Bound = tuple[bool, str]
_Fact = tuple[Literal["most", "least"], _Bound] | Literal["no nan", "no inf"]


@dataclass(frozen=True)
class Guard:
    """A test around a change, with the text of the change without it. `why` says what speaks against leaving it out.

    `made` is the statement that only makes the mask that the test asks about.
    """

    node: ast.If | ast.IfExp
    text: str
    made: ast.Assign | None
    why: str


@dataclass(frozen=True)
class _Change:
    """What a guarded statement does to `name`. `call` makes the new value, unless it is written to an index."""

    name: str
    kind: str
    text: str
    call: ast.Call | None = None
    mask: ast.expr | None = None
    value: ast.expr | None = None
    inplace: bool = False


def guard_of(sites: Sites, node: ast.expr) -> Guard | None:
    """The test that `node` is, or is a part of, if all that it decides is such a change."""
    above = _tested(sites.tree, node)
    if above is None:
        return None
    parts = list(_asked(sites, above, above.test))
    masks = [mask for part in parts if part is not None for mask in _alternatives(sites, part)]
    change = _change(sites, above)
    if change is None or None in parts or not parts or not all(is_repeatable(mask) for mask, _ in masks):
        return None
    made = _made_above(sites, above, masks)
    known = [(made.value if made is not None and dotted(mask) == _target(made) else mask, no) for mask, no in masks]
    known = [k for mask, no in known for k in _alternatives(sites, (mask, no))]
    why = _refusal(sites, change, masks, known) or _not_alone(sites, above, change)
    gone = made if made is not None and _is_all_read_in(sites, above, made, change) else None
    return Guard(above, change.text, gone, why)


def _tested(tree: Tree, node: ast.expr) -> ast.If | ast.IfExp | None:
    inner: ast.AST = node
    for above in tree.ancestors(node):
        if isinstance(above, (ast.If, ast.IfExp)):
            return above if above.test is inner and not _is_elif(tree, above) else None
        if not isinstance(above, (ast.UnaryOp, ast.BoolOp, ast.Compare, ast.Call, ast.Attribute)):
            return None
        inner = above
    return None


def _is_elif(tree: Tree, node: ast.If | ast.IfExp) -> bool:
    return isinstance(node, ast.If) and not tree.text(node).startswith("if")


# -- what a test asks


def _asked(sites: Sites, above: ast.If | ast.IfExp, test: ast.expr) -> Iterator[_Negated | None]:
    """The masks that all have no true element where the test is false; None for a part that asks something else."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or):
        for value in test.values:
            yield from _asked(sites, above, value)
        return
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        whole = _reduced(sites, _unwrapped(test.operand), "all")
        yield None if whole is None else (whole, True)
        return
    some = _reduced(sites, _unwrapped(test), "any")
    if some is None and isinstance(test, ast.Compare) and len(test.ops) == 1:
        some = _counted(sites, above, test)
    yield None if some is None else (some, False)


def _unwrapped(node: ast.expr) -> ast.expr:
    """`m.any()` of `bool(m.any())` and `m.any().item()`."""
    if not isinstance(node, ast.Call) or node.keywords:
        return node
    if dotted(node.func) == "bool" and len(node.args) == 1:
        return _unwrapped(node.args[0])
    if isinstance(node.func, ast.Attribute) and node.func.attr == "item" and not node.args:
        return node.func.value
    return node


def _reduced(sites: Sites, node: ast.expr, *names: str) -> ast.expr | None:
    """`m` of `m.any()` and `torch.any(m)`, over all dimensions."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr not in names:
        return None
    given = call_operands(sites.tree.module, node)
    return given[0] if len(given) == 1 and not node.keywords else None


def _counted(sites: Sites, above: ast.If | ast.IfExp, test: ast.Compare) -> ast.expr | None:
    """`m` of `m.sum() > 0`, where it certainly is a mask."""
    mask = _reduced(sites, _unwrapped(test.left), "sum", "count_nonzero")
    least = _LEAST.get(type(test.ops[0]))
    if mask is None or least is None or integer(test.comparators[0]) != least:
        return None
    made = _made_above(sites, above, [(mask, False)])
    return mask if _is_mask(sites, made.value if made is not None else mask) else None


def _is_mask(sites: Sites, node: ast.expr) -> bool:
    """Whether an expression certainly is a boolean tensor."""
    if isinstance(node, ast.Compare):
        return len(node.ops) == 1
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert):
        return _is_mask(sites, node.operand)
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.BitAnd, ast.BitOr)):
        return _is_mask(sites, node.left) and _is_mask(sites, node.right)
    name = node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""
    return name in {"isnan", "isinf", "isfinite", "logical_or", "logical_and", "logical_not"}


def _alternatives(sites: Sites, part: _Negated) -> Iterator[_Negated]:
    """The masks of which one has a true element where the whole has one."""
    mask, negated = part
    name = mask.func.attr if isinstance(mask, ast.Call) and isinstance(mask.func, ast.Attribute) else ""
    if isinstance(mask, ast.UnaryOp) and isinstance(mask.op, ast.Invert) and _is_mask(sites, mask.operand):
        yield from _alternatives(sites, (mask.operand, not negated))
    elif not negated and _is_mask(sites, mask) and isinstance(mask, ast.BinOp) and isinstance(mask.op, ast.BitOr):
        yield from (a for side in (mask.left, mask.right) for a in _alternatives(sites, (side, negated)))
    elif not negated and name == "logical_or" and isinstance(mask, ast.Call):
        operands = call_operands(sites.tree.module, mask)
        yield from (a for side in operands for a in _alternatives(sites, (side, negated)))
    else:
        yield part


def _made_above(sites: Sites, above: ast.If | ast.IfExp, masks: list[_Negated]) -> ast.Assign | None:
    """The statement right above that makes the mask that the test names."""
    statement = sites.tree.statement(above)
    block = sites.tree.block(statement)
    before = block[block.index(statement) - 1] if statement in block and block.index(statement) else None
    names = {mask.id for mask, _ in masks if isinstance(mask, ast.Name)}
    return before if isinstance(before, ast.Assign) and _target(before) in names else None


def _target(statement: ast.stmt) -> str | None:
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    target = statement.targets[0]
    return target.id if isinstance(target, ast.Name) else None


def _is_all_read_in(sites: Sites, above: ast.If | ast.IfExp, made: ast.Assign, change: _Change) -> bool:
    """Whether the mask has no reader but the test."""
    function, name = sites.tree.function(above), _target(made)
    if function is None or not isinstance(above, ast.If) or not is_repeatable(made.value) or change.mask is not None:
        return False
    inside = {id(n) for n in walk(above.test)}
    named = [n for n in walk(function) if isinstance(n, ast.Name) and n.id == name]
    return all(id(n) in inside or n is made.targets[0] for n in named)


# -- what it decides


def _change(sites: Sites, above: ast.If | ast.IfExp) -> _Change | None:
    if isinstance(above, ast.IfExp):
        if not isinstance(above.orelse, ast.Name):
            return None
        return _changed(sites, above.orelse.id, above.body, "")
    if above.orelse or len(above.body) != 1:
        return None
    statement = above.body[0]
    if isinstance(statement, ast.Expr):
        return _changed_in_place(sites, statement.value)
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    target = statement.targets[0]
    if isinstance(target, ast.Name):
        return _changed(sites, target.id, statement.value, f"{target.id} = ")
    return _written(sites, target, statement.value)


def _changed(sites: Sites, name: str, value: ast.expr, start: str) -> _Change | None:
    """`x = x.clamp(0, 1)`, `x = torch.where(mask, 0.0, x)`."""
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute) or value.func.attr not in _CHANGES:
        return None
    if any(isinstance(a, ast.Starred) for a in value.args) or any(k.arg in {"out", None} for k in value.keywords):
        return None
    kind, operands = value.func.attr, call_operands(sites.tree.module, value)
    text = f"{start}{sites.tree.text(value)}"
    if kind == "where":
        return _selected(sites, name, value, operands, text)
    if not operands or dotted(operands[0]) != name:
        return None
    filled = kind == "masked_fill" and len(operands) == 3 and not value.keywords
    if kind == "masked_fill" and not filled:
        return None
    mask, fill = operands[1:] if filled else (None, None)
    return _Change(name, kind, text, value, mask, fill)


def _selected(sites: Sites, name: str, call: ast.Call, operands: list[ast.expr], text: str) -> _Change | None:
    """`torch.where(mask, value, x)`: the mask has to be that of what is replaced."""
    if len(operands) != 3 or call.keywords or not is_torch_function(sites.tree.module, call.func):
        return None
    mask, yes, no = operands
    if dotted(no) == name:
        return _Change(name, "where", text, call, mask, yes)
    kept = mask.operand if isinstance(mask, ast.UnaryOp) and isinstance(mask.op, ast.Invert) else None
    return _Change(name, "where", text, call, kept, no) if kept is not None and dotted(yes) == name else None


def _changed_in_place(sites: Sites, value: ast.expr) -> _Change | None:
    """`x.clamp_(0, 1)`, which becomes `x = x.clamp(0, 1)`."""
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute):
        return None
    attr, text = value.func.attr, sites.tree.text(value)
    operands = call_operands(sites.tree.module, value)
    name = operands[0].id if operands and isinstance(operands[0], ast.Name) else None
    plain = text.count(f".{attr}(") == 1
    if name is None or not attr.endswith("_") or attr[:-1] not in _CHANGES - {"where"} or not plain:
        return None
    given = operands[1:] if attr == "masked_fill_" else []
    if value.keywords and attr == "masked_fill_":
        return None
    mask, fill = given if len(given) == 2 else (None, None)
    if attr == "masked_fill_" and mask is None:
        return None
    new = f"{name} = {text.replace(f'.{attr}(', f'.{attr[:-1]}(')}"
    return _Change(name, attr[:-1], new, value, mask, fill, inplace=True)


def _written(sites: Sites, target: ast.expr, value: ast.expr) -> _Change | None:
    """`x[mask] = 0.0`, which becomes `x = x.masked_fill(mask, 0.0)`."""
    if not isinstance(target, ast.Subscript) or not isinstance(target.value, ast.Name):
        return None
    items = index_items(target)
    if len(items) != 1 or isinstance(items[0], (ast.Slice, ast.Constant)):
        return None
    name, mask, text = target.value.id, items[0], sites.tree.text
    new = f"{name} = {name}.masked_fill({text(mask)}, {text(value)})"
    return _Change(name, "masked_fill", new, None, mask, value, inplace=True)


# -- whether it is none where the test is false


def _refusal(sites: Sites, change: _Change, masks: list[_Negated], known: list[_Negated]) -> str:
    if change.mask is not None:
        return _refused_filling(sites, change, masks, known)
    facts = {fact for mask in known for fact in _facts(sites, change.name, mask)}
    assert change.call is not None
    if change.kind == "nan_to_num":
        if "no nan" not in facts:
            return "the test does not ask for nan"
        return "" if "no inf" in facts else "`nan_to_num` replaces infinities too, which the test does not ask for"
    bounds = _bounds(sites, change)
    if bounds is None or not all(is_number(sites.tree, bound) for _, bound in bounds):
        return "the bounds are not plainly numbers"
    if not all((end, _signed(sites, bound)) in facts for end, bound in bounds):
        return "the test asks for something else than whether a value is out of these bounds"
    # The least of all whole numbers has no absolute value; those of a byte have no sign.
    absolute = any(_of(sites, n, change.name) == "abs" for m, _ in known for n in walk(m) if isinstance(n, ast.Call))
    whole = not absolute and all(integer(bound) in range(128) for _, bound in bounds)
    if not whole and not _is_floating(sites, change.call, change.name):
        return f"`{change.name}` may hold whole numbers, of which `{change.kind}` makes others"
    return ""


def _bounds(sites: Sites, change: _Change) -> list[tuple[Literal["most", "least"], ast.expr]] | None:
    """The bounds that a `clamp` is given."""
    call = change.call
    assert call is not None
    given = call_operands(sites.tree.module, call)[1:]
    names: list[Literal["min", "max"]] = ["max"] if change.kind == "clamp_max" else ["min", "max"]
    found: dict[str, ast.expr] = dict(zip(names, given, strict=False))
    for keyword in call.keywords:
        if keyword.arg not in {"min", "max"} or keyword.arg in found:
            return None
        found[keyword.arg] = keyword.value
    bounds = {end: v for end, v in found.items() if not (isinstance(v, ast.Constant) and v.value is None)}
    if not bounds or len(given) > len(names):
        return None
    return [("most" if end == "max" else "least", value) for end, value in bounds.items()]


def _facts(sites: Sites, name: str, part: _Negated) -> Iterator[_Fact]:
    """What is known of every element of `name` if the mask has no true element."""
    mask, negated = part
    if isinstance(mask, ast.Call) and isinstance(mask.func, ast.Attribute):
        operands = call_operands(sites.tree.module, mask)
        if len(operands) == 1 and dotted(operands[0]) == name:
            if mask.func.attr in {"isnan", "isfinite"} and negated == (mask.func.attr == "isfinite"):
                yield "no nan"
            if mask.func.attr in {"isinf", "isfinite"} and negated == (mask.func.attr == "isfinite"):
                yield "no inf"
        return
    if not isinstance(mask, ast.Compare) or len(mask.ops) != 1:
        return
    left, right, op = mask.left, mask.comparators[0], type(mask.ops[0])
    if dotted(left) == name == dotted(right) and op is ast.NotEq and not negated:
        yield "no nan"
        return
    if _of(sites, right, name) is not None and op in _FLIPPED:
        left, right, op = right, left, _FLIPPED[op]
    over = op in ({ast.Lt, ast.LtE} if negated else {ast.Gt, ast.GtE})
    under = op in ({ast.Gt, ast.GtE} if negated else {ast.Lt, ast.LtE})
    of = _of(sites, left, name)
    negative, bound = _signed(sites, right)
    if of is not None and over:
        yield ("most", (negative, bound))
        if of == "abs":
            yield ("least", (not negative, bound))
    if of == "value" and under:
        yield ("least", (negative, bound))


def _of(sites: Sites, node: ast.expr, name: str) -> Literal["value", "abs"] | None:
    """Whether an expression is the tensor `name`, or its absolute values."""
    if dotted(node) == name:
        return "value"
    if not isinstance(node, ast.Call) or node.keywords:
        return None
    if dotted(node.func) == "abs":
        return "abs" if len(node.args) == 1 and dotted(node.args[0]) == name else None
    if not isinstance(node.func, ast.Attribute) or node.func.attr != "abs":
        return None
    operands = call_operands(sites.tree.module, node)
    return "abs" if len(operands) == 1 and dotted(operands[0]) == name else None


def _signed(sites: Sites, node: ast.expr) -> _Bound:
    """A bound as whether it is negated, and what is."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        negative, text = _signed(sites, node.operand)
        return not negative, text
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return False, repr(float(node.value))
    return False, ast.dump(node)


def _refused_filling(sites: Sites, change: _Change, masks: list[_Negated], known: list[_Negated]) -> str:
    name, mask, value = change.name, change.mask, change.value
    assert mask is not None
    assert value is not None
    tested = {(ast.dump(m), no) for m, no in (*masks, *known)}
    wanted = list(_alternatives(sites, (mask, False)))
    if not all((ast.dump(m), no) in tested for m, no in wanted):
        return "the test asks for another mask"
    function = sites.tree.function(mask)
    written = changes(sites, function) if function is not None else ()
    if any(place is None or overlap(place, other) for _, place in written for other in names_read(mask) - {name}):
        return "the mask may be changed in place, and autograd keeps it"
    of_itself = [m for m, _ in known if _is_of_elements(sites, m, name)]
    if len(of_itself) < len(known):
        return f"the mask may have another shape than `{name}`"
    if is_number(sites.tree, value):
        call = change.call
        if change.kind == "where" and integer(value) is None and not (call and _is_floating(sites, call, name)):
            return f"`{name}` may hold whole numbers, of which `where` makes others"
        return ""
    like = change.kind == "where" and _is_like(sites, value, name)
    return "" if like else "what is filled in is not plainly a number"


def _is_like(sites: Sites, value: ast.expr, name: str) -> bool:
    """`torch.zeros_like(x)`: of the same kind, and nothing that a gradient flows to."""
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute) or value.keywords:
        return False
    known = value.func.attr in {"zeros_like", "ones_like"} and is_torch_function(sites.tree.module, value.func)
    return known and [dotted(argument) for argument in value.args] == [name]


def _is_of_elements(sites: Sites, mask: ast.expr, name: str) -> bool:
    """Whether a mask certainly has the shape of `name`: each element asks about one element of it."""
    if isinstance(mask, ast.Compare) and len(mask.ops) == 1:
        sides = (mask.left, mask.comparators[0])
        mine = [s for s in sides if _of(sites, s, name) is not None]
        return bool(mine) and all(s in mine or is_number(sites.tree, s) for s in sides)
    if not isinstance(mask, ast.Call) or not isinstance(mask.func, ast.Attribute) or mask.keywords:
        return False
    operands = call_operands(sites.tree.module, mask)
    return mask.func.attr in {"isnan", "isinf", "isfinite"} and [dotted(o) for o in operands] == [name]


# -- whether a new tensor may take the place of the old one


def _not_alone(sites: Sites, above: ast.If | ast.IfExp, change: _Change) -> str:
    """Why it would be seen that there is a new tensor where nothing changed, or that the old one stays as it is."""
    statement = sites.tree.statement(above)
    if isinstance(above, ast.If) and private_since(sites, statement, change.name) is not None:
        return ""
    if change.inplace or change.call is None:
        return f"`{change.name}` may have another name, under which the change is seen"
    readers = LayoutReaders(sites, only_same=True, any_layout=True)
    try:
        readers.follow(above if isinstance(above, ast.IfExp) else change.call)
        require_no_writes(readers, change.call)
    except LayoutMattersError as error:
        return f"a copy would take the place of `{change.name}` where nothing changes, and {error}"
    return ""


# -- kinds of numbers


def _is_floating(sites: Sites, node: ast.expr, name: str, depth: int = _DEPTH) -> bool:
    """Whether the tensor that `name` is at `node` certainly holds no whole numbers."""
    statement = last_binding(sites, sites.tree.statement(node), name)
    if depth == 0 or statement is None or _target(statement) != name or not isinstance(statement, ast.Assign):
        return False
    return _is_floating_value(sites, statement.value, depth - 1)


def _is_floating_value(sites: Sites, node: ast.expr, depth: int) -> bool:
    def inner(part: ast.expr) -> bool:
        return depth > 0 and _is_floating_value(sites, part, depth - 1)

    if isinstance(node, ast.Name):
        return _is_floating(sites, node, node.id, depth)
    if isinstance(node, ast.BinOp):
        if isinstance(node.op, ast.Div):
            return True
        plain = isinstance(node.op, (ast.Add, ast.Sub, ast.Mult, ast.MatMult))
        return plain and any(_is_float(side) or inner(side) for side in (node.left, node.right))
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.USub) and inner(node.operand)
    if isinstance(node, ast.Subscript):
        return inner(node.value)
    if not isinstance(node, ast.Call):
        return False
    function = own_function(sites, node)
    if function is not None:
        return depth > 0 and _returns(function, lambda value: _is_floating_value(sites, value, depth - 1))
    ran = sites.outermost(node)
    if not isinstance(node.func, ast.Attribute):
        return False
    if (dotted(node.func) or "").startswith("self."):
        return bool(ran) and ran <= _FLOATING_MODULES
    operands = call_operands(sites.tree.module, node)
    return node.func.attr in _FLOATING or (node.func.attr in _KEEPING and bool(operands) and inner(operands[0]))


def _is_float(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, float)


def _returns(function: Function, holds: Callable[[ast.expr], bool]) -> bool:
    """Whether everything that a function returns is a value of which `holds` is true."""
    returned = [n.value for n in walk(function) if isinstance(n, ast.Return)]
    return bool(returned) and all(value is not None and holds(value) for value in returned)
