"""The whole way on the sample: profile, findings, fixes tried, all of them applied."""

from __future__ import annotations

import importlib.util
import statistics
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from forwardlens import workflow
from forwardlens.config import Settings
from forwardlens.runner.request import Progress, RunFailedError, RunRequest
from forwardlens.workflow import FixReport, Result

pytestmark = pytest.mark.torch

SAMPLES = Path(__file__).parents[2] / "samples"
NEVER = threading.Event()
# How much slower what the tool makes of the sample may be than the same model fixed by hand.
CLOSE_TO_HAND_FIXED = 1 / 0.9
PAIRS = 60


def _quiet(_: Progress) -> None:
    return None


@pytest.fixture(scope="module")
def report() -> FixReport:
    request = RunRequest("slow_bert.py:build", SAMPLES, device="cpu")
    return workflow.fix_all(request, Settings(), _quiet, NEVER)


def _load(name: str, text: str) -> ModuleType:
    module = ModuleType(name)
    exec(compile(text, name, "exec"), module.__dict__)
    return module


def _sample(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, SAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _milliseconds(model: Any, args: tuple[Any, ...]) -> float:
    start = time.perf_counter()
    model(*args)
    return 1e3 * (time.perf_counter() - start)


def test_fixed_sample_gives_equal_outputs(report: FixReport) -> None:
    import torch

    text = report.texts[str(SAMPLES / "slow_bert.py")].text
    old, args = _sample("slow_bert").build()
    new, _ = _load("fixed", text).build()
    new.load_state_dict(old.state_dict())
    torch.testing.assert_close(new(*args), old(*args).detach(), rtol=1e-5, atol=1e-5)


def test_fixed_sample_is_as_fast_as_the_one_fixed_by_hand(report: FixReport) -> None:
    ours, args = _load("fixed", report.texts[str(SAMPLES / "slow_bert.py")].text).build()
    by_hand, _ = _sample("slow_bert_fixed").build()
    for _ in range(5):
        ours(*args)
        by_hand(*args)
    ratios = [_milliseconds(ours, args) / _milliseconds(by_hand, args) for _ in range(PAIRS)]
    assert statistics.median(ratios) <= CLOSE_TO_HAND_FIXED


def test_every_applied_fix_was_proven(report: FixReport) -> None:
    assert {finding.rule for finding, _ in report.applied} == {
        "contiguous-churn",
        "embedding-in-loop",
        "grad-mode-in-inference",
        "host-tensor-in-forward",
        "manual-attention",
        "masking-in-loop",
    }
    for _, fix in report.applied:
        assert fix.verified is not None
        assert fix.verified.outcome in ("equal", "no-gain")
        assert fix.verified.max_abs_diff == pytest.approx(0.0, abs=1e-5)
    assert report.rejected == ()


def test_fixing_leaves_the_disk_alone_and_finds_nothing_more(report: FixReport) -> None:
    assert report.texts[str(SAMPLES / "slow_bert.py")].text != (SAMPLES / "slow_bert.py").read_text(encoding="utf-8")
    assert [f for f in report.after.findings if f.severity != "hint"] == []
    assert report.after.profile.forward.wall_ms.median < report.before.profile.forward.wall_ms.median / 1.5


SLEEPING = """\
import time
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        time.sleep(30)
        return x


def build():
    return Net(), (torch.ones(1),)
"""


def test_cancelled_run_ends_within_a_second(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(SLEEPING, encoding="utf-8")
    cancelled, asked = threading.Event(), [0.0]

    def cancel_when_running(progress: Progress) -> None:
        if progress.stage == "warm-up":
            asked[0] = time.monotonic()
            cancelled.set()

    with pytest.raises(RunFailedError) as caught:
        workflow.profile(RunRequest("model.py:build", tmp_path), Settings(), cancel_when_running, cancelled)
    assert caught.value.kind == "cancelled"
    assert time.monotonic() - asked[0] < 1.0


def test_verifying_a_clean_result_starts_nothing(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(SLEEPING.replace("time.sleep(30)", "pass"), encoding="utf-8")
    request = RunRequest("model.py:build", tmp_path, iterations=1, warmup=1)
    result: Result = workflow.profile(request, Settings(), _quiet, NEVER)
    assert result.findings == ()
    assert workflow.verify(result, _quiet, NEVER) is result


def test_a_fixed_file_is_kept_when_its_code_is_compiled_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last profile of compiled code has none of its files."""
    model = tmp_path / "model.py"
    model.write_text((SAMPLES / "slow_bert.py").read_text(encoding="utf-8"), encoding="utf-8")
    real, seen = workflow.profile, list[Result]()

    def profiled(*given: Any) -> Result:
        result = real(*given)
        seen.append(result)
        return result if len(seen) == 1 else replace(result, sources={}, findings=())

    monkeypatch.setattr(workflow, "profile", profiled)
    request = RunRequest("model.py:build", tmp_path, device="cpu")
    fixed = workflow.fix_all(request, Settings(), _quiet, NEVER, frozenset({"embedding-in-loop"}))
    assert len(seen) == 2
    assert list(fixed.texts) == [str(model)]


ONCE = """\
import torch
from torch import nn

# What is registered with the process stays registered when the file is loaded anew.
torch.library.define("once_only::nothing", "() -> ()")


class Repeat(nn.Module):
    def forward(self, x):
        y = x[:1].repeat(512, 1)
        return y * x


def build():
    return Repeat(), (torch.randn(512, 512),)
"""


def test_a_program_that_loads_only_once_keeps_its_findings_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "once.py").write_text(ONCE, encoding="utf-8")
    result = workflow.profile(RunRequest("once.py:build", tmp_path, device="cpu"), Settings(), _quiet, NEVER)
    assert any(fix.edits for finding in result.findings for fix in finding.fixes)
    tried = workflow.verify(result, _quiet, NEVER)
    assert tried.findings == result.findings
    assert any("loaded a second time" in error.message for error in tried.errors)


SHARED_COPY = """\
import torch
from torch import nn


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleList(nn.Linear(64, 2) for _ in range(12))

    def forward(self, x):
        cells = x.flatten(2).mT.contiguous()
        return [head(cells) for head in self.heads]


def build():
    return Heads(), (torch.randn(8, 64, 40, 40),)
"""


def test_a_copy_without_which_its_readers_are_slower_is_no_fault(tmp_path: Path) -> None:
    (tmp_path / "heads.py").write_text(SHARED_COPY, encoding="utf-8")
    result = workflow.profile(RunRequest("heads.py:build", tmp_path, device="cpu"), Settings(), _quiet, NEVER)
    assert [finding.rule for finding in result.findings] == ["contiguous-churn"]
    assert workflow.verify(result, _quiet, NEVER).findings == ()
