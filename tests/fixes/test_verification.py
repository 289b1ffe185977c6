"""An edit is run against the original before it is offered: what must show, and what must not."""

from __future__ import annotations

from collections.abc import Callable, Generator

import pytest
from tests.entries.harness import NEVER

from forwardlens.model import Verification
from forwardlens.runner.process import Worker
from forwardlens.runner.request import RunRequest
from forwardlens.runner.runner import start_worker, try_edit

pytestmark = pytest.mark.torch

PROGRAM = """\
import random

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(4, 4)
        self.register_buffer("seen", torch.zeros(4), persistent=False)
        self.calls = 0

    def forward(self, x, ids, mask):
        BODY


def build(BUILD):
    torch.manual_seed(0)
    mask = torch.arange(length).expand(batch, length) < 3
    return Net(), (torch.rand(batch, length, 4) + 1.0, torch.arange(batch * length).view(batch, length) % 5, mask)
"""

Try = Callable[..., Verification]


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> Generator[Try]:
    folder = tmp_path_factory.mktemp("verification")
    path = folder / "net.py"
    request = RunRequest("net.py:build", folder, device="cpu")
    worker: Worker = start_worker(request, lambda _: None, NEVER)

    def run(
        before: str, after: str, build: str = "batch=2, length=6", *, graph_may_vanish: bool = False
    ) -> Verification:
        texts = [PROGRAM.replace("BODY", body).replace("BUILD", build) for body in (before, after)]
        path.write_text(texts[0], encoding="utf-8")
        old, new = ({str(path): text} for text in texts)
        return try_edit(worker, request, old, new, graph_may_vanish=graph_may_vanish, cancelled=NEVER)

    yield run
    worker.close()


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("return x * 2", "return x * 2.01", "values differ by up to"),
        ("return x", "return x.double()", "dtype torch.float32 became torch.float64"),
        ("return x.sum(1)", "return x.sum(1, keepdim=True)", "shape (2, 4) became (2, 1, 4)"),
        ("return x, ids", "return [x, ids]", "tuple became list"),
        ("return {'a': x, 'b': ids}", "return {'b': ids, 'a': x}", "other keys"),
        ("return x.mean().item()", "return x.sum().item()", "values differ"),
        ("return x.numel()", "return x.numel() + 1", "48 became 49"),
        ("return x.numpy().sum(1)", "return x.numpy().sum(1) + 1", "values differ"),
        ("return x.clone().add_(1)", "return x.add_(1)", "input after the call"),
        ("return x.clone()", "return x", "it shares the memory of an input"),
        ("return x", "return x.clone()", "it no longer shares the memory of an input"),
        ("return self.seen.clone()", "return self.seen", "it shares the memory of the model"),
        ("return x.sum(1).unsqueeze(1).repeat(1, 3, 1)", "return x.sum(1).unsqueeze(1).expand(-1, 3, -1)", "its own"),
        ("y = x + 1; return y, y.clone()", "y = x + 1; return y, y", "the memory of another output"),
        ("self.seen += 1; return x * 2", "return x * 2", "`seen` after the call"),
        ("self.calls += 1; return x * 2", "return x * 2", "`calls` after the call"),
        ("self.calls += 1; return x * self.calls", "self.calls = 1; return x", "output"),
        ("return self.mix(x)", "return self.mix(x).detach()", "other outputs take part in autograd"),
        ("return self.mix(x)", "return self.mix(x.clone()) + 0 * self.mix.weight.sum() * x.sum()", None),
        ("return self.mix(x)", "y = self.mix(x); return y.detach() + 2 * (y - y.detach())", "gradient"),
        # Nobody trains what has no backward, as a recurrent layer of cuDNN in evaluation.
        ("y = self.mix(x); y.register_hook(lambda g: 1 / 0); return y", "return 0 * self.mix.bias + self.mix(x)", None),
        ("return self.mix(x)", "y = self.mix(x); y.register_hook(lambda g: 1 / 0); return y", "raises"),
        ("torch.rand(3); return x * 2", "return x * 2", "random numbers drawn"),
        ("random.random(); return x * 2", "return x * 2", "random numbers drawn"),
        ("return x.sum() / 0 * 0", "return x.sum() / 0 * 0 + 1", None),  # nan is nan
        ("return x.transpose(0, 1).contiguous()", "return x.transpose(0, 1) + 0", None),  # strides are free
        ("return x * 2", "return x + x", None),
        ("self.calls += 1; self.seen += 1; return x * 2", "self.calls += 1; self.seen += 1; return x + x", None),
    ],
)
def test_differences_show(tried: Try, before: str, after: str, said: str | None) -> None:
    result = tried(before, after)
    assert result.refuted == (said is not None), result
    assert said is None or said in f"{result.outcome}: {result.message}"


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        # Right for these values only: x is positive, the mask the same in every row, the batch two.
        ("return x.abs() if x[0, 0, 0] > 1.5 else x + 0", "return x.abs()", None),
        ("return x + 0 if ids[0, 0] < ids[0, 1] else x * 2", "return x + 0", "with other values: output"),
        ("return x[:, mask[0]].sum(1)", "return x[:, :3].sum(1)", "with"),
        ("return x.masked_fill(mask[..., None], 0.0)", "return torch.cat([x[:, :3] * 0, x[:, 3:]], 1)", "with"),
        ("return x * mask.any()", "return x * 1", "with masks all false"),
        ("return torch.stack([r for r in x])", "return torch.stack([x[0], x[1]])", "with batch=3"),
        ("return x.sum(1)", "return sum(x[:, i] for i in range(6))", "with length=7"),
    ],
)
def test_a_change_that_is_right_for_one_input_only_is_caught(
    tried: Try, before: str, after: str, said: str | None
) -> None:
    result = tried(before, after)
    assert (result.outcome in ("differs", "raises")) == (said is not None), result
    assert said is None or said in (result.message or ""), result


