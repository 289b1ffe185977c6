# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
"""Whether two runs gave the same: values, gradients, what became of inputs and state, and who shares whose memory.

Strides are not compared: operators take any, and a fix that drops a copy changes them. Memory is: an output that
shares the memory of an input, of the model or of another output passes on what its reader writes to it.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from typing import Any

import torch

from .case import Case, tensors

# Relative and absolute tolerances by dtype: those of torch.testing.assert_close, with float32's loosened tenfold
# because a batched operator may sum in another order.
_TOLERANCES = {
    torch.float64: (1e-7, 1e-7),
    torch.float32: (1.3e-5, 1e-4),
    torch.float16: (1e-3, 1e-3),
    torch.bfloat16: (1.6e-2, 1e-3),
    torch.complex64: (1.3e-5, 1e-4),
    torch.complex128: (1e-7, 1e-7),
}
_PLAIN = (bool, int, float, str, list, tuple, dict)


class Difference(Exception):
    """The edited program gave something else; the text says what."""


def seed(number: int) -> None:
    """Start every generator of random numbers that a program may draw from anew."""
    torch.manual_seed(number)
    random.seed(number)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(number)


def random_state() -> list[Any]:
    """Where the generators of random numbers on the host stand: a fix must not draw more or fewer of them."""
    numpy = sys.modules.get("numpy")
    return [torch.get_rng_state(), random.getstate(), None if numpy is None else numpy.random.get_state()]


def state(module: torch.nn.Module) -> dict[str, Any]:
    """Parameters, buffers, and the tensors and plain values that the modules keep as attributes, by their names."""
    found: dict[str, Any] = {}
    for prefix, part in module.named_modules():
        kept = {name: value for name, value in vars(part).items() if name[:1] != "_" and _is_state(value)}
        for name, value in {**kept, **part._parameters, **part._buffers}.items():
            found[f"{prefix}.{name}" if prefix else name] = value
    return found


def _is_state(value: Any) -> bool:
    return isinstance(value, (torch.Tensor, *_PLAIN))


class Comparison:
    """`nan_counts` is false for made-up inputs: where they make the original give `nan`, nothing is left to keep."""

    def __init__(self, nan_counts: bool = True) -> None:
        self._nan_counts = nan_counts
        self.worst = 0.0

    def same(self, old: Any, new: Any, what: str) -> None:
        """Raises `Difference` naming `what` and the first difference; else `worst` is kept up to date."""
        if isinstance(old, torch.Tensor) and isinstance(new, torch.Tensor):
            return self._same_tensor(old, new, what)
        if type(old).__name__ != type(new).__name__:
            raise Difference(f"{what}: {type(old).__name__} became {type(new).__name__}")
        if _is_mapping(old):
            if list(old.keys()) != list(new.keys()):
                raise Difference(f"{what}: other keys")
            return self._all((old[k], new[k], f"{what} {k!r}") for k in list(old.keys()))
        if isinstance(old, (tuple, list)):
            if len(old) != len(new):
                raise Difference(f"{what}: {len(old)} items became {len(new)}")
            return self._all((a, b, f"{what} {i}") for i, (a, b) in enumerate(zip(old, new, strict=True)))
        if isinstance(old, (float, complex)):
            return self._same_tensor(torch.tensor(old), torch.tensor(new), what)
        if isinstance(old, (int, str, bytes, set, frozenset)):
            if old != new:
                raise Difference(f"{what}: {old!r} became {new!r}")
        elif type(old).__module__ == "numpy" and old.dtype.kind in "biufc":
            self._same_tensor(torch.as_tensor(old), torch.as_tensor(new), what)
        elif hasattr(old, "__dict__") and not callable(old) and any(True for _ in tensors(old)):
            self.same(vars(old), vars(new), what)
        return None

    def same_sum(self, old: torch.Tensor | None, new: torch.Tensor | None, what: str) -> None:
        """Like `same` for tensors whose elements are sums of many terms, as gradients are, or None.

        Terms that cancel leave a small element as inexact as a large one: the bound on its error is a part of the sum
        of its terms' sizes (Higham, Accuracy and Stability of Numerical Algorithms, 4.2), for which the largest
        element stands.
        """
        if old is None or new is None:
            return self.same(old, new, what)
        sizes = _dense(old.detach()).abs()
        finite = sizes[torch.isfinite(sizes)]
        return self._same_tensor(old, new, what, float(finite.max()) if finite.numel() else 0.0)

    def _all(self, pairs: Iterator[tuple[Any, Any, str]]) -> None:
        for old, new, what in pairs:
            self.same(old, new, what)

    def _same_tensor(self, old: torch.Tensor, new: torch.Tensor, what: str, of_terms: float = 0.0) -> None:
        """`of_terms` is the size of what was summed into each element."""
        for name in ("shape", "dtype", "device"):
            if getattr(old, name) != getattr(new, name):
                raise Difference(f"{what}: {name} {_shown(getattr(old, name))} became {_shown(getattr(new, name))}")
        old, new = _dense(old.detach()), _dense(new.detach())
        tolerance = _TOLERANCES.get(old.dtype)
        if tolerance is None:
            if not torch.equal(old, new):
                raise Difference(f"{what}: values differ")
            return
        if not self._nan_counts:
            new = torch.where(old.isnan(), old, new)
        difference = (old - new).abs()
        finite = difference[torch.isfinite(difference)]
        worst = float(finite.max()) if finite.numel() else 0.0
        relative, absolute = tolerance
        if not torch.allclose(old, new, rtol=relative, atol=absolute + relative * of_terms, equal_nan=True):
            raise Difference(f"{what}: values differ by up to {worst:.3g}")
        self.worst = max(self.worst, worst)


def same_memory(old: Any, new: Any, old_case: Case, new_case: Case) -> None:
    """Raises `Difference` if an output shares memory on one side only, with whatever outlives the call or with itself.

    Pieces of one tensor, such as those that `unbind` gives, do not share: no element belongs to two of them.
    """
    pairs = list(zip(tensors(old), tensors(new), strict=False))
    sides = ((old_case, [a for a, _ in pairs]), (new_case, [b for _, b in pairs]))
    before, after = (_sharing(case, outputs) for case, outputs in sides)
    for number, (one, other) in enumerate(zip(before, after, strict=True)):
        for place in sorted(one ^ other):
            raise Difference(f"output {number}: it {'shares' if place in other else 'no longer shares'} {place}")


def _sharing(case: Case, outputs: list[torch.Tensor]) -> list[set[str]]:
    """What each output shares memory with, in words."""
    inputs = {_storage(t) for t in tensors((case.args, case.kwargs))} - {None}
    kept = {_storage(t) for t in state(case.module).values() if isinstance(t, torch.Tensor)} if case.module else set()
    starts = [_start(t) for t in outputs]
    found = []
    for number, output in enumerate(outputs):
        shared = {"the memory of an input": _storage(output) in inputs}
        shared["the memory of the model"] = _storage(output) in kept - {None}
        shared["its own elements"] = _overlaps_itself(output)
        shared["the memory of another output"] = starts[number] is not None and starts[number] in starts[:number]
        found.append({name for name, true in shared.items() if true})
    return found


def _storage(tensor: torch.Tensor) -> int | None:
    try:
        return tensor.untyped_storage().data_ptr() or None
    except (RuntimeError, NotImplementedError):  # sparse tensors and wrappers have none
        return None


def _start(tensor: torch.Tensor) -> int | None:
    return None if _storage(tensor) is None or not tensor.numel() else tensor.data_ptr()


def _overlaps_itself(tensor: torch.Tensor) -> bool:
    if tensor.layout is not torch.strided:
        return False
    return any(step == 0 and size > 1 for size, step in zip(tensor.shape, tensor.stride(), strict=True))


def _dense(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.layout is not torch.strided:
        return tensor.to_dense()
    return tensor.dequantize() if tensor.is_quantized else tensor


def _is_mapping(value: Any) -> bool:
    """Also true of outputs that only act like one, as model libraries return them."""
    return isinstance(value, dict) or (hasattr(value, "keys") and hasattr(value, "__getitem__"))


def _shown(value: Any) -> str:
    return str(tuple(value)) if isinstance(value, torch.Size) else str(value)
