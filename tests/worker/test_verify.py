# pyright: reportUnknownVariableType=false
"""What a trial says where the device stops working on the way."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from forwardlens.worker import timing
from forwardlens.worker.case import Case
from forwardlens.worker.verify import verify

pytestmark = pytest.mark.torch


def test_values_that_only_the_device_refuses_end_further_trials_and_refute_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken, lost = torch.rand(16, 8), list[bool]()

    def synchronize() -> None:
        if lost:
            raise RuntimeError("device-side assert triggered")

    def double(x: torch.Tensor) -> torch.Tensor:
        # As on a device: what goes wrong here is told later, and then for all that follows.
        lost.extend([True] * (not torch.equal(x, taken)))
        return x * 2

    monkeypatch.setattr(timing, "synchronizer", lambda _: synchronize)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    cases = [Case(double, (taken,)) for _ in range(2)]
    tried: Any = verify(cases[0], lambda: cases[1], torch.device("cpu"), graph_may_vanish=False)
    assert tried["outcome"] in {"equal", "slower", "no-gain"}
    assert tried["device_lost"]