def test_inputs_that_the_original_does_not_take_say_nothing(tried: Try) -> None:
    guarded = "assert x.shape == (2, 6, 4) and bool(mask[0, 0]) and x[0, 0, 0] < x[0, 0, 1] and ids[0, 0] == 0; "
    assert tried(f"{guarded}return x.sum(1)", "return sum(x[:, i] for i in range(6))").outcome != "differs"


def test_a_size_that_only_the_inputs_have_is_changed_too(tried: Try) -> None:
    result = tried("return x.sum(1)", "return sum(x[:, i] for i in range(6))", "batch=2, length=6, /")
    assert (result.outcome, (result.message or "")[:20]) == ("raises", "with another length:"), result


def test_a_fix_may_drop_the_graph_if_its_rule_says_so(tried: Try) -> None:
    assert tried("return self.mix(x)", "return self.mix(x).detach()", graph_may_vanish=True).outcome != "differs"


def test_an_edit_that_fails_says_how(tried: Try) -> None:
    result = tried("return x * 2", "return x * missing")
    assert (result.outcome, result.message) == ("raises", "NameError: name 'missing' is not defined")


def test_a_gain_is_told_with_its_interval(tried: Try) -> None:
    loop = "return torch.stack([x[:, i % 6] * 2 for i in range(300)])"
    result = tried(loop, "return x[:, torch.arange(300) % 6].transpose(0, 1) * 2")
    assert result.outcome == "equal", result
    assert result.pairs >= 10
    assert result.speedup_low is not None
    assert result.speedup is not None
    assert result.speedup_high is not None
    assert 1 < result.speedup_low <= result.speedup <= result.speedup_high


def test_an_endless_loop_on_a_further_input_is_left(tried: Try) -> None:
    body = "while x[0, 0, 0] > x[0, 0, 1]: x = x + 0"
    assert tried(f"{body}; break\n        return x * 2", f"{body}; break\n        return x + x").outcome != "raises"
