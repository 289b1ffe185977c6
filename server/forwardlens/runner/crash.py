"""Where a process was when it died, as Python's fault handler tells it."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from pathlib import Path

_FRAME = re.compile(r'^ {2}File "(?P<file>.*)", line (?P<line>\d+) in (?P<name>.*)$')
_THREAD = re.compile(r"^(?:Current thread|Thread) 0x")
_REPORT = re.compile(r"^(?:Fatal Python error|Windows fatal exception|Current thread 0x|Thread 0x)", re.MULTILINE)
_ESCAPE = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8}))")
_WORKER = str(Path(__file__).resolve().parent.parent / "worker")


_COMPILED = ", a crash in compiled code; run the program without ForwardLens to see whether it does the same"
_MEANINGS = {
    "SIGKILL": ", as the system does when memory runs out; make the inputs smaller, or end what else takes memory",
    **dict.fromkeys(("SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGABRT"), _COMPILED),
}


@dataclass(frozen=True, slots=True)
class Frame:
    file: str
    line: int
    name: str


@dataclass(frozen=True, slots=True)
class Crash:
    """The stack without our frames, outermost first; `place` is the innermost frame in the user's workspace."""

    stack: tuple[Frame, ...]
    place: Frame | None

    @property
    def trace(self) -> str:
        frames = "".join(f'  File "{frame.file}", line {frame.line}, in {frame.name}\n' for frame in self.stack)
        return f"Stack (most recent call last):\n{frames}" if self.stack else ""


def find_crash(report: str, workspace: Path | None) -> Crash:
    """The stack of the thread that died, else that of any thread that was in the user's code."""
    for stack in _stacks(report):
        place = next((frame for frame in reversed(stack) if _is_user(frame.file, workspace)), None)
        if place is not None:
            return Crash(stack, place)
    return Crash((), None)


def without_report(log: str) -> str:
    """What the program itself printed before it died."""
    found = _REPORT.search(log)
    return log if found is None else log[: found.start()]


def describe_exit(code: int) -> str:
    """What an exit code of a process says, for the end of a sentence."""
    if code >= 2**31:
        return f"the process ended with Windows error {code:#x}"
    if code >= 0:
        return f"the process exited with code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"the process was ended by {name}{_MEANINGS.get(name, '')}"


def _stacks(report: str) -> list[tuple[Frame, ...]]:
    """Outermost frame first, the thread that died first."""
    stacks: list[list[Frame]] = []
    current = 0
    for line in report.splitlines():
        if _THREAD.match(line):
            current = len(stacks) if line.startswith("Current") else current
            stacks.append([])
        elif stacks and (found := _FRAME.match(line)):
            stacks[-1].append(Frame(_decoded(found["file"]), int(found["line"]), found["name"]))
    ordered = [*stacks[current:], *stacks[:current]]
    return [tuple(f for f in reversed(stack) if not f.file.startswith(_WORKER)) for stack in ordered]


def _decoded(file: str) -> str:
    """The fault handler writes ASCII; a backslash of a Windows path is not told apart from one of an escape."""
    if Path(file).exists():
        return file
    return _ESCAPE.sub(lambda found: chr(int(next(filter(None, found.groups())), 16)), file)


def _is_user(file: str, workspace: Path | None) -> bool:
    path = Path(file)
    installed = {"site-packages", "dist-packages"} & set(path.parts)
    return workspace is not None and path.is_relative_to(workspace) and not installed
