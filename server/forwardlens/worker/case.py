# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
"""One forward that can be run again and again."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from .failures import Failure


@dataclass(frozen=True)
class Case:
    """`call(*args, **kwargs)` is one forward. `module` is the module it belongs to, if it is one.

    `described` completes the sentence "... while running": "`build()` of model.py". `factory` is the entry function
    that made the case, if one did.
    """

    call: Callable[..., Any]
    args: tuple = ()
    kwargs: dict = field(default_factory=dict)
    module: torch.nn.Module | None = None
    described: str = "the entry"
    target: str | None = None
    factory: Callable[..., Any] | None = None

    def run(self) -> Any:
        return self.call(*self.args, **self.kwargs)

    def with_fresh_inputs(self) -> Case:
        """The same case on copies of its input tensors, for forwards that write to them."""
        return replace(self, args=copy_tensors(self.args), kwargs=copy_tensors(self.kwargs))

    def to(self, device: torch.device) -> Case:
        if self.module is not None:
            self.module.to(device)
        move = lambda tensor: tensor.to(device)  # noqa: E731
        return replace(self, args=map_tensors(move, self.args), kwargs=map_tensors(move, self.kwargs))


def from_result(result: Any, described: str) -> Case:
    """What an entry returned, as a case.

    Accepted are a callable, `(model, args)` and `(model, args, kwargs)`; a model alone counts as a callable.
    """
    if isinstance(result, (tuple, list)) and result and callable(result[0]) and len(result) in (2, 3):
        model, args = result[0], result[1]
        kwargs = result[2] if len(result) == 3 else {}
        if isinstance(args, torch.Tensor) or not isinstance(args, (tuple, list, dict)):
            args = (args,)
        if isinstance(args, dict) and not kwargs:
            args, kwargs = (), args
        if isinstance(kwargs, dict):
            module = model if isinstance(model, torch.nn.Module) else None
            return Case(model, tuple(args), dict(kwargs), module, described)
    if callable(result):
        return Case(result, module=result if isinstance(result, torch.nn.Module) else None, described=described)
    raise Failure(
        "entry",
        f"{described} returned {_describe(result)}; return (model, args), (model, args, kwargs) or a callable to run",
    )


def select_target(case: Case, target: str | None) -> Case:
    """The case narrowed to the first call of `Class` or `Class.method` inside it, on the inputs that call gets."""
    if target is None:
        return case
    class_name, _, method = target.partition(".")
    method = method or "forward"
    if case.module is not None and _is_called(case.module, class_name) and method == "forward":
        return replace(case, target=target)
    if case.module is None:
        raise Failure("usage", f"{case.described} gives no module, so there is no `{class_name}` in it to profile")
    candidates = [module for module in case.module.modules() if _is_called(module, class_name)]
    if not candidates:
        names = sorted({type(module).__name__ for module in case.module.modules()})
        known = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
        raise Failure("usage", f"{case.described} has no module of class `{class_name}`; it has {known}")
    call = _first_call(case, candidates, method)
    if call is None:
        raise Failure("usage", f"`{class_name}.{method}` is never called by the forward of {case.described}")
    module, args, kwargs = call
    run = module if method == "forward" else getattr(module, method)
    return Case(run, args, kwargs, module, case.described, target, case.factory)


def _is_called(module: torch.nn.Module, name: str) -> bool:
    return any(base.__name__ == name for base in type(module).__mro__[:-2])


def _first_call(case: Case, modules: list[torch.nn.Module], method: str):
    seen: list[tuple[torch.nn.Module, tuple, dict]] = []

    def record(module):
        original = getattr(module, method)

        def recorder(*args, **kwargs):
            if not seen:
                seen.append((module, copy_tensors(args), copy_tensors(kwargs)))
            return original(*args, **kwargs)

        return recorder

    with contextlib.ExitStack() as undo:
        for module in modules:
            module.__dict__[method] = record(module)
            undo.callback(module.__dict__.pop, method)
        case.run()
    return seen[0] if seen else None


def map_tensors(function: Callable[[torch.Tensor], torch.Tensor], value: Any) -> Any:
    """`value` with `function` applied to each tensor in its nested tuples, lists and dicts."""
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, tuple):
        parts = [map_tensors(function, part) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if isinstance(value, list):
        return [map_tensors(function, part) for part in value]
    if type(value) is dict:
        return {key: map_tensors(function, part) for key, part in value.items()}
    return value


def copy_tensors(value: Any) -> Any:
    def copy(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.detach().clone().requires_grad_(tensor.requires_grad)

    return map_tensors(copy, value)


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """Every tensor in nested tuples, lists, dicts and objects that act like mappings or hold fields."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from tensors(part)
    elif hasattr(value, "keys") and hasattr(value, "__getitem__"):
        for key in list(value.keys()):
            yield from tensors(value[key])
    elif hasattr(value, "__dataclass_fields__"):
        for name in value.__dataclass_fields__:
            yield from tensors(getattr(value, name))


def _describe(value: Any) -> str:
    if value is None:
        return "None"
    if isinstance(value, (tuple, list)):
        return f"a {type(value).__name__} of {len(value)}"
    return f"a value of type {type(value).__name__}"
