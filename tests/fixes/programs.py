"""Running random programs: profiled in batches, each offered fix against the original on many inputs."""

from __future__ import annotations

import ast
import contextlib
import difflib
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from forwardlens import workflow
from forwardlens.config import Settings
from forwardlens.fixes.trial import apply_fix
from forwardlens.model import Edit, Finding, Fix, Profile
from forwardlens.rules import engine
from forwardlens.runner.request import RunRequest
from forwardlens.source.edits import OverlappingEditsError, apply_edits
from forwardlens.source.text import SourceText

_RUN_ALL = """\
import importlib

import torch
from torch import nn


class All(nn.Module):
    def __init__(self, programs):
        super().__init__()
        self.models = nn.ModuleList(model for model, _ in programs)
        self.inputs = [inputs for _, inputs in programs]

    def forward(self):
        for model, inputs in zip(self.models, self.inputs):
            model(*[value.clone() for value in inputs])


def build():
    return All([importlib.import_module(name).build() for name in {names!r}]), ()
"""


def profiled(folder: Path, programs: Mapping[str, str]) -> tuple[Profile, dict[str, SourceText]]:
    """One real profile of all programs, each a file of its own, and their texts by path."""
    for name, text in programs.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    entry = folder / "run_all.py"
    entry.write_text(_RUN_ALL.replace("{names!r}", repr(list(programs))), encoding="utf-8")
    request = RunRequest(f"{entry}:build", folder, device="cpu", iterations=3, warmup=1)
    profile = workflow.profile(request, Settings(), lambda _: None, threading.Event()).profile
    paths = {name: str(folder / f"{name}.py") for name in programs}
    return profile, {path: SourceText(path, programs[name]) for name, path in paths.items()}


def findings(profile: Profile, source: SourceText) -> tuple[Finding, ...]:
    """What every rule finds in one program, however small its share: fixes are to be offered without reserve."""
    lines = profile.in_file(source.path)
    total = sum(cost.self_ms for cost in lines) or 1.0
    only = replace(profile, lines=tuple(replace(cost, share=cost.self_ms / total) for cost in lines))
    found, failures = engine.find(only, {source.path: source}, 0.0, {})
    assert not failures, failures
    return found


@dataclass(frozen=True)
class Wrong:
    """A safe fix that gives something else."""

    program: str
    rule: str
    fixed: str
    why: str

    def __str__(self) -> str:
        lines = difflib.unified_diff(self.program.split("\n"), self.fixed.split("\n"), lineterm="", n=9)
        return "\n".join([f"{self.rule}: {self.why}", *lines])


def safe_fixes(found: tuple[Finding, ...]) -> Iterator[tuple[Finding, Fix]]:
    for finding in found:
        for fix in finding.fixes:
            if fix.applicability == "safe" and fix.edits:
                yield finding, fix


def wrong_fixes(source: SourceText, found: tuple[Finding, ...]) -> Iterator[Wrong]:
    """The safe fixes of a program, each alone and all together, that differ from it anywhere."""
    fixes = list(safe_fixes(found))
    if not fixes:
        return
    kept = all(not engine.rule_named(finding.rule).drops_graph for finding, _ in fixes)
    compared = Comparison(gradients=kept)
    original = results(source.text, compared)
    if isinstance(original[PLAIN], Exception):
        # Some casts make a program that takes single precision only.
        compared = replace(compared, dtype=torch.float32)
        original = results(source.text, compared)
    if _cannot_train(original[PLAIN]):
        compared = replace(compared, gradients=False)
        original = results(source.text, compared)
    right: list[Fix] = []
    for finding, fix in fixes:
        fixed = apply_fix({source.path: source}, fix)[source.path].text
        why = difference(original, results(fixed, compared), _left_out(finding))
        if why:
            yield Wrong(source.text, finding.rule, fixed, why)
        else:
            right.append(fix)
    if len(right) > 1:
        fixed = _together(source, right, original, compared).text
        left_out = frozenset(name for finding, _ in fixes for name in _left_out(finding))
        why = difference(original, results(fixed, compared), left_out)
        if why:
            yield Wrong(source.text, TOGETHER, fixed, why)


