# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
"""Trying a fix: the edited program against the original, same state, same inputs, same random numbers."""

from __future__ import annotations

import copy
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from . import timing
from .case import Case, copy_tensors, tensors

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
CALLS = 2
LEAST_PAIRS, MOST_PAIRS, TIMING_BUDGET_S, LONGEST_RACE_S = 10, 40, 0.6, 4.0
# A gain below this is not worth an edit, whatever the statistics say.
LEAST_GAIN = 1.02


class Difference(Exception):
    """The edited program gave something else; the text says what."""


def verify(before: Case, load_after: Callable[[], Case], device: torch.device, *, graph_may_vanish: bool) -> dict:
    """`{"outcome": equal|differs|raises|slower|no-gain, "max_abs_diff", "before_ms", "after_ms", "speedup",
    "speedup_low", "speedup_high", "pairs", "message"}`; times are medians, the range is a 95 % interval.
    """
    try:
        after = _with_state_of(before, load_after())
        worst = _compare(before, after, graph_may_vanish)
    except Difference as difference:
        return {"outcome": "differs", "message": str(difference)}
    except (Exception, SystemExit) as error:
        return {"outcome": "raises", "message": f"{type(error).__name__}: {error}".splitlines()[0]}
    return {"max_abs_diff": worst, **_race(before, after, timing.synchronizer(device))}


def _with_state_of(before: Case, after: Case) -> Case:
    """`after` on the parameters, buffers, mode and inputs of `before`."""
    if before.module is not None and after.module is not None:
        old, new = before.module.state_dict(), after.module.state_dict()
        if old.keys() != new.keys():
            raise Difference(f"the state dict has other keys: {', '.join(sorted(old.keys() ^ new.keys())[:3])}")
        after.module.load_state_dict(copy.deepcopy(old))
        after.module.train(before.module.training)
    return replace(after, args=copy_tensors(before.args), kwargs=copy_tensors(before.kwargs))


def _compare(before: Case, after: Case, graph_may_vanish: bool) -> float:
    """Largest absolute difference over consecutive calls. Raises `Difference`."""
    worst = 0.0
    for call in range(CALLS):
        old_case, new_case = before.with_fresh_inputs(), after.with_fresh_inputs()
        old, new = _seeded(old_case, call), _seeded(new_case, call)
        worst = max(worst, _same(old, new, "output"))
        _same((old_case.args, old_case.kwargs), (new_case.args, new_case.kwargs), "input after the call")
        if before.module is not None and after.module is not None:
            _same(before.module.state_dict(), after.module.state_dict(), "state after the call")
        if not graph_may_vanish:
            worst = max(worst, _same_gradients(before, after, old, new))
    return worst


def _seeded(case: Case, seed: int) -> Any:
    torch.manual_seed(seed)
    return case.run()


def _same_gradients(before: Case, after: Case, old: Any, new: Any) -> float:
    """Compare what a backward pass from weighted outputs gives every parameter."""
    old_roots = [t for t in tensors(old) if t.requires_grad]
    new_roots = [t for t in tensors(new) if t.requires_grad]
    if len(old_roots) != len(new_roots):
        raise Difference("the outputs take part in autograd only on one side")
    if not old_roots or before.module is None or after.module is None:
        return 0.0
    grads = []
    for case, roots in ((before, old_roots), (after, new_roots)):
        parameters = _trained(case)
        weighted = torch.stack([(t * _weights(t)).real.sum() for t in roots]).sum()
        grads.append(torch.autograd.grad(weighted, parameters, allow_unused=True) if parameters else ())
    pairs = zip(*grads, strict=True)
    return max((_same(a, b, "gradient") for a, b in pairs if a is not None or b is not None), default=0.0)


def _trained(case: Case) -> list[torch.nn.Parameter]:
    return [] if case.module is None else [p for p in case.module.parameters() if p.requires_grad]


def _weights(tensor: torch.Tensor) -> torch.Tensor:
    weights = torch.linspace(0.5, 1.5, tensor.numel(), device=tensor.device, dtype=torch.float32)
    return weights.view(tensor.shape).to(tensor.dtype)


