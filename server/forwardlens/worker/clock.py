# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
"""What each line costs, with almost nothing in the way.

The clock is read in the line events of user code only and no profiler runs. What an event itself costs is measured on
a known loop and subtracted by hits; the rest of the perturbation is removed by scaling to the untraced time.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from types import CodeType, FrameType

from .locate import Locations

_HITS, _SELF, _FOREIGN = range(3)
# Stand-ins for a function index: time outside user code, and time waiting for the device at the end.
OUTSIDE, WAITING = -1, -2


class LineClock:
    """Host time by line: hits, own nanoseconds, Python calls into other code."""

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
            if not is_user(code.co_filename):
                current[_FOREIGN] += 1
                last = now()
                return None
            cells = all_cells.get(code)
            if cells is None:
                cells = all_cells[code] = {}
            stack.append(current)
            current = _cell(cells, frame.f_lineno)
            frame.f_trace_opcodes = False

            def on_event(frame: FrameType, event: str, arg: object):
                nonlocal current, last
                current[_SELF] += now() - last
                if event == "line":
                    line = frame.f_lineno
                    cell = cells.get(line)
                    if cell is None:
                        cell = _cell(cells, line)
                    cell[_HITS] += 1
                    current = cell
                elif event == "return" and stack:
                    current = stack.pop()
                last = now()
                return on_event

            last = now()
            return on_event

        synchronize()
        previous = sys.gettrace()
        sys.settrace(on_call)
        last = now()
        try:
            result = function()
        finally:
            sys.settrace(previous)
            current[_SELF] += now() - last
        start = now()
        synchronize()
        self._waiting[_SELF] += now() - start
        del result

    def take(self, locations: Locations) -> list[list[int]]:
        """Rows `[function, line, hits, self_ns, foreign calls]` counted since the last time, and start anew."""
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


# Compiled under names of their own, so that one is user code to the clock and the other is not.
_LINES_FILE, _FOREIGN_FILE = "<forwardlens lines>", "<forwardlens foreign>"
_LOOPS = 2000
_CALIBRATION = """
def lines(foreign):
    for _ in range({loops}):
        a = 1
        b = a
        c = b
        del c

def calls(foreign):
    for _ in range({loops}):
        foreign()
"""


def event_costs() -> tuple[float, float]:
    """Nanoseconds that one line event and one call into other code add, measured on loops of known length."""
    scope: dict = {}
    exec(compile(_CALIBRATION.format(loops=_LOOPS), _LINES_FILE, "exec"), scope)
    exec(compile("def foreign():\n    pass", _FOREIGN_FILE, "exec"), scope)
    line_cost = statistics.median(_added(scope["lines"], scope["foreign"], 5 * _LOOPS) for _ in range(5))
    line_cost = max(line_cost, 0.0)
    call_cost = statistics.median(
        _added(scope["calls"], scope["foreign"], _LOOPS, 2 * _LOOPS * line_cost) for _ in range(5)
    )
    return line_cost, max(call_cost, 0.0)


def _added(function: Callable, foreign: Callable, events: int, known_ns: float = 0.0) -> float:
    start = time.perf_counter_ns()
    function(foreign)
    plain = time.perf_counter_ns() - start
    clock = LineClock(lambda filename: filename == _LINES_FILE)
    clock.run(lambda: function(foreign), lambda: None)
    counted = sum(row[3] for row in clock.take(Locations()) if row[0] >= 0)
    return (counted - plain - known_ns) / events
