# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
"""One forward that can be run again and again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch

from . import ambient
from .ambient import Ambient
from .failures import Failure
from .targets import Target
from .values import copy_tensors, map_tensors, tensors

if TYPE_CHECKING:
    from .replay import Original

__all__ = ["Case", "copy_tensors", "from_result", "map_tensors", "tensors"]


@dataclass(frozen=True)
class Case:
    """`call(*args, **kwargs)` under `ambient` is one forward. `module` is the module it belongs to, if it is one.

    `described` completes the sentence "... while running": "`build()` of model.py". `wanted` is what `target` stands
    for. `original` is the call of the user's program that this repeats, `factory` the entry function that made the
    case, where there was one.
    """

    call: Callable[..., Any]
    args: tuple = ()
    kwargs: dict = field(default_factory=dict)
    module: torch.nn.Module | None = None
    described: str = "the entry"
    target: str | None = None
    wanted: Target | None = None
    ambient: Ambient = field(default_factory=ambient.now)
    original: Original | None = None
    factory: Callable[..., Any] | None = None

    def run(self) -> Any:
        return self.call(*self.args, **self.kwargs)

    def with_fresh_inputs(self) -> Case:
        """The same case on copies of its inputs, for forwards that write to them. Raises `Uncopyable`."""
        args, kwargs = copy_tensors((self.args, self.kwargs))
        return replace(self, args=args, kwargs=kwargs)

    def to(self, device: torch.device) -> Case:
        """The same case with its module and its inputs on `device`. Raises `Uncopyable`."""
        if self.module is not None:
            self.module.to(device)
        args, kwargs = map_tensors(lambda tensor: tensor.to(device), (self.args, self.kwargs))
        return replace(self, args=args, kwargs=kwargs)


def from_result(result: Any, described: str) -> Case:
    """What an entry returned, as a case.

    Accepted are a callable, `(model, args)` and `(model, args, kwargs)`; a model alone counts as a callable.
    """
    if isinstance(result, (tuple, list)) and result and callable(result[0]) and len(result) in (2, 3):
        model, args = result[0], result[1]
        kwargs = result[2] if len(result) == 3 else {}
        args, kwargs = _arguments(args, kwargs)
        if isinstance(kwargs, dict):
            module = model if isinstance(model, torch.nn.Module) else None
            return Case(model, args, kwargs, module, described)
    if callable(result):
        return Case(result, module=result if isinstance(result, torch.nn.Module) else None, described=described)
    raise Failure(
        "entry",
        f"{described} returned {_describe(result)}; return (model, args), (model, args, kwargs) or a callable to run",
    )


def _arguments(args: Any, kwargs: Any) -> tuple[tuple, Any]:
    """A mapping of a model library stands for keyword arguments, as `model(**batch)`; what is no plain tuple or list
    is one argument.
    """
    is_plain = type(args) in (tuple, list)
    if not is_plain and hasattr(args, "keys") and hasattr(args, "__getitem__") and not kwargs:
        return (), {key: args[key] for key in args.keys()}
    return (tuple(args) if is_plain else (args,)), dict(kwargs) if hasattr(kwargs, "keys") else kwargs


def _describe(value: Any) -> str:
    if value is None:
        return "None"
    if isinstance(value, (tuple, list)):
        return f"a {type(value).__name__} of {len(value)}"
    return f"a value of type {type(value).__name__}"
