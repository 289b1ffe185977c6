from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from forwardlens.cli.measuring import find_workspace
from forwardlens.config import ConfigError, EntryConfig, Settings, load_settings, resolve_entry

if TYPE_CHECKING:
    from forwardlens.runner.interpreter import Interpreter, Probe

_ENVIRONMENT = 4
_MOST_OF_A_KIND = 5
"""Rows of one kind; the rest is counted."""

Row = tuple[str, str]


@click.command("doctor")
@click.option("--python", metavar="PATH", help="The interpreter to examine.")
def command(python: str | None) -> None:
    """Show what would run, in which Python, and why."""
    from forwardlens.rules.engine import rule_names
    from forwardlens.runner.interpreter import choose_interpreter, probe

    workspace = find_workspace(Path.cwd())
    settings = load_settings(workspace, rule_names())
    chosen = _chosen(settings, workspace)
    named = python or (chosen.python if isinstance(chosen, EntryConfig) else None)
    interpreter = choose_interpreter(named, workspace)
    examined = probe(interpreter)
    rows = (
        *_environment(workspace, interpreter, examined),
        *_passed_over(named, workspace, interpreter),
        *_entries(settings, chosen, workspace),
    )
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        click.echo(f"{name:<{width}}  {_in_one_line(value)}")
    if examined.torch is None:
        raise click.exceptions.Exit(_ENVIRONMENT)


def _in_one_line(text: str) -> str:
    """A file's name may hold a line break, or what no terminal should be sent."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def _chosen(settings: Settings, workspace: Path) -> EntryConfig | ConfigError:
    """What `profile` without an ENTRY runs, or why it does nothing."""
    try:
        return resolve_entry(settings, None, workspace)
    except ConfigError as error:
        return error


def _environment(workspace: Path, interpreter: Interpreter, examined: Probe) -> Iterator[Row]:
    found = "the nearest folder with a pyproject.toml" if (workspace / "pyproject.toml").is_file() else ""
    yield "workspace", f"{workspace}, because it is {found or 'the current one and none above has a pyproject.toml'}"
    yield "interpreter", f"{interpreter.path}, because {interpreter.reason}"
    yield "python", examined.python or "does not run"
    yield "torch", examined.torch or "not found"
    yield "devices", ", ".join(examined.devices) or "none"
    if examined.devices:
        yield "device", "where the model already is, unless --device or the entry's `device` names another"
    if examined.error:
        yield "problem", examined.error


def _passed_over(named: str | None, workspace: Path, interpreter: Interpreter) -> Iterator[Row]:
    from forwardlens.runner.interpreter import interpreter_choices

    for choice in interpreter_choices(named, workspace):
        if choice.path == interpreter.path:
            return
        yield "not taken", f"{choice.place}, because {choice.reason}"


def _entries(settings: Settings, chosen: EntryConfig | ConfigError, workspace: Path) -> Iterator[Row]:
    yield "would run", _would_run(settings, chosen)
    for name, entry in settings.entries.items():
        problem = _problem(entry.run, workspace)
        default = " (default)" if name == settings.entry else ""
        yield f"entry {name}", f"{_describe(entry)}{default}{f': {problem}' if problem else ''}"
    yield from _candidates(workspace)


def _would_run(settings: Settings, chosen: EntryConfig | ConfigError) -> str:
    if isinstance(chosen, ConfigError):
        return f"nothing without an ENTRY: {chosen.message}"
    if settings.entry:
        return f"{chosen.run}, because `entry` in pyproject.toml says so"
    return f"{chosen.run}, because it is the only configured entry"


def _problem(run: str, workspace: Path) -> str | None:
    """What is wrong with an entry, as far as it can be seen without running it."""
    from forwardlens.source.entries import refused_functions
    from forwardlens.source.outline import outline
    from forwardlens.source.text import SourceText

    file, _, name = run.partition(":")
    if not file.endswith(".py"):
        return None
    if not (workspace / file).is_file():
        return f"there is no file {file}"
    try:
        source = SourceText.read(workspace / file)
    except (OSError, SyntaxError, UnicodeDecodeError) as error:
        return f"{file} cannot be read: {error}"
    if source.tree is None:
        return f"{file} is not valid Python"
    if not name or name.startswith(":"):
        return None
    refused = {function.name: function.reason for function in refused_functions(source)}
    outlined = outline(source)
    known = {definition.name for definition in outlined.definitions} | outlined.imports.keys()
    return refused.get(name) or (None if name in known or outlined.stars else f"{file} defines no {name}")


def _candidates(workspace: Path) -> Iterator[Row]:
    """What could be run in the workspace, and what could not and why; read, never run."""
    from forwardlens.source.callers import MOST_BYTES, python_files

    found: dict[str, list[str]] = {"candidate": [], "script": [], "test": [], "no candidate": []}
    for path in python_files(workspace):
        name = path.relative_to(workspace).as_posix()
        if _size(path) > MOST_BYTES:
            found["no candidate"].append(f"{name}, because it has more than {MOST_BYTES // 1024} KiB")
            continue
        for kind, text in _offers(path, name):
            found[kind].append(text)
    for kind, texts in found.items():
        for text in texts[:_MOST_OF_A_KIND]:
            yield kind, text
        if len(texts) > _MOST_OF_A_KIND:
            yield kind, f"… and {len(texts) - _MOST_OF_A_KIND} more"
    if not any(found.values()):
        yield "candidates", "no function that returns (model, inputs), no script and no test"


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # it has just been deleted, which reading it will tell
        return 0


def _offers(path: Path, name: str) -> Iterator[tuple[str, str]]:
    from forwardlens.source.entries import Evidence, entry_functions, refused_functions
    from forwardlens.source.outline import SCRIPT, outline
    from forwardlens.source.text import SourceText

    try:
        source = SourceText.read(path)
    except (OSError, SyntaxError, UnicodeDecodeError) as error:
        yield "no candidate", f"{name}, because it cannot be read: {str(error).splitlines()[0]}"
        return
    if source.tree is None:
        yield "no candidate", f"{name}, because it is not valid Python"
        return
    reasons = {
        Evidence.MODEL: "it returns a module and its inputs",
        Evidence.TUPLE: "it returns what looks like a model and its inputs",
        Evidence.CALLABLE: "it returns something to call",
    }
    for entry in entry_functions(source):
        yield "candidate", f"{name}:{entry.name}, because {reasons[entry.evidence]}"
    for refused in refused_functions(source):
        yield "no candidate", f"{name}:{refused.name}, because {refused.reason}"
    outlined = outline(source)
    reaches_torch = any(found.module.partition(".")[0] == "torch" for found in outlined.imports.values())
    for definition in outlined.definitions if reaches_torch else ():
        if definition.kind == "script" and definition.name == SCRIPT:
            yield "script", f"{name}, because it imports torch and does something when it is run"
        elif definition.kind == "test":
            yield "test", f"{name}::{definition.name}, because it is a test in a file that imports torch"


def _describe(entry: EntryConfig) -> str:
    options = (
        f"{name} {value}"
        for name, value in (("target", entry.target), ("device", entry.device), ("python", entry.python))
        if value
    )
    return " ".join((entry.run, *options))
