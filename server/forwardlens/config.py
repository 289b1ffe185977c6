"""`[tool.forwardlens]` of the workspace's pyproject.toml.

The dataclasses below are the schema: a setting is added by adding a field.
"""

from __future__ import annotations

import difflib
import math
import re
import tomllib
import types
import typing
from collections.abc import Collection, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from forwardlens.source.callers import MOST_BYTES, python_files
from forwardlens.source.entries import likely_entries
from forwardlens.source.text import SourceText

Level = Literal["off", "hint", "info", "warning"]
KeyPath = tuple[str, ...]

TABLE: KeyPath = ("tool", "forwardlens")
_MOST_FILES = 500
_MOST_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class EntryConfig:
    """`[tool.forwardlens.entries.NAME]`. `time_limit` is in seconds for one forward, `memory_limit` in gigabytes."""

    run: Annotated[
        str, "What is run: file.py:name, package.module:name, script.py, -m package.module or tests/test_x.py::test_y."
    ]
    target: Annotated[
        str | None, "Whose forward to profile: Class, Class.method, model.path.to.module or file.py:line."
    ] = None
    device: Annotated[str | None, "Where the model and its inputs go: cpu, cuda, cuda:1, …"] = None
    python: Annotated[str | None, "The interpreter with torch and the packages of the code."] = None
    iterations: Annotated[int | None, "Timed runs; as many as fit if not given."] = None
    warmup: Annotated[int | None, "Runs before any is timed; until the time settles if not given."] = None
    backward: Annotated[bool, "Run the backward pass too."] = False
    graph_breaks: Annotated[bool, "Also say where torch.compile would break the graph."] = False
    arguments: Annotated[tuple[str, ...], "Arguments of a script."] = ()
    time_limit: Annotated[float | None, "Seconds that one forward may take before it is measured in part."] = None
    memory_limit: Annotated[float | None, "Gigabytes that the run may have; most of the machine's if not given."] = None

    @property
    def memory_bytes(self) -> int | None:
        return None if self.memory_limit is None else int(self.memory_limit * 1e9)


@dataclass(frozen=True, slots=True)
class Settings:
    """`[tool.forwardlens]`. What an annotation says of a setting is shown by editors (`config_schema.py`)."""

    entry: Annotated[
        str | None, "What to run when nothing is named: the name of an entry, or what its `run` may be."
    ] = None
    include: Annotated[tuple[str, ...], "Installed packages whose lines count as yours."] = ()
    threshold: Annotated[float, "The smallest share of the forward that is worth a finding."] = 0.02
    rules: Annotated[Mapping[str, Level], "The most severe level of each rule's findings."] = field(
        default_factory=dict[str, Level]
    )
    entries: Annotated[Mapping[str, EntryConfig], "What can be profiled, by name."] = field(
        default_factory=dict[str, EntryConfig]
    )


@dataclass
class ConfigError(Exception):
    """A setting, or a choice of entry, that cannot be followed."""

    message: str
    file: str
    line: int | None = None

    def __str__(self) -> str:
        return self.message


def load_settings(workspace: Path, rule_names: Collection[str] | None = None) -> Settings:
    """Read the workspace's settings; the defaults if it has none. Raises `ConfigError`.

    `rule_names` are the rules that exist; without them the names under `rules` are not checked.
    """
    path = workspace / "pyproject.toml"
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise ConfigError(f"{path} has more than {_MOST_BYTES >> 20} MiB; is it a pyproject.toml?", str(path), 1)
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        return Settings()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}", str(path)) from None
    try:
        document: object = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"at line (\d+)", str(error))  # otherwise it ended too early
        line = int(found.group(1)) if found else text.rstrip().count("\n") + 1
        raise ConfigError(f"not valid TOML: {error}", str(path), line) from None
    reader = _Reader(str(path), text)
    for depth, key in enumerate(TABLE):
        document = reader.table(document, TABLE[:depth]).get(key, {})
    settings = cast("Settings", reader.read(Settings, document, TABLE))
    if rule_names is not None:
        reader.check_rules(settings, rule_names)
    reader.check_default_entry(settings)
    return settings


