"""What the examples of the rule cannot show: after this fix the read is still there, once."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.rules import harness
from tests.rules.profiles import cost, operator, profile

from forwardlens.rules.engine import rule_named
from forwardlens.source.edits import apply_edits
from forwardlens.source.text import SourceText

pytestmark = pytest.mark.torch

CODE = """\
import torch
from torch import nn


class Rounds(nn.Module):
    def forward(self, x, steps):
        parts = []
        for i in range(4):
            parts.append(x[:, : int(steps.max())] * i)
        return torch.cat(parts)


def build():
    return Rounds(), (torch.randn(8, 32), torch.tensor([3, 9]))
"""


def test_a_read_that_is_the_same_in_every_round_moves_before_the_loop(tmp_path: Path) -> None:
    source = SourceText(str(tmp_path / "rounds.py"), CODE)
    findings = harness.find(rule_named("host-sync"), harness.measurer(tmp_path)(source), source)
    after = apply_edits(source, harness.safe_edits(findings)).text
    assert "        value = int(steps.max())\n        for i in range(4):\n" in after
    assert "x[:, : value] * i" in after
    assert list(harness.differences(CODE, after, gradients=True)) == []


def test_values_in_a_text_are_found_where_python_312_puts_them() -> None:
    code = 'def f(x, log):\n    log(f"mean {x.mean():.3f}, most {x.max()}, all {len(x)}")\n'
    source = SourceText("/x.py", code)
    values = ("{x.mean():.3f}", "{x.max()}")
    costs = [cost(source, value, 0.2, operator("aten::item", (), calls=2), calls=2) for value in values]
    [finding] = harness.find(rule_named("host-sync"), profile(source, *costs), source)
    assert finding.evidence["reads"] == 4
    assert source.slice(finding.span).startswith('f"mean')
