"""What every run says first, which tiers of tests this machine can run, and what several folders share."""

from __future__ import annotations

import gzip
import importlib.util
import json
import shutil
from pathlib import Path

import pytest
from tests.e2e.missing import what_is_missing

from forwardlens.attribution.recording import Recording


def pytest_report_header() -> list[str]:
    torch = importlib.util.find_spec("torch") is not None
    models = [name for name in ("transformers", "x_transformers", "torch_geometric") if importlib.util.find_spec(name)]
    missing = what_is_missing()
    tiers = {
        "torch (a real worker)": "yes" if torch else "no, torch is missing",
        "models": ", ".join(models) or "no, no library is installed",
        "editor (a real VS Code)": "yes" if missing is None else f"no, {missing}",
        "editor (a real Neovim)": "yes" if shutil.which("nvim") else "no, no nvim is on PATH",
    }
    return ["tiers: fast tests; " + "; ".join(f"{name}: {state}" for name, state in tiers.items())]


@pytest.fixture(scope="session")
def h200() -> Recording:
    """One forward of a BERT-style encoder on an NVIDIA H200 (torch 2.11, Python 3.12), as a worker recorded it."""
    path = Path(__file__).parent / "attribution" / "h200_slow_bert.json.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return json.load(file)