def resolve_entry(settings: Settings, entry: str | None, workspace: Path) -> EntryConfig:
    """What to run for `entry`: a configured name or an ENTRY; None takes the default or the only configured one.

    Raises `ConfigError` with the candidates where that is not clear.
    """
    if entry is None:
        entry = settings.entry or _only(settings.entries)
    if entry is None:
        raise ConfigError(_no_entry(settings, workspace), str(workspace / "pyproject.toml"))
    if entry in settings.entries:
        return settings.entries[entry]
    if not _is_entry(entry):
        raise ConfigError(_unknown_entry(entry, settings.entries), str(workspace / "pyproject.toml"))
    return EntryConfig(run=entry)


def entry_candidates(workspace: Path, limit: int = 10) -> tuple[str, ...]:
    """The first `limit` functions in the workspace's files that look like entries, as `file.py:name`."""
    found: list[str] = []
    for path in python_files(workspace, _MOST_FILES):
        for name in _entries_in(path):
            found.append(f"{path.relative_to(workspace).as_posix()}:{name}")
            if len(found) == limit:
                return tuple(found)
    return tuple(found)


def nearest(name: str, known: Collection[str]) -> str:
    """The hint at the end of a message about an unknown name: the one meant, else all there are."""
    close = difflib.get_close_matches(name, known, n=1)
    if close:
        return f"did you mean '{close[0]}'?"
    return f"known: {', '.join(sorted(known))}" if known else "there are none"


def _only(entries: Mapping[str, EntryConfig]) -> str | None:
    return next(iter(entries)) if len(entries) == 1 else None


def _is_entry(text: str) -> bool:
    return ":" in text or text.endswith(".py") or text.startswith("-m ")


def _unknown_entry(entry: str, entries: Mapping[str, EntryConfig]) -> str:
    forms = "file.py:name, package.module:name, script.py, -m package.module or tests/test_x.py::test_y"
    configured = f"; {nearest(entry, entries)}" if entries else ""
    return f"'{entry}' is neither a configured entry nor of the form {forms}{configured}"


def _no_entry(settings: Settings, workspace: Path) -> str:
    if settings.entries:
        return f"several entries are configured and none is the default; name one of: {', '.join(settings.entries)}"
    candidates = entry_candidates(workspace)
    if candidates:
        return "name what to profile; functions that look like entries: " + ", ".join(candidates)
    return "name what to profile, for example model.py:build, a function that returns (model, inputs)"


def _entries_in(path: Path) -> Iterator[str]:
    try:
        if path.stat().st_size > MOST_BYTES:
            return
        source = SourceText.read(path)
    except (OSError, SyntaxError, UnicodeDecodeError):
        return
    for function in likely_entries(source):
        yield function.name


_KINDS: Mapping[object, str] = {
    str: "a string",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    tuple[str, ...]: "a list of strings",
}
LIMITS: Mapping[str, tuple[float, float]] = {
    "threshold": (0, 1),
    "iterations": (1, math.inf),
    "warmup": (0, math.inf),
    "time_limit": (0.01, math.inf),
    "memory_limit": (0.5, math.inf),
}


