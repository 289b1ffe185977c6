"""Which code of a folder reaches a class: the tests, scripts and functions through which its forward can be run.

Read from syntax alone. A caller that is missed can still be named by hand, and one too many is only a row in a list,
so a mention counts as a use.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from forwardlens.source.outline import SCRIPT, Definition, Imported, Kind, Outline, outline
from forwardlens.source.paths import path_key
from forwardlens.source.text import SourceText

MOST_FILES = 2_000
MOST_BYTES = 512 * 1024
"""Of one file: nobody wrote a larger one by hand."""
LONGEST_SEARCH_S = 3.0
_LONGEST_CHAIN = 12
"""Re-exports that a name is followed through."""

Node = tuple[str, str]
"""A file's key and a name on its top level."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Something that can be run. `steps` is how many definitions lie between it and the class."""

    path: str
    name: str
    kind: Kind
    line: int
    steps: int


@dataclass(frozen=True, slots=True)
class Callers:
    """What was found; `complete` is false if a bound ended the search."""

    found: tuple[Caller, ...]
    complete: bool


def python_files(folder: Path, budget: int = MOST_FILES) -> Iterator[Path]:
    """Python files below `folder`, nearest first, without hidden folders and environments; `budget` bounds the walk."""
    folders = [folder]
    for current in folders:
        try:
            children = sorted(current.iterdir())
        except OSError:
            continue
        for child in children:
            if child.suffix == ".py" and child.is_file():
                yield child
                budget -= 1
                if budget == 0:
                    return
            elif child.is_dir() and not child.is_symlink() and _is_source_folder(child):
                folders.append(child)


def _is_source_folder(folder: Path) -> bool:
    hidden = folder.name.startswith(".") or folder.name in {"node_modules", "__pycache__", "site-packages"}
    return not hidden and not (folder / "pyvenv.cfg").exists()


@dataclass
class OutlineCache:
    """Outlines of files by a digest of their text. Searches in several threads may share one."""

    _known: dict[str, tuple[str, Outline]] = field(default_factory=dict[str, tuple[str, Outline]])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def outline(self, key: str, source: SourceText) -> Outline:
        with self._lock:
            known = self._known.get(key)
        if known is None or known[0] != source.sha256:
            known = (source.sha256, outline(source))
            with self._lock:
                if len(self._known) >= 2 * MOST_FILES:
                    self._known.clear()
                self._known[key] = known
        return known[1]


def find_callers(
    folder: Path, path: str, classes: Iterable[str], cache: OutlineCache, unsaved: Mapping[str, str]
) -> Callers:
    """What reaches any of `classes` of the file at `path`, the nearest first; `unsaved` are texts by path.

    Only files that name something wanted are parsed: first the classes, then whatever was found to use them.
    """
    search = _Search(folder, cache, {path_key(name): text for name, text in unsaved.items()})
    return search.run(path_key(path), set(classes))


