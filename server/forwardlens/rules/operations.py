"""What the operations of PyTorch that rules meet do to values and memory. Names are those of methods and functions."""

from __future__ import annotations

import ast
from functools import lru_cache

from forwardlens.source.tree import dotted, module_aliases

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
NORMALISING = frozenset({"softmax", "log_softmax"})
# Operators that module calls run for activation layers.
ELEMENTWISE_MODULES = frozenset(
    f"aten::{name}"
    for name in "relu gelu silu tanh sigmoid elu selu softplus leaky_relu hardtanh mish hardswish".split()
)
JOINS = frozenset({"cat", "concat", "stack"})


def is_torch_function(module: ast.Module, func: ast.expr) -> bool:
    """Whether `func` is `torch.x`, `F.x` or the like, rather than a method of a tensor or a module."""
    place = dotted(func)
    if place is None or "." not in place:
        return False
    owner = place.rpartition(".")[0]
    return owner in torch_namespaces(module)


def torch_name(module: ast.Module) -> str | None:
    """The name under which a file knows `torch`."""
    names = module_aliases(module, "torch")
    return "torch" if "torch" in names else min(names, default=None)


@lru_cache(maxsize=64)
def torch_namespaces(module: ast.Module) -> frozenset[str]:
    names = module_aliases(module, "torch") | module_aliases(module, "torch.nn.functional")
    nn = module_aliases(module, "torch.nn") | {f"{name}.nn" for name in names}
    return names | {f"{name}.functional" for name in nn} | {"torch"}
