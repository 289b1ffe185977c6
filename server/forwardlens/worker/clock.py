# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
"""What each line costs, with almost nothing in the way.

The clock is read in the trace events of user code only and no profiler runs. What an event costs is measured on a
known loop, what tracing costs code that is not the user's on a module that does nothing; both are subtracted by count,
and the rest of the perturbation is removed by scaling to the untraced time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from types import CodeType, FrameType

import torch

from .locate import Locations
from .observers import gettrace, settrace
from .usercode import is_compiled

# An event's cost falls half on the line it ends and half on the line it starts, so both count it.
_EVENTS, _SELF, _FOREIGN = range(3)
# Stand-ins for a function index: time outside user code, and time waiting for the device at the end.
OUTSIDE, WAITING = -1, -2


class LineClock:
    """Host time by line: events it took part in, own nanoseconds, Python calls into other code."""

    def __init__(self, is_user: Callable[[str], bool]) -> None:
        self._is_user = is_user
        self._cells: dict[CodeType, dict[int, list[int]]] = {}
        self._outside = [0, 0, 0]
        self._waiting = [0, 0, 0]

    def run(self, function: Callable[[], object], synchronize: Callable[[], None]) -> None:
        """One forward under the clock, added to what was counted since the last `take`."""
        outside, is_user, all_cells, now = self._outside, self._is_user, self._cells, time.perf_counter_ns
        current = outside
        stack: list[list[int]] = []
        last = 0

        def on_call(frame: FrameType, event: str, arg: object):
            nonlocal current, last
            current[_SELF] += now() - last
            code = frame.f_code
            if not is_user(code.co_filename) or is_compiled(code):
                current[_FOREIGN] += 1
                last = now()
                return None
            cells = all_cells.get(code)
            if cells is None:
                cells = all_cells[code] = {}
            stack.append(current)
            current[_EVENTS] += 1
            current = _cell(cells, frame.f_lineno)
            current[_EVENTS] += 1
            frame.f_trace_opcodes = False

            def on_event(frame: FrameType, event: str, arg: object):
                nonlocal current, last
                current[_SELF] += now() - last
                if event == "line":
                    line = frame.f_lineno
                    cell = cells.get(line)
                    if cell is None:
                        cell = _cell(cells, line)
                    current[_EVENTS] += 1
                    current = cell
                    current[_EVENTS] += 1
                elif event == "return" and stack:
                    current[_EVENTS] += 1
                    current = stack.pop()
                    current[_EVENTS] += 1
                last = now()
                return on_event

            last = now()
            return on_event

        synchronize()
        previous = gettrace()
        settrace(on_call)
        last = now()
        try:
            result = function()
        finally:
            settrace(previous)
            current[_SELF] += now() - last
        start = now()
        synchronize()
        self._waiting[_SELF] += now() - start
        del result

    def take(self, locations: Locations) -> list[list[int]]:
        """Rows `[function, line, events, self_ns, foreign calls]` counted since the last time, and start anew."""
        rows = [[OUTSIDE, 0, *self._outside], [WAITING, 0, *self._waiting]]
        for code, cells in self._cells.items():
            function = locations.function(code)
            rows += [[function, line, *cell] for line, cell in cells.items() if cell[_SELF]]
        for cell in (self._outside, self._waiting, *(c for cells in self._cells.values() for c in cells.values())):
            cell[:] = [0, 0, 0]
        return rows


def _cell(cells: dict[int, list[int]], line: int) -> list[int]:
    cell = cells.get(line)
    if cell is None:
        cell = cells[line] = [0, 0, 0]
    return cell


# Compiled under a name of its own, which is user code to the clock that calibrates.
_FILE = "<forwardlens calibration>"
_LOOPS, _TRIALS = 200, 25
_CALIBRATION = f"""
def lines(module, tensor):
    for _ in range({_LOOPS}):
        a = 1
        b = a
        c = b
        del c

def calls(module, tensor):
    for _ in range({_LOOPS}):
        module(tensor)
"""


def event_costs() -> tuple[float, float]:
    """Nanoseconds that one event and one call into other code add, measured on loops of known length.

    The other code is the call of a module that does nothing: what a model's lines mostly call, and under tracing every
    line of it runs slower, not only its start.
    """
    scope: dict = {}
    exec(compile(_CALIBRATION, _FILE, "exec"), scope)
    added, events, _ = _trace(scope["lines"])
    line_ns = max(added / events, 0.0)
    added, events, foreign = _trace(scope["calls"])
    return line_ns, max((added - events * line_ns) / foreign, 0.0)


def _trace(loop: Callable) -> tuple[int, float, int]:
    """Nanoseconds that the clock adds to a loop, its events, and its calls into other code.

    Of many short trials the quickest counts: on a machine with more to do than it has cores, half of five longer ones
    were interrupted now and then, and one call was said to cost five times what it does.
    """
    module, tensor = torch.nn.Identity(), torch.empty(0)
    clock = LineClock(lambda filename: filename == _FILE)
    plain, counted = [], []
    for _ in range(_TRIALS):
        start = time.perf_counter_ns()
        loop(module, tensor)
        plain.append(time.perf_counter_ns() - start)
        clock.run(lambda: loop(module, tensor), lambda: None)
        rows = [row for row in clock.take(Locations()) if row[0] >= 0]
        counted.append(sum(row[3] for row in rows))
    return min(counted) - min(plain), sum(row[2] for row in rows) / 2, sum(row[4] for row in rows)
