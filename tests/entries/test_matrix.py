"""Projects laid out in every usual way are profiled, or told why not and what to do next."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.entries.projects import PROJECTS, Project

from forwardlens.attribution.attribute import attribute
from forwardlens.model import Profile
from forwardlens.runner.process import Worker
from forwardlens.runner.request import Progress, RunFailedError, RunRequest
from forwardlens.runner.runner import record, start_worker

pytestmark = pytest.mark.torch

NEVER = threading.Event()
Run = Callable[[RunRequest], Profile]


def _quiet(_: Progress) -> None:
    return None


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """One warm worker for all: each request starts in its own folder, with no module of the one before."""
    worker: Worker | None = None

    def run(request: RunRequest) -> Profile:
        nonlocal worker
        if worker is None:
            worker = start_worker(request, _quiet, NEVER)
        return attribute(record(worker, request, _quiet, NEVER), request.entry)

    yield run
    if worker is not None:
        worker.close()


def write(folder: Path, project: Project) -> RunRequest:
    for name, text in project.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return RunRequest(
        project.entry,
        folder,
        target=project.target,
        arguments=project.arguments,
        iterations=1,
        warmup=1,
    )


def expressions(profile: Profile) -> set[str]:
    lines = {path: text.split("\n") for path, text in profile.texts.items()}
    return {
        lines[cost.span.file][cost.span.line - 1][cost.span.column : cost.span.end_column]
        for cost in profile.lines
        if cost.span.line == cost.span.end_line
    }


@pytest.mark.parametrize("project", PROJECTS.values(), ids=list(PROJECTS))
def test_project_runs_or_says_what_to_do(tmp_path: Path, run: Run, project: Project) -> None:
    request = write(tmp_path, project)
    if project.refusal is not None:
        with pytest.raises(RunFailedError) as caught:
            run(request)
        assert caught.value.kind in ("usage", "entry")
        assert project.refusal in caught.value.message
        return
    profile = run(request)
    assert project.cost is None or project.cost in expressions(profile)
    assert project.notes <= {error.kind for error in profile.errors}