def _same(old: Any, new: Any, what: str) -> float:
    """Largest absolute difference of two equal values. Raises `Difference` naming `what` and the first difference."""
    if isinstance(old, torch.Tensor) and isinstance(new, torch.Tensor):
        return _same_tensor(old, new, what)
    if type(old).__name__ != type(new).__name__:
        raise Difference(f"{what}: {type(old).__name__} became {type(new).__name__}")
    if _is_mapping(old):
        if list(old.keys()) != list(new.keys()):
            raise Difference(f"{what}: other keys")
        return max((_same(old[k], new[k], f"{what} {k!r}") for k in old.keys()), default=0.0)
    if isinstance(old, (tuple, list)):
        if len(old) != len(new):
            raise Difference(f"{what}: {len(old)} items became {len(new)}")
        return max((_same(a, b, f"{what} {i}") for i, (a, b) in enumerate(zip(old, new, strict=True))), default=0.0)
    if isinstance(old, float) and not isinstance(old, bool):
        return _same_tensor(torch.tensor(old), torch.tensor(new), what)
    if isinstance(old, (int, str, bool, bytes)) and old != new:
        raise Difference(f"{what}: {old!r} became {new!r}")
    if hasattr(old, "__dict__") and not callable(old) and tuple(tensors(old)):
        return _same(vars(old), vars(new), what)
    return 0.0


def _is_mapping(value: Any) -> bool:
    """Also true of outputs that only act like one, as model libraries return them."""
    return isinstance(value, dict) or (hasattr(value, "keys") and hasattr(value, "__getitem__"))


def _same_tensor(old: torch.Tensor, new: torch.Tensor, what: str) -> float:
    if old.shape != new.shape:
        raise Difference(f"{what}: shape {tuple(old.shape)} became {tuple(new.shape)}")
    if old.dtype != new.dtype:
        raise Difference(f"{what}: {old.dtype} became {new.dtype}")
    if old.device != new.device:
        raise Difference(f"{what}: device {old.device} became {new.device}")
    old, new = old.detach(), new.detach()
    if old.is_sparse or old.is_quantized:
        old, new = (old.to_dense(), new.to_dense()) if old.is_sparse else (old.dequantize(), new.dequantize())
    tolerance = _TOLERANCES.get(old.dtype)
    if tolerance is None:
        if not torch.equal(old, new):
            raise Difference(f"{what}: values differ")
        return 0.0
    difference = (old - new).abs()
    finite = difference[torch.isfinite(difference)]
    worst = float(finite.max()) if finite.numel() else 0.0
    relative, absolute = tolerance
    if not torch.allclose(old, new, rtol=relative, atol=absolute, equal_nan=True):
        raise Difference(f"{what}: values differ by up to {worst:.3g}")
    return worst


def _race(before: Case, after: Case, synchronize) -> dict:
    """Old and new in turns, so that whatever else the machine does hits both; speed-ups are ratios within a pair.

    Where the interval leaves open whether there is a gain, more pairs are run, within a budget.
    """
    one = max(timing.warm_up(case.run, synchronize, 3) for case in (before, after))
    more = timing.repetitions(2 * one, TIMING_BUDGET_S, LEAST_PAIRS, MOST_PAIRS)
    old: list[int] = []
    new: list[int] = []
    started = time.perf_counter()
    while True:
        _run_pairs(before, after, synchronize, old, new, more)
        result = _compare_times(old, new)
        open_question = result["speedup_low"] <= 1.0 and result["speedup"] >= LEAST_GAIN
        if not open_question or time.perf_counter() - started > LONGEST_RACE_S:
            return result


def _run_pairs(before: Case, after: Case, synchronize, old: list[int], new: list[int], pairs: int) -> None:
    for turn in range(pairs):
        for case, times in ((before, old), (after, new))[:: 1 if turn % 2 else -1]:
            times.append(timing.time_once(case.with_fresh_inputs().run, synchronize))


def _compare_times(old: list[int], new: list[int]) -> dict:
    ratios = sorted(a / b for a, b in zip(old, new, strict=True))
    low, high = _median_interval(len(ratios))
    speedup = statistics.median(ratios)
    return {
        "outcome": _outcome(speedup, ratios[low], ratios[high]),
        "before_ms": statistics.median(old) / 1e6,
        "after_ms": statistics.median(new) / 1e6,
        "speedup": speedup,
        "speedup_low": ratios[low],
        "speedup_high": ratios[high],
        "pairs": len(ratios),
        "message": None,
    }


def _median_interval(n: int) -> tuple[int, int]:
    """Ranks (0-based) of a 95 % interval of the median: n/2 -+ 1.96 sqrt(n)/2, by the normal approximation of the
    binomial distribution of how many of n values lie below the median (Conover, Practical Nonparametric Statistics).
    """
    half = 1.96 * math.sqrt(n) / 2
    return max(0, math.floor(n / 2 - half)), min(n - 1, math.ceil(n / 2 + half))


def _outcome(speedup: float, low: float, high: float) -> str:
    if high < 1.0 and speedup * LEAST_GAIN <= 1.0:
        return "slower"
    return "equal" if low > 1.0 and speedup >= LEAST_GAIN else "no-gain"
