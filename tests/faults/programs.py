"""Programs that do to their process what programs do, and how each of their runs must end.

In the texts `# here` marks the line that must be told, `# costs` the one that must carry a finding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

_MODEL = """\
import torch
from torch import nn
{module}

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.word = nn.Embedding(50, 8)
        {constructor}

    def forward(self, ids):
        {forward}
        return torch.stack([self.word(ids[:, t]) for t in range(ids.shape[1])], dim=1)  # costs


def build():
    torch.manual_seed(0)
    return Net().eval(), (torch.randint(0, 50, (2, 200)),)
"""
SETTINGS = """\
[tool.forwardlens.entries.model]
run = "model.py:build"
iterations = 1
warmup = 1
memory_limit = {memory_limit}
"""


@dataclass(frozen=True, slots=True)
class Fault:
    """`says` is part of what the user is told: by a run that is `done` as a warning, by one that failed as its error.

    A program that is to be `cancelled` makes a file `started` first.
    """

    name: str
    text: str
    ends: Literal["done", "failed", "cancelled"]
    says: str | None = None
    memory_limit: float = 8.0

    def line(self, mark: str) -> int:
        return next(number for number, line in enumerate(self.text.splitlines(), 1) if line.endswith(f"# {mark}"))


# As torch says it on an H200.
_OUT_OF_MEMORY = (
    "CUDA out of memory. Tried to allocate 8.00 GiB. GPU 0 has a total capacity of 139.80 GiB of which 3.19 GiB is "
    "free. Including non-PyTorch memory, this process has 136.60 GiB memory in use. Of the allocated memory 136.00 GiB "
    "is allocated by PyTorch, and 2.00 MiB is reserved by PyTorch but unallocated. If reserved but unallocated memory "
    "is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation."
)


def _fault(
    name: str,
    ends: Literal["done", "failed", "cancelled"],
    says: str | None = None,
    *,
    module: str = "",
    constructor: str = "pass",
    forward: str = "pass",
    memory_limit: float = 8.0,
) -> Fault:
    parts = {"module": module, "constructor": _indented(constructor), "forward": _indented(forward)}
    return Fault(name, _MODEL.format(**parts), ends, says, memory_limit)


def _indented(text: str) -> str:
    return text.replace("\n", "\n        ")


GOOD = _fault("good", "done")

_SLEEPERS = """\
import os, subprocess, sys, time
sleep = [sys.executable, "-c", "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)"]
subprocess.Popen(sleep)
subprocess.Popen(sleep, start_new_session=True)
if os.fork() == 0:
    time.sleep(600)"""
_ENDLESS = """
import pathlib, time
begun = time.monotonic()
while True:
    if time.monotonic() > begun + 8: pathlib.Path("started").touch()  # here
"""
_IGNORES_SIGTERM = f"""\
import pathlib, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
{_SLEEPERS}
pathlib.Path("started").touch()
while True:
    time.sleep(600)"""
_GARBAGE = """\
import os
for fd in range(3, 64):
    try:
        os.write(fd, b'\\n{"kind": "done", "result": 3}\\n' + os.urandom(70_000))
    except OSError:
        pass"""
_THREADS = """\
import threading, time
for daemon in (True, False):
    threading.Thread(target=time.sleep, args=(600,), daemon=daemon).start()"""

FAULTS = (
    _fault(
        "segfault",
        "failed",
        "ended by SIGSEGV, a crash in compiled code; ",
        forward="import ctypes\nctypes.string_at(0)  # here",
    ),
    _fault("os._exit", "failed", "exited with code 3", forward="import os\nos._exit(3)  # here"),
    _fault("SystemExit", "failed", "must not exit before", module="raise SystemExit(7)  # here"),
    _fault("exception in import", "failed", "ValueError: no", module="raise ValueError('no')  # here"),
    _fault("exception in constructor", "failed", "ZeroDivisionError", constructor="1 / 0  # here"),
    _fault("exception in forward", "failed", "KeyError: 'x'", forward="{}['x']  # here"),
    _fault(
        "exception in atexit",
        "done",
        "ZeroDivisionError",
        module="import atexit\n@atexit.register\ndef _():\n    1 / 0  # here",
    ),
    _fault("endless loop", "cancelled", module=_ENDLESS),
    _fault("endless recursion", "failed", "RecursionError", forward="self.forward(ids)  # here"),
    _fault(
        "memory beyond the limit",
        "failed",
        "raise the memory limit",
        forward="[torch.ones(1 << 23) for _ in range(64)]  # here",
        memory_limit=1.2,
    ),
    _fault("200 MB printed", "done", "left out", module="for _ in range(200): print('x' * (1 << 20))"),
    _fault("reads stdin", "failed", "a run has no input", constructor="input()  # here"),
    _fault("forks children", "done", constructor=_SLEEPERS),
    _fault("daemon threads", "done", constructor=_THREADS),
    _fault("ignores SIGTERM", "cancelled", constructor=_IGNORES_SIGTERM),
    _fault("closes its descriptors", "done", constructor="import os\nos.closerange(3, 256)"),
    _fault(
        "monkeypatches tracing",
        "done",
        "sys.settrace",
        module="import sys\nsys.settrace(lambda *_: None)  # here\nsys.settrace = sys.setprofile = lambda _: None",
        forward="import sys\nsys.settrace(None)",
    ),
    _fault("changes directory", "done", constructor="import os, tempfile\nos.chdir(tempfile.gettempdir())"),
    _fault("deletes its own file", "done", module="import os\nif os.path.exists(__file__): os.remove(__file__)"),
    _fault("binary garbage on the pipe", "done", constructor=_GARBAGE),
    _fault("another profiler", "done", "torch's profiler", module="torch.profiler.profile().start()  # here"),
    _fault(
        "CUDA out of memory",
        "failed",
        "of which 3.19 GiB is free (while running `build()` of model.py); make the inputs smaller",
        module=f"SAID = {_OUT_OF_MEMORY!r}",
        forward="raise torch.OutOfMemoryError(SAID)  # here",
    ),
)
