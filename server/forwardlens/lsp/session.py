"""What the server knows: the open documents, the runs, and where a run's results are in the text of now.

Runs and documents are immutable and are replaced as a whole. Only the event loop's thread touches a session.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from forwardlens.lsp.client import ClientSettings
from forwardlens.model import Edit, Finding, Fix, Profile, Span
from forwardlens.report.labels import LineCost, line_costs
from forwardlens.runner.request import RunFailedError, RunRequest
from forwardlens.source.entries import EntryFunction, ForwardMethod, forward_methods, likely_entries
from forwardlens.source.linemap import LineMap, line_map
from forwardlens.source.paths import path_from_uri, path_key, uri_from_path, uri_key
from forwardlens.source.text import SourceText

if TYPE_CHECKING:  # the workflow brings the rules with it, which only a run needs
    from forwardlens.workflow import Result


BOM = "\ufeff"


@dataclass(frozen=True, slots=True)
class Document:
    """An open document. `uri` is spelt the way the client spells it."""

    uri: str
    version: int | None
    source: SourceText

    @property
    def client_text(self) -> str:
        """The text that the client's positions are about."""
        return f"{BOM if self.source.bom else ''}{self.source.text}"


@dataclass(frozen=True, slots=True)
class Asked:
    """What a client asks to profile.

    The rest is how to run it, where that differs from what is configured; `python` and the others come with a launch
    configuration of the editor.
    """

    uri: str
    target: str | None = None
    entry: str | None = None
    arguments: tuple[str, ...] | None = None
    environment: Mapping[str, str] | None = None
    cwd: str | None = None
    python: str | None = None


@dataclass(frozen=True)
class Run:
    """A finished measurement.

    `number` tells runs apart; `verified` says whether its fixes have been tried yet. `earlier` is what the run of the
    same forward before it measured, without its timeline.
    """

    asked: Asked
    result: Result
    folder: Path
    settings: ClientSettings
    verified: bool = False
    number: int = 0
    earlier: Profile | None = None

    @cached_property
    def measured(self) -> dict[str, SourceText]:
        """The texts that ran, by `path_key`."""
        profile = self.result.profile
        texts = {path: SourceText(path, text) for path, text in profile.texts.items()} | dict(self.result.sources)
        return {path_key(path): source for path, source in texts.items()}

    def replaces(self, other: Run) -> bool:
        """Whether the other run measured the same forward earlier."""
        return other.measures(self.folder, self.result.request)

    def measures(self, folder: Path, request: RunRequest) -> bool:
        mine = self.result.request
        return (self.folder, mine.entry, mine.target) == (folder, request.entry, request.target)


@dataclass(frozen=True, slots=True)
class Failure:
    """A run that gave no profile, and the text it complained about."""

    error: RunFailedError
    source: SourceText | None


@dataclass(frozen=True, slots=True)
class PlacedLine:
    """A measured line where it is now; a stale one was edited since."""

    cost: LineCost
    line: int
    stale: bool


@dataclass(frozen=True, slots=True)
class PlacedFinding:
    """A finding where it is now; a stale one has only a line, because its text changed."""

    finding: Finding
    span: Span
    stale: bool

    @property
    def fingerprint(self) -> str:
        """The same for one fault over runs and moves, different for different faults."""
        finding = self.finding
        text = f"{finding.rule}\0{finding.message}\0{finding.span}"
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


