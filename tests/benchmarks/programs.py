"""What is measured: the samples in several sizes, and a model that is all large operators."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from forwardlens.attribution.attribute import attribute
from forwardlens.attribution.recording import Recording
from forwardlens.model import Profile
from forwardlens.runner.request import RunRequest
from forwardlens.runner.runner import record, start_worker

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "samples"
MODELS = Path(__file__).parent / "models"
# Beside slow_bert.py: each forward leaves one byte in the file `count`, so that the forwards can be counted.
COUNTED_SLOW_BERT = """
import os, slow_bert

def build():
    model, args = slow_bert.build()
    count = os.open("count", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    model.register_forward_pre_hook(lambda *_: os.write(count, b".") and None)
    return model, args
"""

_UNTRACED = """
import json, statistics, sys, time
sys.path.insert(0, sys.argv[1])
import importlib, torch
model, args = importlib.import_module(sys.argv[2]).build()
def once():
    start = time.perf_counter()
    output = model(*args)
    # The forward ends when it returns: what its output's graph costs to free is not its time.
    return 1e3 * (time.perf_counter() - start)
budget = time.perf_counter() + 3
times = [once() for _ in range(5)]
times = []
while len(times) < 7 or (time.perf_counter() < budget and len(times) < 200):
    times.append(once())
print(json.dumps(statistics.median(times)))
"""


@dataclass(frozen=True)
class Program:
    name: str
    file: Path
    # The workspace, whose code counts as the user's.
    folder: Path = ROOT

    @property
    def entry(self) -> str:
        return f"{self.file.relative_to(self.folder).as_posix()}:build"

    @property
    def import_from(self) -> list[str]:
        """The folder to import from and the module's name, for a process without us."""
        return [str(self.file.parent), self.file.stem]


SLOW_BERT = Program("slow_bert", SAMPLES / "slow_bert.py")
PROGRAMS = (
    Program("tiny_mlp", MODELS / "tiny_mlp.py"),
    SLOW_BERT,
    Program("slow_bert_fixed", SAMPLES / "slow_bert_fixed.py"),
    Program("slow_segmenter", SAMPLES / "slow_segmenter.py"),
    Program("slow_tagger", SAMPLES / "slow_tagger.py"),
    Program("slow_bert, 6 layers of 768", MODELS / "large_bert.py"),
    Program("wide_mlp", MODELS / "wide_mlp.py"),
)


def untraced_ms(program: Program) -> float:
    """Median milliseconds of the forward in a process of its own that knows nothing of us."""
    command = [sys.executable, "-c", _UNTRACED, *program.import_from]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout.splitlines()[-1]))


def recorded(program: Program) -> Recording:
    request = RunRequest(program.entry, program.folder, device="cpu")
    never = threading.Event()
    with start_worker(request, lambda _: None, never) as worker:
        return record(worker, request, lambda _: None, never)


def profiled(program: Program) -> Profile:
    return attribute(recorded(program), program.entry)


def processor() -> str:
    done = subprocess.run(["lscpu"], capture_output=True, text=True, check=False).stdout
    names = [line.partition(":")[2].strip() for line in done.splitlines() if line.startswith("Model name")]
    return f"{names[0] if names else 'unknown processor'}, {os.cpu_count()} cores"


def torch_version() -> str:
    code = "import torch; print(torch.__version__)"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


@contextmanager
def memory_kept() -> Generator[None]:
    """Processes started inside keep the memory of freed tensors.

    Whether glibc hands it back to the system, to be faulted in again by the next forward, depends on what happens to
    lie behind it: two untraced processes of slow_segmenter differ by 1.5 times for that alone.
    """
    names = {"MALLOC_TRIM_THRESHOLD_": str(1 << 30), "MALLOC_MMAP_THRESHOLD_": str(1 << 30)}
    os.environ.update(names)
    try:
        yield
    finally:
        for name in names:
            del os.environ[name]