@dataclass(frozen=True, slots=True)
class _Reader:
    """Turns parsed TOML into the dataclasses; every complaint names the key and where it stands."""

    file: str
    text: str

    def error(self, path: KeyPath, message: str) -> ConfigError:
        return ConfigError(message, self.file, _line_of(self.text, path))

    def table(self, value: object, path: KeyPath) -> dict[str, object]:
        if not isinstance(value, dict):
            raise self.error(path, f"'{'.'.join(path)}' must be a table")
        return cast("dict[str, object]", value)

    def read(self, hint: Any, value: object, path: KeyPath) -> object:
        """`value` as the type `hint`."""
        if isinstance(hint, types.UnionType):
            return self.read(typing.get_args(hint)[0], value, path)
        if typing.get_origin(hint) is Mapping:
            inner = typing.get_args(hint)[1]
            return {name: self.read(inner, item, (*path, name)) for name, item in self.table(value, path).items()}
        if typing.get_origin(hint) is Literal:
            return self._one_of(typing.get_args(hint), value, path)
        if hint in _KINDS:
            return self._plain(hint, value, path)
        return self._record(hint, self.table(value, path), path)

    def _record(self, record: type[Any], table: Mapping[str, object], path: KeyPath) -> object:
        hints = typing.get_type_hints(record)
        for key in table:
            if key not in hints:
                raise self.error((*path, key), f"unknown key '{key}' in [{'.'.join(path)}]; {nearest(key, hints)}")
        for item in fields(record):
            if item.name not in table and item.default is MISSING and item.default_factory is MISSING:
                raise self.error(path, f"[{'.'.join(path)}] needs the key '{item.name}'")
        return record(**{key: self.read(hints[key], value, (*path, key)) for key, value in table.items()})

    def _one_of(self, allowed: tuple[str, ...], value: object, path: KeyPath) -> object:
        if value not in allowed:
            raise self.error(path, f"'{path[-1]}' must be one of {', '.join(allowed)}, not {value!r}")
        return value

    def _plain(self, hint: object, value: object, path: KeyPath) -> object:
        if not _fits(hint, value):
            raise self.error(path, f"'{path[-1]}' must be {_KINDS[hint]}, not {value!r}")
        low, high = LIMITS.get(path[-1], (-math.inf, math.inf))
        if isinstance(value, int | float) and not low <= value <= high:
            allowed = f"at least {low:g}" if high == math.inf else f"between {low:g} and {high:g}"
            raise self.error(path, f"'{path[-1]}' must be {allowed}, not {value!r}")
        if isinstance(value, list):
            return tuple(cast("list[str]", value))
        return float(cast("float", value)) if hint is float else value

    def check_rules(self, settings: Settings, known: Collection[str]) -> None:
        for name in settings.rules:
            if name not in known:
                raise self.error((*TABLE, "rules", name), f"unknown rule '{name}'; {nearest(name, known)}")

    def check_default_entry(self, settings: Settings) -> None:
        entry = settings.entry
        if entry is not None and entry not in settings.entries and not _is_entry(entry):
            raise self.error((*TABLE, "entry"), _unknown_entry(entry, settings.entries))


def _fits(hint: object, value: object) -> bool:
    if hint == tuple[str, ...]:
        return isinstance(value, list) and all(isinstance(item, str) for item in cast("list[object]", value))
    if isinstance(value, bool):  # a bool is an int to isinstance
        return hint is bool
    return isinstance(value, int | float) if hint is float else isinstance(value, cast("type", hint))


def _line_of(text: str, path: KeyPath) -> int | None:
    """The line that states `path`, or the longest part of it that has one: tomllib keeps no positions."""
    best: tuple[int, int | None] = (len(TABLE) - 1, None)
    table: KeyPath = ()
    for number, line in enumerate(text.split("\n"), 1):
        header = re.match(r"\s*\[([^\[\]]+)\]", line)
        key = re.match(r"\s*([^=#\[]+)=", line)
        if header:
            stated = table = _key_path(header.group(1))
        elif key:
            stated = (*table, *_key_path(key.group(1)))
        else:
            continue
        shared = min(len(stated), len(path))
        if shared > best[0] and stated[:shared] == path[:shared]:
            best = (shared, number)
    return best[1]


def _key_path(dotted: str) -> KeyPath:
    """`a."b c".d` as its parts, by letting the TOML parser read it; empty for what is no key."""
    try:
        node: object = tomllib.loads(f"{dotted.strip()} = 0")
    except tomllib.TOMLDecodeError:
        return ()
    parts: list[str] = []
    while isinstance(node, dict):
        name, node = next(iter(cast("dict[str, object]", node).items()))
        parts.append(name)
    return tuple(parts)
