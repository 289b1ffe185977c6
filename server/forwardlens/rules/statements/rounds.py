"""Which rule a statement of a round is lifted by."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence

from forwardlens.rules.batched import Batched, Fixed, RefusedError, flipped, meeting
from forwardlens.rules.callers import repeated_function
from forwardlens.rules.lifting.inlining import results
from forwardlens.rules.lifting.joins import list_of_rounds
from forwardlens.rules.loops import loop_of
from forwardlens.rules.statements.branches import branch, skipped
from forwardlens.rules.statements.sums import accumulate, added_to_itself, running, running_value
from forwardlens.rules.statements.work import INPLACE, Appended, Work, is_empty
from forwardlens.rules.statements.writes import inplace, update, write
from forwardlens.source.dataflow import names_bound, names_read
from forwardlens.source.rewrite import splice
from forwardlens.source.tree import dotted, walk

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)


class Rounds(Work):
    """Works through the statements of a round."""

    def block(self, statements: Sequence[ast.stmt]) -> list[tuple[ast.stmt, list[str]]]:
        """The lines of each statement."""
        found: list[tuple[ast.stmt, list[str]]] = []
        for number, statement in enumerate(statements):
            if isinstance(statement, ast.If) and not statement.orelse and _skips(statement.body):
                # `if not wanted: continue` puts the rest of the round under the opposite condition.
                rest = [*statements[number + 1 :]]
                found.append((statement, self._lines_of(lambda s=statement, r=rest: skipped(self, s, r))))
                return found
            found.append((statement, self._lines_of(lambda s=statement: self.statement(s))))
        return found

    def _lines_of(self, work: Callable[[], None]) -> list[str]:
        outside, self.lines = self.lines, []
        work()
        own, self.lines = self.lines, outside
        return own

    def statement(self, node: ast.stmt) -> None:
        start = len(self.lines)
        self._statement(node)
        self.lines[start:start] = [f"{name} = {text}" for name, text in self.lifter.before.items()]
        self.bound |= self.lifter.before.keys()
        self.lifter.before.clear()

    def _statement(self, node: ast.stmt) -> None:
        self._named_inside(node)
        match node:
            case ast.Pass():
                return None
            case ast.Assign(targets=[ast.Name() as target]):
                return self._assign(node, target, node.value)
            case ast.AnnAssign(target=ast.Name() as target, value=ast.expr() as value):
                return self._assign(node, target, value)
            case ast.Assign(targets=[ast.Tuple() as target], value=ast.Tuple() as value):
                return self._several(node, target, value)
            case ast.Assign(targets=[ast.Tuple() as target], value=ast.Call() as value):
                return self._results(node, target, value)
            case ast.Assign(targets=[ast.Subscript() as target]):
                return write(self, node, target)
            case ast.AugAssign(target=ast.Subscript() as target):
                return update(self, node, target)
            case ast.AugAssign(target=ast.Name() as target):
                return self._augment(node, target)
            case ast.Expr(value=ast.Constant()):
                return None
            case ast.Expr(value=ast.Call() as call):
                return self._call(node, call)
            case ast.If():
                return branch(self, node)
            case ast.For() | ast.While():
                return self._inner(node)
            case _:
                raise RefusedError(f"line {node.lineno} is more than independent tensor work")

    def _named_inside(self, node: ast.stmt) -> None:
        """Give the names of `(e := ...)` their values first, where nothing reads them before that."""
        if isinstance(node, (ast.If, ast.For, ast.While)):
            return
        for named in (n for n in walk(node) if isinstance(n, ast.NamedExpr)):
            around = self.sites.tree.ancestors(named)
            certain = all(not isinstance(a, (ast.BoolOp, ast.IfExp, ast.Lambda)) for a in _up_to(around, node))
            place = (named.lineno, named.col_offset)
            reads = [n for n in walk(node) if isinstance(n, ast.Name) and n.id == named.target.id]
            early = any((n.lineno, n.col_offset) < place for n in reads)
            if not certain or early or any(isinstance(a, _COMPREHENSIONS) for a in _up_to(around, node)):
                raise RefusedError(f"`{named.target.id}` is not certainly bound before it is read")
            self.bind(named.target.id, named.value)

    def _assign(self, node: ast.stmt, target: ast.Name, value: ast.expr) -> None:
        name = target.id
        if isinstance(node, ast.Assign):
            parts = added_to_itself(node)
            if parts and name not in self.lifter.values:
                return accumulate(self, node, name, parts)
            extreme = running_value(self.sites.tree.module, node)
            if extreme is not None and name not in self.lifter.values:
                return running(self, node, name, *extreme)
        if is_empty(value):
            if self.lifter.varies(value) or name in self.lifter.values or name in self.loop.variables:
                raise RefusedError(f"`{name}` is bound twice in a round")
            self.started.add(name)
            return None
        rows = self._list_made(value)
        if rows is not None:
            self.lifter.lists[name] = rows
            return None
        return self.bind(name, value)

    def _list_made(self, value: ast.expr) -> Batched | None:
        """What a comprehension over an inner loop makes a list of."""
        if not isinstance(value, ast.ListComp):
            return None
        rows = list_of_rounds(self.lifter, value)
        if rows is None or rows[1]:
            raise RefusedError(f"`{self.text(value)}` does not run over numbers or a tensor")
        return rows[0]

    def _several(self, node: ast.Assign, target: ast.Tuple, value: ast.Tuple) -> None:
        """`a, b = x[t], y[t]`, one after the other."""
        names = [e.id for e in target.elts if isinstance(e, ast.Name)]
        if len(names) != len(target.elts) or len(names) != len(value.elts) or len(set(names)) != len(names):
            raise RefusedError(f"line {node.lineno} is more than independent tensor work")
        for number, (name, part) in enumerate(zip(names, value.elts, strict=True)):
            if names_read(part) & {*names[:number]}:
                raise RefusedError(f"`{name}` needs what another name had before")
            self.bind(name, part)

    def _results(self, node: ast.Assign, target: ast.Tuple, call: ast.Call) -> None:
        """`erase, add = self.gates(x[:, t])`, with the function's body in place of the call."""
        names = [e.id for e in target.elts if isinstance(e, ast.Name)]
        function = repeated_function(self.sites, call)
        if function is None or len(names) != len(target.elts) or len(set(names)) != len(names):
            raise RefusedError(f"line {node.lineno} is more than independent tensor work")
        values = results(self.lifter, call, function)
        if len(values) != len(names):
            raise RefusedError(f"`{self.text(call)}` gives another number of values")
        for name, value in zip(names, values, strict=True):
            self.bind_value(name, value)

    def _augment(self, node: ast.AugAssign, target: ast.Name) -> None:
        name = target.id
        if isinstance(node.op, ast.Add) and isinstance(node.value, (ast.List, ast.Tuple)):
            if len(node.value.elts) != 1:
                raise RefusedError(f"a round adds several entries to `{name}`")
            self._append(node, target, node.value.elts[0])
            return
        current = self.lifter.values.get(name)
        if current is None:
            parts = added_to_itself(node)
            if not parts:
                raise RefusedError(f"`{name}` carries a value from one round to the next")
            accumulate(self, node, name, parts)
            return
        if isinstance(current, Fixed) or current.view or not self._owned(name):
            raise RefusedError(f"`{name}` may be memory that something else has too")
        value = self.lifter.lift(node.value)
        self.forget(name)
        self.lines.append(splice(self.sites.source, node, {node.value: meeting(self.known(value, node), current)}))

    def _owned(self, name: str) -> bool:
        """Whether a name of the round certainly has memory of its own."""
        function = self.loop.function
        values = [
            s.value for s in walk(function) if isinstance(s, ast.Assign) and name in {dotted(t) for t in s.targets}
        ]
        return all(isinstance(v, (ast.BinOp, ast.UnaryOp, ast.Compare)) for v in values) and bool(values)

    def _call(self, node: ast.Expr, call: ast.Call) -> None:
        func = call.func
        if not isinstance(func, ast.Attribute):
            raise RefusedError(f"`{self.text(call)}` may do something besides tensor work")
        if func.attr == "append" and isinstance(func.value, ast.Name) and len(call.args) == 1:
            self._append(node, func.value, call.args[0])
        elif func.attr in INPLACE and not call.keywords:
            inplace(self, call, func)
        else:
            raise RefusedError(f"`{self.text(call)}` may do something besides tensor work")

    def _append(self, node: ast.stmt, receiver: ast.Name, entry: ast.expr) -> None:
        value = self.lifter.lift(entry)
        if isinstance(value, Fixed):
            raise RefusedError("every round appends the same value")
        self.appended.append(Appended(receiver.id, value, receiver, node, self.lifter.loops))

    def _inner(self, node: ast.For | ast.While) -> None:
        loop = loop_of(self.sites, node)
        if loop is None:
            raise RefusedError("a loop inside the loop does not count up or run over a tensor")
        if loop.counted is not None:
            raise RefusedError("a `while` loop inside the loop counts its own rounds")
        if loop.stop is not None and self.lifter.varies(loop.stop) and loop.index is None:
            raise RefusedError("the number of rounds changes inside the loop")
        again = {name for statement in loop.body for name in names_bound(statement)} & self.lifter.values.keys()
        if again:
            raise RefusedError(f"`{min(again)}` carries a value from one round of a loop inside to the next")
        inner = Rounds(self.sites, loop, self.unit, self.lifter.deeper(loop))
        inner.totals = self.totals
        for _, lines in inner.block(loop.body):
            self.lines += lines
        self.written += inner.written
        self.filled |= inner.filled
        self.writes += inner.writes
        self.loops += inner.loops
        self.rebound |= inner.rebound
        self.bound |= inner.bound
        for appended in inner.appended:
            if appended.name not in self.started:
                self.appended.append(appended)
                continue
            if appended.name in self.lifter.lists or len(appended.loops) > self.lifter.depth + 1:
                raise RefusedError(f"`{appended.name}` is filled in several places")
            value = appended.value
            self.lifter.lists[appended.name] = flipped(value) if loop.backwards else value


def _up_to(ancestors: Iterable[ast.AST], last: ast.AST) -> Iterator[ast.AST]:
    for node in ancestors:
        if node is last:
            return
        yield node


def _skips(body: Sequence[ast.stmt]) -> bool:
    return len(body) == 1 and isinstance(body[0], ast.Continue)
