# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
"""Which source expression runs: marks in the profiler's own stream of events.

Stacks know the line of calls only; operators, indexing, mask writes and an implicit `bool()` are no calls and end up
on the `def` line. Here the interpreter reports every bytecode instruction of user code (`frame.f_trace_opcodes`), and
each one that can run an operator leaves a mark in the profiler's stream. Whatever the profiler records after a mark
belongs to the mark's expression, so there is nothing to align and no dispatch changes: fast paths stay fast.
"""

from __future__ import annotations

import dis
import inspect
import sys
from collections.abc import Callable
from itertools import pairwise
from types import CodeType, FrameType

import torch

from .limits import Stopped
from .observers import gettrace, settrace
from .usercode import is_compiled

MARK = "forwardlens::mark"
OUTSIDE = -1

# Instructions that only move values around: no user-visible operator can run in them. Anything not listed is marked,
# so an instruction of a future Python costs time in this pass and is never missed.
_SILENT = frozenset(
    """
    CACHE NOP RESUME PRECALL PUSH_NULL KW_NAMES EXTENDED_ARG SWAP COPY POP_TOP ROT_TWO ROT_THREE ROT_FOUR ROT_N
    DUP_TOP DUP_TOP_TWO LOAD_FAST LOAD_FAST_CHECK LOAD_FAST_AND_CLEAR LOAD_FAST_LOAD_FAST LOAD_FAST_BORROW
    LOAD_FAST_BORROW_LOAD_FAST_BORROW STORE_FAST STORE_FAST_STORE_FAST STORE_FAST_LOAD_FAST STORE_FAST_MAYBE_NULL
    DELETE_FAST LOAD_CONST LOAD_SMALL_INT LOAD_CONST_IMMORTAL RETURN_CONST LOAD_GLOBAL LOAD_DEREF STORE_DEREF
    LOAD_CLOSURE LOAD_CLASSDEREF LOAD_NAME STORE_NAME STORE_GLOBAL MAKE_CELL COPY_FREE_VARS MAKE_FUNCTION
    SET_FUNCTION_ATTRIBUTE BUILD_TUPLE BUILD_LIST BUILD_SLICE BUILD_MAP BUILD_CONST_KEY_MAP LIST_APPEND SET_ADD
    MAP_ADD LIST_TO_TUPLE JUMP_FORWARD JUMP_BACKWARD JUMP_BACKWARD_NO_INTERRUPT JUMP_ABSOLUTE JUMP RETURN_VALUE
    RETURN_GENERATOR GEN_START YIELD_VALUE POP_BLOCK SETUP_FINALLY POP_EXCEPT PUSH_EXC_INFO RERAISE IS_OP
    POP_JUMP_IF_NONE POP_JUMP_IF_NOT_NONE POP_JUMP_FORWARD_IF_NONE POP_JUMP_FORWARD_IF_NOT_NONE
    POP_JUMP_BACKWARD_IF_NONE POP_JUMP_BACKWARD_IF_NOT_NONE END_FOR POP_ITER END_SEND TO_BOOL_BOOL NOT_TAKEN
    """.split()
)
# The compiler gives the truth test of `a or f(b)` the position of whatever it looked at before; what is tested is what
# the instruction before it made, these aside.
_TESTS = ("POP_JUMP", "JUMP_IF_", "TO_BOOL")
_BETWEEN = frozenset({"EXTENDED_ARG", "COPY", "DUP_TOP", "STORE_FAST", "STORE_DEREF", "STORE_NAME", "STORE_GLOBAL"})
_RESUMED = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_HAS_COLUMNS = hasattr(CodeType, "co_positions")
# In place of an instruction's number: this mark is no run of its place.
UNCOUNTED = -1


class Locations:
    """Interns functions and their expressions; both are sent to the server as plain lists."""

    def __init__(self) -> None:
        self.functions: list[list] = []
        self.places: list[list] = []
        self._functions: dict[CodeType, int] = {}
        self._places: dict[tuple, int] = {}
        self._tables: dict[CodeType, dict[int, tuple[int, int]]] = {}

    def function(self, code: CodeType) -> int:
        """Index of `[file, qualified name, first line]`."""
        index = self._functions.get(code)
        if index is None:
            index = self._functions[code] = len(self.functions)
            name = getattr(code, "co_qualname", code.co_name).replace("<locals>.", "")
            self.functions.append([code.co_filename, name, code.co_firstlineno])
        return index

    def table(self, code: CodeType) -> dict[int, tuple[int, int]]:
        """Offset -> place and instruction (see `Locator`), for the instructions that can run an operator."""
        table = self._tables.get(code)
        if table is None:
            table = self._tables[code] = self._build(code)
        return table

    def _build(self, code: CodeType) -> dict[int, tuple[int, int]]:
        function = self.function(code)
        if not _HAS_COLUMNS:
            return self._build_lines(code, function)
        positions = list(code.co_positions())
        table, place, counted, made, makes = {}, OUTSIDE, 0, None, ""
        starts = {i.offset: i.opname for i in dis.get_instructions(code)}
        negated = {offset for (offset, _), (_, following) in pairwise(starts.items()) if following == "UNARY_NOT"}
        for offset, position in enumerate(positions):
            name = starts.get(2 * offset)
            if name is not None:
                counted = 0
                if 2 * offset in negated and name == "TO_BOOL":
                    counted = UNCOUNTED  # the first half of a `not`, whose second half counts
                elif made is not None and name.startswith(_TESTS):
                    # What has just run is no run again for being tested.
                    position, counted = made, 0 if makes in _SILENT else UNCOUNTED
                elif name not in _BETWEEN:
                    made = position
                makes = makes if name in _BETWEEN else name
                line, end_line, column, end_column = position
                silent = name in _SILENT or line is None
                iterates = name == "GET_ITER"
                place = OUTSIDE if silent else self._place(function, line, column, end_line, end_column, iterates)
            # The inline caches after a call keep its place: a frame that waits for a call stands on the last of them.
            if place != OUTSIDE:
                table[2 * offset] = place, counted
        return table

    def _build_lines(self, code: CodeType, function: int) -> dict[int, tuple[int, int]]:
        """Python 3.10 keeps lines only. Asking for the next item is one more than the rounds of a loop."""
        table, line = {}, code.co_firstlineno
        starts = dict(dis.findlinestarts(code))
        for instruction in dis.get_instructions(code):
            line = starts.get(instruction.offset, line)
            if instruction.opname not in _SILENT:
                counted = UNCOUNTED if instruction.opname == "FOR_ITER" else instruction.offset
                table[instruction.offset] = self._place(function, line, None, line, None, False), counted
        return table

    def _place(self, function: int, *position: int | bool | None) -> int:
        key = (function, *position)
        index = self._places.get(key)
        if index is None:
            index = self._places[key] = len(self.places)
            self.places.append(list(key))
        return index


