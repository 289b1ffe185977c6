"""What the examples of the rule cannot show: after this fix the loop is still there, for its updates."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.rules import harness

from forwardlens.rules.engine import rule_named
from forwardlens.source.edits import apply_edits
from forwardlens.source.text import SourceText

pytestmark = pytest.mark.torch

CODE = """\
import torch
from torch import nn


class Step(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(*[nn.Linear(64, 64) for _ in range(4)])

    def forward(self, x):
        loss = self.net(x).square().mean()
        loss.backward()
        with torch.no_grad():
            for p in self.net.parameters():
                p -= 0.1 * p.grad
                p.grad.data.zero_()
        return loss.detach()


def build():
    return Step(), (torch.randn(2, 64),)
"""
RETURN = "        return loss"
READ_AFTER = CODE.replace(RETURN, f"        self.seen = self.net[0].weight.grad.norm()\n{RETURN}")


def _after(folder: Path, code: str) -> str:
    source = SourceText(str(folder / "step.py"), code)
    findings = harness.find(rule_named("per-parameter-loop"), harness.measurer(folder)(source), source)
    return apply_edits(source, harness.safe_edits(findings)).text


def test_gradients_that_an_update_zeroes_behind_itself_are_dropped(tmp_path: Path) -> None:
    after = _after(tmp_path, CODE)
    assert after == CODE.replace("p.grad.data.zero_()", "p.grad = None")
    assert list(harness.differences(CODE, after, gradients=False)) == []


def test_zeros_that_something_reads_stay(tmp_path: Path) -> None:
    assert _after(tmp_path, READ_AFTER) == READ_AFTER
