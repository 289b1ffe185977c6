"""Many loops in one module, so that one run measures them all."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.rules import harness

from forwardlens.model import Profile
from forwardlens.rules import engine
from forwardlens.rules.contract import Context, Match
from forwardlens.source.text import SourceText


@dataclass(frozen=True)
class Case:
    """One `forward`, what becomes of its loop, and the inputs it runs on."""

    name: str
    outcome: str
    inputs: str
    forward: str
    init: str = ""

    @property
    def class_name(self) -> str:
        return "".join(word.title() for word in self.name.replace("-", " ").replace(",", "").replace("_", " ").split())


def program(cases: Sequence[Case]) -> str:
    """A module with a class for each case, and a model that runs them all."""
    parts = ["import torch\nfrom torch import nn\nimport torch.nn.functional as F\n"]
    for case in cases:
        init = textwrap.indent("\n".join(["super().__init__()", textwrap.dedent(case.init).strip()]), " " * 8)
        forward = textwrap.indent(textwrap.dedent(case.forward).strip(), " " * 4)
        parts.append(f"class {case.class_name}(nn.Module):\n    def __init__(self):\n{init}\n\n{forward}\n")
    inputs = ",\n".join(f'        "{case.class_name}": ({case.inputs},)' for case in cases)
    parts.append(f"def inputs():\n    torch.manual_seed(0)\n    return {{\n{inputs}\n    }}\n")
    parts.append(
        "class All(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.parts = nn.ModuleDict({name: globals()[name]() for name in inputs()})\n\n"
        "    def forward(self, given):\n"
        "        for name, part in self.parts.items():\n"
        "            part(*given[name])\n"
        "        return torch.zeros(1)\n"
    )
    parts.append("def build():\n    return All(), (inputs(),)\n")
    return "\n\n".join(parts)


def found_by_class(
    cases: Sequence[Case], source: SourceText, profile: Profile, rules: Sequence[str]
) -> dict[str, list[Match]]:
    """What the rules find in the class of each case.

    Not through the engine, which would show only the costliest of so many in one file.
    """
    context = Context(profile, source, {source.path: source})
    found: dict[str, list[Match]] = {case.class_name: [] for case in cases}
    starts = sorted((source.text.index(f"class {name}("), name) for name in found)
    for match in (match for rule in rules for match in engine.rule_named(rule).find(context)):
        where = source.offset(*match.span.start)
        found[max(start for start in starts if start[0] < where)[1]].append(match)
    return found


def differences(before: str, after: str, name: str) -> list[str]:
    old, new = harness.load(before), harness.load(after)
    import torch

    results: list[list[Any]] = []
    torch.manual_seed(0)  # pyright: ignore[reportUnknownMemberType]
    model = getattr(old, name)()
    other = getattr(new, name)()
    other.load_state_dict(model.state_dict())
    for program, part in ((old, model), (new, other)):
        results.append(harness.outputs_and_gradients(part, program.inputs()[name]))
    return [] if harness.same(*results) else [f"{name}: outputs or gradients differ"]
