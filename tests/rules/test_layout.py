"""Which copies are reported as needed by no reader, and which are left alone."""

from __future__ import annotations

import ast
import textwrap

import pytest
from tests.rules import profiles

from forwardlens.rules.contract import Context
from forwardlens.rules.evidence import sites_of
from forwardlens.rules.layout import LayoutMattersError, LayoutReaders, require_no_writes
from forwardlens.source.text import SourceText

HEAD = "import torch\nimport torch.nn.functional as F\n\n\nclass M:\n"


def _obstacle(body: str) -> str | None:
    """What keeps the first `.contiguous()` of a class from being dropped; None if nothing does."""
    source = SourceText("/w/m.py", HEAD + textwrap.indent(textwrap.dedent(body), "    "))
    linear = profiles.operator("aten::linear", (2, 3), (3, 3))
    costs = [profiles.cost(source, "self.out(y)", 0.1, linear)] if "self.out(y)" in source.text else []
    sites = sites_of(Context(profiles.profile(source, *costs), source, {}))
    assert sites is not None
    calls = (n for n in ast.walk(sites.tree.module) if isinstance(n, ast.Call))
    copy = next(n for n in calls if isinstance(n.func, ast.Attribute) and n.func.attr == "contiguous")
    readers = LayoutReaders(sites)
    try:
        readers.follow(copy)
        require_no_writes(readers, copy)
    except LayoutMattersError as error:
        return str(error)
    return None


def _forward(*lines: str) -> str:
    return "def forward(self, x):\n    y = x.transpose(1, 2).contiguous()\n" + "".join(
        f"    {line}\n" for line in lines
    )


@pytest.mark.parametrize(
    "lines",
    [
        ("return y.sum()",),
        ("return y.sum(dim=1)",),
        ("return (y * 2 + 1).relu().mean(dim=-1)",),
        ("return torch.matmul(y, x)",),
        ("return y @ x",),
        ("return self.out(y)",),
        ("return torch.softmax(y, dim=-1) @ x",),
        ("z = y.transpose(1, 2)", "return z @ z.mT"),
        ("b, n = y.shape[:2]", "return b * n"),
        ("z = y * 3", "z.add_(1)", "return z.sum()"),
        ("for row in y:", "    print(row.mean())", "return 0"),
        ("y = y.clamp(min=0)", "return y.amax(dim=1)"),
        ("return torch.cat([y, y], dim=1).sum()",),
    ],
)
def test_readers_that_take_any_layout(lines: tuple[str, ...]) -> None:
    assert _obstacle(_forward(*lines)) is None


@pytest.mark.parametrize(
    ("lines", "obstacle"),
    [
        (("return y.view(2, -1)",), "view"),
        (("return y.reshape(2, -1)",), "reshape"),
        (("z = y.relu()", "return z.view(-1).sum()"), "view"),
        (("return y",), "returned"),
        (("return y * 2",), "returned"),
        (("return y, 1",), "returned"),
        (("return [y]",), "collection"),
        (("self.kept = y", "return y.sum()"), "stored"),
        (("y += 1", "return y.sum()"), "in place"),
        (("y.mul_(2)", "return y.sum()"), "writes into it"),
        (("y[0] = 1", "return y.sum()"), "writes into it"),
        (("z = y[0]", "z.zero_()", "return y.sum()"), "writes into it"),
        (("x.zero_()", "return y.sum()"), "is written to"),
        (("torch.relu(x, out=y)", "return y.sum()"), "layout|writes"),
        (("return kernel(y).sum()",), "may depend on the layout"),
        (("return self.unknown(y).sum()",), "may depend on the layout"),
        (("return F.scaled_dot_product_attention(y, y, y).sum()",), "may depend on the layout"),
        (("assert y.is_contiguous()", "return y.sum()"), "may depend on the layout"),
        (("read = lambda: y.view(-1)", "return read().sum()"), "view"),
        (("if x.sum() > 0:", "    y = y.view(2, -1)", "return y.sum()"), "view"),
    ],
)
def test_readers_that_care(lines: tuple[str, ...], obstacle: str) -> None:
    found = _obstacle(_forward(*lines))
    assert found is not None
    assert any(part in found for part in obstacle.split("|")), found


HELPER = "def heads(self, x):\n    return x.permute(0, 2, 1).contiguous()\n\n"


def test_a_helper_is_followed_to_its_calls() -> None:
    used = "def forward(self, x):\n    q, k = self.heads(x), self.heads(x + 1)\n    return q @ k.mT\n"
    assert _obstacle(HELPER + used) is None


@pytest.mark.parametrize(
    "used",
    [
        "def forward(self, x):\n    return self.heads(x).view(-1)\n",
        "def forward(self, x):\n    q = self.heads(x)\n    q.zero_()\n    return q @ x\n",
        "def forward(self, x):\n    return list(map(self.heads, [x]))\n",
        "def other(self, x):\n    return super().heads(x) @ x\n\ndef forward(self, x):\n    return self.heads(x) @ x\n",
        "",
    ],
)
def test_a_helper_with_a_call_that_cares_or_is_not_known(used: str) -> None:
    assert _obstacle(HELPER + used) is not None
