from __future__ import annotations

from pathlib import Path

import pytest

from forwardlens.model import (
    Edit,
    Environment,
    ExpressionCost,
    Finding,
    Fix,
    Forward,
    GradUse,
    OpCost,
    Profile,
    Quantiles,
    Related,
    RunError,
    Span,
    Verification,
)
from forwardlens.report.record import Report
from forwardlens.source.text import SourceText

MODEL = """\
import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.word = nn.Embedding(10, 4)

    def cheap(self, x):
        return x + 1

    def forward(self, ids):
        "Where the time goes \U0001f525"
        rows = []
        for t in range(ids.size(1)):
            ids = ids
            rows.append(self.word(ids[:, t]))  # one by one \U0001f525
        # a
        # b
        # c
        words = torch.stack(rows, dim=1)
        del rows
        return self.cheap(words)
"""


def span_of(path: Path, text: str, part: str) -> Span:
    start = text.index(part)
    before = text[:start]
    line, column = before.count("\n") + 1, start - (before.rfind("\n") + 1)
    return Span(str(path), line, column, line, column + len(part))


def cost(span: Span, function: str, self_ms: float, calls: int = 1, device_ms: float = 0.0) -> ExpressionCost:
    return ExpressionCost(
        span=span,
        function=function,
        calls=calls,
        calls_per_entry=calls,
        self_ms=self_ms,
        total_ms=self_ms,
        share=self_ms / 8,
        device_ms=device_ms,
        blocked_ms=0.0,
        alloc_bytes=2048,
        ops=(OpCost("aten::embedding", calls, self_ms, self_ms, device_ms, 2048, ((10, 4), (1,)), 1, outermost=True),),
    )


@pytest.fixture
def report(tmp_path: Path) -> Report:
    """A report of a forward of 8 ms with one fix that was proven and one that was not tried."""
    path = tmp_path / "models" / "tagger one.py"
    path.parent.mkdir()
    path.write_text(MODEL, encoding="utf-8")
    lookup = span_of(path, MODEL, "self.word(ids[:, t])")
    loop = span_of(path, MODEL, "for t in range(ids.size(1)):")
    proven = Fix(
        "Look up all tokens at once",
        "safe",
        (
            Edit(str(path), (15, 8), (18, 45), "words = self.word(ids)"),
            Edit(str(path), (22, 0), (23, 17), ""),
        ),
        verified=Verification("equal", 0.0, 8.0, 1.0, 8.0, 7.5, 8.5, 20),
    )
    untried = Fix("Use another layer", "unsafe", (Edit(str(path), (8, 20), (8, 32), "nn.EmbeddingBag"),), "it sums")
    shown = Fix("Vectorise by hand", "display", (), "only you know the shapes")
    finding = Finding(
        rule="embedding-in-loop",
        severity="warning",
        message="`self.word` ran 128 times, once per token: 75 % of this forward",
        span=lookup,
        share=0.75,
        evidence={"calls": 128, "operator": "aten::embedding", "mean_ms": 0.046875, "in_loop": True},
        related=(Related(loop, "the loop"),),
        fixes=(proven, untried, shown),
    )
    outside = Span("/elsewhere/lib.py", 3, 0, 3, 9)
    profile = Profile(
        entry="models/tagger one.py:build",
        target="Tagger",
        environment=Environment(
            "3.11.4", "2.13.0", "Linux-x86_64", "cpu", "Some CPU", None, None, 1, grad_mode=True, training=False
        ),
        forward=Forward(Quantiles(8.0, 7.5, 9.25, 30), None, None, 4096, "dispatch"),
        grad=GradUse(
            grad_enabled=True, inference_mode=False, training=False, outputs_require_grad=True, backward_ran=False
        ),
        unattributed_share=0.05,
        lines=(
            cost(lookup, "Tagger.forward", 6.0, calls=128),
            cost(span_of(path, MODEL, "ids[:, t]"), "Tagger.forward", 0.8, calls=128),
            cost(span_of(path, MODEL, "torch.stack(rows, dim=1)"), "Tagger.forward", 0.48),
            cost(span_of(path, MODEL, "x + 1"), "Tagger.cheap", 0.02),
            cost(outside, "helper", 0.3),
        ),
        texts={str(path): MODEL},
    )
    return Report(
        workspace=tmp_path,
        profile=profile,
        findings=(finding,),
        sources={str(path): SourceText(str(path), MODEL)},
        errors=(RunError("rule", "rule x failed", str(path), 3), RunError("note", "outputs differ between runs")),
    )
