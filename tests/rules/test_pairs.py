"""What the examples of the rule cannot show: after this fix the loop over pairs is still there, with fewer reads."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.rules import harness

from forwardlens.rules import engine
from forwardlens.source.edits import apply_edits
from forwardlens.source.text import SourceText

pytestmark = pytest.mark.torch

CODE = """\
import torch
from torch import nn


class Ranking(nn.Module):
    def forward(self, score, grade):
        loss, pairs = score.new_zeros(()), 0
        for i in range(len(score)):
            for j in range(len(score)):
                if grade[i] > grade[j]:
                    loss = loss + nn.functional.softplus(score[j] - score[i])
                    pairs += 1
        return loss / max(pairs, 1)


def build():
    return Ranking(), (torch.randn(16), torch.arange(16) % 4)
"""
COUNTED = CODE.replace("loss = loss + nn.functional.softplus(score[j] - score[i])", "pass")
READ = CODE.replace("        for i", "        grade_list = grade.tolist()\n        for i", 1).replace(
    "grade[i] > grade[j]", "grade_list[i] > grade_list[j]"
)


def _rules_and_result(folder: Path, code: str) -> tuple[list[str], str]:
    source = SourceText(str(folder / "pairs.py"), code)
    found, _ = engine.find(harness.measurer(folder)(source), {source.path: source}, harness.THRESHOLD, {})
    loops = [f for f in found if f.rule in {"elementwise-loop", "scalar-access-in-loop"}]
    return [f.rule for f in loops], apply_edits(source, harness.safe_edits((*loops,))).text


def test_pairs_that_single_elements_choose_are_one_finding_with_the_fix_for_the_reads(tmp_path: Path) -> None:
    assert _rules_and_result(tmp_path, CODE) == (["elementwise-loop"], READ)
    assert list(harness.differences(CODE, READ, gradients=True)) == []


def test_pairs_that_are_only_counted_are_single_elements(tmp_path: Path) -> None:
    assert _rules_and_result(tmp_path, COUNTED)[0] == ["scalar-access-in-loop"]
