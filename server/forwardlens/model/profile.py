"""The record in the middle: what one forward cost, expression by expression.

Everything that measures writes a `Profile`; everything that explains, draws or fixes only reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from forwardlens.model.location import Span
from forwardlens.model.timeline import Timeline

Bound = Literal["dispatch", "compute", "sync", "memory", "mixed"]
Shape = tuple[int, ...]

# The kind of note that says how many findings of a file are not shown.
SMALLER_FINDINGS = "smaller-findings"


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Milliseconds over `n` runs."""

    median: float
    p10: float
    p90: float
    n: int


@dataclass(frozen=True, slots=True)
class OpCost:
    """One operator at one expression, per forward.

    `self_ms` excludes the operators it runs inside itself and `total_ms` includes them; both are calibrated
    host milliseconds. `shapes` holds the input shapes of the commonest call and `dtypes` what they are made of, as
    torch names it (`float32`), empty for an argument that is no tensor; `shape_variants` is how many different shapes
    were seen, and `variants` are the first of these in the order in which they came. `outermost` is false for an
    operator that ran inside another at the same place. `position` counts the operators of the expression in the order
    in which they first ran.
    """

    name: str
    calls: int
    self_ms: float
    total_ms: float
    device_ms: float
    alloc_bytes: int
    shapes: tuple[Shape, ...]
    shape_variants: int
    outermost: bool
    dtypes: tuple[str, ...] = ()
    variants: tuple[tuple[Shape, ...], ...] = ()
    position: int = 0


@dataclass(frozen=True, slots=True)
class ExpressionCost:
    """What one source expression costs in one forward.

    `self_ms` is this expression alone, `total_ms` adds the user functions it calls, `share` is `self_ms` over
    the forward's median. `calls` counts its runs in a forward; `calls_per_entry` is the largest number of runs
    inside one call of the enclosing function, which is what tells a loop from a helper called often.
    `backward_ms` is the part of `self_ms` that its backward took, wherever it ran.
    """

    span: Span
    function: str
    calls: int
    calls_per_entry: int
    self_ms: float
    total_ms: float
    share: float
    device_ms: float
    blocked_ms: float
    alloc_bytes: int
    ops: tuple[OpCost, ...] = ()
    backward_ms: float = 0.0

    def op_calls(self, *names: str) -> int:
        """How often any of the operators `names` (as in `aten::where`) ran here in one forward."""
        return sum(op.calls for op in self.ops if op.name in names)


@dataclass(frozen=True, slots=True)
class GradUse:
    """What autograd did during the forward: the evidence for advice on grad modes."""

    grad_enabled: bool
    inference_mode: bool
    training: bool
    outputs_require_grad: bool
    backward_ran: bool


@dataclass(frozen=True, slots=True)
class Environment:
    """What was measured on.

    `float32_matmul_precision` is torch's own setting: `highest`, `high` or `medium`. `matmul_tf32` and `conv_tf32` say
    whether float32 products and convolutions may use TF32; None on a device that has none.
    """

    python: str
    torch: str
    platform: str
    device: str
    device_name: str
    cuda_runtime: str | None
    driver: str | None
    threads: int
    grad_mode: bool
    training: bool
    compute_capability: str | None = None
    float32_matmul_precision: str | None = None
    matmul_tf32: bool | None = None
    conv_tf32: bool | None = None


@dataclass(frozen=True, slots=True)
class Forward:
    """The forward as a whole, measured without a profiler."""

    wall_ms: Quantiles
    device_busy_ms: float | None
    blocked_ms: float | None
    peak_memory_bytes: int | None
    bound: Bound


@dataclass(frozen=True, slots=True)
class GraphBreak:
    """A place where Dynamo ends a graph. `span` covers the line where Dynamo tells no columns.

    `reason` is in Dynamo's own words. `frame_skipped` says that nothing of `function` is compiled because of it.
    """

    span: Span
    function: str
    reason: str
    frame_skipped: bool


@dataclass(frozen=True, slots=True)
class Graphs:
    """What Dynamo made of the forward: how many graphs, and where it ended one.

    With `asked` the whole forward was traced for this account only; otherwise it is that of what the program compiles.
    """

    count: int
    asked: bool
    breaks: tuple[GraphBreak, ...] = ()


@dataclass(frozen=True, slots=True)
class RunError:
    """Something the user should know about a run, with the place if there is one.

    `count` is how many things a note stands for, such as findings that are not shown.
    """

    kind: str
    message: str
    file: str | None = None
    line: int | None = None
    count: int = 0


@dataclass(frozen=True, slots=True)
class Profile:
    """One measured forward.

    `texts` maps each file's absolute path to the exact text that ran: edits are compared with it, so a
    measured line keeps its cost when it moves and loses it when it changes.
    `graphs` is None where the program compiles nothing and nobody asked what would become of it.
    `outermost` are the functions that the forward goes through, as (file, name): the one that it starts in, and then
    each time the one that takes most of the time among those that the one before calls.
    The `self_ms` of all `lines` and `unattributed_share` of the median add up to the median.
    """

    entry: str
    target: str | None
    environment: Environment
    forward: Forward
    grad: GradUse
    unattributed_share: float
    lines: tuple[ExpressionCost, ...]
    texts: Mapping[str, str] = field(default_factory=dict[str, str])
    errors: tuple[RunError, ...] = ()
    timeline: Timeline | None = None
    graphs: Graphs | None = None
    outermost: tuple[tuple[str, str], ...] = ()

    def in_file(self, path: str) -> tuple[ExpressionCost, ...]:
        return tuple(cost for cost in self.lines if cost.span.file == path)
