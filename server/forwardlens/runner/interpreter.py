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
    taken = next(choice for choice in interpreter_choices(explicit, workspace) if choice.path is not None)
    return Interpreter(taken.path or sys.executable, taken.reason)


@dataclass(frozen=True, slots=True)
class InterpreterChoice:
    """A place where an interpreter is looked for. `reason` completes "... because", also where `path` is None: there
    is none.
    """

    place: str
    path: str | None
    reason: str


def interpreter_choices(explicit: str | None, workspace: Path) -> tuple[InterpreterChoice, ...]:
    """Every place in the order of preference; the first one with a path is taken, and the last one has one."""
    active, folder = os.environ.get("VIRTUAL_ENV"), workspace / ".venv"
    is_active, no_other = (
        "its virtual environment is active (VIRTUAL_ENV)",
        "no active environment and no .venv has a Python",
    )
    return (
        InterpreterChoice("--python", _named(explicit, workspace), "it was named" if explicit else "none was named"),
        _environment("VIRTUAL_ENV", Path(active) if active else None, is_active, "it is not set"),
        _environment(".venv", folder if folder.is_dir() else None, "the workspace has one", "the workspace has none"),
        InterpreterChoice("current", sys.executable, no_other),
    )


def _named(explicit: str | None, workspace: Path) -> str | None:
    if not explicit:
        return None
    path = Path(explicit).expanduser()
    if not path.is_absolute() and (workspace / path).exists():
        path = workspace / path
    return str(path) if path.exists() else shutil.which(explicit) or explicit


def _environment(place: str, folder: Path | None, taken: str, missing: str) -> InterpreterChoice:
    if folder is None:
        return InterpreterChoice(place, None, missing)
    python = _python_in(folder)
    return InterpreterChoice(place, python, taken if python else f"there is no Python in {folder}")


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
