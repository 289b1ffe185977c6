"""The harness must fail for rules that are wrong, or passing it says nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest
from tests.rules import harness, profiles

from forwardlens.model import Applicability, Edit, Fix, Profile
from forwardlens.rules.contract import Context, Example, Match, Rule
from forwardlens.source.text import SourceText

pytestmark = pytest.mark.torch

HEAD = "import torch\nfrom torch import nn\n\n\nclass M(nn.Module):\n    def forward(self, x):\n"
TAIL = "\n\n\ndef build():\n    return M(), (torch.ones(3),)\n"
CODE = f"{HEAD}        return x + 1  #!{TAIL}"
FIXED = f"{HEAD}        return 1 + x{TAIL}"


class Good(Rule):
    """Finds `x + 1` and turns it around."""

    name: ClassVar[str] = "good"
    summary: ClassVar[str] = "Additions the wrong way round"
    examples: ClassVar[tuple[Example, ...]] = ()
    old: ClassVar[str] = "x + 1"
    new: ClassVar[str] = "1 + x"
    message: ClassVar[str] = "this is the wrong way round"
    applicability: ClassVar[Applicability] = "safe"
    needs_cost: ClassVar[bool] = True

    def find(self, context: Context) -> Iterator[Match]:
        for cost in context.costs:
            if context.source.slice(cost.span) != self.old or (self.needs_cost and not cost.calls):
                continue
            fix = Fix("Turn it around", self.applicability, self.edits(context, cost.span.start, cost.span.end))
            yield Match(cost.span, self.message, 1.0, {}, (), (fix,))

    def edits(self, context: Context, start: tuple[int, int], end: tuple[int, int]) -> tuple[Edit, ...]:
        return (Edit(context.source.path, start, end, self.new),)


class Blind(Good):
    old: ClassVar[str] = "y + 1"


class Guessing(Good):
    needs_cost: ClassVar[bool] = False

    def find(self, context: Context) -> Iterator[Match]:
        for match in super().find(context):
            yield Match(match.span, match.message, 1.0, {}, (), match.fixes)


class Wrong(Good):
    new: ClassVar[str] = "2 + x"


class Endless(Good):
    new: ClassVar[str] = "x + 1"


class Silent(Good):
    message: ClassVar[str] = ""


class Reckless(Good):
    applicability: ClassVar[Applicability] = "unsafe"


class Rewriting(Good):
    def edits(self, context: Context, start: tuple[int, int], end: tuple[int, int]) -> tuple[Edit, ...]:
        del start, end
        last = context.source.position(len(context.source.text))
        return (Edit(context.source.path, (1, 0), last, "import torch\n"),)


def _measure(source: SourceText) -> Profile:
    places = [text for text in ("x + 1", "1 + x", "2 + x") if text in source.text]
    costs = [profiles.cost(source, text, 0.9, profiles.operator("aten::add", (3,), ())) for text in places]
    return profiles.profile(source, *costs)


def _check(rule: Rule, code: str, fixed: str | None, folder: Path) -> list[str]:
    return harness.check(rule, Example("example", code, fixed), folder, _measure)


def test_a_good_rule_passes(tmp_path: Path) -> None:
    assert _check(Good(), CODE, FIXED, tmp_path) == []


@pytest.mark.parametrize(
    ("rule", "fixed", "problem"),
    [
        (Blind(), FIXED, "marked lines"),
        (Guessing(), FIXED, "without any cost"),
        (Wrong(), FIXED, "the fixed text differs"),
        (Wrong(), FIXED.replace("1 + x", "2 + x"), "the outputs of the first call differ"),
        (Endless(), CODE.replace("  #!", ""), "found again"),
        (Silent(), FIXED, "message is empty"),
        (Reckless(), None, "is unsafe with reason None"),
        (Reckless(), FIXED, "a safe fix where"),
        (Good(), None, "a safe fix where"),
        (Rewriting(), FIXED, "the fixed text differs"),
    ],
)
def test_a_bad_rule_fails(rule: Rule, fixed: str | None, problem: str, tmp_path: Path) -> None:
    assert any(problem in found for found in _check(rule, CODE, fixed, tmp_path))


def test_a_finding_on_a_clean_example_fails(tmp_path: Path) -> None:
    assert any("marked lines" in found for found in _check(Good(), CODE.replace("  #!", ""), FIXED, tmp_path))


def test_differing_gradients_fail() -> None:
    code = (
        "import torch\nfrom torch import nn\n\n\n"
        "class M(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.w = nn.Parameter(torch.ones(3))\n\n    def forward(self, x):\n        return x * self.w\n" + TAIL
    )
    other = code.replace("* self.w\n", "* self.w + 0 * self.w.detach() - (self.w - self.w.detach()) * x\n")
    assert list(harness.differences(code, code, gradients=True)) == []
    assert list(harness.differences(code, other, gradients=True)) == ["the gradients differ"]
    assert list(harness.differences(code, other, gradients=False)) == []


def test_dressing_keeps_what_a_program_does() -> None:
    code = f"{HEAD}        for row in x:\n            x = x * row\n        return x{TAIL}"
    dressed = harness.dressed(code)
    assert "\r\n" in dressed
    assert "\t" in dressed
    assert "\f" in dressed
    assert not dressed.isascii()
    assert list(harness.differences(code, dressed, gradients=False)) == []
