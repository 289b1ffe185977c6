"""Which loop runs a function again and again: the one around its only call.

A helper that is called from several places is no loop, however often it ran.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache

from forwardlens.rules.constants import attribute_value
from forwardlens.rules.contract import Context
from forwardlens.rules.evidence import Sites, ran_functions
from forwardlens.rules.repeated import body
from forwardlens.source.dataflow import bindings
from forwardlens.source.tree import Function, Looping, Tree, dotted, tree_of, walk


def loop_around(sites: Sites, node: ast.AST) -> tuple[Looping, ast.AST] | None:
    """The innermost loop that repeats `node`, and the node in it that does: `node`, or the call of its function."""
    return _repeated(sites.tree, _ran_here(sites), node)


def _ran_here(sites: Sites) -> frozenset[Function]:
    """The functions of this file that ran in the forward. Calls in others do not count: they repeat nothing."""
    return sites.context.once(_own)


def _own(context: Context) -> frozenset[Function]:
    tree = tree_of(context.source)
    own = {*tree.functions()} if tree is not None else set[Function]()
    return frozenset(f for f in ran_functions(context) if f in own)


@lru_cache(maxsize=4096)
def _repeated(tree: Tree, ran: frozenset[Function], node: ast.AST) -> tuple[Looping, ast.AST] | None:
    seen = set[ast.AST]()
    while True:
        loop = next(tree.loops(node), None)
        if loop is not None:
            return loop, node
        function = tree.function(node)
        if function is None or function in seen:
            return None
        seen.add(function)
        call = _only_call(tree, ran, function)
        if call is None:
            return None
        node = call


def rounds_of(sites: Sites, node: ast.AST) -> int:
    """How often a node ran inside one loop, its own or that around its function's only call. 0 outside of loops."""
    cost, found = sites.cost(node), loop_around(sites, node)
    if cost is None or found is None:
        return 0
    return cost.calls_per_entry if found[1] is node else cost.calls


def by_loop(sites: Sites, nodes: Iterable[ast.AST]) -> dict[Looping, list[ast.AST]]:
    """`nodes` grouped by the innermost loop that repeats each. Those in no loop are left out."""
    groups: dict[Looping, list[ast.AST]] = defaultdict(list)
    for node in nodes:
        found = loop_around(sites, node)
        if found is not None:
            groups[found[0]].append(node)
    return groups


def in_loop(sites: Sites, loop: Looping, node: ast.AST) -> ast.AST:
    """`node`, or the call in the loop that runs it."""
    while loop not in sites.tree.loops(node):
        function = sites.tree.function(node)
        call = only_call(sites, function) if function is not None else None
        if call is None:
            return node
        node = call
    return node


def parts_of(sites: Sites, loop: Looping) -> list[ast.AST]:
    """What a loop runs in every round, with the bodies of the functions that only it calls."""
    parts, seen = [*body(loop)], set[ast.AST]()
    for part in parts:
        for call in (n for n in walk(part) if isinstance(n, ast.Call)):
            function = function_of(sites, call)
            if function is not None and function not in seen:
                seen.add(function)
                parts += function.body
    return parts


def only_call(sites: Sites, function: Function) -> ast.Call | None:
    """The only call of a function of this file in what ran, or of the only module that has it as its `forward`."""
    return _only_call(sites.tree, _ran_here(sites), function)


@lru_cache(maxsize=1024)
def _only_call(tree: Tree, ran: frozenset[Function], function: Function) -> ast.Call | None:
    """The only call of a function in the functions that `ran`, or of the only module that has it as its `forward`."""
    owner = tree.owner(function)
    if owner is not None and function.name in {"forward", "__call__"}:
        return _only_call_of_module(tree, ran, owner)
    found = [
        n
        for n in _named(tree).get((function.name, owner is not None), ())
        if (owner is None or _may_be_of(tree, n, owner)) and _may_run(tree, ran, n)
    ]
    call = tree.parent(found[0]) if len(found) == 1 else None
    if not isinstance(call, ast.Call) or call.func is not found[0]:
        return None
    objects = {"self", owner.name} if owner is not None and is_static(function) else {"self"}
    return call if owner is None or _is_own_method(tree, call, owner, objects) else None


def _may_run(tree: Tree, ran: frozenset[Function], node: ast.AST) -> bool:
    around = tree.function(node)
    return around is None or around in ran


def _is_own_method(tree: Tree, call: ast.Call, owner: ast.ClassDef, objects: set[str]) -> bool:
    function = tree.function(call)
    own = isinstance(call.func, ast.Attribute) and dotted(call.func.value) in objects
    return own and function is not None and tree.owner(function) is owner


