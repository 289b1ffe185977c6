"""The one call that takes the place of the steps."""

from __future__ import annotations

import ast

from forwardlens.model import Fix
from forwardlens.rules.attention.chain import Chain, NoCounterpartError, as_atom, einsum_of, values_layout
from forwardlens.rules.attention.masks import mask_options
from forwardlens.rules.operations import functional_name, torch_name
from forwardlens.source.dataflow import names_bound, names_read
from forwardlens.source.rewrite import checked, replace_node, replace_statements, stands_alone
from forwardlens.source.tree import walk

# A longer call gets its arguments on a line of their own, and each its own where that line is longest.
_WIDTH, _LONGEST = 100, 120


def fused(chain: Chain, node: ast.expr, value: ast.expr) -> tuple[Fix | None, str]:
    """The fix that puts one call at `node`, the product with `value`, or None and what stands in the way."""
    sites = chain.sites
    tree, source = sites.tree, sites.source
    torch, functional = torch_name(tree.module), functional_name(tree.module)
    if torch is None or functional is None or chain.query is None:
        return None, "torch is not imported by its name"
    if not all(stands_alone(tree, s) for s in chain.statements) or chain.final in chain.statements:
        return None, "its steps share lines with other code"
    if not _stable(chain):
        return None, "a name that it reads is bound again on the way"
    three = len(chain.shape) == 3
    letters = einsum_of(sites, node)
    layout = (False, False) if letters is None else values_layout(*letters)
    if layout is None or (three and (chain.swapped or any(layout))):
        return None, "its products are of another order"
    parts = [tree.text(chain.query), chain.key, tree.text(value)]
    if three or chain.swapped:
        parts[:2] = [as_atom(sites, chain.query), chain.key]
    if three or layout[0]:
        parts[2] = as_atom(sites, value)
    if three:
        parts = [f"{part}.unsqueeze(1)" for part in parts]
    if chain.swapped:
        parts[:2] = [f"{part}.transpose(1, 2)" for part in parts[:2]]
    if layout[0]:
        parts[2] += ".transpose(1, 2)"
    try:
        options = [*_dropout_option(chain), *mask_options(chain, torch, three), *_scale_option(chain)]
    except NoCounterpartError as refused:
        return None, str(refused)
    inside = ", ".join([*parts, *options])
    tail = ".squeeze(1)" if three else ".transpose(1, 2)" if layout[1] else ""
    call = f"{functional}.scaled_dot_product_attention({inside}){tail}"
    if source.span(node).column + len(call) > _WIDTH:
        indent, end = source.indentation(tree.statement(node).lineno), source.newline
        step = "\t" if "\t" in indent else "    "
        if len(indent) + len(step) + len(inside) > _LONGEST:
            inside = f",{end}{indent}{step}".join([*parts, *options]) + ","
        call = f"{functional}.scaled_dot_product_attention({end}{indent}{step}{inside}{end}{indent}){tail}"
    edits = [replace_node(source, node, call)]
    edits += [replace_statements(tree, [s], []) for s in chain.statements]
    found = checked(source, edits)
    if found is None:
        return None, "the text around it does not allow it"
    title = "Use scaled_dot_product_attention"
    if chain.random:
        return Fix(title, "unsafe", found, "the dropout draws other random numbers than before"), ""
    return Fix(title, "safe", found), ""


def _stable(chain: Chain) -> bool:
    """Whether everything that the new call reads still has, at the end, the value that it had on the way."""
    block = chain.sites.tree.block(chain.final)
    end = block.index(chain.final)
    for statement in chain.statements:
        after = [s for s in block[block.index(statement) : end] if s not in chain.statements]
        bound = {name for s in after for name in names_bound(s)}
        writes = any(_writes(node) for s in after for node in walk(s))
        if writes or bound & (names_read(statement) - chain.names):
            return False
    return True


def _writes(node: ast.AST) -> bool:
    """`x[...] = ...`, and methods such as `x.add_(...)`."""
    if isinstance(node, ast.Subscript):
        return isinstance(node.ctx, ast.Store)
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr.endswith("_")


def _dropout_option(chain: Chain) -> list[str]:
    return [f"dropout_p={chain.dropout}"] if chain.dropout is not None else []


def _scale_option(chain: Chain) -> list[str]:
    """`scale=...`, unless it is the one that the operator takes by itself."""
    tree = chain.sites.tree
    assert chain.query is not None
    if not chain.scales:
        return ["scale=1.0"]
    if len(chain.scales) == 1:
        sign, number = chain.scales[0]
        text = tree.text(number)
        query = tree.text(chain.query)
        sizes = (f"{query}.size(-1)", f"{query}.shape[-1]")
        roots = {f"{size} ** 0.5" for size in sizes} | {f"math.sqrt({size})" for size in sizes}
        if sign == "/":
            return [] if text in roots else [f"scale=1 / {_operand(tree.text(number), number)}"]
        plain = isinstance(number, ast.BinOp) and f"{text}" in {f"{size} ** -0.5" for size in sizes}
        return [] if plain else [f"scale={text}"]
    product = "1"
    for sign, number in chain.scales:
        product += f" {sign} {_operand(tree.text(number), number)}"
    return [f"scale={product}"]


def _operand(text: str, node: ast.expr) -> str:
    power = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow)
    return f"({text})" if isinstance(node, (ast.BinOp, ast.UnaryOp)) and not power else text
