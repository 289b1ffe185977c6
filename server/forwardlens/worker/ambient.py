# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
"""What surrounds a call without being passed to it: grad mode, autocast, modes, backends' switches."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch.overrides import _get_current_function_mode_stack

_SDP = ("flash", "mem_efficient", "math", "cudnn")


@dataclass(frozen=True)
class Ambient:
    """The surroundings of one moment, to be entered again after the program's own `with` blocks have ended."""

    grad: bool
    inference: bool
    autocast: tuple[tuple[str, torch.dtype], ...]
    autocast_cache: bool
    default_dtype: torch.dtype
    function_modes: tuple
    attention: tuple[bool, ...]

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            for mode in self.function_modes:
                if not any(mode is active for active in _get_current_function_mode_stack()):
                    stack.enter_context(mode)
            for device, dtype in self.autocast:
                stack.enter_context(torch.autocast(device, dtype, cache_enabled=self.autocast_cache))
            stack.enter_context(_default_dtype(self.default_dtype))
            stack.enter_context(_attention(self.attention))
            # Leaving inference mode also turns gradients on, so the grad mode comes last.
            stack.enter_context(torch.inference_mode(self.inference))
            stack.enter_context(torch.set_grad_enabled(self.grad))
            yield


def now() -> Ambient:
    """Must be called on the thread whose surroundings are meant."""
    devices = ["cpu", *(name for name in ("cuda", "xpu") if getattr(torch, name).is_available())]
    return Ambient(
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        tuple((name, torch.get_autocast_dtype(name)) for name in devices if torch.is_autocast_enabled(name)),
        torch.is_autocast_cache_enabled(),
        torch.get_default_dtype(),
        tuple(_get_current_function_mode_stack()),
        _attention_switches(),
    )


@contextlib.contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _attention_switches() -> tuple[bool, ...]:
    return tuple(getattr(torch.backends.cuda, f"{name}_sdp_enabled")() for name in _SDP)


@contextlib.contextmanager
def _attention(switches: tuple[bool, ...]) -> Iterator[None]:
    """Which implementations `scaled_dot_product_attention` may choose from."""
    before = _attention_switches()
    _switch_attention(switches)
    try:
        yield
    finally:
        _switch_attention(before)


def _switch_attention(switches: tuple[bool, ...]) -> None:
    for name, on in zip(_SDP, switches, strict=True):
        getattr(torch.backends.cuda, f"enable_{name}_sdp")(on)
