"""Which Python runs the user's code, and what it has."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

PROBE_TIMEOUT_S = 120.0
_PROBE = """
import json, platform, sys
facts = {"python": platform.python_version(), "torch": None, "devices": ["cpu"], "error": None}
try:
    import torch
    facts["torch"] = torch.__version__
    if torch.cuda.is_available():
        facts["devices"] += [f"cuda:{i} {torch.cuda.get_device_name(i)}" for i in range(torch.cuda.device_count())]
    if getattr(torch.backends, "mps", None) and torch.backends.mps.is_available():
        facts["devices"].append("mps")
except Exception as error:
    facts["error"] = f"{type(error).__name__}: {error}"
print("\\n" + json.dumps(facts))
"""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """`reason` completes "... because": why this one was chosen."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Probe:
    """What an interpreter has; `error` says why torch is None."""

    python: str | None
    torch: str | None
    devices: tuple[str, ...]
    error: str | None


def choose_interpreter(explicit: str | None, workspace: Path) -> Interpreter:
    """The one named, else the active virtual environment's, else the workspace's `.venv`, else the current one."""
    if explicit:
        path = Path(explicit).expanduser()
        if not path.is_absolute() and (workspace / path).exists():
            path = workspace / path
        found = str(path) if path.exists() else shutil.which(explicit) or explicit
        return Interpreter(found, "it was named")
    active = os.environ.get("VIRTUAL_ENV")
    if active and (python := _python_in(Path(active))):
        return Interpreter(python, "its virtual environment is active (VIRTUAL_ENV)")
    if python := _python_in(workspace / ".venv"):
        return Interpreter(python, "the workspace has a .venv")
    return Interpreter(sys.executable, "no virtual environment is active and the workspace has no .venv")


def _python_in(environment: Path) -> str | None:
    for name in ("bin/python", "Scripts/python.exe"):
        if (environment / name).exists():
            return str(environment / name)
    return None


def probe(interpreter: Interpreter) -> Probe:
    """Ask an interpreter for its version, its torch and its devices. Never raises."""
    try:
        done = subprocess.run(
            [interpreter.path, "-c", _PROBE],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PROBE_TIMEOUT_S,
            check=False,
        )
        facts = json.loads(done.stdout.splitlines()[-1])
    except OSError as error:
        return Probe(None, None, (), f"cannot be started: {error.strerror or error}")
    except subprocess.TimeoutExpired:
        return Probe(None, None, (), f"importing torch took more than {PROBE_TIMEOUT_S:.0f} s")
    except (ValueError, IndexError):
        return Probe(None, None, (), "did not answer; is it a Python interpreter?")
    return Probe(facts["python"], facts["torch"], tuple(facts["devices"]), facts["error"])
