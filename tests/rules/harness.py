"""What every example of every rule must hold, as one `check` that lists what does not."""

from __future__ import annotations

import ast
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.rules import clothes

from forwardlens import workflow
from forwardlens.config import Settings
from forwardlens.model import Edit, Finding, Profile
from forwardlens.rules import engine
from forwardlens.rules.contract import Example, Match, Rule
from forwardlens.runner.request import RunRequest
from forwardlens.source.edits import apply_edits
from forwardlens.source.text import SourceText

MARK = "  #!"
THRESHOLD = Settings().threshold

Measure = Callable[[SourceText], Profile]


def measurer(folder: Path, device: str = "cpu", python: str | None = None) -> Measure:
    """A function that profiles the `build` of a text for real, from a file in `folder`, with an interpreter."""

    def measure(source: SourceText) -> Profile:
        path = folder / Path(source.path).name
        path.write_bytes(source.to_bytes())
        request = RunRequest(f"{path}:build", folder, device=device, python=python, iterations=3, warmup=1)
        return workflow.profile(request, Settings(), lambda _: None, threading.Event()).profile

    return measure


def unmarked(code: str) -> tuple[str, frozenset[int]]:
    """An example's text without its marks, and the lines that carried one."""
    lines = code.split("\n")
    marked = frozenset(number for number, line in enumerate(lines, 1) if line.endswith(MARK))
    return "\n".join(line.removesuffix(MARK) for line in lines), marked


def find(rule: Rule, profile: Profile, source: SourceText) -> tuple[Finding, ...]:
    findings, failures = engine.find(profile, {source.path: source}, THRESHOLD, {}, [rule])
    assert not failures, failures
    return findings


def check(rule: Rule, example: Example, folder: Path, measure: Measure) -> list[str]:
    """What is wrong with a rule on one of its examples; empty if nothing is."""
    code, marked = unmarked(example.code)
    source = SourceText(str(folder / f"{rule.name.replace('-', '_')}.py"), code)
    profile = measure(source)
    findings = find(rule, profile, source)
    problems = [*_wrong_lines(source, findings, marked), *_wrong_fixes(findings, example)]
    if find(rule, _without_costs(profile), source):
        problems.append("found without any cost")
    problems += _told_twice(profile, source)
    if example.fixed is not None and not problems:
        problems += _wrong_result(rule, source, findings, example.fixed, measure)
    if example.fixed is not None and not problems:
        problems += clothes.problems(source, profile, lambda p, s: _fixed(rule, p, s))
    return problems


def _fixed(rule: Rule, profile: Profile, source: SourceText) -> str:
    return apply_edits(source, safe_edits(find(rule, profile, source))).text


def _wrong_lines(source: SourceText, findings: tuple[Finding, ...], marked: frozenset[int]) -> Iterator[str]:
    found = [finding.span.end_line for finding in findings]
    if sorted(found) != sorted(marked):
        yield f"marked lines {sorted(marked)}, found {sorted(found)}"
    for finding in findings:
        yield from (f"line {finding.span.line}: {problem}" for problem in wrong_words(source, finding))


def wrong_words(source: SourceText, found: Finding | Match) -> Iterator[str]:
    """What is wrong with the place and the message of a finding."""
    if not source.slice(found.span).strip():
        yield "the finding covers no code"
    if not found.message.strip() or found.message.endswith("."):
        yield f"the message is empty or ends in a full stop: {found.message!r}"


def _told_twice(profile: Profile, source: SourceText) -> Iterator[str]:
    """Expressions that two rules flag: one of them should name the other in `covers`."""
    findings, _ = engine.find(profile, {source.path: source}, THRESHOLD, {})
    for number, one in enumerate(findings):
        for other in findings[number + 1 :]:
            if one.span == other.span:
                yield f"line {one.span.line}: {one.rule} and {other.rule} flag the same expression"


def _wrong_fixes(findings: tuple[Finding, ...], example: Example) -> Iterator[str]:
    fixes = [fix for finding in findings for fix in finding.fixes]
    for fix in fixes:
        if (fix.applicability == "safe") != (fix.reason is None):
            yield f"`{fix.title}` is {fix.applicability} with reason {fix.reason!r}"
    if any(fix.applicability == "safe" for fix in fixes) != (example.fixed is not None):
        yield "a safe fix where the example has no fixed text, or the other way round"


def _without_costs(profile: Profile) -> Profile:
    return replace(
        profile,
        graphs=None,
        lines=tuple(
            replace(cost, calls=0, calls_per_entry=0, self_ms=0.0, total_ms=0.0, share=0.0, ops=())
            for cost in profile.lines
        ),
    )


