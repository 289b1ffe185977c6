"""What holds a forward back, in one word."""

from __future__ import annotations

from collections.abc import Sequence

from forwardlens.model import Bound, ExpressionCost

# An operator this short is mostly the way to it: dispatch alone takes 2-10 us on the host (seed digest, facts).
SMALL_OP_MS = 0.02
# A device busy for more than this share of the wall time is what the forward waits for.
BUSY = 0.7
DOMINANT = 0.6
_COPIES = ("aten::copy_", "aten::clone", "aten::contiguous", "aten::cat", "aten::_to_copy", "aten::repeat")


def bound(costs: Sequence[ExpressionCost], median_ms: float, busy_ms: float | None, blocked_ms: float) -> Bound:
    """On a device: compute if it is busy, sync if the host waits for it, else dispatch. On a CPU: by operator size."""
    if busy_ms is not None:
        if blocked_ms > 0.3 * median_ms and busy_ms < BUSY * median_ms:
            return "sync"
        if busy_ms >= BUSY * median_ms:
            return "compute"
        return "dispatch" if busy_ms < 0.5 * median_ms else "mixed"
    large = copies = 0.0
    for cost in costs:
        for op in cost.ops:
            if op.calls and op.self_ms / op.calls > SMALL_OP_MS:
                large += op.self_ms
                copies += op.self_ms if op.name in _COPIES else 0.0
    if large < (1 - DOMINANT) * median_ms:
        return "dispatch"
    if copies > DOMINANT * large:
        return "memory"
    return "compute" if large > DOMINANT * median_ms else "mixed"
