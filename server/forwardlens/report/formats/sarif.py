"""SARIF 2.1.0, for code scanning services and SARIF viewers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from forwardlens import __version__
from forwardlens.model import Edit, Finding, Fix, RunError, Severity, Span
from forwardlens.report.formats import Format
from forwardlens.report.links import rule_url
from forwardlens.report.record import Report, plain_evidence
from forwardlens.report.words import verification_text
from forwardlens.rules.docs import explanation
from forwardlens.rules.engine import catalogue

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_ROOT = "%SRCROOT%"
_LEVELS: Mapping[Severity, str] = {"hint": "note", "info": "note", "warning": "warning"}

JsonObject = dict[str, Any]


def document(report: Report) -> JsonObject:
    rules = sorted({finding.rule for finding in report.findings})
    run: JsonObject = {
        "tool": {"driver": _driver(rules)},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {_ROOT: {"uri": report.workspace.resolve().as_uri() + "/"}},
        "invocations": [
            {
                "executionSuccessful": True,
                "toolExecutionNotifications": [_notification(error, report) for error in report.errors],
            }
        ],
        "results": [_result(finding, rules.index(finding.rule), report) for finding in report.findings],
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def render(report: Report) -> str:
    return json.dumps(document(report), indent=2, allow_nan=False) + "\n"


def _driver(names: list[str]) -> JsonObject:
    rules = {rule.name: rule for rule in catalogue()}
    return {
        "name": "ForwardLens",
        "semanticVersion": __version__,
        "rules": [
            {
                "id": name,
                "shortDescription": {"text": rules[name].summary},
                "help": {"text": rules[name].summary, "markdown": explanation(rules[name])},
                "helpUri": rule_url(name),
            }
            for name in names
        ],
    }


def _result(finding: Finding, index: int, report: Report) -> JsonObject:
    return {
        "ruleId": finding.rule,
        "ruleIndex": index,
        "level": _LEVELS[finding.severity],
        "message": {"text": finding.message},
        "locations": [_location(finding.span, report)],
        "relatedLocations": [
            {"id": number, **_location(related.span, report), "message": {"text": related.message}}
            for number, related in enumerate(finding.related, 1)
        ],
        "fixes": [_fix(fix, report) for fix in finding.fixes if fix.edits and fix.applicability != "display"],
        "properties": {"share": round(finding.share, 6), "evidence": plain_evidence(finding.evidence)},
    }


def _location(span: Span, report: Report) -> JsonObject:
    return {
        "physicalLocation": {
            "artifactLocation": _artifact(span.file, report),
            "region": _region(span.start, span.end),
        }
    }


def _fix(fix: Fix, report: Report) -> JsonObject:
    parts = (fix.title, fix.reason, verification_text(fix.verified) if fix.verified else None)
    files = dict.fromkeys(edit.file for edit in fix.edits)
    return {
        "description": {"text": "; ".join(part for part in parts if part)},
        "artifactChanges": [
            {
                "artifactLocation": _artifact(file, report),
                "replacements": [_replacement(edit) for edit in fix.edits if edit.file == file],
            }
            for file in files
        ],
    }


def _replacement(edit: Edit) -> JsonObject:
    replacement: JsonObject = {"deletedRegion": _region(edit.start, edit.end)}
    if edit.text:
        replacement["insertedContent"] = {"text": edit.text}
    return replacement


def _region(start: tuple[int, int], end: tuple[int, int]) -> JsonObject:
    """SARIF columns are 1-based; like ours, the end is exclusive."""
    return {
        "startLine": start[0],
        "startColumn": start[1] + 1,
        "endLine": end[0],
        "endColumn": end[1] + 1,
    }


def _artifact(file: str, report: Report) -> JsonObject:
    name = report.name_of(file)
    if Path(name).is_absolute():
        return {"uri": Path(name).as_uri()}
    return {"uri": quote(name), "uriBaseId": _ROOT}


def _notification(error: RunError, report: Report) -> JsonObject:
    notification: JsonObject = {
        "descriptor": {"id": error.kind},
        "level": "warning",
        "message": {"text": error.message},
    }
    if error.file is not None:
        place: JsonObject = {"artifactLocation": _artifact(error.file, report)}
        if error.line is not None:
            place["region"] = {"startLine": error.line}
        notification["locations"] = [{"physicalLocation": place}]
    return notification


FORMAT = Format("SARIF 2.1.0", ".sarif", render)
