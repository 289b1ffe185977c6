"""One forward in order of time, as a real worker records it."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from forwardlens.attribution.attribute import attribute
from forwardlens.attribution.recording import Recording
from forwardlens.model import Timeline
from forwardlens.runner.request import RunRequest
from forwardlens.runner.runner import record, start_worker

pytestmark = pytest.mark.torch

MEMORY = """
import torch
from torch import nn

MIB = 1 << 18


class Net(nn.Module):
    def forward(self, x):
        kept = x.new_zeros(4 * MIB)
        passing = x.new_zeros(8 * MIB)
        del passing
        another = x.new_zeros(2 * MIB)
        return kept[0] + self.inner(x) + another[0]

    def inner(self, x):
        inside = x.new_zeros(7 * MIB)
        return inside[0]


def build():
    return Net().eval(), (torch.zeros(1),)
"""

MANY = """
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        for _ in range(6000):
            x = x + 1
            x = x * 2
        return x


def build():
    return Net().eval(), (torch.zeros(1),)
"""


def recorded(folder: Path, text: str) -> Recording:
    (folder / "net.py").write_text(text, encoding="utf-8")
    request, never = RunRequest("net.py:build", folder, device="cpu", iterations=3), threading.Event()
    with start_worker(request, lambda _: None, never) as worker:
        return record(worker, request, lambda _: None, never)


def timeline_of(recording: Recording) -> Timeline:
    timeline = attribute(recording, "net.py:build").timeline
    assert timeline is not None
    return timeline


def test_lines_operators_and_memory_of_a_forward(tmp_path: Path) -> None:
    timeline = timeline_of(recorded(tmp_path, MEMORY))
    code = [
        (e.depth, e.name, MEMORY.splitlines()[e.span.line - 1].strip())
        for e in timeline.events
        if e.span and e.lane == 0
    ]
    assert code == [
        (0, "Net.forward", "kept = x.new_zeros(4 * MIB)"),
        (0, "Net.forward", "passing = x.new_zeros(8 * MIB)"),
        (0, "Net.forward", "another = x.new_zeros(2 * MIB)"),
        (0, "Net.forward", "return kept[0] + self.inner(x) + another[0]"),
        (1, "Net.inner", "inside = x.new_zeros(7 * MIB)"),
        (1, "Net.inner", "return inside[0]"),
    ]
    operators = [e for e in timeline.events if e.lane == 1]
    assert [e.name for e in operators if e.depth == 0].count("aten::new_zeros") == 4
    assert all(0 <= e.start_ms <= e.end_ms <= timeline.total_ms * 1.001 for e in timeline.events)

    memory = timeline.memory
    assert memory is not None
    mib = 2**20
    assert memory.peak_bytes == pytest.approx(13 * mib, rel=0.01)
    # What was freed before the peak is no part of it, though an allocation of its size came later.
    held = {held.span.line: held.total_bytes // mib for held in memory.held if held.span and held.total_bytes >= mib}
    assert held == {10: 4, 13: 2, 17: 7}
    assert max(point.total_bytes for point in memory.points) == memory.peak_bytes
    assert memory.points[-1].total_bytes < mib


def test_a_long_forward_keeps_its_longest_events_and_says_what_is_missing(tmp_path: Path) -> None:
    recording = recorded(tmp_path, MANY)
    raw = recording["timeline"]
    assert len(raw["lines"]) + len(raw["host"]) + len(raw["device"]) == 20_000
    assert raw["memory"] is not None
    assert len(raw["memory"]["points"]) <= 2_000
    assert sum(count for count, _ in raw["left_out"].values()) > 8_000
    timeline = timeline_of(recording)
    assert timeline.left_out == sum(count for count, _ in raw["left_out"].values())
    assert max(e.end_ms for e in timeline.events) == pytest.approx(timeline.total_ms, rel=0.05)
