# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
"""Trying a fix: the edited program against the original, same state, same inputs, same random numbers."""

from __future__ import annotations

import contextlib
import copy
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from . import timing
from .case import Case, from_result, tensors
from .compare import Comparison, Difference, random_state, same_memory, seed, state
from .failures import in_one_line
from .limits import Limit
from .precision import whole_float32
from .values import copy_for_reloaded
from .variants import Variant, variants
from .watch import select_target

CALLS = 2
LEAST_PAIRS, MOST_PAIRS, TIMING_BUDGET_S, LONGEST_RACE_S = 10, 40, 0.6, 0.7
# A gain below this is not worth an edit, whatever the statistics say.
LEAST_GAIN = 1.02
# Some further inputs are always tried, the others while the time lasts. One may send a forward into an endless loop.
LEAST_VARIANTS, VARIANTS_BUDGET_S, LONGEST_VARIANT_S = 3, 0.4, 20.0


class _DeviceLostError(Exception):
    """Inputs that the original does not take have left the device unusable for this process."""


class _RaisedError(Exception):
    """The edited program raised on a further input; the text says which and what."""


def verify(before: Case, load_after: Callable[[], Case], device: torch.device, *, graph_may_vanish: bool) -> dict:
    """`{"outcome": equal|differs|raises|slower|no-gain, "max_abs_diff", "before_ms", "after_ms", "speedup",
    "speedup_low", "speedup_high", "pairs", "message"}`; times are medians, the range is a 95 % interval. With
    `"device_lost": True` nothing more can run in this process.
    """
    synchronize, lost = timing.synchronizer(device), {}
    try:
        after = _with_state_of(before, load_after())
        with whole_float32():
            worst = _compare_calls(before, after, graph_may_vanish)
        timed = _race(before, after, synchronize)
        # Last, because what odd inputs leave behind in a model must not show in what was measured.
        try:
            with whole_float32():
                _try_variants(before, after, device, synchronize)
        except _DeviceLostError:
            lost = {"device_lost": True}
    except Difference as difference:
        return {"outcome": "differs", "message": str(difference)}
    except _RaisedError as raised:
        return {"outcome": "raises", "message": str(raised)}
    except (Exception, SystemExit) as error:
        return {"outcome": "raises", "message": in_one_line(error)}
    return {"max_abs_diff": worst, **timed, **lost}


def _with_state_of(before: Case, after: Case) -> Case:
    """`after` on the parameters, buffers, mode and inputs of `before`."""
    if before.module is not None and after.module is not None:
        old, new = before.module.state_dict(), after.module.state_dict()
        if old.keys() != new.keys():
            raise Difference(f"the state dict has other keys: {', '.join(sorted(old.keys() ^ new.keys())[:3])}")
        after.module.load_state_dict(copy.deepcopy(old))
        after.module.train(before.module.training)
    args, kwargs = copy_for_reloaded((before.args, before.kwargs))
    return replace(after, args=args, kwargs=kwargs)


def _compare_calls(before: Case, after: Case, graph_may_vanish: bool) -> float:
    """Largest absolute difference over consecutive calls. Raises `Difference`."""
    comparison = Comparison()
    for call in range(CALLS):
        old_case, new_case = before.with_fresh_inputs(), after.with_fresh_inputs()
        old, old_drawn = _seeded(old_case, call)
        new, new_drawn = _seeded(new_case, call)
        _compare_call(comparison, old_case, new_case, old, new)
        comparison.same(old_drawn, new_drawn, "random numbers drawn")
        same_memory(old, new, old_case, new_case)
        if not graph_may_vanish:
            _compare_gradients(comparison, old_case, new_case, old, new)
    return comparison.worst


def _compare_call(comparison: Comparison, old_case: Case, new_case: Case, old: Any, new: Any) -> None:
    """The outputs, the inputs after the call and the state after it. Names that only the edit knows are its own."""
    comparison.same(old, new, "output")
    comparison.same((old_case.args, old_case.kwargs), (new_case.args, new_case.kwargs), "input after the call")
    if old_case.module is not None and new_case.module is not None:
        after = state(new_case.module)
        for name, value in state(old_case.module).items():
            if name in after:
                comparison.same(value, after[name], f"`{name}` after the call")