def _together(source: SourceText, fixes: list[Fix], original: Results, compared: Comparison) -> SourceText:
    """The program after all fixes that hold on top of each other on the real inputs, as the product applies them."""
    whole: tuple[Edit, ...] = ()
    for fix in fixes:
        more = (*whole, *(edit for edit in fix.edits if edit not in whole))
        with contextlib.suppress(OverlappingEditsError):
            fixed = apply_edits(source, more).text
            if not difference({PLAIN: original[PLAIN]}, results(fixed, compared, only=PLAIN)):
                whole = more
    return apply_edits(source, whole)


def _left_out(finding: Finding) -> frozenset[str]:
    """Inputs on which a rule's page says that its fix may differ."""
    return frozenset({BROKEN}) if finding.rule in _NEEDS_NUMBERS else frozenset()


# -- running both


def load(text: str) -> ModuleType:
    module = ModuleType("program")
    exec(compile(text, "program.py", "exec"), module.__dict__)
    return module


PLAIN = "plain"
TOGETHER = "together"
EMPTY = "no steps"
BROKEN = "one nan and infinity"
# The fused operator adds its mask, so that a hidden score that is no number stays none.
_ATTEMPTS = 12
_NO_BACKWARD = object()
_NEEDS_NUMBERS = frozenset({"manual-attention"})
Values = tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class Comparison:
    """How two programs are run to be compared: in double precision only real differences show."""

    gradients: bool
    dtype: torch.dtype = torch.float64


def inputs(module: ModuleType, dtype: torch.dtype) -> Iterator[tuple[str, Any, Values]]:
    """Models with inputs of many kinds."""
    for name, sizes in {PLAIN: (3, 5, 4), "other sizes": (4, 2, 3), "ones": (1, 1, 2), "square": (3, 3, 3)}.items():
        model, given = module.build(*sizes)
        yield name, model.to(dtype), tuple(_as(v, dtype) for v in given)
    model, given = module.build()
    x, y, s, u, ids, mask, lengths = (_as(v, dtype) for v in given)
    model = model.to(dtype)
    yield "mask all true", model, (x, y, s, u, ids, torch.ones_like(mask), torch.full_like(lengths, 9))
    yield "mask all false", model, (x, y, s, u, ids, torch.zeros_like(mask), torch.zeros_like(lengths))
    yield "other values", model, (-3 * y, x, -s, u * 2 + 1, (ids + 5) % 11, ~mask, 9 - lengths)
    yield "zeros", model, (x * 0, y * 0, s * 0, u * 0, ids * 0, mask, lengths)
    yield "strided", model, (_strided(x), _strided(y), _strided(s), _strided(u), _strided(ids), _strided(mask), lengths)
    yield BROKEN, model, (_broken(x), y, _broken(s), u, ids, mask, lengths)
    model, given = module.build(2, 0, 4)
    yield EMPTY, model.to(dtype), tuple(_as(v, dtype) for v in given)