def _only_call_of_module(tree: Tree, ran: frozenset[Function], owner: ast.ClassDef) -> ast.Call | None:
    """`self.part(x)` where `self.part = Part()` is the only object of the class `owner` that the file makes."""
    made = _named(tree).get((owner.name, False), [])
    parent = tree.parent(made[0]) if len(made) == 1 else None
    store = tree.parent(parent) if isinstance(parent, ast.Call) and parent.func is made[0] else None
    if not isinstance(store, ast.Assign) or len(store.targets) != 1 or not isinstance(store.targets[0], ast.Attribute):
        return None
    name = store.targets[0].attr
    around = tree.function(store)
    holder = tree.owner(around) if around is not None else None
    uses = _named(tree).get((name, True), [])
    uses = [n for n in uses if holder is None or _may_be_of(tree, n, holder)]
    read = [n for n in uses if n is not store.targets[0] and _may_run(tree, ran, n)]
    call = tree.parent(read[0]) if len(read) == 1 else None
    if not isinstance(call, ast.Call) or call.func is not read[0] or dotted(read[0]) != f"self.{name}":
        return None
    return call if attribute_value(tree, call, name) is parent else None


def function_of(sites: Sites, call: ast.Call) -> Function | None:
    """The function of this file that a call runs, if that is the function's only call in what ran."""
    function = _by_call(sites.tree, _ran_here(sites)).get(call)
    caller = sites.tree.function(call)
    shadowed = isinstance(call.func, ast.Name) and caller is not None and bindings(caller, call.func.id)
    return None if shadowed or function is caller else function


def is_static(function: Function) -> bool:
    """Whether a method is not given the object that it is called on."""
    return [dotted(d) for d in function.decorator_list] == ["staticmethod"]


def own_function(sites: Sites, call: ast.Call) -> Function | None:
    """The function of this file that a call runs: of those that ran, the only one of its name."""
    place, caller = dotted(call.func), sites.tree.function(call)
    if place is None or caller is None:
        return None
    method = place.startswith("self.") and sites.tree.owner(caller) is not None
    found = sites.context.once(_ran).get(place.removeprefix("self.") if method else place, [])
    if len(found) != 1 or (sites.tree.owner(found[0]) is not None) != method:
        return None
    return found[0] if method or not bindings(caller, place) else None


def own_property(sites: Sites, node: ast.Attribute) -> Function | None:
    """The function of this file that reading `self.name` runs: of those that ran, the only one of its name."""
    caller, found = sites.tree.function(node), sites.context.once(_ran).get(node.attr, [])
    inside = caller is not None and sites.tree.owner(caller) is not None and dotted(node.value) == "self"
    if not inside or not isinstance(node.ctx, ast.Load) or len(found) != 1 or sites.tree.owner(found[0]) is None:
        return None
    return found[0] if [dotted(d) for d in found[0].decorator_list] == ["property"] else None


def _ran(context: Context) -> dict[str, list[Function]]:
    found: dict[str, list[Function]] = {}
    for function in context.once(_own):
        found.setdefault(function.name, []).append(function)
    return found


def arguments_of(function: Function, call: ast.Call, *, method: bool) -> dict[str, ast.expr] | None:
    """What a call gives each parameter; None if that is not plain to see. Defaults have to be literals."""
    spec = function.args
    names = [a.arg for a in (*spec.posonlyargs, *spec.args)]
    if spec.vararg or spec.kwarg or spec.kwonlyargs or any(isinstance(a, ast.Starred) for a in call.args):
        return None
    if method and not is_static(function):
        if not names or names[0] != "self":
            return None
        names = names[1:]
    given = dict(zip(names, call.args, strict=False))
    for keyword in call.keywords:
        if keyword.arg is None or keyword.arg in given or keyword.arg not in names:
            return None
        given[keyword.arg] = keyword.value
    defaults = dict(zip(reversed(names), reversed(spec.defaults), strict=False))
    for name in names:
        if name not in given:
            if not isinstance(defaults.get(name), ast.Constant):
                return None
            given[name] = defaults[name]
    return given if len(call.args) <= len(names) else None


@lru_cache(maxsize=64)
def _by_call(tree: Tree, ran: frozenset[Function]) -> dict[ast.Call, Function]:
    calls = ((_only_call(tree, ran, function), function) for function in tree.functions())
    return {call: function for call, function in calls if call is not None}


def _may_be_of(tree: Tree, node: ast.AST, owner: ast.ClassDef) -> bool:
    """Whether an attribute may be one of the class `owner`: not if it is that of the `self` of an unrelated class."""
    function = tree.function(node)
    other = tree.owner(function) if function is not None else None
    if not isinstance(node, ast.Attribute) or dotted(node.value) != "self" or other is None or other is owner:
        return True
    bases = {dotted(base) for base in (*owner.bases, *other.bases)}
    return bool(bases & {owner.name, other.name})


@lru_cache(maxsize=64)
def _named(tree: Tree) -> dict[tuple[str, bool], list[ast.AST]]:
    """Every name of a file, and every attribute (True), where it stands."""
    found: dict[tuple[str, bool], list[ast.AST]] = defaultdict(list)
    for node in walk(tree.module):
        if isinstance(node, ast.Attribute):
            found[node.attr, True].append(node)
        elif isinstance(node, ast.Name):
            found[node.id, False].append(node)
    return found