def _seeded(case: Case, number: int) -> tuple[Any, list[Any]]:
    """What a call gives, and how far it went with the random numbers."""
    seed(number)
    return case.run(), random_state()


def _compare_gradients(comparison: Comparison, before: Case, after: Case, old: Any, new: Any) -> None:
    """Compare what a backward pass from weighted outputs gives every parameter and every input that asks for it."""
    flags = [[t.requires_grad for t in tensors(value)] for value in (old, new)]
    if flags[0] != flags[1]:
        raise Difference("other outputs take part in autograd")
    roots = [[t for t in tensors(value) if t.requires_grad] for value in (old, new)]
    leaves = [_leaves(before), _leaves(after)]
    if not roots[0] or not leaves[0]:
        return
    try:
        expected = _gradients(roots[0], leaves[0])
    except Exception:
        return  # Such as that of cuDNN's recurrent layers in evaluation: what cannot be trained has nothing to keep.
    for one, other in zip(expected, _gradients(roots[1], leaves[1]), strict=True):
        comparison.same_sum(one, other, "gradient")


def _gradients(outputs: list[torch.Tensor], wanted: list[torch.Tensor]) -> tuple[torch.Tensor | None, ...]:
    weighted = torch.stack([(t * _weights(t)).real.sum().double() for t in outputs]).sum()
    return torch.autograd.grad(weighted, wanted, allow_unused=True)


def _leaves(case: Case) -> list[torch.Tensor]:
    trained = [] if case.module is None else [p for p in case.module.parameters() if p.requires_grad]
    return trained + [t for t in tensors((case.args, case.kwargs)) if t.requires_grad and t.is_leaf]


def _weights(tensor: torch.Tensor) -> torch.Tensor:
    weights = torch.linspace(0.5, 1.5, tensor.numel(), device=tensor.device, dtype=torch.float32)
    return weights.view(tensor.shape).to(tensor.dtype)


def _try_variants(before: Case, after: Case, device: torch.device, synchronize) -> None:
    """Run both on further inputs. Raises `Difference`, or what only the edited program raises."""
    started = time.perf_counter()
    for tried, variant in enumerate(variants(before)):
        if tried >= LEAST_VARIANTS and time.perf_counter() - started > VARIANTS_BUDGET_S:
            return
        with Limit(LONGEST_VARIANT_S):
            _try_variant(variant, before, after, device, synchronize)


def _try_variant(variant: Variant, before: Case, after: Case, device: torch.device, synchronize) -> None:
    try:
        old_case = _varied(before, variant, device)
        old, _ = _seeded(old_case, 0)
        # A device tells later what went wrong, and would tell it to the edited program.
        synchronize()
    except (Exception, SystemExit):
        _require_device(synchronize)
        # The original does not take it, so it tells nothing about the edit, which runs only to keep in step.
        with contextlib.suppress(Exception, SystemExit):
            _seeded(_varied(after, variant, device), 0)
        return
    try:
        new_case = _varied(after, variant, device)
        if variant.arguments:
            new_case = _with_state_of(old_case, new_case)
        new, _ = _seeded(new_case, 0)
    except (Exception, SystemExit) as error:
        raise _RaisedError(f"with {variant.name}: {in_one_line(error)}") from None
    try:
        _compare_call(Comparison(nan_counts=False), old_case, new_case, old, new)
    except Difference as difference:
        raise Difference(f"with {variant.name}: {difference}") from None


def _require_device(synchronize) -> None:
    """An index out of range, which raises on a host, ends all work on a device."""
    try:
        synchronize()
    except Exception:
        raise _DeviceLostError from None


def _varied(case: Case, variant: Variant, device: torch.device) -> Case:
    if variant.arguments and case.factory is not None:
        seed(0)
        made = from_result(case.factory(**dict(variant.arguments)), case.described)
        case = select_target(made, case.wanted).to(device)
    return variant.change(case).with_fresh_inputs()


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
