"""What every rule must have, whoever wrote it."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest
from tests.rules import harness

from forwardlens.rules import catalogue as catalogue_package
from forwardlens.rules import docs
from forwardlens.rules.contract import Rule
from forwardlens.rules.engine import catalogue, rule_named, rule_names

RULES = [pytest.param(rule, id=rule.name) for rule in catalogue()]
DOCS = Path(__file__).parents[2] / "docs" / "rules"
HEADINGS = ["What it does", "Why it costs", "When to ignore it", "Fix safety"]


def test_every_module_of_the_catalogue_is_one_rule() -> None:
    modules = [
        info.name
        for info in pkgutil.walk_packages(catalogue_package.__path__, f"{catalogue_package.__name__}.")
        if not info.ispkg
    ]
    assert modules
    for name in modules:
        importlib.import_module(name)
        assert sum(type(rule).__module__ == name for rule in catalogue()) == 1, name


def test_names_are_unique_and_found() -> None:
    assert len(set(rule_names())) == len(rule_names())
    assert [rule_named(name).name for name in rule_names()] == list(rule_names())


@pytest.mark.parametrize("rule", RULES)
def test_rule_is_documented(rule: Rule) -> None:
    text = inspect.cleandoc(type(rule).__doc__ or "")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == HEADINGS
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", rule.name)
    assert rule.summary
    assert not rule.summary.endswith(".")


@pytest.mark.parametrize("rule", RULES)
def test_rule_has_examples_of_both_kinds(rule: Rule) -> None:
    marked = [harness.unmarked(example.code)[1] for example in rule.examples]
    assert any(marked)
    assert not all(marked)
    assert len({example.name for example in rule.examples}) == len(rule.examples)


def test_pages_are_up_to_date() -> None:
    """Run `python -m forwardlens.rules.docs` if this fails."""
    assert {path.name: path.read_text(encoding="utf-8") for path in DOCS.glob("*.md")} == dict(docs.pages())


def test_pages_of_removed_rules_go_away(tmp_path: Path) -> None:
    (tmp_path / "long-gone.md").write_text("old")
    docs.write(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == set(docs.pages())
