"""SARIF: what viewers and code scanning read out of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from forwardlens.report.formats.sarif import render
from forwardlens.report.record import Report


@pytest.fixture
def run(report: Report) -> dict[str, Any]:
    document = json.loads(render(report))
    assert document["version"] == "2.1.0"
    return document["runs"][0]


def test_a_result_points_at_the_expression(run: dict[str, Any]):
    result = run["results"][0]
    place = result["locations"][0]["physicalLocation"]

    assert run["columnKind"] == "unicodeCodePoints"
    assert place["artifactLocation"] == {"uri": "models/tagger%20one.py", "uriBaseId": "%SRCROOT%"}
    assert place["region"] == {"startLine": 18, "startColumn": 25, "endLine": 18, "endColumn": 45}
    assert (result["level"], result["message"]["text"][:11]) == ("warning", "`self.word`")


def test_the_rule_of_a_result_is_described(run: dict[str, Any]):
    result = run["results"][0]
    rule = run["tool"]["driver"]["rules"][result["ruleIndex"]]

    assert rule["id"] == result["ruleId"] == "embedding-in-loop"
    assert rule["helpUri"].endswith("/docs/rules/embedding-in-loop.md")
    assert rule["shortDescription"]["text"] != rule["id"]


def test_the_root_is_the_workspace(run: dict[str, Any], report: Report):
    assert run["originalUriBaseIds"]["%SRCROOT%"]["uri"] == report.workspace.resolve().as_uri() + "/"


def test_fixes_with_edits_are_offered_and_explanations_are_not(run: dict[str, Any]):
    proven, untried = run["results"][0]["fixes"]

    assert proven["description"]["text"] == (
        "Look up all tokens at once; tried: 8.0x faster (7.5x to 8.5x over 20 pairs), outputs equal"
    )
    assert untried["description"]["text"] == "Use another layer; it sums"
    assert proven["artifactChanges"] == [
        {
            "artifactLocation": {"uri": "models/tagger%20one.py", "uriBaseId": "%SRCROOT%"},
            "replacements": [
                {
                    "deletedRegion": {"startLine": 15, "startColumn": 9, "endLine": 18, "endColumn": 46},
                    "insertedContent": {"text": "words = self.word(ids)"},
                },
                {"deletedRegion": {"startLine": 22, "startColumn": 1, "endLine": 23, "endColumn": 18}},
            ],
        }
    ]


def test_the_loop_is_a_related_location(run: dict[str, Any]):
    related = run["results"][0]["relatedLocations"][0]

    assert related["message"]["text"] == "the loop"
    assert related["physicalLocation"]["region"]["startLine"] == 16


def test_errors_are_notifications(run: dict[str, Any]):
    with_place, without = run["invocations"][0]["toolExecutionNotifications"]

    assert with_place["message"]["text"] == "rule x failed"
    assert with_place["locations"][0]["physicalLocation"]["region"] == {"startLine": 3}
    assert "locations" not in without


def test_it_is_ascii_so_that_any_pipe_carries_it(report: Report):
    assert render(report).isascii()
