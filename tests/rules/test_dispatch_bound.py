"""Forwards bound by dispatch on a GPU, told from profiles written by hand: no test machine has one."""

from __future__ import annotations

from dataclasses import replace

from tests.rules.profiles import cost, operator, profile

from forwardlens.fixes.trial import worth_trying
from forwardlens.model import Finding, Profile
from forwardlens.rules import engine
from forwardlens.source.edits import apply_edits
from forwardlens.source.text import SourceText

TEXT = """\
import torch
from torch import nn


class Encoder(nn.Module):
    @torch.inference_mode()
    def forward(self, x):
        return (x * 2 + 1).tanh()
"""
SOURCE = SourceText("/w/model.py", TEXT)


def on_device(source: SourceText, busy_ms: float, *names: str) -> Profile:
    ops = [operator(name, (8, 8), calls=30) for name in (*names, "aten::mul", "aten::add")]
    made = profile(source, cost(source, "(x * 2 + 1).tanh()", 1.0, *ops, function="Encoder.forward"))
    return replace(made, forward=replace(made.forward, device_busy_ms=busy_ms, bound="dispatch"))


def found(made: Profile, source: SourceText) -> list[Finding]:
    findings, failures = engine.find(made, {source.path: source}, 0.02, {})
    assert not failures
    return [finding for finding in findings if finding.rule == "dispatch-bound"]


def test_a_gpu_that_idles_between_small_operators_is_offered_graphs_but_not_as_safe() -> None:
    (finding,) = found(on_device(SOURCE, 0.3), SOURCE)
    (fix,) = finding.fixes
    assert "the device is busy for 0.3 of 1 ms" in finding.message
    assert fix.applicability == "unsafe"
    assert not worth_trying(fix)
    after = apply_edits(SOURCE, fix.edits).text
    assert '    @torch.inference_mode()\n    @torch.compile(mode="reduce-overhead")\n    def forward' in after


def test_a_forward_that_reads_a_value_on_the_host_gets_no_graph() -> None:
    (finding,) = found(on_device(SOURCE, 0.3, "aten::_local_scalar_dense"), SOURCE)
    assert finding.fixes == ()


def test_what_is_compiled_already_is_not_compiled_again() -> None:
    source = SOURCE.with_text(TEXT + "\nmodel = torch.compile(Encoder())\n")
    (finding,) = found(on_device(source, 0.3), source)
    assert finding.fixes == ()


def test_a_forward_on_a_cpu_needs_many_more_operators() -> None:
    made = on_device(SOURCE, 0.3)
    assert found(replace(made, forward=replace(made.forward, device_busy_ms=None)), SOURCE) == []
