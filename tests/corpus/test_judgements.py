"""The list of judged findings, and what is said of a finding that is not on it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.corpus.libraries import judgements
from tests.corpus.libraries.__main__ import rows_of
from tests.corpus.libraries.observed import Key, Observed, Run
from tests.corpus.libraries.programs import PROGRAMS

from forwardlens.model import Finding, Span

KEY = Key("host-sync", "library/model.py Net.forward", "x.item()")


def observed(key: Key) -> Observed:
    return Observed("net", key, Finding(key.rule, "hint", "reads a value", Span("/w/m.py", 1, 0, 1, 4), 0.1, {}), ())


def test_every_judgement_has_a_reason() -> None:
    found = judgements.read()
    assert len(found) >= 50
    assert all(judgement.why.endswith(".") for judgement in found.values())


def test_a_finding_nobody_has_read_has_no_judgement() -> None:
    read = {KEY: judgements.Judgement(right=True, why="It waits.")}
    other = Key(KEY.rule, KEY.place, "y.item()")
    rows = rows_of([Run(PROGRAMS[0], findings=(observed(KEY), observed(other)))], read)
    assert [row.judgement is None for row in rows] == [False, True]
    assert "not read" in rows[1].cells()


def test_two_judgements_of_one_finding_are_refused(tmp_path: Path) -> None:
    entry = '[[finding]]\nrule = "a"\nplace = "b"\ncode = "c"\nright = true\nwhy = "d."\n'
    file = tmp_path / "twice.toml"
    file.write_text(entry + entry, encoding="utf-8")
    with pytest.raises(ValueError, match="twice"):
        judgements.read(file)