@dataclass(frozen=True)
class View:
    """One file of a run, seen on the file's present text."""

    run: Run
    measured: SourceText
    current: SourceText

    @cached_property
    def _map(self) -> LineMap:
        return line_map(self.measured, self.current)

    @cached_property
    def lines(self) -> tuple[PlacedLine, ...]:
        return tuple(self._placed_lines())

    @cached_property
    def findings(self) -> tuple[PlacedFinding, ...]:
        return tuple(placed for finding in self._measured_findings if (placed := self._place(finding)) is not None)

    @property
    def outdated(self) -> int:
        """How many findings of the file are about code that was edited since."""
        return len(self._measured_findings) - sum(not placed.stale for placed in self.findings)

    @cached_property
    def _measured_findings(self) -> tuple[Finding, ...]:
        mine = path_key(self.measured.path)
        return tuple(f for f in self.run.result.findings if path_key(f.span.file) == mine)

    @cached_property
    def stale(self) -> bool:
        """Whether code changed: blank lines, comments and moves alone do not count."""
        return self.measured.text != self.current.text and _code(self.measured) != _code(self.current)

    def _placed_lines(self) -> Iterator[PlacedLine]:
        for cost in line_costs(self.run.result.profile, self.measured.path):
            if (line := self._map.line(cost.line)) is not None:
                yield PlacedLine(cost, line, stale=False)
            elif (line := self._map.edited_line(cost.line)) is not None:
                yield PlacedLine(cost, line, stale=True)

    def _place(self, finding: Finding) -> PlacedFinding | None:
        span = self.span(finding.span)
        if span is not None:
            return PlacedFinding(finding, span, stale=False)
        line = self._map.line(finding.span.line) or self._map.edited_line(finding.span.line)
        return None if line is None else PlacedFinding(finding, self.current.line_span(line), stale=True)

    def line(self, measured: int) -> int | None:
        """Where an unchanged line is now."""
        return self._map.line(measured)

    def span(self, measured: Span) -> Span | None:
        """Where an unchanged piece of the measured text is now."""
        moved = self._map.span(measured)
        return None if moved is None else replace(moved, file=self.current.path)

    def edit(self, edit: Edit) -> Edit | None:
        """An edit of the measured text as one of the present text; None if what it touches has changed."""
        span = self.span(Span(edit.file, *edit.start, *edit.end))
        return None if span is None else Edit(span.file, span.start, span.end, edit.text)


def _code(source: SourceText) -> tuple[str, ...]:
    lines = (source.line(number).rstrip() for number in range(1, source.line_count + 1))
    return tuple(line for line in lines if line and not line.lstrip().startswith("#"))


@dataclass(frozen=True, slots=True)
class Outline:
    """What can be profiled in a file, for lenses."""

    source: SourceText
    forwards: tuple[ForwardMethod, ...]
    entries: tuple[EntryFunction, ...]

    @classmethod
    def of(cls, source: SourceText) -> Outline:
        return cls(source, forward_methods(source), likely_entries(source))

    def moved_to(self, source: SourceText) -> Outline:
        """The same on a text that does not parse at the moment, so that lenses stay while the user types."""
        lines = line_map(self.source, source)

        def moved(span: Span) -> Span | None:
            return lines.span(span)

        return Outline(
            source,
            tuple(replace(f, header=at) for f in self.forwards if (at := moved(f.header)) is not None),
            tuple(replace(e, header=at) for e in self.entries if (at := moved(e.header)) is not None),
        )


@dataclass(eq=False)
class ActiveRun:
    """A run in progress."""

    folder: Path
    cancelled: threading.Event = field(default_factory=threading.Event)
    finished: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass
