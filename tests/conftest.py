"""What every run says first: which tiers of tests this machine can run."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def pytest_report_header() -> list[str]:
    torch = importlib.util.find_spec("torch") is not None
    models = [name for name in ("transformers", "x_transformers", "torch_geometric") if importlib.util.find_spec(name)]
    browser = any(map(shutil.which, ("chromium", "chromium-browser", "google-chrome")))
    editor = browser and (ROOT / ".cache" / "code-server").is_dir()
    tiers = {
        "torch (a real worker)": "yes" if torch else "no, torch is missing",
        "models": ", ".join(models) or "no, no library is installed",
        "editor (a real VS Code)": "yes" if editor else "no, see README",
    }
    return ["tiers: fast tests; " + "; ".join(f"{name}: {state}" for name, state in tiers.items())]
