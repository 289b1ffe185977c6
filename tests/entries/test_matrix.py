"""Projects laid out in every usual way are profiled, or told why not and what to do next."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.entries.harness import Bench, calls, notes
from tests.entries.projects import PROJECTS, Project

from forwardlens.runner.request import RunFailedError

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("project", PROJECTS.values(), ids=list(PROJECTS))
def test_project_runs_or_says_what_to_do(tmp_path: Path, bench: Bench, project: Project) -> None:
    options = {"target": project.target, "arguments": project.arguments}
    if project.refusal is not None:
        with pytest.raises(RunFailedError) as caught:
            bench.profile(tmp_path, project.files, project.entry, **options)
        assert caught.value.kind in ("usage", "entry")
        assert project.refusal in caught.value.message
        return
    profile = bench.profile(tmp_path, project.files, project.entry, **options)
    assert project.cost is None or project.cost in calls(profile)
    assert project.notes <= notes(profile).keys()
