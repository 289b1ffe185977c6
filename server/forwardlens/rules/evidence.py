"""Where costs meet source: the cost of a node, of everything inside it, and the ranks that the run saw."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import replace

from forwardlens.model import ExpressionCost, OpCost, Profile, Shape
from forwardlens.rules.contract import Context
from forwardlens.rules.lines import is_whole_line, shared_out
from forwardlens.source.dataflow import names_used, numbered
from forwardlens.source.tree import Function, Tree, tree_of, walk

# Python operators and the operator that runs for them, with the operands in source order.
_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
    ast.FloorDiv: "floor_divide",
    ast.Mod: "remainder",
    ast.Pow: "pow",
    ast.BitAnd: "__and__ bitwise_and",
    ast.BitOr: "__or__ bitwise_or",
    ast.BitXor: "__xor__ bitwise_xor",
}
# A comparison with the tensor on the right runs the mirrored operator.
_COMPARE: dict[type[ast.cmpop], str] = {
    ast.Gt: "gt lt",
    ast.GtE: "ge le",
    ast.Lt: "lt gt",
    ast.LtE: "le ge",
    ast.Eq: "eq",
    ast.NotEq: "ne",
}
# Parts of the names of operators whose results depend on how often and in which order they run.
_RANDOM = ("rand", "normal_", "bernoulli", "dropout", "uniform_", "multinomial", "exponential_", "poisson", "rrelu")
_STATISTICS = ("batch_norm", "instance_norm")
_SUMMED = "calls calls_per_entry self_ms total_ms share device_ms blocked_ms alloc_bytes ops".split()


class Sites:
    """The costs of one file of a profile, by the node that they belong to."""

    def __init__(self, context: Context, tree: Tree) -> None:
        self.context = context
        self.tree = tree
        self.source = context.source
        self._by_node: dict[ast.AST, ExpressionCost] = {}
        self._given_names: dict[tuple[ast.AST, str], ast.AST] = {}
        # Columns are missing from all costs of a file or from none.
        lines_only = all(is_whole_line(tree, cost) for cost in context.costs)
        for cost in context.costs:
            if lines_only:
                self._by_node.update(shared_out(tree, cost, {**_BINARY, **_COMPARE}))
                continue
            nodes = tree.at(cost.span)
            # A statement that is only an expression stands where the expression stands.
            node = next((n for n in nodes if isinstance(n, ast.expr)), nodes[0] if nodes else None)
            if node is None or isinstance(node, ast.FormattedValue):
                # From Python 3.12 on a value is put into a text at its braces, before that at the text.
                node = tree.joined_around(cost.span)
                cost = _together(self._by_node[node], cost) if node in self._by_node else cost
            if node is not None:
                self._by_node[node] = cost

    def fresh_name(self, scope: ast.AST, node: ast.AST, wanted: str, used: Iterable[str] | None = None) -> str:
        """A name for what replaces `node`, which no other fix in `scope` gets: both may be applied together.

        `used` are the names that are taken, those of `scope` if not given. The same node gets the same name again.
        """
        taken = names_used(scope) if used is None else {*used}
        free = (name for name in numbered(wanted) if name not in taken)
        return next(name for name in free if self._given_names.setdefault((scope, name), node) is node)

    def cost(self, node: ast.AST) -> ExpressionCost | None:
        """What exactly this node paid, without the nodes inside it."""
        return self._by_node.get(node)

    def inside(self, node: ast.AST) -> Iterator[tuple[ast.AST, ExpressionCost]]:
        """The costs of `node` and of the nodes inside it, each once."""
        seen: set[int] = set()
        for below in walk(node):
            cost = self._by_node.get(below)
            if cost is not None and id(cost) not in seen:
                seen.add(id(cost))
                yield below, cost

    def share(self, *nodes: ast.AST) -> float:
        """The share of the forward spent in `nodes`, everything inside them included."""
        costs = {id(cost): cost.share for node in nodes for _, cost in self.inside(node)}
        return sum(costs.values())

    def items(self) -> Iterator[tuple[ast.AST, ExpressionCost]]:
        yield from self._by_node.items()

    def op(self, node: ast.AST, *names: str) -> OpCost | None:
        """The outermost operator of one of these names that ran for exactly this node."""
        cost = self.cost(node)
        return next((op for op in cost.ops if op.outermost and op.name in names), None) if cost else None

    def inner_op(self, node: ast.AST, *names: str) -> OpCost | None:
        """An operator of one of these names that ran for exactly this node, inside another or not."""
        cost = self.cost(node)
        return next((op for op in cost.ops if op.name in names), None) if cost else None

    def outermost(self, node: ast.AST) -> frozenset[str]:
        """The names of the operators that `node` itself called."""
        cost = self.cost(node)
        return frozenset(op.name for op in cost.ops if op.outermost) if cost else frozenset()

    def operands(self, node: ast.AST) -> tuple[Shape, ...] | None:
        """The shapes of the two operands of a binary operator or a comparison.

        In source order, or the other way round where the tensor on the right ran the operator.
        """
        if isinstance(node, ast.BinOp):
            names = _BINARY.get(type(node.op), "").split()
        elif isinstance(node, ast.Compare) and len(node.ops) == 1:
            names = _COMPARE.get(type(node.ops[0]), "").split()
        else:
            return None
        op = self.op(node, *(f"aten::{name}" for name in names))
        return op.shapes[:2] if op is not None and len(op.shapes) >= 2 else None

    def base_rank(self, node: ast.Subscript) -> int | None:
        """The rank of `x` in `x[...]`, from the operators that indexing ran. None if they do not tell."""
        items = index_items(node)
        numbers = [n for n, item in enumerate(items) if not isinstance(item, (ast.Slice, ast.Constant))]
        nones = [n for n, item in enumerate(items) if isinstance(item, ast.Constant) and item.value is None]
        # Items are applied from the left: every None in front of a number has already added a dimension.
        select = self.op(node, "aten::select")
        if len(numbers) == 1 and select is not None and select.shapes and not _has_literal(items):
            return len(select.shapes[0]) - sum(n < numbers[0] for n in nones)
        cost = self.cost(node)
        names = {"aten::select", "aten::slice", "aten::index"}
        ranks = [len(o.shapes[0]) for o in cost.ops if o.outermost and o.name in names and o.shapes] if cost else []
        return max(ranks) if ranks and not nones else None


def _together(one: ExpressionCost, other: ExpressionCost) -> ExpressionCost:
    """The cost of two values of one text."""
    return replace(one, **{name: getattr(one, name) + getattr(other, name) for name in _SUMMED})


def _has_literal(items: Iterable[ast.expr]) -> bool:
    """Whether an item is a number literal, which takes a dimension away as well."""
    return any(isinstance(i, ast.UnaryOp) or (isinstance(i, ast.Constant) and type(i.value) is int) for i in items)


def index_items(node: ast.Subscript) -> list[ast.expr]:
    """The items between the brackets: two for `x[:, t]`."""
    return list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]


def sites_of(context: Context) -> Sites | None:
    """The costs of a file by node, None while it does not parse."""
    return context.once(_sites)


def _sites(context: Context) -> Sites | None:
    tree = tree_of(context.source)
    return None if tree is None else Sites(context, tree)


def operators_of(profile: Profile) -> int:
    """How many operators one forward runs, without those that others call."""
    return sum(op.calls for cost in profile.lines for op in cost.ops if op.outermost)


def outermost_function(sites: Sites) -> Function | None:
    """The function that the whole forward runs in, if it is one of this file.

    The wrappers that decorators put around a forward are passed over: nothing about a model is written in them.
    """
    for file, name in sites.context.profile.outermost:
        source = sites.context.sources.get(file)
        tree = tree_of(source) if source is not None else None
        found = next((f for f in tree.functions() if tree.qualname(f) == name), None) if tree is not None else None
        if tree is None or found is None or not _is_wrapper(tree, found):
            return found if file == sites.source.path else None
    return None


def ran_functions(context: Context) -> list[Function]:
    """The functions that ran in the forward, of all files."""
    return context.once(_ran)


def _ran(context: Context) -> list[Function]:
    names = {(cost.span.file, cost.function) for cost in context.profile.lines}
    trees = {path: tree for path, source in context.sources.items() if (tree := tree_of(source)) is not None}
    return [f for path, tree in trees.items() for f in tree.functions() if (path, tree.qualname(f)) in names]


def _is_wrapper(tree: Tree, function: Function) -> bool:
    """A function made by another one that takes whatever it is given."""
    any_arguments = function.args.vararg is not None and function.args.kwarg is not None
    return any_arguments and tree.function(function) is not None


def percent(share: float) -> str:
    """`71 %`, with a digit more where that would say nothing."""
    value = 100 * share
    return f"{value:.0f} %" if value >= 9.5 else f"{value:.1f} %" if value >= 0.1 else "under 0.1 %"


def times(count: int) -> str:
    return "once" if count == 1 else "twice" if count == 2 else f"{count} times"


def depends_on_order(costs: Iterable[ExpressionCost], *, training: bool = True) -> str | None:
    """The operator that draws random numbers or updates statistics; None if there is none.

    Outside of `training` dropout hands on what it is given, and batch normalisation only reads its statistics.
    """
    for cost in costs:
        for op in cost.ops:
            name = op.name.removeprefix("aten::")
            if not training and (name == "dropout" or any(part in name for part in _STATISTICS)):
                continue
            if any(part in name for part in (*_RANDOM, *_STATISTICS)):
                return name
    return None
