"""What a file offers to profile, read from its syntax."""

from __future__ import annotations

import pytest

from forwardlens.source.entries import Evidence, entry_functions, forward_methods, likely_entries
from forwardlens.source.text import SourceText

HEADER = "import torch\nfrom torch import nn\n"


def source(text: str) -> SourceText:
    return SourceText("/model.py", text)


def forwards(text: str) -> list[tuple[str, int]]:
    return [(forward.class_name, forward.header.line) for forward in forward_methods(source(text))]


def entries(text: str) -> list[tuple[str, Evidence]]:
    return [(entry.name, entry.evidence) for entry in entry_functions(source(HEADER + text))]


@pytest.mark.parametrize(
    ("imports", "base"),
    [
        ("import torch", "torch.nn.Module"),
        ("import torch.nn", "torch.nn.Module"),
        ("import torch.nn as nn", "nn.Module"),
        ("from torch import nn", "nn.Linear"),
        ("from torch import nn as layers", "layers.Module"),
        ("from torch.nn import Module", "Module"),
        ("from torch.nn import Module as Base", "Base"),
        ("from .base import Base", "Base"),
        ("from . import base", "base.Base"),
        ("import transformers", "transformers.PreTrainedModel"),
        ("from lightning import LightningModule", "LightningModule"),
        ("from library import Base", "Base[int]"),
    ],
)
def test_a_forward_of_a_module_is_found(imports: str, base: str) -> None:
    assert forwards(f"{imports}\nclass Net({base}):\n    def forward(self, x): ...\n") == [("Net", 3)]


@pytest.mark.parametrize(
    "text",
    [
        "class Net:\n    def forward(self, x): ...\n",
        "class Net(object):\n    def forward(self, x): ...\n",
        "from abc import ABC\nclass Net(ABC):\n    def forward(self, x): ...\n",
        "from typing import Protocol\nclass Net(Protocol):\n    def forward(self, x): ...\n",
        "import torch\nclass F(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x): ...\n",
        "from torch import nn\nclass Net(nn.Module):\n    def run(self, x): ...\n",
        "class A(B):\n    def forward(self, x): ...\nclass B(A): ...\n",
        "def forward(self, x): ...\n",
        "class Net(nn.Module:\n",
    ],
)
def test_nothing_else_is(text: str) -> None:
    assert forwards(text) == []


def test_subclasses_of_local_modules_are_modules() -> None:
    text = (
        "from torch import nn\n"
        "class A(nn.Module): ...\n"
        "class B(A):\n    def forward(self, x): ...\n"
        "class C(B):\n    def forward(self, x): ...\n"
    )
    assert forwards(text) == [("B", 4), ("C", 6)]


def test_a_module_may_have_the_name_of_its_base() -> None:
    text = "from base import Net\nclass Net(Net):\n    def forward(self, x): ...\n"
    assert forwards(text) == [("Net", 3)]


def test_classes_in_classes_functions_and_branches_are_found_from_top_to_bottom() -> None:
    text = (
        "from torch import nn\n"
        "class Outer(nn.Module):\n"
        "    class Inner(nn.Module):\n        def forward(self, x): ...\n"
        "    if True:\n        def forward(self, x): ...\n"
        "def build():\n    class Local(nn.Module):\n        def forward(self, x): ...\n"
        "try:\n    class Tried(nn.Module):\n        def forward(self, x): ...\nexcept ImportError: ...\n"
    )
    assert forwards(text) == [("Inner", 4), ("Outer", 6), ("Local", 9), ("Tried", 12)]


def test_the_last_definition_counts_and_stands_at_its_def() -> None:
    text = (
        "from torch import nn\nimport torch\n"
        "class Net(nn.Module):\n    def forward(self, x): ...\n"
        "    @torch.no_grad()\n    def forward(self, x, y):\n        return x\n"
    )
    (forward,) = forward_methods(source(text))
    assert (forward.header.line, forward.header.column, forward.header.end_column) == (6, 4, 28)
    assert (forward.body.line, forward.body.end_line) == (6, 7)


NET = "class Net(nn.Module):\n    def forward(self, x): ...\n"


@pytest.mark.parametrize(
    "body",
    [
        "return Net(), (torch.ones(1),)",
        "return Net().eval().to('cpu'), {'x': 1}",
        "model = Net()\n    model = model.cuda()\n    return Net(), (1,), {}",
        "net = Net()\n    return net, (1,)",
        "return torch.compile(Net()), (1,)",
        "return nn.Linear(2, 2), (1,)",
        "if True:\n        return nn.Sequential(), (1,)\n    return None",
    ],
)
def test_a_function_that_returns_a_module_with_inputs_is_an_entry(body: str) -> None:
    assert entries(f"{NET}def anything():\n    {body}\n") == [("anything", Evidence.MODEL)]


@pytest.mark.parametrize(
    ("function", "evidence"),
    [
        ("def f() -> tuple[nn.Module, object]:\n    return g()", Evidence.MODEL),
        ("def f():\n    return Imported(), (1,)", Evidence.TUPLE),
        ("def f():\n    return Auto.from_pretrained('x'), (1,)", Evidence.TUPLE),
        ("def f():\n    return load_model(), (1,)", Evidence.TUPLE),
        ("def f():\n    return lambda: 1", Evidence.CALLABLE),
        ("def f():\n    def step(): ...\n    return step", Evidence.CALLABLE),
        ("def f(n=3, *, k=2, **more):\n    return nn.Linear(n, k), (1,)", Evidence.MODEL),
    ],
)
def test_evidence_grades_what_is_returned(function: str, evidence: Evidence) -> None:
    assert entries(function) == [("f", evidence)]


@pytest.mark.parametrize(
    "function",
    [
        "def f(size):\n    return nn.Linear(size, 1), (1,)",
        "def f(*, size):\n    return nn.Linear(size, 1), (1,)",
        "async def f():\n    return nn.Linear(1, 1), (1,)",
        "def test_it():\n    return nn.Linear(1, 1), (1,)",
        "@pytest.fixture\ndef f():\n    return nn.Linear(1, 1), (1,)",
        "@pytest.fixture()\ndef f():\n    return nn.Linear(1, 1), (1,)",
        "def f():\n    return mean, deviation",
        "def f():\n    return nn.Linear(1, 1)",
        "def f():\n    return nn.Linear(1, 1), 1, 2, 3",
        "def f():\n    def g():\n        return nn.Linear(1, 1), (1,)",
        "class A:\n    def f(self=None):\n        return nn.Linear(1, 1), (1,)",
    ],
)
def test_other_functions_are_no_entries(function: str) -> None:
    assert entries(function) == []


def test_a_usual_name_only_breaks_a_tie() -> None:
    text = (
        "def build_loader():\n    return Loader(), (1,)\n"
        "def zebra():\n    return nn.Linear(1, 1), (1,)\n"
        "def _hidden():\n    return nn.Linear(1, 1), (1,)\n"
        "def make_it():\n    return nn.Linear(1, 1), (1,)\n"
    )
    assert [name for name, _ in entries(text)] == ["make_it", "zebra", "_hidden", "build_loader"]
    assert [entry.name for entry in likely_entries(source(HEADER + text))] == ["make_it", "zebra", "_hidden"]


def test_an_entry_knows_what_it_mentions() -> None:
    (entry,) = entry_functions(source(f"{HEADER}{NET}def build():\n    return Net(), (1,)\n"))
    assert "Net" in entry.mentions
