"""What a run on a GPU with TF32 would show, by profiles written by hand; the rule's examples run on a real one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.rules import profiles

from forwardlens.model import Finding, OpCost, Profile
from forwardlens.rules import engine
from forwardlens.rules.catalogue.tf32_off import Tf32Off
from forwardlens.source.text import SourceText

TEXT = "def f(self, x):\n    x = self.up(x)\n    x = self.down(x)\n    return x.relu()\n"
GPU = {"device": "cuda:0", "compute_capability": "9.0", "matmul_tf32": False, "conv_tf32": True}


def _op(name: str, device_ms: float, dtype: str = "float32") -> OpCost:
    return replace(profiles.operator(name, (64, 64), (64, 64)), device_ms=device_ms, dtypes=(dtype, dtype))


def _profile(source: SourceText, up: OpCost, down: OpCost, relu: OpCost, **environment: Any) -> Profile:
    costs = (
        profiles.cost(source, text, 0.3, op)
        for text, op in (("self.up(x)", up), ("self.down(x)", down), ("x.relu()", relu))
    )
    profile = profiles.profile(source, *costs)
    busy = sum(op.device_ms for op in (up, down, relu))
    return replace(
        profile,
        environment=replace(profile.environment, **{**GPU, **environment}),
        forward=replace(profile.forward, device_busy_ms=busy),
    )


def _found(profile: Profile, source: SourceText) -> tuple[Finding, ...]:
    findings, failures = engine.find(profile, {source.path: source}, 0.02, {}, [Tf32Off()])
    assert not failures
    return findings


def test_it_stands_on_the_costliest_product_and_names_the_others() -> None:
    source = SourceText("/w/x.py", TEXT)
    found = _found(_profile(source, _op("aten::addmm", 0.2), _op("aten::addmm", 0.5), _op("aten::relu", 0.1)), source)
    assert [(f.span.line, f.severity) for f in found] == [(3, "warning")]
    assert found[0].share == pytest.approx(0.7)
    assert [related.span.line for related in found[0].related] == [2]
    assert 'set_float32_matmul_precision("high")' in found[0].message
    assert not found[0].fixes


@pytest.mark.parametrize(
    "environment",
    [{"matmul_tf32": True}, {"matmul_tf32": None, "compute_capability": "7.5"}],
    ids=["allowed", "a GPU without it"],
)
def test_nothing_to_allow(environment: dict[str, Any]) -> None:
    source = SourceText("/w/x.py", TEXT)
    ops = _op("aten::addmm", 0.2), _op("aten::addmm", 0.5), _op("aten::relu", 0.1)
    assert not _found(_profile(source, *ops, **environment), source)


def test_products_of_other_dtypes_and_forwards_bound_by_other_work_stay_clean() -> None:
    source = SourceText("/w/x.py", TEXT)
    half = _op("aten::addmm", 0.5, "bfloat16")
    assert not _found(_profile(source, half, half, _op("aten::relu", 0.1)), source)
    assert not _found(_profile(source, _op("aten::mm", 0.1), _op("aten::mm", 0.1), _op("aten::relu", 0.6)), source)


def test_convolutions_are_told_apart() -> None:
    source = SourceText("/w/x.py", TEXT)
    conv = _op("aten::cudnn_convolution", 0.4)
    profile = _profile(source, conv, conv, _op("aten::relu", 0.1), conv_tf32=False, matmul_tf32=True)
    assert ["cudnn.allow_tf32" in finding.message for finding in _found(profile, source)] == [True]


def test_a_program_that_made_its_choice_is_left_alone() -> None:
    source = SourceText("/w/x.py", 'torch.set_float32_matmul_precision("highest")\n' + TEXT)
    ops = _op("aten::addmm", 0.2), _op("aten::addmm", 0.5), _op("aten::relu", 0.1)
    assert not _found(_profile(source, *ops), source)
