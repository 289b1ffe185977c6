"""What the examples of the rule cannot show, which are run with tabs too: lines that are aligned by spaces."""

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


class Edges(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        kernel = torch.tensor([[-1.0, 0.0, 1.0],  # the left side is dark
                               [-2.0, 0.0, 2.0]], device=x.device)
        return x @ kernel


def build():
    return Edges(), (torch.randn(4, 2),)
"""


def test_the_lines_of_a_literal_stay_aligned_in_the_constructor(tmp_path: Path) -> None:
    source = SourceText(str(tmp_path / "edges.py"), CODE)
    findings = harness.find(rule_named("constant-rebuilt"), harness.measurer(tmp_path)(source), source)
    first, second = apply_edits(source, harness.safe_edits(findings)).text.splitlines()[7:9]
    assert first.strip().startswith('self.register_buffer("kernel", torch.tensor([[-1.0, 0.0, 1.0],  # the left')
    assert second.strip() == "[-2.0, 0.0, 2.0]]), persistent=False)"
    assert first.index("[-1.0") == second.index("[-2.0")
