"""The report people read in a terminal: plain aligned lines that also survive a pipe; colour only repeats a number."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

from rich.text import Text

from forwardlens.model import SMALLER_FINDINGS, Finding, Fix, Profile
from forwardlens.report.diff import fix_diff
from forwardlens.report.labels import LineCost, line_costs
from forwardlens.report.numbers import format_count, format_ms, format_share
from forwardlens.report.record import Report
from forwardlens.report.words import bound_text, evidence_text, verification_text
from forwardlens.source.text import SourceText

_COSTLY_LINE = 0.005
"""Share of the forward from which a line is shown."""
_COSTLY_FUNCTION = 0.01
_NOTHING = 0.0005
"""Below it, the line that leads to a costly one shows no number: a column of zeros hides those that count."""
_HEAT = ((0.2, "bold red"), (0.05, "yellow"), (_COSTLY_LINE, ""), (0.0, "dim"))
_SEVERITY_STYLES = {"warning": "bold yellow", "info": "bold cyan", "hint": "bold"}
_DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan"}
_COMPOUND = (
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.If,
    ast.With,
    ast.AsyncWith,
    ast.Try,
    ast.Match,
    ast.FunctionDef,
    ast.AsyncFunctionDef,
)
_FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


def render(report: Report) -> Iterator[Text]:
    """The whole report, line by line."""
    yield from render_header(report.profile)
    yield from render_source(report)
    yield from render_findings(report)
    yield from _errors(report)


def render_header(profile: Profile) -> Iterator[Text]:
    environment, wall = profile.environment, profile.forward.wall_ms
    target = f"  target {profile.target}" if profile.target else ""
    device = environment.device
    if environment.device_name and environment.device_name != device:
        device = f"{device} ({environment.device_name})"
    yield Text.assemble((profile.entry, "bold"), target)
    threads = format_count(environment.threads, "thread")
    yield Text(f"torch {environment.torch}, Python {environment.python}, {device}, {threads}")
    yield Text.assemble(
        (format_ms(wall.median), "bold"),
        f" a forward, {format_ms(wall.p10)} to {format_ms(wall.p90)} (p10 to p90 of {format_count(wall.n, 'run')})",
    )
    yield Text(bound_text(profile.forward.bound))


def render_source(report: Report) -> Iterator[Text]:
    """The costly stretches of every function that costs something, and what belongs to no line."""
    on_device = any(cost.device_ms > 0 for cost in report.profile.lines)
    marked = {(finding.span.file, finding.span.line) for finding in report.findings}
    for file in _files(report.profile):
        source = report.sources.get(file)
        if source is None:
            continue
        costs = {line.line: line for line in line_costs(report.profile, file)}
        blocks = _blocks(source, costs, {line for name, line in marked if name == file})
        if not blocks:
            continue
        yield Text()
        yield Text.assemble((report.name_of(file), "bold underline"))
        yield Text(_columns("time", "share", "calls", "device" if on_device else None), "dim")
        for index, block in enumerate(blocks):
            if index:
                yield Text()
            yield from _rows(source, block, costs, on_device)
    yield Text()
    share = report.profile.unattributed_share
    lost = format_ms(share * report.profile.forward.wall_ms.median)
    yield Text(f"{_columns(lost, format_share(share), '', None)}  belongs to no line")


def render_findings(report: Report) -> Iterator[Text]:
    if not report.findings:
        yield Text()
        yield Text("No findings.")
    for finding in report.findings:
        yield Text()
        yield from _finding(finding, report)
    for error in report.errors:
        if error.kind == SMALLER_FINDINGS and error.file is not None:
            yield Text()
            yield Text(f"{report.name_of(error.file)}: {error.message}", "dim")


def render_diff(diff: str) -> Iterator[Text]:
    """A unified diff, coloured."""
    for line in diff.removesuffix("\n").split("\n"):
        header = line.startswith(("---", "+++"))
        yield Text(line, "bold" if header else _DIFF_STYLES.get(line[:1], ""))


def _files(profile: Profile) -> list[str]:
    """The measured files, the costliest first."""
    spent: defaultdict[str, float] = defaultdict(float)
    for cost in profile.lines:
        spent[cost.span.file] += cost.self_ms
    return sorted(spent, key=lambda file: -spent[file])


def _blocks(source: SourceText, costs: Mapping[int, LineCost], marked: Set[int]) -> list[list[int]]:
    """The lines to show, function by function, top to bottom."""
    functions = _functions(source)
    owners: dict[_FunctionNode | None, list[int]] = defaultdict(list)
    for line in costs.keys() | marked:
        owners[_innermost(functions, line)].append(line)
    return sorted(filter(None, (_block(function, lines, costs, marked) for function, lines in owners.items())))


def _block(
    function: _FunctionNode | None, lines: Sequence[int], costs: Mapping[int, LineCost], marked: Set[int]
) -> list[int]:
    """The costly lines of one function with what stands around them; empty if it costs too little to show."""
    shares = {line: costs[line].share for line in lines if line in costs}
    worth_it = sum(shares.values()) >= _COSTLY_FUNCTION
    costly = {line for line, share in shares.items() if worth_it and share >= _COSTLY_LINE}
    wanted = costly | (marked & set(lines))
    return sorted(wanted | _headers(function, wanted))


def _functions(source: SourceText) -> list[_FunctionNode]:
    if source.tree is None:
        return []
    return [node for node in ast.walk(source.tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def _innermost(functions: Sequence[_FunctionNode], line: int) -> _FunctionNode | None:
    around = [node for node in functions if node.lineno <= line <= (node.end_lineno or node.lineno)]
    return max(around, key=lambda node: node.lineno, default=None)


def _headers(function: _FunctionNode | None, lines: Iterable[int]) -> set[int]:
    """The first lines of the statements around `lines`: a costly line means little without its loop."""
    if function is None:
        return set()
    return {
        node.lineno
        for node in ast.walk(function)
        if isinstance(node, _COMPOUND) and any(node.lineno < line <= (node.end_lineno or 0) for line in lines)
    }


def _rows(source: SourceText, block: Sequence[int], costs: Mapping[int, LineCost], on_device: bool) -> Iterator[Text]:
    width = len(str(block[-1]))
    previous = block[0] - 1
    for line in block:
        if line - previous == 2:  # a mark in place of a single line would save nothing
            yield _row(source, line - 1, costs.get(line - 1), width, on_device)
        elif line - previous > 2:
            yield Text(f"{_columns('', '', '', '' if on_device else None)}  {'⋮':>{width}}", "dim")
        yield _row(source, line, costs.get(line), width, on_device)
        previous = line


def _row(source: SourceText, line: int, cost: LineCost | None, width: int, on_device: bool) -> Text:
    if cost is None or cost.share < _NOTHING:
        columns, style = _columns("", "", "", "" if on_device else None), ""
    else:
        device = format_ms(sum(part.device_ms for part in cost.costs)) if on_device else None
        columns = _columns(format_ms(cost.self_ms), format_share(cost.share), format_count(cost.calls), device)
        style = next(style for least, style in _HEAT if cost.share >= least or least == 0)
    return Text.assemble((columns, style), (f"  {line:>{width}}", "dim"), f"  {source.line(line).expandtabs(4)}")


def _columns(time: str, share: str, calls: str, device: str | None) -> str:
    columns = f"{time:>9}{share:>8}{calls:>8}"
    return columns if device is None else f"{columns}{device:>10}"


def _finding(finding: Finding, report: Report) -> Iterator[Text]:
    span = finding.span
    share = f"  {format_share(finding.share)}" if finding.share > 0 else ""  # not every fault has a line that pays
    yield Text.assemble(
        (f"{report.name_of(span.file)}:{span.line}:{span.column + 1}", "bold"),
        "  ",
        (finding.severity, _SEVERITY_STYLES[finding.severity]),
        f"  {finding.rule}{share}",
    )
    yield Text(f"    {finding.message}")
    if finding.evidence:
        yield Text(f"    evidence: {evidence_text(finding.evidence)}", "dim")
    for related in finding.related:
        place = f"{report.name_of(related.span.file)}:{related.span.line}"
        yield Text(f"    {place}: {related.message}", "dim")
    for fix in finding.fixes:
        yield from _fix(fix, report)
    for fix in report.rejected_for(finding):
        yield Text(f"    left out: {fix.title} ({verification_text(fix.verified)})", "dim")


def _fix(fix: Fix, report: Report) -> Iterator[Text]:
    yield Text.assemble("    fix: ", (fix.title, "bold"), f" [{fix.applicability}]")
    if fix.reason:
        yield Text(f"         {fix.reason}")
    if fix.edits:
        yield Text(f"         {verification_text(fix.verified)}", "green" if fix.proven else "")
        names = {edit.file: report.name_of(edit.file) for edit in fix.edits}
        yield from (Text("    ").append_text(line) for line in render_diff(fix_diff(fix, report.sources, names)))


def _errors(report: Report) -> Iterator[Text]:
    for error in report.errors:
        if error.kind == SMALLER_FINDINGS:
            continue
        yield Text()
        place = "" if error.file is None else f"{report.name_of(error.file)}:{error.line or 1}: "
        yield Text(f"{place}{error.message}", "yellow")
