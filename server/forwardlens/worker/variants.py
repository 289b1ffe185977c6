# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
"""Further inputs for a fix: a change that is only right for one shape or one value must not pass for a good one.

They are made of the entry's own: its `build` called with another batch or length, its tensors cut, shuffled and
mirrored within the range of values that they have, its masks all set and all cleared. Not all of them mean something
to every model; one that the original program does not take tells nothing and is left out.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch

from .case import Case, map_tensors, tensors

# Parameters of an entry function that say how much it makes and not what.
_SIZES = frozenset(
    "b batch batch_size batches bs length len n_tokens n_steps samples seq seq_len seq_length sequence_length size "
    "steps t time tokens".split()
)
_SEEDS = frozenset({"seed", "random_seed"})


@dataclass(frozen=True)
class Variant:
    """`change` makes another case of a loaded one; `arguments` are for the entry function, before that."""

    name: str
    change: Callable[[Case], Case] = lambda case: case
    arguments: tuple[tuple[str, object], ...] = ()


def variants(case: Case) -> Iterator[Variant]:
    """The further inputs worth trying with `case`, the most telling first."""
    given = list(tensors((case.args, case.kwargs)))
    # A GPU that is asked for an index out of range is lost to the whole process, so there integers only change places.
    careful = any(tensor.device.type != "cpu" for tensor in given)
    several = any(tensor.numel() > 1 for tensor in given)
    masks = any(_is_mask(tensor) for tensor in given)
    if several:
        yield Variant("other values", lambda case: _mapped(case, lambda t: _mirrored(t, careful)))
    if masks:
        # Rows of which nothing is left are where ways to mask differ.
        yield Variant("masks all false", _with_masks(torch.zeros_like))
    if several:
        yield Variant("shuffled values", lambda case: _mapped(case, lambda t: _shuffled(t, careful)))
    for name, value in _other_arguments(case):
        yield Variant(f"{name}={value!r}", arguments=((name, value),))
    for axis, what in ((0, "batch"), (1, "length")):
        size = _shared_size(given, axis)
        if size is not None:
            yield Variant(f"another {what}", lambda case, a=axis, s=size: _mapped(case, lambda t: _resized(t, a, s)))
    if masks:
        yield Variant("masks all true", _with_masks(torch.ones_like))


def _with_masks(fill: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Case], Case]:
    return lambda case: _mapped(case, lambda t: fill(t) if _is_mask(t) else t)


def _other_arguments(case: Case) -> Iterator[tuple[str, object]]:
    """Sizes and seeds that the entry function takes and has defaults for, with other values."""
    if case.factory is None:
        return
    try:
        parameters = inspect.signature(case.factory).parameters.values()
    except (TypeError, ValueError):
        return
    for parameter in parameters:
        if type(parameter.default) is not int:
            continue
        if parameter.name in _SEEDS:
            yield parameter.name, parameter.default + 1
        elif parameter.name in _SIZES and parameter.default >= 1:
            # One more where that is cheap, and half of what is much.
            yield parameter.name, parameter.default + 1 if parameter.default <= 8 else parameter.default // 2


def _mapped(case: Case, change: Callable[[torch.Tensor], torch.Tensor]) -> Case:
    def changed(tensor: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return change(tensor.detach()).clone().requires_grad_(tensor.requires_grad)

    return replace(case, args=map_tensors(changed, case.args), kwargs=map_tensors(changed, case.kwargs))


def _is_mask(tensor: torch.Tensor) -> bool:
    """Truth values, also where they are written as the numbers zero and one."""
    if tensor.dtype is torch.bool:
        return True
    return tensor.numel() > 1 and bool(((tensor == 0) | (tensor == 1)).all())


def _mirrored(tensor: torch.Tensor, careful: bool) -> torch.Tensor:
    """The smallest value for the largest and so on: comparisons go the other way, the range stays."""
    if tensor.dtype is torch.bool:
        return ~tensor
    if not tensor.numel() or tensor.is_complex() or tensor.layout is not torch.strided:
        return tensor
    if not tensor.is_floating_point():
        return _shuffled(tensor, careful) if careful else tensor.min() + tensor.max() - tensor
    if not bool(torch.isfinite(tensor).all()):
        return tensor
    return (tensor.min() + tensor.max() - tensor).to(tensor.dtype)


def _shuffled(tensor: torch.Tensor, careful: bool) -> torch.Tensor:
    """The same values at other places: of the whole tensor, or along its first axis only."""
    if tensor.layout is not torch.strided or tensor.dim() == 0:
        return tensor
    if careful and not tensor.is_floating_point() and tensor.dtype is not torch.bool:
        return tensor.roll(1, 0)
    generator = torch.Generator().manual_seed(tensor.numel())
    order = torch.randperm(tensor.numel(), generator=generator).to(tensor.device)
    return tensor.reshape(-1)[order].reshape(tensor.shape)


def _shared_size(given: list[torch.Tensor], axis: int) -> int | None:
    """The size that most tensors have along an axis, if at least two is to be had of it."""
    sizes = [tensor.shape[axis] for tensor in given if tensor.dim() > axis]
    if not sizes:
        return None
    return max(sizes, key=lambda size: (sizes.count(size), size)) or None


def _resized(tensor: torch.Tensor, axis: int, size: int) -> torch.Tensor:
    """Less along an axis of that size, or twice as much where it has one only."""
    if tensor.dim() <= axis or tensor.shape[axis] != size:
        return tensor
    if size == 1:
        return torch.cat([tensor, tensor.flip(-1)], axis)
    return tensor.narrow(axis, 0, size - 1 if size <= 8 else size // 2)