def safe_edits(findings: tuple[Finding, ...]) -> list[Edit]:
    return [e for finding in findings for fix in finding.fixes if fix.applicability == "safe" for e in fix.edits]


def _wrong_result(
    rule: Rule, source: SourceText, findings: tuple[Finding, ...], fixed: str, measure: Measure
) -> Iterator[str]:
    edits = safe_edits(findings)
    after = apply_edits(source, edits)
    if after.text != fixed:
        yield f"the fixed text differs:\n{after.text}"
        return
    ast.parse(after.text)
    if not _kept_outside(source, after, edits):
        yield "text outside the edits changed"
    again = find(rule, measure(after), after)
    if again:
        yield f"found again after the fix: {[finding.message for finding in again]}"
    yield from differences(source.text, after.text, gradients=not rule.drops_graph)


def _kept_outside(source: SourceText, after: SourceText, edits: list[Edit]) -> bool:
    """Whether the text in front of the first edit and behind the last one is the same."""
    head = source.offset(*min(edit.start for edit in edits))
    tail = len(source.text) - source.offset(*max(edit.end for edit in edits))
    same_tail = not tail or after.text[-tail:] == source.text[-tail:]
    return after.text[:head] == source.text[:head] and same_tail


# -- running both versions


def load(text: str) -> ModuleType:
    module = ModuleType("example")
    exec(compile(text, "example.py", "exec"), module.__dict__)
    return module


def differences(before: str, after: str, *, gradients: bool) -> Iterator[str]:
    """How the outputs, and the gradients of the parameters, of two versions differ."""
    import torch

    old, new = load(before), load(after)
    torch.manual_seed(0)  # pyright: ignore[reportUnknownMemberType]
    model, inputs = old.build()
    torch.manual_seed(0)  # pyright: ignore[reportUnknownMemberType]
    other, same_inputs = new.build()
    if list(model.parameters()):
        other.load_state_dict(model.state_dict())
    for attempt in ("first", "second"):
        if not same(_run(model, inputs), _run(other, same_inputs)):
            yield f"the outputs of the {attempt} call differ"
    if gradients and not same(_gradients(model, inputs), _gradients(other, same_inputs)):
        yield "the gradients differ"


def _run(model: Any, inputs: tuple[Any, ...]) -> list[Any]:
    import torch

    torch.manual_seed(1)  # pyright: ignore[reportUnknownMemberType]
    return _leaves(model(*[value.clone() for value in inputs]))


def _leaves(value: Any) -> list[Any]:
    if not isinstance(value, (list, tuple)):
        return [value]
    parts: list[Any] = list(value)  # pyright: ignore[reportUnknownArgumentType]
    return [leaf for part in parts for leaf in _leaves(part)]


def outputs_and_gradients(model: Any, inputs: tuple[Any, ...]) -> list[Any]:
    return [*_run(model, inputs), *_gradients(model, inputs)]


def _gradients(model: Any, inputs: tuple[Any, ...]) -> list[Any]:
    outputs = [out for out in _run(model, inputs) if getattr(out, "requires_grad", False)]
    if not outputs:
        return []
    model.zero_grad()
    # A weight of its own for every element, so that elements in the wrong place show.
    total: Any = 0
    for out in outputs:
        total = total + (out.flatten() * out.new_tensor(range(1, out.numel() + 1))).sum() / out.numel()
    total.backward()
    return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]


def same(one: list[Any], other: list[Any]) -> bool:
    import torch

    if len(one) != len(other):
        return False
    for left, right in zip(one, other, strict=True):
        if not isinstance(left, torch.Tensor):
            if left != right:
                return False
        elif (
            left.shape != right.shape
            or left.dtype != right.dtype
            or not torch.allclose(left.double(), right.double(), rtol=1e-4, atol=1e-5)
        ):
            return False
    return True


# -- the same example in other clothes


def dressed(code: str) -> str:
    """The same module inside a function, with CRLF, tabs, form feeds, an emoji and names that are not ASCII."""
    lines = code.split("\n")
    start = next(number for number, line in enumerate(lines) if line.startswith("class "))
    inner = [f"    {line}" if line else line for line in lines[start:]]
    inner = [f"\f{line}" if line.startswith("    class ") else line for line in inner]
    text = "\n".join(
        [*lines[:start], "def make():  # \N{SPARKLES}", *inner, "    return build", "", "", "build = make()"]
    )
    named = re.sub(r"\b(x|ids|mask|row)\b", lambda name: f"{name[0]}\N{GREEK SMALL LETTER SIGMA}", text)
    return named.replace("    ", "\t").replace("\n", "\r\n")
