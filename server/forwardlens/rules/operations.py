"""What the operations of PyTorch that rules meet do to values and memory. Names are those of methods and functions."""

from __future__ import annotations

import ast
from functools import lru_cache

from forwardlens.source.dataflow import METADATA
from forwardlens.source.tree import dotted, module_aliases, walk

# The methods that a call of a module runs.
FORWARDS = ("forward", "__call__")
# Each element of the result depends on the elements at its position alone; arguments broadcast against each other.
ELEMENTWISE = frozenset(
    """abs neg exp expm1 log log1p log2 sqrt rsqrt square reciprocal sign sin cos tan tanh sigmoid erf floor ceil round
    relu relu6 gelu silu elu selu softplus leaky_relu hardtanh mish logsigmoid clamp clip clamp_min clamp_max
    add sub mul div true_divide pow remainder fmod maximum minimum where masked_fill lerp atan2
    gt ge lt le eq ne greater less logical_and logical_or logical_xor logical_not isnan isinf isfinite
    bitwise_and bitwise_or bitwise_not nan_to_num float double half bfloat16 long int bool to type type_as
    detach clone contiguous""".split()
)
# These may hand back their receiver itself, or a view of it.
MAY_BE_SAME = frozenset("to type type_as float double half bfloat16 long int bool contiguous detach relu_".split())
# As functions they may be told to work in place.
MAY_WORK_IN_PLACE = frozenset("relu relu6 silu elu selu leaky_relu hardtanh mish".split())
# The result shows the same memory in another shape or order. `view` is not among them: it needs a fitting layout.
VIEWS = frozenset(
    """transpose permute unsqueeze squeeze expand expand_as select narrow t swapaxes swapdims movedim moveaxis chunk
    split unbind diagonal""".split()
)
VIEW_ATTRIBUTES = frozenset({"T", "mT", "H", "mH", "data"})
REDUCTIONS = frozenset(
    "sum mean amax amin max min prod std var norm logsumexp argmax argmin all any count_nonzero".split()
)
# New memory, laid out without regard to how the arguments are.
MATRIX_PRODUCTS = frozenset("matmul bmm mm addmm baddbmm mv dot linear".split())
# What `a @ b` and the like run, of two operands.
PRODUCT_OPERATORS = ("aten::matmul", "aten::mm", "aten::bmm", "aten::mv", "aten::dot", "aten::inner")
NORMALISING = frozenset({"softmax", "log_softmax"})
# Operators of a module call whose result does not depend on how its input is laid out.
MODULES_BLIND_TO_LAYOUT = frozenset({"aten::linear", "aten::layer_norm", "aten::embedding"})
# Operators that module calls run for activation layers.
ELEMENTWISE_MODULES = frozenset(
    f"aten::{name}"
    for name in "relu gelu silu tanh sigmoid elu selu softplus leaky_relu hardtanh mish hardswish".split()
)
# Operators of module calls whose result for a position depends on that position alone.
POSITIONWISE_MODULES = ELEMENTWISE_MODULES | {"aten::linear", "aten::layer_norm"}
# Index and source are read at any layout; the result is laid out by the receiver.
INDEXED = frozenset("gather scatter scatter_ scatter_add scatter_add_ take_along_dim index_add index_add_".split())
LOSSES = frozenset(
    """mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy binary_cross_entropy_with_logits
    cosine_similarity pairwise_distance""".split()
)
JOINS = frozenset({"cat", "concat", "stack"})
# To join first some and then the rest, or all at once, is the same for each of these.
CATS = frozenset({"cat", "concat", "concatenate", "hstack", "vstack", "row_stack", "dstack", "column_stack"})
FRESH_FUNCTIONS = frozenset(
    """index_copy index_select index_fill index_put embedding einsum conv1d conv2d stft istft cumsum flip tril triu
    outer repeat tile repeat_interleave searchsorted bucketize bincount histc one_hot cross_entropy nll_loss
    roll""".split()
)
# Outermost operators of calls whose result is memory of its own, whatever the module or function around them is.
FRESH_OPERATORS = MODULES_BLIND_TO_LAYOUT | frozenset(
    f"aten::{name}"
    for name in """conv1d conv2d conv3d matmul bmm mm addmm softmax batch_norm cat stack
    scaled_dot_product_attention""".split()
)


def is_torch_function(module: ast.Module, func: ast.expr) -> bool:
    """Whether `func` is `torch.x`, `F.x` or the like, rather than a method of a tensor or a module."""
    place = dotted(func)
    if place is None or "." not in place:
        return False
    owner = place.rpartition(".")[0]
    return owner in torch_namespaces(module)