@dataclass
class _Search:
    folder: Path
    cache: OutlineCache
    unsaved: Mapping[str, str]
    _files: dict[str, Path] = field(default_factory=dict[str, Path])
    """Path of each file by its key."""
    _keys: dict[Path, str] = field(default_factory=dict[Path, str])
    _texts: dict[str, str] = field(default_factory=dict[str, str])
    _outlines: dict[str, Outline] = field(default_factory=dict[str, Outline])
    _modules: dict[tuple[Path, str, int], tuple[str, ...]] = field(
        default_factory=dict[tuple[Path, str, int], tuple[str, ...]]
    )

    def run(self, key: str, classes: set[str]) -> Callers:
        deadline = time.monotonic() + LONGEST_SEARCH_S
        self._files = {path_key(str(path)): path for path in python_files(self.folder)}
        self._keys = {path: key for key, path in self._files.items()}
        callers: dict[Node, Caller] = {}
        known = fresh = {(key, name) for name in classes}
        steps = 0
        while fresh and time.monotonic() < deadline:
            steps += 1
            found = {node: caller for node, caller in self._users_of(fresh, steps, deadline) if node not in known}
            callers |= found
            fresh = found.keys() - known
            known = known | fresh
        complete = len(self._files) < MOST_FILES and time.monotonic() < deadline
        runnable = (caller for caller in callers.values() if caller.kind in ("entry", "test", "script"))
        return Callers(tuple(sorted(runnable, key=lambda c: (c.steps, c.path, c.line))), complete)

    def _users_of(self, nodes: set[Node], steps: int, deadline: float) -> Iterator[tuple[Node, Caller]]:
        """The definitions that use any of `nodes`, as far as `deadline` lets them be looked for."""
        names = {name for _, name in nodes if name != SCRIPT}
        for file, path in self._files.items():
            text = self._text(file)
            if time.monotonic() > deadline or not any(name in text for name in names):
                continue
            for definition in self._outline(file).definitions:
                if any(node in nodes for node in self._uses(file, definition, names)):
                    caller = Caller(str(path), definition.name, definition.kind, definition.line, steps)
                    yield (file, definition.name), caller

    def _text(self, key: str) -> str:
        """A file's text; empty for one that is too large or cannot be read."""
        if key not in self._texts:
            self._texts[key] = self.unsaved[key] if key in self.unsaved else _read(self._files[key])
        return self._texts[key]

    def _outline(self, key: str) -> Outline:
        if key not in self._outlines:
            self._outlines[key] = self.cache.outline(key, SourceText(str(self._files[key]), self._text(key)))
        return self._outlines[key]

    def _uses(self, file: str, definition: Definition, names: set[str]) -> Iterator[Node]:
        """What a definition uses under one of `names`, which an import may have renamed."""
        imports = self._outline(file).imports
        for mention in definition.mentions:
            parts = mention.split(".")
            origin = imports.get(parts[0])
            if not names.isdisjoint(parts) or (origin is not None and origin.name in names):
                yield from self._nodes(file, mention)

    def _nodes(self, file: str, mention: str, chain: int = 0) -> Iterator[Node]:
        """What a mention stands for: of the file itself, of one it imports from, or a fixture of its conftest."""
        first, _, rest = mention.partition(".")
        shape = self._outline(file)
        if chain > _LONGEST_CHAIN:
            return
        if first in shape.imports:
            yield from self._imported(file, shape.imports[first], rest, chain)
        elif any(first == definition.name for definition in shape.definitions):
            yield file, first
        else:
            for star in shape.stars:
                for module in self._found(file, star.module, star.level):
                    yield from self._nodes(module, mention, chain + 1)
            for conftest in self._conftests(file):
                yield conftest, first

    def _imported(self, file: str, imported: Imported, rest: str, chain: int) -> Iterator[Node]:
        name = imported.name
        if name is None:
            # `import a.b` binds `a`, and `a.b.Net` names the rest of the module too.
            parts = rest.split(".") if rest else []
            for length in range(len(parts)):
                module = ".".join((imported.module, *parts[:length]))
                for found in self._found(file, module, imported.level):
                    yield from self._nodes(found, ".".join(parts[length:]), chain + 1)
            return
        for module in self._found(file, imported.module, imported.level):
            yield from self._nodes(module, name, chain + 1)
        submodule = f"{imported.module}.{name}" if imported.module else name
        for module in self._found(file, submodule, imported.level) if rest else ():
            yield from self._nodes(module, rest, chain + 1)

    def _found(self, file: str, module: str, level: int) -> tuple[str, ...]:
        """The files that a module's name may stand for, as Python would look for them from `file`."""
        place = (self._files[file].parent, module, level)
        if place not in self._modules:
            self._modules[place] = tuple(self._look_up(*place))
        return tuple(key for key in self._modules[place] if key != file)

    def _look_up(self, folder: Path, module: str, level: int) -> Iterator[str]:
        parts = [part for part in module.split(".") if part]
        for root in self._roots(folder, level):
            base = root.joinpath(*parts)
            for candidate in (base.with_name(f"{base.name}.py"), base / "__init__.py"):
                if candidate in self._keys:
                    yield self._keys[candidate]

    def _roots(self, folder: Path, level: int) -> list[Path]:
        above = [folder, *folder.parents]
        if level:
            return above[level - 1 : level]
        return [*(parent for parent in above if parent.is_relative_to(self.folder)), self.folder / "src"]

    def _conftests(self, file: str) -> tuple[str, ...]:
        return self._found(file, "conftest", 0)


def _read(path: Path) -> str:
    try:
        return "" if path.stat().st_size > MOST_BYTES else SourceText.read(path).text
    except (OSError, SyntaxError, UnicodeDecodeError):
        return ""
