"""What a worker sends: one measured forward, before anything is interpreted.

Times are nanoseconds. Places, functions, names and shapes are indices into the lists of the same name; -1 stands for
everything outside user code. `in_place` is why the forwards are the program's own calls and not replays of one.
"""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

OUTSIDE = -1
WAITING = -2

# A file, a qualified name and a first line.
RawFunction = tuple[str, str, int]
# A function, a line, a column, an end line, an end column, and whether it is the start of an iteration. Columns count
# UTF-8 bytes and are None below Python 3.11.
RawPlace = tuple[int, int, int | None, int, int | None, bool]
# A name, a place, an entry, a depth, then total, own, shapes, device and blocked.
RawOp = tuple[int, int, int, int, int, int, int, int, int]
# A place, its runs, the most runs within one call of its function, and its span.
RawPlaceRuns = tuple[int, int, int, int]
# A place, a user function it called, and that call's span.
RawCall = tuple[int, int, int]
# A place that ran, a place whose backward it ran, and how long.
RawBackward = tuple[int, int, int]
# A function, a line, halves of trace events, own time, and Python calls into code that is not the user's.
RawClockRow = tuple[int, int, int, int, int]
# The rows of a timeline. They begin with a start and a duration; starts count from the forward's first mark.
# A line: its place.
RawLine = tuple[int, int, int]
# An operator: its name, place, thread and shapes.
RawHostOp = tuple[int, int, int, int, int, int]
# What ran on a device: its name, place, device, stream, and when it was launched.
RawKernel = tuple[int, int, int, int, int, int, int]


# A file, a line, the first and the last column in bytes where known, a function, Dynamo's reason, and whether it
# compiles nothing of that function.
RawGraphBreak = tuple[str, int, int | None, int | None, str, str, bool]


class RawGraphs(TypedDict):
    """What Dynamo says: `asked` where the whole forward was traced because the user wanted to know, `failed` why that
    did not work, and how many `graphs` were compiled.
    """

    asked: bool
    failed: str | None
    graphs: int
    breaks: list[RawGraphBreak]


class RawIteration(TypedDict):
    """One profiled forward. `memory` rows are `[place, bytes]`, `events` counts all that the profiler recorded."""

    ops: list[RawOp]
    places: list[RawPlaceRuns]
    calls: list[RawCall]
    memory: list[tuple[int, int]]
    backward: list[RawBackward]
    device_busy_ns: int
    events: int


class RawMemory(TypedDict):
    """`points` rows are `[time, bytes held from then on, place]`, `held` rows `[place, bytes, pieces]` at the peak."""

    points: list[tuple[int, int, int]]
    peak_ns: int
    peak_bytes: int
    held: list[tuple[int, int, int]]


class RawTimeline(TypedDict):
    """One of the profiled forwards in order of time. `left_out` has the number and the time of what is not in it."""

    span_ns: int
    lines: list[RawLine]
    host: list[RawHostOp]
    device: list[RawKernel]
    memory: RawMemory | None
    left_out: dict[str, tuple[int, int]]


class RawClock(TypedDict):
    """Line clock readings; `line_ns` and `call_ns` are what one event and one foreign call cost the clock itself."""

    line_ns: float
    call_ns: float
    iterations: list[list[RawClockRow]]


class RawNote(TypedDict):
    """What the run left out: `what` of the program's own, told in one sentence."""

    what: str
    message: str
    file: str | None
    line: int | None


class Recording(TypedDict):
    """`dtypes` goes with `shapes`, call by call; `graphs` is None where nothing was compiled. Recordings made before
    these were kept have neither.
    """

    environment: dict[str, Any]
    target: str | None
    described: str
    wall_ns: list[int]
    clock: RawClock
    grad: dict[str, bool]
    peak_memory_bytes: int | None
    functions: list[RawFunction]
    places: list[RawPlace]
    names: list[str]
    shapes: list[list[list[int]]]
    dtypes: NotRequired[list[list[str]]]
    iterations: list[RawIteration]
    timeline: RawTimeline
    texts: dict[str, str]
    truncated: bool
    stopped: bool
    in_place: NotRequired[str]
    graphs: NotRequired[RawGraphs | None]
    notes: NotRequired[list[RawNote]]