def torch_function(module: ast.Module, func: ast.expr) -> str | None:
    """`softmax` for `F.softmax`, `torch.softmax` and a `softmax` that was imported by its name; None for methods."""
    if isinstance(func, ast.Name):
        return _imported_functions(module).get(func.id)
    return func.attr if isinstance(func, ast.Attribute) and is_torch_function(module, func) else None


def called_name(module: ast.Module, call: ast.Call) -> str | None:
    """`pow` for `x.pow(2)`, `torch.pow(x, 2)` and a `pow` of torch that was imported by its name."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else torch_function(module, call.func)


def records_nothing(module: ast.Module, guard: ast.expr) -> str | None:
    """How a decorator, or what a `with` enters, turns autograd off: `no_grad` or `inference_mode`; None if it does not.

    `torch.no_grad()`, `@no_grad`, `torch.set_grad_enabled(False)`.
    """
    call = guard if isinstance(guard, ast.Call) else None
    name = torch_function(module, guard if call is None else call.func)
    given = [] if call is None else [*call.args, *(keyword.value for keyword in call.keywords)]
    if name == "set_grad_enabled":
        off = len(given) == 1 and isinstance(given[0], ast.Constant) and given[0].value is False
        return "no_grad" if off else None
    return name if name in {"no_grad", "inference_mode"} and not given else None


def call_operands(module: ast.Module, call: ast.Call) -> list[ast.expr]:
    """What a function of torch is given by position; of a method the receiver comes first."""
    method = isinstance(call.func, ast.Attribute) and torch_function(module, call.func) is None
    return [call.func.value, *call.args] if isinstance(call.func, ast.Attribute) and method else call.args


@lru_cache(maxsize=64)
def _imported_functions(module: ast.Module) -> dict[str, str]:
    """The functions of torch that a file imports by their names."""
    return {
        alias.asname or alias.name: alias.name
        for node in walk(module)
        if isinstance(node, ast.ImportFrom) and node.module in {"torch", "torch.functional", "torch.nn.functional"}
        for alias in node.names
    }


@lru_cache(maxsize=64)
def _imports(module: ast.Module) -> ast.Module:
    """The imports of a file that have run once it is loaded: none inside functions, none for type checkers only."""
    found: list[ast.stmt] = []
    blocks = [module.body]
    while blocks:
        for statement in blocks.pop():
            if isinstance(statement, (ast.Import, ast.ImportFrom)):
                found.append(statement)
            elif isinstance(statement, ast.If):
                checking = (dotted(statement.test) or "").split(".")[-1] == "TYPE_CHECKING"
                blocks += [statement.orelse, [] if checking else statement.body]
            elif isinstance(statement, (ast.Try, ast.With)):
                blocks.append(statement.body)
    return ast.Module(found, [])


def torch_name(module: ast.Module) -> str | None:
    """The name under which a file's functions can use `torch`."""
    names = module_aliases(_imports(module), "torch")
    return "torch" if "torch" in names else min(names, default=None)


def numpy_name(module: ast.Module) -> str | None:
    """The name under which a file's functions can use `numpy`."""
    return min(module_aliases(_imports(module), "numpy"), key=lambda name: (len(name), name), default=None)


def is_repeatable(node: ast.expr) -> bool:
    """Whether evaluating `node` once more, or once less, changes nothing but the time it takes."""
    known = ELEMENTWISE | VIEWS | REDUCTIONS | MATRIX_PRODUCTS | NORMALISING | METADATA | {"reshape", "flatten", "view"}
    for below in walk(node):
        if isinstance(below, ast.Call):
            if not isinstance(below.func, ast.Attribute) or below.func.attr not in known:
                return False
            if any(keyword.arg in {"out", "inplace", None} for keyword in below.keywords):
                return False
        elif isinstance(below, (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom, ast.Lambda)):
            return False
    return True


def functional_name(module: ast.Module) -> str | None:
    """How a file can write `torch.nn.functional`, shortest first."""
    imports = _imports(module)
    named = module_aliases(imports, "torch.nn.functional") - {"torch.nn.functional"}
    nn = module_aliases(imports, "torch.nn") - {"torch.nn"}
    torch = torch_name(module)
    others = [f"{name}.functional" for name in nn] + ([f"{torch}.nn.functional"] if torch is not None else [])
    return min([*named, *others], key=lambda name: (len(name), name), default=None)


@lru_cache(maxsize=64)
def torch_namespaces(module: ast.Module) -> frozenset[str]:
    names = module_aliases(module, "torch") | module_aliases(module, "torch.nn.functional")
    nn = module_aliases(module, "torch.nn") | {f"{name}.nn" for name in names}
    return names | {f"{name}.functional" for name in nn} | {"torch"}
