# pyright: basic, reportOptionalMemberAccess=false
"""Below Python 3.11 the interpreter keeps no columns: a place is a line."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from forwardlens.worker import events, locate

pytestmark = pytest.mark.torch


def branchy(x: torch.Tensor) -> list[torch.Tensor]:
    total = (x + 1) * (x - 1) / (x.abs() + 2)
    parts: list[torch.Tensor] = []
    for row in x:
        parts.append(row.exp() + row.sin())  # noqa: PERF401 - the line that must be counted
    return [total, *[part * 2 + 1 for part in parts]]


def runs_by_line(function: Callable[[], object]) -> dict[int, tuple[int, int]]:
    """Line after the `def` -> runs, and the most runs within one call."""
    locations = locate.Locations()
    locator = locate.Locator(locations, lambda file: file == __file__, 10_000)
    collector = events.Collector()
    with torch.autograd.profiler.profile(record_shapes=True) as profiler:
        locator.run(function)
    collector.add(profiler.kineto_results, locator)
    first = branchy.__code__.co_firstlineno
    rows = collector.iterations[0]["places"]
    return {locations.places[place][1] - first: (runs, most) for place, runs, most, _ in rows if place >= 0}


def test_a_line_runs_once_however_many_instructions_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locate, "_HAS_COLUMNS", False)
    runs = runs_by_line(lambda: branchy(torch.ones(5, 3)))
    assert runs[1] == (1, 1)
    assert runs[4] == (5, 5)
    assert runs[5] == (5, 5)
