from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from forwardlens.attribution.recording import Recording


@pytest.fixture(scope="session")
def h200() -> Recording:
    """One forward of a BERT-style encoder on an NVIDIA H200 (torch 2.11, Python 3.12), as a worker recorded it."""
    with gzip.open(Path(__file__).parent / "h200_slow_bert.json.gz", "rt", encoding="utf-8") as file:
        return json.load(file)