class Session:
    """Everything that changes while the server lives."""

    trusted: bool = True
    shut_down: bool = False
    initial_settings: ClientSettings = field(default_factory=ClientSettings)
    documents: dict[str, Document] = field(default_factory=dict[str, Document])
    runs: dict[str, Run] = field(default_factory=dict[str, Run])
    """The latest run of each file, by `path_key`."""
    failures: dict[str, Failure] = field(default_factory=dict[str, Failure])
    """The latest failure of each workspace folder, by `path_key`, until the next run there."""
    active: dict[str, ActiveRun] = field(default_factory=dict[str, ActiveRun])
    _uris: dict[str, str] = field(default_factory=dict[str, str])
    _views: dict[str, View] = field(default_factory=dict[str, View])
    _outlines: dict[str, Outline] = field(default_factory=dict[str, Outline])
    _disk: dict[str, tuple[tuple[int, int], SourceText]] = field(
        default_factory=dict[str, tuple[tuple[int, int], SourceText]]
    )

    def put_document(self, uri: str, version: int | None, text: str) -> None:
        key = uri_key(uri)
        self._uris[key] = uri
        source = SourceText(path_from_uri(uri) or uri, text.removeprefix(BOM), bom=text.startswith(BOM))
        self.documents[key] = Document(uri, version, source)

    def close_document(self, uri: str) -> None:
        self.documents.pop(uri_key(uri), None)
        self._outlines.pop(uri_key(uri), None)

    def document(self, uri: str) -> Document | None:
        return self.documents.get(uri_key(uri))

    def uri_of(self, key: str, path: str) -> str:
        """The client's own spelling if it ever named the file."""
        return self._uris.get(key) or uri_from_path(path)

    def current_source(self, path: str) -> SourceText | None:
        """The editor's text of a file, else the one on disk; None if there is none."""
        document = self.documents.get(path_key(path))
        return document.source if document else self._disk_source(path)

    def _disk_source(self, path: str) -> SourceText | None:
        try:
            stat = Path(path).stat()
            stamp = (stat.st_mtime_ns, stat.st_size)
            known = self._disk.get(path)
            if known is None or known[0] != stamp:
                self._disk[path] = known = (stamp, SourceText.read(path))
        except (OSError, SyntaxError, UnicodeDecodeError):
            return None
        return known[1]

    def overlays(self) -> dict[str, str]:
        """The open Python texts that differ from the files: what a run must see instead of them."""
        changed: dict[str, str] = {}
        for document in self.documents.values():
            path = path_from_uri(document.uri)
            if path is None or not path.endswith(".py"):
                continue
            saved = self._disk_source(path)
            if saved is None or saved.text != document.source.text:
                changed[path] = document.source.text
        return changed

    def earlier_profile(self, folder: Path, request: RunRequest) -> Profile | None:
        """What is known of a forward that is to be measured again, for a comparison: no timeline, which is large."""
        known = (run.result.profile for run in self.runs.values() if run.measures(folder, request))
        profile = next(known, None)
        return None if profile is None else replace(profile, timeline=None)

    def put_run(self, run: Run) -> None:
        """Show a run from now on, instead of what was measured of its files or from its entry before."""
        self.runs = {key: other for key, other in self.runs.items() if not run.replaces(other)}
        for key in run.measured:
            self.runs[key] = run

    def forget_runs(self, uri: str | None = None) -> None:
        """Forget every run, or all of the run that a file belongs to."""
        unwanted = None if uri is None else self.runs.get(uri_key(uri))
        self.runs = {} if uri is None else {key: run for key, run in self.runs.items() if run is not unwanted}
        self.failures.clear()
        self._views.clear()

    def view(self, key: str) -> View | None:
        """A file's run on the file's present text, computed once for each pair of them."""
        run = self.runs.get(key)
        if run is None:
            return None
        measured = run.measured[key]
        current = self.current_source(measured.path)
        if current is None:
            return None
        known = self._views.get(key)
        if known is None or known.run is not run or known.current is not current:
            self._views[key] = known = View(run, measured, current)
        return known

    def views(self) -> Iterator[tuple[str, View]]:
        for key in list(self.runs):
            if (view := self.view(key)) is not None:
                yield key, view

    def is_stale(self, run: Run) -> bool:
        """Whether any file of the run has other code by now."""
        return any(view.stale for view in self._views_of(run))

    def standing(self, run: Run) -> int:
        """How many of the run's findings are about code that is still as it was."""
        return len(run.result.findings) - sum(view.outdated for view in self._views_of(run))

    def _views_of(self, run: Run) -> list[View]:
        views = (self.view(key) for key in run.measured if self.runs.get(key) is run)
        return [view for view in views if view is not None]

    def outline(self, uri: str) -> Outline | None:
        """The lenses' positions, from cache if the text is the same or does not parse."""
        key, document = uri_key(uri), self.document(uri)
        if document is None:
            return None
        known = self._outlines.get(key)
        if known is None or known.source is not document.source:
            if document.source.tree is not None or known is None:
                known = Outline.of(document.source)
            else:
                return known.moved_to(document.source)
            self._outlines[key] = known
        return known

    def fix_edits(self, view: View, placed: PlacedFinding, fix: Fix) -> dict[str, tuple[Edit, ...]] | None:
        """A fix as edits of the present texts, by file key; None if the code it was made for has changed."""
        related = (related.span for related in placed.finding.related if related.span.file == view.measured.path)
        if placed.stale or any(view.span(span) is None for span in related):
            return None
        edits: dict[str, tuple[Edit, ...]] = {}
        for edit in fix.edits:
            key = path_key(edit.file)
            target = view if key == path_key(view.measured.path) else self.view(key)
            moved = None if target is None or target.run is not view.run else target.edit(edit)
            if moved is None:
                return None
            edits[key] = (*edits.get(key, ()), moved)
        return edits

    def cancel(self, folders: Iterable[Path] | None = None) -> bool:
        """Ask the runs of some folders, or all, to stop. True if there was one."""
        keys = list(self.active) if folders is None else [path_key(str(folder)) for folder in folders]
        running = [self.active[key] for key in keys if key in self.active]
        for run in running:
            run.cancelled.set()
        return bool(running)
