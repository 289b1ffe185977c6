"""Doing a run for the editor: what to run, in which thread, and what the client sees meanwhile."""

from __future__ import annotations

import asyncio
import itertools
import logging
import uuid
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from lsprotocol import types
from pygls.exceptions import JsonRpcException

from forwardlens.config import ConfigError, EntryConfig, Settings, load_settings, nearest, resolve_entry
from forwardlens.lsp.client import ClientSettings, Interpreter
from forwardlens.lsp.messages import sentence
from forwardlens.lsp.server import LOGGED, ForwardLensServer, RequestFailedError
from forwardlens.lsp.session import ActiveRun, Asked, Failure, Run
from forwardlens.model import RunError
from forwardlens.runner.request import Progress, RunFailedError, RunRequest, warned_once
from forwardlens.source.entries import EntryFunction, likely_entries
from forwardlens.source.paths import path_from_uri, path_key, relative_name
from forwardlens.source.text import SourceText

if TYPE_CHECKING:
    from forwardlens.workflow import Result

logger = logging.getLogger(__name__)

_LONGEST_STOP = 5.0
"""Seconds that a cancelled run may take to end before the next one starts anyway."""

_numbers = itertools.count(1)

Summary = dict[str, object]


@dataclass(frozen=True, slots=True)
class Plan:
    request: RunRequest
    settings: Settings
    interpreter: Interpreter | None


async def profile(server: ForwardLensServer, asked: Asked, token: str | None = None) -> Summary:
    """Measure, show, try the fixes, show again. A run that fails is told to the user and is a summary too.

    `token` is what the client wants progress to be told under; without one the server asks the client for a place.
    """
    if not server.session.trusted:
        raise RequestFailedError("The workspace is not trusted; trust it first, because profiling runs its code.")
    path = path_from_uri(asked.uri)
    if path is None:
        raise RequestFailedError(f"Only files on disk can be profiled; save {asked.uri} first.")
    folder = server.folder_of(path)
    former, active = _begin(server, folder)
    server.tell_run({"uri": asked.uri, "running": True})
    work = asyncio.ensure_future(_profile(server, asked, path, active, former, token))
    try:
        return await asyncio.shield(work)
    except RunFailedError as error:
        return _failed(server, asked, active, error)
    except asyncio.CancelledError:
        active.cancelled.set()
        # Only then is the folder free for the next run.
        await asyncio.wait({work}, timeout=_LONGEST_STOP)
        if work.done() and not work.cancelled():
            work.exception()  # nobody else asks for it, which asyncio would complain about
        raise
    finally:
        active.finished.set()
        if server.session.active.get(path_key(str(folder))) is active:
            del server.session.active[path_key(str(folder))]
            server.tell_run({"uri": asked.uri, "running": False})


def _begin(server: ForwardLensServer, folder: Path) -> tuple[ActiveRun | None, ActiveRun]:
    """Take the folder for a new run, which stops the one before it: two at a time would measure each other."""
    session, key = server.session, path_key(str(folder))
    session.cancel([folder])
    former = session.active.get(key)
    session.active[key] = active = ActiveRun(folder)
    if session.failures.pop(key, None):
        server.publish()
    return former, active


async def _wait_for_end(run: ActiveRun) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(run.finished.wait(), _LONGEST_STOP)


async def _profile(
    server: ForwardLensServer,
    asked: Asked,
    path: str,
    active: ActiveRun,
    former: ActiveRun | None,
    token: str | None,
) -> Summary:
    if former is not None:
        await _wait_for_end(former)
    client = await server.settings_for(asked.uri)
    if active.cancelled.is_set():
        raise RunFailedError("cancelled", "The run was cancelled before it began.")
    source, overlays = server.session.current_source(path), server.session.overlays()
    plan = await server.in_thread(lambda: make_plan(asked, path, source, active.folder, client, overlays))
    server.tell_run({"uri": asked.uri, "running": True, **_circumstances(plan)})
    progress = await _Progress.start(server, active, token)
    try:
        run = await _run(server, asked, plan, client, active, progress)
    finally:
        progress.end()
    return summary(asked.uri, run)


def _circumstances(plan: Plan) -> dict[str, object]:
    """What a status tells about a run: what is run, by which interpreter."""
    interpreter = None if plan.interpreter is None else asdict(plan.interpreter)
    return {"entry": plan.request.entry, "interpreter": interpreter}


