"""One warm worker for every test of this folder: each request starts in its own folder, with no module of another."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.entries.harness import Bench


@pytest.fixture(scope="session")
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.close()
