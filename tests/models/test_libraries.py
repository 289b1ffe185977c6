"""Models whose code is not the user's: cost on the calling line, and on the library's lines with --include."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from forwardlens import workflow
from forwardlens.config import Settings
from forwardlens.model import Profile
from forwardlens.runner.request import Progress, RunRequest

pytestmark = [pytest.mark.models, pytest.mark.torch]

BERT = """\
import torch
from torch import nn
from transformers import BertConfig, BertModel


def bert():
    torch.manual_seed(0)
    sizes = dict(num_hidden_layers=2, hidden_size=64, num_attention_heads=4, intermediate_size=128, vocab_size=1000)
    return BertModel(BertConfig(**sizes)).eval()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.bert = bert()

    def forward(self, ids):
        return self.bert(input_ids=ids).last_hidden_state.mean(1)


def build():
    return Net().eval(), (torch.randint(0, 1000, (1, 32)),)


def alone():
    return bert(), (), {"input_ids": torch.randint(0, 1000, (1, 32))}
"""
X_TRANSFORMERS = """\
import torch
from torch import nn
from x_transformers import Decoder, TransformerWrapper


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = TransformerWrapper(num_tokens=500, max_seq_len=64, attn_layers=Decoder(dim=64, depth=2, heads=4))

    def forward(self, ids):
        return self.model(ids)


def build():
    torch.manual_seed(0)
    return Net().eval(), (torch.randint(0, 500, (1, 32)),)
"""
GEOMETRIC = """\
import torch
from torch import nn
from torch_geometric.nn import GCNConv


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = GCNConv(512, 256), GCNConv(256, 4)

    def forward(self, x, edges):
        x = self.first(x, edges).relu()
        return self.second(x, edges)


def build():
    torch.manual_seed(0)
    return Net().eval(), (torch.randn(400, 512), torch.randint(0, 400, (2, 1000)))
"""
LIBRARIES = [
    pytest.param("transformers", BERT, "self.bert(input_ids=ids)", id="transformers"),
    pytest.param("x_transformers", X_TRANSFORMERS, "self.model(ids)", id="x_transformers"),
    pytest.param("torch_geometric", GEOMETRIC, "self.first(x, edges)", id="torch_geometric"),
]


def profile(folder: Path, text: str, entry: str = "build", include: tuple[str, ...] = ()) -> Profile:
    (folder / "net.py").write_text(text, encoding="utf-8")
    request = RunRequest(f"net.py:{entry}", folder, include=include, device="cpu")
    return workflow.profile(request, Settings(), _quiet, threading.Event()).profile


def _quiet(_: Progress) -> None:
    return None


def adds_up(profile: Profile) -> bool:
    median = profile.forward.wall_ms.median
    total = sum(cost.self_ms for cost in profile.lines) + profile.unattributed_share * median
    return total == pytest.approx(median)


@pytest.mark.parametrize(("library", "text", "call"), LIBRARIES)
def test_cost_is_on_the_users_calling_line(tmp_path: Path, library: str, text: str, call: str) -> None:
    pytest.importorskip(library)
    found = profile(tmp_path, text)
    assert adds_up(found)
    assert {Path(cost.span.file).name for cost in found.lines} == {"net.py"}
    costliest = max(found.lines, key=lambda cost: cost.self_ms)
    line = found.texts[costliest.span.file].splitlines()[costliest.span.line - 1]
    assert line[costliest.span.column : costliest.span.end_column] == call
    assert found.unattributed_share < 0.05


@pytest.mark.parametrize(("library", "text", "call"), LIBRARIES)
def test_included_library_shows_its_own_lines(tmp_path: Path, library: str, text: str, call: str) -> None:
    pytest.importorskip(library)
    found = profile(tmp_path, text, include=(library,))
    assert adds_up(found)
    inside = [cost for cost in found.lines if library in cost.span.file]
    assert sum(cost.share for cost in inside) > 0.7
    assert any(cost.ops for cost in inside)


def test_model_of_a_library_alone_needs_include_and_says_so(tmp_path: Path) -> None:
    found = profile(tmp_path, BERT, "alone")
    assert found.lines == ()
    assert any("--include" in error.message for error in found.errors)
    included = profile(tmp_path, BERT, "alone", ("transformers",))
    assert adds_up(included)
    assert any("modeling_bert.py" in cost.span.file for cost in included.lines)
