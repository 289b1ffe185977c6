"""The JSON report against its schema and against the profile it was made from."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any, cast

import jsonschema
import pytest

import forwardlens.report
from forwardlens.model import Verification
from forwardlens.report.formats.json import render
from forwardlens.report.record import Report

SCHEMA: dict[str, Any] = json.loads(
    (Path(forwardlens.report.__file__).parent / "forwardlens-1.schema.json").read_text(encoding="utf-8")
)


def validate(document: object) -> None:
    validator = cast("Any", jsonschema.Draft202012Validator)
    validator.check_schema(SCHEMA)
    validator(SCHEMA).validate(document)


def test_it_follows_the_schema(report: Report):
    validate(json.loads(render(report)))


def test_every_object_has_exactly_the_fields_of_the_schema(report: Report):
    """The schema lets fields be added later; a field that is added without it should be a decision."""
    document = json.loads(render(report))
    line, finding, fix = document["lines"][0], document["findings"][0], document["findings"][0]["fixes"][0]
    objects = {
        "environment": document["environment"],
        "forward": document["forward"],
        "line": line,
        "op": line["ops"][0],
        "finding": finding,
        "fix": fix,
        "edit": fix["edits"][0],
        "verification": fix["verified"],
        "error": document["errors"][0],
    }

    assert set(document) == set(SCHEMA["required"]) == set(SCHEMA["properties"])
    assert {name: set(value) for name, value in objects.items()} == {
        name: set(SCHEMA["$defs"][name]["required"]) for name in objects
    }


def test_the_lines_and_the_rest_add_up_to_the_median(report: Report):
    document = json.loads(render(report))
    median = document["forward"]["wall_ms"]["median"]

    total = sum(line["self_ms"] for line in document["lines"]) + document["unattributed_share"] * median

    assert total == pytest.approx(median)


def test_files_are_relative_to_the_workspace_with_forward_slashes(report: Report):
    document = json.loads(render(report))

    assert {line["file"] for line in document["lines"]} == {"models/tagger one.py", "/elsewhere/lib.py"}
    assert document["findings"][0]["file"] == "models/tagger one.py"
    assert document["findings"][0]["fixes"][0]["edits"][0]["file"] == "models/tagger one.py"


def test_what_was_found_is_told_in_full(report: Report):
    finding = json.loads(render(report))["findings"][0]

    assert (finding["line"], finding["column"], finding["end_line"], finding["end_column"]) == (18, 24, 18, 44)
    assert finding["evidence"] == {
        "calls": 128,
        "operator": "aten::embedding",
        "mean_ms": 0.046875,
        "in_loop": True,
    }
    assert finding["url"].endswith("/docs/rules/embedding-in-loop.md")
    proven, untried, shown = finding["fixes"]
    assert proven["edits"][0] == {
        "file": "models/tagger one.py",
        "start": [15, 8],
        "end": [18, 45],
        "text": "words = self.word(ids)",
    }
    assert proven["verified"] == {
        "outcome": "equal",
        "max_abs_diff": 0.0,
        "before_ms": 8.0,
        "after_ms": 1.0,
        "speedup": 8.0,
        "speedup_low": 7.5,
        "speedup_high": 8.5,
        "pairs": 20,
    }
    assert (untried["applicability"], untried["reason"], untried["verified"]) == ("unsafe", "it sums", None)
    assert shown["edits"] == []


def test_a_refuted_fix_is_there_to_read_and_not_to_apply(report: Report):
    finding = report.findings[0]
    verified = Verification("differs", message="output: values differ by up to 0.25")
    refuted = dataclasses.replace(finding.fixes[0], verified=verified)
    without = dataclasses.replace(finding, fixes=())
    document = json.loads(render(dataclasses.replace(report, findings=(without,), rejected=((finding, refuted),))))
    validate(document)
    (fix,) = document["findings"][0]["fixes"]

    assert fix["applicability"] == "display"
    assert fix["reason"] == "tried: outputs differ (output: values differ by up to 0.25)"
    assert fix["verified"]["outcome"] == "differs"


def test_a_difference_that_is_no_number_is_null_and_a_small_one_is_kept(report: Report):
    def with_difference(difference: float) -> dict[str, Any]:
        finding = report.findings[0]
        fix = dataclasses.replace(finding.fixes[0], verified=Verification("differs", max_abs_diff=difference))
        changed = dataclasses.replace(finding, fixes=(fix,), evidence={"ratio": difference})
        document = json.loads(render(dataclasses.replace(report, findings=(changed,))))
        validate(document)
        return document["findings"][0]

    assert with_difference(float("nan"))["fixes"][0]["verified"]["max_abs_diff"] is None
    assert with_difference(float("inf"))["evidence"]["ratio"] is None
    assert with_difference(1.5e-9)["fixes"][0]["verified"]["max_abs_diff"] == 1.5e-9


def test_it_is_ascii_so_that_any_pipe_carries_it(report: Report):
    assert render(report).isascii()


def test_the_schema_refuses_what_it_should(report: Report):
    document = json.loads(render(report))
    for break_it in (
        {**document, "schema": "forwardlens/2"},
        {key: value for key, value in document.items() if key != "lines"},
        {**document, "lines": [{**document["lines"][0], "file": "models\\tagger.py"}]},
        {**document, "findings": [{**document["findings"][0], "severity": "error"}]},
        {**document, "lines": [{**document["lines"][0], "line": 0}]},
    ):
        with pytest.raises(jsonschema.ValidationError):
            validate(break_it)
