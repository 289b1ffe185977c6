"""One program through the whole workflow: its findings, each with the place in its library."""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass
from pathlib import Path

from tests.corpus.libraries.programs import Program

from forwardlens import workflow
from forwardlens.config import Settings
from forwardlens.model import Finding, Fix, Profile, Span
from forwardlens.runner.request import RunFailedError
from forwardlens.source.text import SourceText
from forwardlens.source.tree import tree_of


@dataclass(frozen=True)
class Key:
    """What a judgement is about: it outlives the lines moving and the costs changing."""

    rule: str
    # The file within its library and the function: `modeling_bert.py BertModel.forward`.
    place: str
    # The expression, in one line.
    code: str


@dataclass(frozen=True)
class Observed:
    program: str
    key: Key
    finding: Finding
    # Fixes that were tried and gave something else.
    refuted: tuple[Fix, ...]


@dataclass(frozen=True)
class Run:
    program: Program
    profile: Profile | None = None
    findings: tuple[Observed, ...] = ()
    error: str = ""
    # Rules that raised.
    failures: tuple[str, ...] = ()


def run(program: Program) -> Run:
    never = threading.Event()
    try:
        result = workflow.profile(program.request(sys.executable), Settings(), lambda _: None, never)
        result = workflow.verify(result, lambda _: None, never)
    except RunFailedError as error:
        return Run(program, error=str(error))
    seen: list[Observed] = []
    for finding in result.findings:
        key = _key(finding, result.sources[finding.span.file])
        refuted = [fix for f, fix in result.rejected if (f.rule, f.span) == (finding.rule, finding.span)]
        seen.append(Observed(program.name, key, finding, tuple(refuted)))
    failures = tuple(error.message for error in result.errors if error.kind == "rule")
    return Run(program, result.profile, tuple(seen), failures=failures)


def _key(finding: Finding, source: SourceText) -> Key:
    code = " ".join(source.slice(finding.span).split())
    return Key(finding.rule, f"{_within_library(finding.span.file)} {_function(finding.span, source)}".strip(), code)


def _function(span: Span, source: SourceText) -> str:
    tree = tree_of(source)
    around = [f for f in tree.functions() if source.span(f).start <= span.start < source.span(f).end] if tree else []
    inner = max(around, key=lambda f: f.lineno, default=None)
    return tree.qualname(inner) if tree is not None and inner is not None else ""


def _within_library(file: str) -> str:
    parts = Path(file).parts
    if "site-packages" in parts:
        return "/".join(parts[len(parts) - parts[::-1].index("site-packages") :])
    return parts[-1]
