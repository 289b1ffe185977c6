"""What of a file can be profiled, and what the last run said. Positions and words come from cache."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from lsprotocol import types

from forwardlens.lsp.commands import PROFILE, REPORT
from forwardlens.lsp.convert import to_range
from forwardlens.lsp.runs import entry_name
from forwardlens.lsp.server import ForwardLensServer
from forwardlens.lsp.session import Outline, Run, View
from forwardlens.model import SMALLER_FINDINGS, Quantiles, Span
from forwardlens.report.compare import verdict
from forwardlens.report.labels import forward_label
from forwardlens.source.entries import ForwardMethod
from forwardlens.source.paths import path_from_uri, uri_key

PROFILE_FORWARD = "Profile this forward()"
PROFILE_ENTRY = "Profile what this builds"


def available_lenses(server: ForwardLensServer, uri: str) -> list[types.CodeLens]:
    """The lenses of an open file, from top to bottom within forwards and entries."""
    outline, path = server.session.outline(uri), path_from_uri(uri)
    if outline is None or path is None:
        return []
    if outline.forwards:
        server.prepare_run(uri, path)
    return list(_lenses(server, uri, path, outline))


def profile_actions(server: ForwardLensServer, params: types.CodeActionParams) -> list[types.CodeAction]:
    """The lenses that profile, as actions on their lines: some editors have no lenses.

    They are of no kind, so that whoever asks for a kind, to apply it on saving say, does not run code.
    """
    if server.features.lenses or params.context.only is not None:
        return []
    first, last = params.range.start.line, params.range.end.line
    commands = (
        lens.command
        for lens in available_lenses(server, params.text_document.uri)
        if first <= lens.range.start.line <= last
    )
    return [types.CodeAction(it.title, command=it) for it in commands if it is not None and it.command == PROFILE]


def _lenses(server: ForwardLensServer, uri: str, path: str, outline: Outline) -> Iterator[types.CodeLens]:
    view = server.session.view(uri_key(uri))

    def lens(header: Span, title: str, command: str, argument: dict[str, str]) -> types.CodeLens:
        where = to_range(outline.source, header, server.encoding)
        return types.CodeLens(where, types.Command(title, command, arguments=[argument]))

    title = None if view is None else _result_title(server, view)
    measured = None if view is None else measured_forward(view, outline)
    for forward in outline.forwards:
        yield lens(forward.header, PROFILE_FORWARD, PROFILE, {"uri": uri, "target": forward.class_name})
        if title is not None and forward is measured:
            yield lens(forward.header, title, REPORT, {"uri": uri})
    for entry in outline.entries:
        name = entry_name(path, entry, server.folder_of(path))
        yield lens(entry.header, PROFILE_ENTRY, PROFILE, {"uri": uri, "entry": name})
        if title is not None and view is not None and view.run.result.request.entry == name:
            yield lens(entry.header, title, REPORT, {"uri": uri})


def _result_title(server: ForwardLensServer, view: View) -> str:
    result, found = view.run.result, server.session.standing(view.run)
    smaller = sum(error.count for error in result.errors if error.kind == SMALLER_FINDINGS)
    stale, was = server.session.is_stale(view.run), _before_the_edit(view.run)
    return forward_label(result.profile, found, smaller, stale=stale, was=was)


def _before_the_edit(run: Run) -> Quantiles | None:
    """What the forward took before, if its code was changed and the difference is more than that between two runs."""
    before, after = run.earlier, run.result.profile
    if before is None or before.texts == after.texts:
        return None
    times = before.forward.wall_ms
    return None if verdict(times, after.forward.wall_ms) == "same" else times


def measured_forward(view: View, outline: Outline) -> ForwardMethod | None:
    """The forward that a run measured: its target, else the one with most of the time in it."""
    target = view.run.result.profile.target
    if target is not None:
        name = target.partition(".")[0]
        return next((forward for forward in outline.forwards if forward.class_name == name), None)

    starts = [forward.body.line for forward in outline.forwards]
    totals = [0.0] * len(starts)
    for line in view.lines:
        above = bisect_right(starts, line.line) - 1
        if above >= 0 and line.line <= outline.forwards[above].body.end_line:
            totals[above] += line.cost.total_ms
    most = max(totals, default=0.0)
    return outline.forwards[totals.index(most)] if most > 0 else None
