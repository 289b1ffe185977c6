"""The one call that takes the place of the steps."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from forwardlens.model import Fix
from forwardlens.rules.attention.chain import Chain, top_of
from forwardlens.rules.attention.errors import NoCounterpartError
from forwardlens.rules.attention.masks import mask_options
from forwardlens.rules.attention.operands import Operands, operands_of
from forwardlens.rules.attention.parts import Scale
from forwardlens.rules.attention.products import Product
from forwardlens.rules.effects import changes
from forwardlens.rules.operations import functional_name, torch_name
from forwardlens.source.dataflow import aliases_of_all, may_alias, names_bound, names_read, overlap
from forwardlens.source.rewrite import checked, replace_node, replace_statements, stands_alone
from forwardlens.source.tree import dotted, walk

# A longer call gets its arguments on a line of their own, and each its own where that line is longest.
_WIDTH, _LONGEST = 100, 120


def fused(chain: Chain, node: ast.expr, values: Product, *, weights_left: bool) -> tuple[Fix | None, str]:
    """The fix that puts one call at `node`, the product with the values, or None and what stands in the way."""
    sites = chain.sites
    tree, source = sites.tree, sites.source
    torch, functional = torch_name(tree.module), functional_name(tree.module)
    if torch is None or functional is None:
        return None, "torch is not imported by its name"
    if not all(stands_alone(tree, s) for s in chain.statements) or chain.final in chain.statements:
        return None, "its steps share lines with other code"
    if not _stable(chain):
        return None, "what it reads may change on the way"
    try:
        found = operands_of(chain, values, weights_left=weights_left)
        options = [
            *_dropout_option(chain),
            *mask_options(chain, found.query, torch),
            *_scale_option(chain, found),
        ]
    except NoCounterpartError as refused:
        return None, str(refused)
    changed = _changed_later(chain, node, found.nodes)
    if changed is not None:
        return None, f"`{changed}` is changed in place later, and the fused operator keeps it for its backward"
    three = len(chain.shape) == 3
    parts = [f"{part}.unsqueeze(1)" if three else part for part in found.parts]
    inside = ", ".join([*parts, *options])
    tail = f".squeeze(1){found.back}" if three else found.back
    if not three and not found.back and _is_viewed(chain, node):
        # Kernels lay their result out as the operands came, often with heads behind the length.
        tail = ".contiguous()"
    call = f"{functional}.scaled_dot_product_attention({inside}){tail}"
    if source.span(node).column + len(call) > _WIDTH:
        indent, end = source.indentation(tree.statement(node).lineno), source.newline
        step = "\t" if "\t" in indent else "    "
        if len(indent) + len(step) + len(inside) > _LONGEST:
            inside = f",{end}{indent}{step}".join([*parts, *options]) + ","
        call = f"{functional}.scaled_dot_product_attention({end}{indent}{step}{inside}{end}{indent}){tail}"
    edits = [replace_node(source, node, call)]
    edits += [replace_statements(tree, [s], []) for s in chain.statements]
    changed = checked(source, edits)
    if changed is None:
        return None, "the text around it does not allow it"
    title = "Use scaled_dot_product_attention"
    if chain.random:
        return Fix(title, "unsafe", changed, "the dropout draws other random numbers than before"), ""
    if chain.assumed is not None:
        return Fix(title, "unsafe", changed, f"`{chain.assumed}` is taken for an `nn.Dropout`"), ""
    return Fix(title, "safe", changed), ""


def _changed_later(chain: Chain, node: ast.expr, operands: Sequence[ast.expr]) -> str | None:
    """What the operands are made of, or what has the result, if it is changed in place after the products."""
    tree, function = chain.sites.tree, chain.sites.tree.function(chain.final)
    if function is None:
        return None
    places = {place for operand in operands for place in may_alias(operand)} | _holders(chain, node)
    shared = aliases_of_all(function, places - {"self"}) - {"self"}
    repeated = any(tree.loops(chain.final))
    gone = {id(node) for statement in chain.statements for node in walk(statement)}
    for change, place in changes(chain.sites, function):
        later = repeated or getattr(change, "lineno", 0) > (chain.final.end_lineno or chain.final.lineno)
        if later and id(change) not in gone and (place is None or any(overlap(place, s) for s in shared)):
            return place or chain.sites.tree.text(operands[0])
    return None


def _holders(chain: Chain, node: ast.expr) -> set[str]:
    """The names that the final statement gives the value of `node`, or a view of it."""
    tree, value = chain.sites.tree, node
    while value is not chain.final:
        above = tree.parent(value)
        called = tree.parent(above) if isinstance(above, ast.Attribute) else above
        if isinstance(above, (ast.BinOp, ast.Compare, ast.UnaryOp)) or above is None:
            return set()
        if isinstance(called, ast.Call) and called.func is not above:
            # A function or a layer computes a value of its own.
            return set()
        value = above
    targets = chain.final.targets if isinstance(chain.final, ast.Assign) else []
    return {name for target in targets if (name := dotted(target)) is not None}


def _stable(chain: Chain) -> bool:
    """Whether everything that the new call reads still has, at the end, the value that it had on the way."""
    block = chain.sites.tree.block(chain.final)
    end = block.index(chain.final)
    gone = {node for statement in chain.statements for node in walk(statement)}
    for statement in chain.statements:
        top = top_of(chain.sites, statement, block)
        test = names_read(top.test) if isinstance(top, ast.If) else frozenset[str]()
        after = [s for s in block[block.index(top) + 1 : end] if s not in chain.statements]
        bound = {name for s in after for name in names_bound(s)}
        writes = any(_writes(node) for s in after for node in walk(s) if node not in gone)
        if writes or bound & ((names_read(statement) | test) - chain.names):
            return False
    return True


def _is_viewed(chain: Chain, node: ast.expr) -> bool:
    """Whether a `view` is taken of the value of `node`, which asks for memory in order."""
    tree, final = chain.sites.tree, chain.final
    bound = isinstance(final, ast.Assign) and final.value is node and isinstance(final.targets[0], ast.Name)
    function = tree.function(node)
    around = tree.parent(node)
    viewed = {around} if isinstance(around, ast.Attribute) else set[ast.AST]()
    if bound and function is not None:
        names = names_bound(final)
        viewed = {n for n in walk(function) if isinstance(n, ast.Attribute) and dotted(n.value) in names}
    return any(isinstance(n, ast.Attribute) and n.attr == "view" for n in viewed)


def _writes(node: ast.AST) -> bool:
    """`x[...] = ...`, `x.y = ...`, and methods such as `x.add_(...)`."""
    if isinstance(node, (ast.Subscript, ast.Attribute)):
        return isinstance(node.ctx, ast.Store)
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr.endswith("_")


def _dropout_option(chain: Chain) -> list[str]:
    return [f"dropout_p={chain.dropout}"] if chain.dropout is not None else []


def _scale_option(chain: Chain, found: Operands) -> list[str]:
    """`scale=...`, unless it is the one that the operator takes by itself."""
    tree = chain.sites.tree
    if not chain.scales:
        return ["scale=1.0"]
    texts = [_text(chain, scale) for scale in chain.scales]
    if len(texts) == 1:
        scale, (text, closed) = chain.scales[0], texts[0]
        query = tree.text(found.query)
        sizes = (f"{query}.size(-1)", f"{query}.shape[-1]") if found.depth_last else ()
        roots = {f"{size} ** 0.5" for size in sizes} | {f"math.sqrt({size})" for size in sizes}
        if scale.sign == "/":
            return [] if text in roots else [f"scale=1 / {text if closed else f'({text})'}"]
        return [] if text in {f"{size} ** -0.5" for size in sizes} else [f"scale={text}"]
    product = "1"
    for scale, (text, closed) in zip(chain.scales, texts, strict=True):
        product += f" {scale.sign} {text if closed else f'({text})'}"
    return [f"scale={product}"]


def _text(chain: Chain, scale: Scale) -> tuple[str, bool]:
    """A number as text, and whether it may stand as the operand of a product."""
    node, text = scale.number, chain.sites.tree.text(scale.number)
    power = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow)
    closed = not isinstance(node, (ast.BinOp, ast.UnaryOp, ast.IfExp, ast.BoolOp))
    if scale.root:
        return f"{text if closed else f'({text})'} ** 0.5", True
    return text, closed or power
