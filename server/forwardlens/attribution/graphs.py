"""Dynamo's account of the forward, on the source."""

from __future__ import annotations

from collections.abc import Iterator

from forwardlens.attribution.places import Places, expression
from forwardlens.attribution.recording import RawGraphs, Recording
from forwardlens.model import GraphBreak, Graphs, RunError, Span
from forwardlens.source.text import SourceText


def graphs_of(recording: Recording, where: Places) -> Graphs | None:
    """The graphs, and the breaks in the files whose text is known."""
    raw = recording.get("graphs")
    return None if raw is None else Graphs(raw["graphs"], raw["asked"], tuple(_breaks(raw, where)))


def graph_notes(recording: Recording) -> Iterator[RunError]:
    """What the breaks on the source do not tell: those elsewhere, and that there is no account."""
    raw = recording.get("graphs")
    if raw is None:
        return
    if raw["failed"] is not None:
        yield RunError("graph-breaks", f"Dynamo cannot trace this forward: {raw['failed']}")
    elsewhere = [row for row in raw["breaks"] if row[0] not in recording["texts"]]
    if elsewhere:
        file, line, _, _, function, reason, _ = elsewhere[0]
        words = " ".join(reason.splitlines()[:1]) or "no reason given"
        yield RunError(
            "graph-breaks",
            f"{len(elsewhere)} graph breaks of torch.compile are in files that ran no operator of yours, the first in "
            f"`{function}`: {words}",
            file,
            line,
        )


def _breaks(raw: RawGraphs, where: Places) -> Iterator[GraphBreak]:
    for file, line, column, end_column, function, reason, skipped in raw["breaks"]:
        source = where.source_of(file)
        if source is not None and 1 <= line <= source.line_count:
            yield GraphBreak(_span(source, line, column, end_column), function, reason, skipped)


def _span(source: SourceText, line: int, column: int | None, end_column: int | None) -> Span:
    """The expression, where its instruction starts and ends on one line; else the line."""
    if column is None or end_column is None or end_column <= column:
        return source.line_span(line)
    span = expression(source, line, column, line, end_column)
    return span if source.slice(span).strip() else source.line_span(line)
