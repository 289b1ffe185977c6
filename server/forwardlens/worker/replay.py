# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
"""Whether repeating a call of the user's program gives what the program's own call gave."""

from __future__ import annotations

import contextlib
import math
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from .failures import in_one_line
from .limits import DEFAULT_S, Limit
from .values import Uncopyable, tensors

if TYPE_CHECKING:
    from .case import Case

# Sums of whole outputs: another order of adding, or a device that is not bit-exact, moves them by less.
_RELATIVE, _ABSOLUTE = 1e-3, 1e-4


@dataclass(frozen=True)
class Original:
    """A call that the user's program made: the random numbers and the state it began with, and what it gave.

    `cannot` says why it cannot be repeated at all; `order` counts the program's callees up to this one, so that it is
    found again when the program runs once more.
    """

    random: RandomState
    state: tuple
    output: tuple | None
    order: int
    cannot: str | None = None


def difference(case: Case, seconds: float | None) -> str | None:
    """How a replay of `case` differs from the call it repeats, to complete "it cannot be replayed: ..."; None if it
    does not, if it takes more than `seconds`, or if there is no such call.
    """
    original = case.original
    if original is None or original.cannot is not None:
        return None if original is None else original.cannot
    same_state = original.state == state_of(case.module)
    try:
        with case.ambient.entered(), original.random.restored(), Limit(seconds or DEFAULT_S) as limit:
            output = summary(case.with_fresh_inputs().run())
    except Uncopyable as error:
        return f"its inputs hold {error}"
    except Exception as error:
        return f"repeating the call raises {in_one_line(error)}"
    if limit.reached or original.output is None:
        return None
    return _compare(original.output, output, values=same_state)


def summary(output: Any) -> tuple:
    """What two outputs are compared by, without keeping either: type, and each tensor's shape, type, sum and norm."""
    return type(output).__name__, tuple(_figures(tensor) for tensor in tensors(output))


def _figures(tensor: torch.Tensor) -> tuple:
    shape = tuple(tensor.shape)
    if tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_meta or not tensor.numel():
        return shape, tensor.dtype, 0.0, 0.0
    with torch.no_grad():
        plain = tensor.detach()
        plain = torch.view_as_real(plain) if plain.is_complex() else plain
        plain = plain.to(torch.float64 if plain.device.type != "mps" else torch.float32)
        return shape, tensor.dtype, float(plain.sum()), float(plain.norm())


def state_of(module: torch.nn.Module | None) -> tuple:
    """Changes whenever a parameter or a buffer of `module` is written to or replaced."""
    if module is None or "_parameters" not in vars(module):  # it is just being made
        return ()
    held = [*module.parameters(), *module.buffers()]
    versions = tuple((id(t), 0 if t.is_inference() else t._version) for t in held)
    return module.training, versions


def _compare(old: tuple, new: tuple, *, values: bool) -> str | None:
    if old[0] != new[0]:
        return f"the program's call gave a {old[0]}, a replay a {new[0]}"
    if len(old[1]) != len(new[1]):
        return f"the program's call gave {len(old[1])} tensors, a replay {len(new[1])}"
    for number, (a, b) in enumerate(zip(old[1], new[1], strict=True)):
        if a[:2] != b[:2]:
            return f"output {number} was of {a[1]} {list(a[0])}, in a replay of {b[1]} {list(b[0])}"
        if values and not all(_close(x, y, a[3]) for x, y in zip(a[2:], b[2:], strict=True)):
            return f"output {number} has other values in a replay"
    return None


def _close(old: float, new: float, scale: float) -> bool:
    if math.isnan(old) or math.isinf(old):
        return str(old) == str(new)
    return abs(old - new) <= _ABSOLUTE + _RELATIVE * max(abs(old), scale)


@dataclass(frozen=True)
class RandomState:
    """Every generator of random numbers that a forward is likely to draw from."""

    torch_cpu: torch.Tensor
    torch_devices: list[torch.Tensor]
    python: tuple
    numpy: Any

    @staticmethod
    def now() -> RandomState:
        return RandomState(
            torch.get_rng_state(),
            torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else [],
            random.getstate(),
            _numpy_random().get_state() if _numpy_random() else None,
        )

    def set(self) -> None:
        torch.set_rng_state(self.torch_cpu)
        if self.torch_devices:
            torch.cuda.set_rng_state_all(self.torch_devices)
        random.setstate(self.python)
        if self.numpy is not None:
            _numpy_random().set_state(self.numpy)

    @contextlib.contextmanager
    def restored(self) -> Iterator[None]:
        """As it was then, inside; as it is now, afterwards."""
        before = RandomState.now()
        self.set()
        try:
            yield
        finally:
            before.set()


def _numpy_random() -> Any:
    return getattr(sys.modules.get("numpy"), "random", None)