async def _run(
    server: ForwardLensServer,
    asked: Asked,
    plan: Plan,
    client: ClientSettings,
    active: ActiveRun,
    progress: _Progress,
) -> Run:
    loop = asyncio.get_running_loop()
    engine, cancelled = server.engine, active.cancelled

    @warned_once
    def report(step: Progress) -> None:
        loop.call_soon_threadsafe(server.log_step if step.stage in LOGGED else progress.report, step)

    number, earlier = next(_numbers), server.session.earlier_profile(active.folder, plan.request)

    async def show(result: Result, *, verified: bool) -> Run:
        # The user may have changed what is to be shown since the run began.
        settings = await _present_settings(server, asked.uri, client)
        run = Run(asked, result, active.folder, settings, verified, number, earlier)
        # A run that a newer one has replaced must not overwrite what that shows.
        if server.session.active.get(path_key(str(active.folder))) is active:
            server.session.put_run(run)
            server.publish(refresh=True)
            server.tell_run({"uri": asked.uri, "running": True, "environment": asdict(result.profile.environment)})
        return run

    result = await server.in_thread(lambda: engine.profile(plan.request, plan.settings, report, cancelled))
    if cancelled.is_set():
        raise RunFailedError("cancelled", "The run was cancelled.")
    notes = (*result.profile.errors, *result.errors)
    _log_notes(server, notes)
    run = await show(result, verified=False)
    try:
        tried = await server.in_thread(lambda: engine.verify(result, report, cancelled))
    except RunFailedError as error:
        if error.kind != "cancelled":
            server.show_error(error, asked.uri)
        return run
    if cancelled.is_set():
        return run
    _log_notes(server, [note for note in tried.errors if note not in notes])
    return await show(tried, verified=True)


async def _present_settings(server: ForwardLensServer, uri: str, known: ClientSettings) -> ClientSettings:
    try:
        return await server.settings_for(uri)
    except RunFailedError:
        return known


def make_plan(
    asked: Asked,
    path: str,
    source: SourceText | None,
    folder: Path,
    client: ClientSettings,
    overlays: Mapping[str, str],
) -> Plan:
    """What to run. `source` is the text of the file at `path`. Raises `RunFailedError` where that is not clear."""
    # The rules bring libcst with them, so they are imported here and not when the server starts.
    from forwardlens.rules.engine import rule_names

    known = rule_names()
    for name in client.rules.keys() - set(known):
        raise RunFailedError("usage", f"The setting forwardlens.rules names no rule '{name}'; {nearest(name, known)}")
    try:
        settings = load_settings(folder, known)
        entry = _entry(asked, path, source, folder, settings, client)
    except ConfigError as error:
        raise _config_failure(error, folder) from None
    interpreter = choose_python(asked, entry, client)
    request = RunRequest(
        entry=entry.run,
        workspace=folder,
        target=asked.target or entry.target,
        python=None if interpreter is None else interpreter.path,
        device=entry.device,
        iterations=client.iterations or entry.iterations,
        warmup=entry.warmup,
        backward=entry.backward,
        graph_breaks=client.graph_breaks or entry.graph_breaks,
        arguments=entry.arguments if asked.arguments is None else asked.arguments,
        environment=asked.environment or {},
        cwd=None if asked.cwd is None else Path(asked.cwd),
        time_limit=entry.time_limit,
        memory_limit=entry.memory_bytes,
        overlays=overlays,
    )
    threshold = settings.threshold if client.threshold is None else client.threshold
    rules = {**settings.rules, **client.rules}
    return Plan(request, replace(settings, threshold=threshold, rules=rules), interpreter)


def choose_python(asked: Asked, entry: EntryConfig, client: ClientSettings) -> Interpreter | None:
    """The user's setting, what was chosen to be run, the project's configuration, what the editor has selected.

    From the most deliberate choice to the least: a selection in the editor is made for all files, once.
    """
    if client.interpreter:
        return Interpreter(client.interpreter, "the setting forwardlens.interpreter")
    if asked.python:
        return Interpreter(asked.python, "launch.json")
    if entry.python:
        return Interpreter(entry.python, "pyproject.toml")
    return client.selected