def _as(value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return value.to(dtype) if value.is_floating_point() else value


def _strided(value: torch.Tensor) -> torch.Tensor:
    return value.transpose(0, -1).contiguous().transpose(0, -1)


def _broken(value: torch.Tensor) -> torch.Tensor:
    value = value.clone()
    value.view(-1)[1], value.view(-1)[-2] = float("nan"), float("inf")
    return value


Results = dict[str, "list[Any] | Exception"]


def results(text: str, compared: Comparison, only: str | None = None) -> Results:
    """What a program gives on each of the inputs, or on one of them, or what it raises."""
    torch.set_default_dtype(compared.dtype)
    try:
        # A backward multiplies what was dropped by zero, which tells nothing where there is no number, and what ran no
        # step has nothing to train.
        return {
            name: _run(model, given, compared.gradients and name != BROKEN)
            for name, model, given in inputs(load(text), compared.dtype)
            if only in (None, name)
        }
    finally:
        torch.set_default_dtype(torch.float32)


def difference(before: Results, after: Results, left_out: frozenset[str] = frozenset()) -> str:
    """How two programs differ on any of the inputs that the first one takes; empty if they do not."""
    for name, expected in before.items():
        got = after[name]
        if isinstance(expected, Exception) or name in left_out:
            continue
        if isinstance(got, Exception):
            return f"{name}: raises {type(got).__name__}: {got}"
        if expected[-1] is _NO_BACKWARD:
            expected, got = expected[:-1], got[: len(expected) - 1]
        if len(got) != len(expected):
            return f"{name}: {len(expected)} values became {len(got)}"
        for place, (left, right) in enumerate(zip(expected, got, strict=True)):
            if not _same(left, right, name == BROKEN):
                return f"{name}: value {place} of {len(expected)} differs: {_shown(left)} became {_shown(right)}"
    return ""


def _run(model: Any, given: Values, gradients: bool) -> list[Any] | Exception:
    """Outputs of two calls, what became of the inputs, the random state and the gradients."""
    kept: list[Any] = []
    out: list[Any] = []
    try:
        for call in range(2):
            fresh = tuple(v.detach().clone(memory_format=torch.preserve_format) for v in given)
            torch.manual_seed(call)  # pyright: ignore[reportUnknownMemberType]
            out = _leaves(model(*fresh))
            kept += [*out, *fresh, torch.get_rng_state()]
        roots = [v for v in out if isinstance(v, torch.Tensor) and v.requires_grad]
        # Without a graph, as after a loop of no rounds, there is nothing that anything could change.
        grads: Any = [None for _ in model.parameters()]
        if gradients and roots:
            weighted = torch.stack([(v * torch.linspace(0.5, 1.5, v.numel()).view(v.shape)).sum() for v in roots]).sum()
            try:
                grads = torch.autograd.grad(weighted, list(model.parameters()), allow_unused=True)
            except RuntimeError:
                # Some loops write over what their backward needs; they can still be compared in what they give.
                return [*_detached(kept), _NO_BACKWARD]
        kept += [torch.zeros_like(p) if g is None else g for g, p in zip(grads, model.parameters(), strict=True)]
    except Exception as error:
        return error
    return _detached(kept)


def _cannot_train(result: list[Any] | Exception) -> bool:
    return not isinstance(result, Exception) and result[-1] is _NO_BACKWARD


def _detached(values: list[Any]) -> list[Any]:
    return [v.detach() if isinstance(v, torch.Tensor) else v for v in values]


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        items: dict[Any, Any] = value  # pyright: ignore[reportUnknownVariableType]
        return [leaf for key, part in items.items() for leaf in (key, *_leaves(part))]
    if isinstance(value, (list, tuple)):
        parts: list[Any] = list(value)  # pyright: ignore[reportUnknownArgumentType]
        return ["list" if isinstance(value, list) else "tuple", *(leaf for part in parts for leaf in _leaves(part))]
    return [value]


def _same(left: Any, right: Any, nan_too: bool) -> bool:
    """Where finite inputs gave `nan` there was no result to keep, unless `nan_too`."""
    if not isinstance(left, torch.Tensor) or not isinstance(right, torch.Tensor):
        if isinstance(left, float) and isinstance(right, float):
            return _same(torch.tensor(left), torch.tensor(right), nan_too)
        return type(left) is type(right) and left == right
    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    if not left.is_floating_point():
        return torch.equal(left, right)
    if not nan_too:
        right = torch.where(left.isnan(), left, right)
    loose = 1e-6 if left.dtype is torch.float64 else 1e-4
    return torch.allclose(left, right, rtol=loose, atol=loose, equal_nan=True)


def _shown(value: Any) -> str:
    return f"{value.dtype} {tuple(value.shape)}" if isinstance(value, torch.Tensor) else repr(value)


# -- making a wrong one small


def shrunk(folder: Path, wrong: Wrong) -> Wrong:
    """The same kind of wrong fix of a program with fewer statements, as long as one can be left out."""
    for attempt in range(_ATTEMPTS):
        smaller = {f"s{attempt}_{n}": text for n, text in enumerate(_without_one(wrong.program)) if runs(text)}
        profile, sources = profiled(folder, smaller)
        found = (
            other
            for source in sorted(sources.values(), key=lambda source: len(source.text))
            for other in wrong_fixes(source, findings(profile, source))
            if other.rule == wrong.rule
        )
        better = next(found, None)
        if better is None:
            return wrong
        wrong = better
    return wrong


def _without_one(program: str) -> Iterator[str]:
    """The program without one of the statements of its forward."""
    lines = program.split("\n")
    forward = next(n for n in ast.walk(ast.parse(program)) if isinstance(n, ast.FunctionDef) and n.name == "forward")
    for node in ast.walk(forward):
        if isinstance(node, ast.stmt) and node is not forward and not isinstance(node, ast.Return):
            yield "\n".join(lines[: node.lineno - 1] + lines[node.end_lineno or node.lineno :])


def runs(program: str) -> bool:
    """Whether a program takes its own inputs, twice: some of those that are made up do not."""
    try:
        model, given = load(program).build()
        for _ in range(2):
            model(*[value.clone() for value in given])
    except Exception:
        return False
    return True
