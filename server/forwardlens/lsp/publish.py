"""What is shown without being asked for: diagnostics and heat. Sent only where it differs from what was sent last."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from lsprotocol import types

from forwardlens.lsp.client import ClientFeatures
from forwardlens.lsp.convert import Encoding, plain_range, to_range, to_severity
from forwardlens.lsp.session import Failure, PlacedFinding, Session, View
from forwardlens.model import Span
from forwardlens.report.labels import heat_level
from forwardlens.report.links import rule_url
from forwardlens.source.linemap import line_map
from forwardlens.source.paths import path_key
from forwardlens.source.text import SourceText

SOURCE = "forwardlens"
RUN_FAILED = "run-failed"

HeatLine = dict[str, object]


@dataclass(frozen=True, slots=True)
class Shown:
    """What one file shows. Equal contents are not sent twice."""

    uri: str
    diagnostics: tuple[types.Diagnostic, ...] = ()
    heat: tuple[HeatLine, ...] = ()


@dataclass
class Publisher:
    """Remembers what the client was told."""

    session: Session
    features: Callable[[], ClientFeatures]
    encoding: Callable[[], Encoding]
    send_diagnostics: Callable[[types.PublishDiagnosticsParams], None]
    send_heat: Callable[[str, tuple[HeatLine, ...]], None]
    _shown: dict[str, Shown] = field(default_factory=dict[str, Shown])

    def publish(self) -> None:
        """Bring the client up to date with the session."""
        wanted = self._wanted()
        for key, last in self._shown.items():
            now = wanted.get(key)
            if now is None or now.uri != last.uri:
                self._send(last, Shown(last.uri))
        for key, now in wanted.items():
            last = self._shown.get(key)
            self._send(last if last is not None and last.uri == now.uri else Shown(now.uri), now)
        self._shown = wanted

    def _send(self, last: Shown, now: Shown) -> None:
        if now.diagnostics != last.diagnostics:
            self.send_diagnostics(types.PublishDiagnosticsParams(now.uri, list(now.diagnostics)))
        if now.heat != last.heat:
            self.send_heat(now.uri, now.heat)

    def _wanted(self) -> dict[str, Shown]:
        features, encoding = self.features(), self.encoding()
        diagnostics: defaultdict[str, list[types.Diagnostic]] = defaultdict(list)
        heat: dict[str, tuple[HeatLine, ...]] = {}
        paths: dict[str, str] = {}
        for key, view in self.session.views():
            paths[key] = view.current.path
            diagnostics[key] += finding_diagnostics(self.session, view, features, encoding)
            heat[key] = heat_lines(view, encoding) if view.run.settings.heat else ()
        for failure in self.session.failures.values():
            for source, diagnostic in failure_diagnostics(self.session, failure, encoding):
                paths[path_key(source.path)] = source.path
                diagnostics[path_key(source.path)].append(diagnostic)
        return {
            key: Shown(self.session.uri_of(key, path), tuple(diagnostics[key]), heat.get(key, ()))
            for key, path in paths.items()
        }


def finding_diagnostics(
    session: Session, view: View, features: ClientFeatures, encoding: Encoding
) -> list[types.Diagnostic]:
    """The findings of a file whose text is still what was measured: a squiggle under new code would be a guess."""
    return [
        finding_diagnostic(session, view, placed, features, encoding) for placed in view.findings if not placed.stale
    ]


def finding_diagnostic(
    session: Session, view: View, placed: PlacedFinding, features: ClientFeatures, encoding: Encoding
) -> types.Diagnostic:
    finding = placed.finding
    related = list(_related(session, view, placed, encoding)) if features.related_information else []
    return types.Diagnostic(
        range=to_range(view.current, placed.span, encoding),
        message=finding.message,
        severity=to_severity(finding.severity),
        code=finding.rule,
        code_description=types.CodeDescription(rule_url(finding.rule)) if features.code_description else None,
        source=SOURCE,
        related_information=related or None,
        data={"fingerprint": placed.fingerprint} if features.diagnostic_data else None,
    )


def _related(
    session: Session, view: View, placed: PlacedFinding, encoding: Encoding
) -> Iterator[types.DiagnosticRelatedInformation]:
    for related in placed.finding.related:
        key = path_key(related.span.file)
        target = view if key == path_key(view.measured.path) else session.view(key)
        span = None if target is None else target.span(related.span)
        if target is not None and span is not None:
            uri = session.uri_of(key, target.current.path)
            location = types.Location(uri, to_range(target.current, span, encoding))
            yield types.DiagnosticRelatedInformation(location, related.message)


def failure_diagnostics(
    session: Session, failure: Failure, encoding: Encoding
) -> Iterator[tuple[SourceText, types.Diagnostic]]:
    """Where the user's own code stopped a run, until that line is edited."""
    error = failure.error
    if error.file is None or error.line is None or failure.source is None:
        return
    current = session.current_source(error.file)
    line = None if current is None else line_map(failure.source, current).line(error.line)
    if current is None or line is None:
        return
    yield (
        current,
        types.Diagnostic(
            range=to_range(current, current.line_span(line), encoding),
            message=error.message,
            severity=types.DiagnosticSeverity.Error,
            code=RUN_FAILED,
            source=SOURCE,
        ),
    )


def heat_lines(view: View, encoding: Encoding) -> tuple[HeatLine, ...]:
    """The unchanged lines that are warm, for colour behind them."""
    return tuple(
        {
            "range": plain_range(to_range(view.current, _whole(view.current.line_span(placed.line)), encoding)),
            "share": round(placed.cost.share, 6),
            "level": level,
        }
        for placed in view.lines
        if not placed.stale and (level := heat_level(placed.cost.share)) > 0
    )


def _whole(span: Span) -> Span:
    return Span(span.file, span.line, 0, span.end_line, span.end_column)