def _entry(
    asked: Asked, path: str, source: SourceText | None, folder: Path, settings: Settings, client: ClientSettings
) -> EntryConfig:
    """The command's argument, the user's setting, pyproject's default, the only candidate beside the code.

    A candidate that pyproject configures is run as it says there.
    """
    named = asked.entry or client.entry or settings.entry
    if named is not None:
        return resolve_entry(settings, named, folder)
    candidates = matching_entries(likely_entries(source), asked.target) if source else ()
    names = [entry_name(path, candidate, folder) for candidate in candidates]
    configured = [entry for entry in settings.entries.values() if entry.run in names]
    if len(configured) == 1:
        return configured[0]
    if len(names) == 1:
        return EntryConfig(run=names[0])
    if names and not settings.entries:
        several = "Several functions build a model and its inputs; name one in the setting forwardlens.entry"
        raise RunFailedError("usage", f"{several}: {', '.join(names)}.")
    return resolve_entry(settings, None, folder)


def matching_entries(entries: Iterable[EntryFunction], target: str | None) -> tuple[EntryFunction, ...]:
    """The entries that name the target's class, if any does; else all."""
    found = tuple(entries)
    if target is None:
        return found
    return tuple(entry for entry in found if target.partition(".")[0] in entry.mentions) or found


def entry_name(path: str, entry: EntryFunction, folder: Path) -> str:
    return f"{relative_name(path, str(folder))}:{entry.name}"


def _config_failure(error: ConfigError, folder: Path) -> RunFailedError:
    """In one sentence. Only a setting has a line; without one it is the choice of an entry that is not clear."""
    if error.line is None:
        return RunFailedError("usage", error.message)
    place = relative_name(error.file, str(folder))
    return RunFailedError("usage", f"{place}:{error.line}: {error.message}", error.file, error.line)


def _failed(server: ForwardLensServer, asked: Asked, active: ActiveRun, error: RunFailedError) -> Summary:
    if error.kind == "cancelled" or active.cancelled.is_set():
        return {"status": "cancelled"}
    error = replace(error, message=sentence(error.message))
    source = None if error.file is None else server.session.current_source(error.file)
    server.session.failures[path_key(str(active.folder))] = Failure(error, source)
    server.publish()
    server.show_error(error, asked.uri)
    return {
        "status": "failed",
        "kind": error.kind,
        "message": error.message,
        "file": error.file,
        "line": error.line,
    }


def _log_notes(server: ForwardLensServer, notes: Iterable[RunError]) -> None:
    for note in dict.fromkeys(notes):
        place = "" if note.file is None else f"{note.file}:{note.line or 1}: "
        server.window_log_message(types.LogMessageParams(types.MessageType.Warning, place + note.message))


def summary(uri: str, run: Run) -> Summary:
    profile, findings = run.result.profile, run.result.findings
    return {
        "status": "done",
        "uri": uri,
        "file": path_from_uri(uri),
        "entry": profile.entry,
        "target": profile.target,
        "medianMs": profile.forward.wall_ms.median,
        "bound": profile.forward.bound,
        "findings": len(findings),
        "provenFixes": sum(fix.proven for finding in findings for fix in finding.fixes),
        "verified": run.verified,
        "unattributedShare": profile.unattributed_share,
    }


async def _created_token(bars: Any) -> str | None:
    """A token for progress that the client did not ask for; None if it has no place to show it."""
    token = f"forwardlens-{uuid.uuid4()}"
    try:
        await bars.create_async(token)
    except JsonRpcException:
        return None
    return token


@dataclass(frozen=True, slots=True)
class _Progress:
    """The run's progress bar, where the client has one. `bars` is pygls' part of it, which has no types."""

    bars: Any
    token: str | None

    @classmethod
    async def start(cls, server: ForwardLensServer, active: ActiveRun, token: str | None) -> _Progress:
        bars = cast("Any", server.work_done_progress)
        if token is None and server.features.progress:
            token = await _created_token(bars)
        if token is None:
            return cls(bars, None)

        def stop(future: Future[Any]) -> None:
            if future.cancelled():
                active.cancelled.set()

        bars.begin(token, types.WorkDoneProgressBegin("Profiling", cancellable=True, message="Starting"))
        bars.tokens[token].add_done_callback(stop)
        return cls(bars, token)

    def report(self, step: Progress) -> None:
        if self.token in self.bars.tokens:
            # Without a percentage: no stage knows how long the ones after it will take.
            self.bars.report(self.token, types.WorkDoneProgressReport(cancellable=True, message=step.message))

    def end(self) -> None:
        if self.bars.tokens.pop(self.token, None) is not None:
            self.bars.end(self.token, types.WorkDoneProgressEnd())
