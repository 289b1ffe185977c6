from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from forwardlens.cli.measuring import find_workspace
from forwardlens.config import EntryConfig, Settings, entry_candidates, load_settings

if TYPE_CHECKING:
    from forwardlens.runner.interpreter import Interpreter, Probe

_ENVIRONMENT = 4


@click.command("doctor")
@click.option("--python", metavar="PATH", help="The interpreter to examine.")
def command(python: str | None) -> None:
    """Show the interpreter, torch, devices and entries."""
    from forwardlens.rules.engine import rule_names
    from forwardlens.runner.interpreter import choose_interpreter, probe

    workspace = find_workspace(Path.cwd())
    settings = load_settings(workspace, rule_names())
    interpreter = choose_interpreter(python or _configured_python(settings), workspace)
    examined = probe(interpreter)
    rows = (*_environment(workspace, interpreter, examined), *_entries(settings, workspace))
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        click.echo(f"{name:<{width}}  {value}")
    if examined.torch is None:
        raise click.exceptions.Exit(_ENVIRONMENT)


def _configured_python(settings: Settings) -> str | None:
    default = settings.entries.get(settings.entry or "")
    return default.python if default else None


def _environment(workspace: Path, interpreter: Interpreter, examined: Probe) -> Iterator[tuple[str, str]]:
    found = "" if (workspace / "pyproject.toml").is_file() else " (no pyproject.toml here or above)"
    yield "workspace", f"{workspace}{found}"
    yield "interpreter", f"{interpreter.path}, because {interpreter.reason}"
    yield "python", examined.python or "does not run"
    yield "torch", examined.torch or "not found"
    yield "devices", ", ".join(examined.devices) or "none"
    if examined.error:
        yield "problem", examined.error


def _entries(settings: Settings, workspace: Path) -> Iterator[tuple[str, str]]:
    for name, entry in settings.entries.items():
        yield f"entry {name}", f"{_describe(entry)}{' (default)' if name == settings.entry else ''}"
    if settings.entry and settings.entry not in settings.entries:
        yield "default entry", settings.entry
    if not settings.entries:
        yield "candidates", ", ".join(entry_candidates(workspace)) or "no function that returns (model, inputs)"


def _describe(entry: EntryConfig) -> str:
    options = (
        f"{name} {value}"
        for name, value in (("target", entry.target), ("device", entry.device), ("python", entry.python))
        if value
    )
    return " ".join((entry.run, *options))