class Locator:
    """Traces user code and leaves marks. `marks[i]` tells what the i-th mark in the profiler's stream means.

    A mark is `(place, entry, instruction)`: the expression, a number for the running call of its function, and which
    of the place's instructions it is. Below Python 3.11 a place is a line with many instructions; above they are all 0,
    as one expression may be compiled twice (the test of a `while`). `UNCOUNTED` marks what is no run of the place, such
    as the return of a user function it called. A forward with more than `most_marks` is ended there: `full` says so.
    """

    def __init__(self, locations: Locations, is_user: Callable[[str], bool], most_marks: int) -> None:
        self.marks: list[tuple[int, int, int]] = []
        self.entries: list[tuple[int, int, int]] = []
        self.full = False
        self._locations, self._is_user, self._most = locations, is_user, most_marks
        self._stack: list[tuple[FrameType | None, int]] = [(None, OUTSIDE)]
        self._generators: dict[FrameType, int] = {}
        self._mark = torch._C._profiler._RecordFunctionFast(MARK)

    def run(self, function: Callable[[], object]) -> object:
        """One forward with marks on, between two outside marks that tell iterations apart."""
        self._leave_mark(OUTSIDE, OUTSIDE, 0)
        previous = gettrace()
        # Python 3.12 asks at `settrace` whether any frame wants opcode events; frames that start later come too late.
        sys._getframe().f_trace_opcodes = True
        settrace(self._on_call)
        try:
            return function()
        except Stopped:
            if not self.full:
                raise
            return None
        finally:
            settrace(previous)
            del self._stack[1:]
            # One that was cut off between its start and its end cannot be started again.
            self._mark = torch._C._profiler._RecordFunctionFast(MARK)
            self._leave_mark(OUTSIDE, OUTSIDE, UNCOUNTED)

    def _leave_mark(self, place: int, entry: int, instruction: int) -> None:
        self.marks.append((place, entry, instruction))
        self._mark.__enter__()
        self._mark.__exit__(None, None, None)

    def _on_call(self, frame: FrameType, event: str, arg: object):
        code = frame.f_code
        if not self._is_user(code.co_filename) or is_compiled(code):
            return None
        entry = self._entry(frame)
        self._stack.append((frame, entry))
        # Python 3.13 turns opcode events on for a frame only if it has a trace function by then.
        frame.f_trace = local = self._local(entry, self._locations.table(code))
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return local

    def _entry(self, frame: FrameType) -> int:
        """The number of this call; a generator keeps its own over all its resumptions."""
        known = self._generators.get(frame)
        if known is not None:
            return known
        caller, caller_entry = self._stack[-1]
        place = OUTSIDE if caller is None else self._current(caller)
        entry = len(self.entries)
        self.entries.append((self._locations.function(frame.f_code), place, caller_entry))
        if frame.f_code.co_flags & _RESUMED:
            self._generators[frame] = entry
        return entry

    def line(self, place: int) -> tuple[int, int]:
        """The function and the line of a place."""
        function, line = self._locations.places[place][:2]
        return function, line

    def _current(self, frame: FrameType) -> int:
        return self._locations.table(frame.f_code).get(frame.f_lasti, (OUTSIDE, 0))[0]

    def _local(self, entry: int, table: dict[int, tuple[int, int]]):
        marks, mark, most = self.marks, self._mark, self._most

        def on_event(frame: FrameType, event: str, arg: object):
            if event == "opcode":
                where = table.get(frame.f_lasti)
                if where is not None:
                    if len(marks) >= most:
                        self.full = True
                        raise Stopped
                    marks.append((where[0], entry, where[1]))
                    mark.__enter__()
                    mark.__exit__(None, None, None)
            elif event == "return":
                self._on_return(frame)
            return on_event

        return on_event

    def _on_return(self, frame: FrameType) -> None:
        if self._stack[-1][0] is frame:
            self._stack.pop()
        caller, entry = self._stack[-1]
        self._leave_mark(OUTSIDE if caller is None else self._current(caller), entry, UNCOUNTED)
