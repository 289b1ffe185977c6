from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from forwardlens.cli.console import progress, say, show
from forwardlens.cli.measuring import EntryCommand, MeasureOptions, cancelled_by_interrupt, measured, prepare
from forwardlens.config import nearest
from forwardlens.report.diff import unified_diff
from forwardlens.report.numbers import format_count, format_ms
from forwardlens.report.words import verification_text
from forwardlens.source.paths import relative_name
from forwardlens.source.text import SourceText

if TYPE_CHECKING:
    from forwardlens.workflow import FixReport


@click.command("fix", cls=EntryCommand)
@measured
@click.option("--rule", "rules", multiple=True, metavar="RULE", help="Only fixes of this rule; may be repeated.")
@click.option("--write/--diff", default=False, help="Change the files, or print the change (the default).")
@click.option("--unsafe", is_flag=True, help="Also apply fixes that may change results in cases the run did not meet.")
def command(options: MeasureOptions, rules: tuple[str, ...], write: bool, unsafe: bool) -> None:
    """Apply the fixes that prove themselves.

    They are tried one on top of the other on the running model. One that leaves the outputs equal and is not slower
    is kept: what gains nothing here may gain on another device.
    """
    from forwardlens import workflow

    _check_names(rules)
    request, settings = prepare(options)
    with cancelled_by_interrupt() as cancelled, progress() as on_progress:
        report = workflow.fix_all(request, settings, on_progress, cancelled, frozenset(rules) or None, unsafe)
    changes = tuple(_changes(report))
    if write:
        for before, after in changes:
            _replace_file(before, after)
    else:
        _print_diffs(changes, request.workspace)
    _summarise(report, write)


def _check_names(rules: tuple[str, ...]) -> None:
    from forwardlens.rules.engine import rule_names

    for name in rules:
        if name not in rule_names():
            raise click.UsageError(f"unknown rule '{name}'; {nearest(name, rule_names())}")


def _changes(report: FixReport) -> Iterator[tuple[SourceText, SourceText]]:
    for path, after in report.texts.items():
        before = report.before.sources.get(path)
        if before is not None and before.text != after.text:
            yield before, after


def _print_diffs(changes: tuple[tuple[SourceText, SourceText], ...], workspace: Path) -> None:
    """Coloured on a terminal; elsewhere the exact bytes of a patch, in the encoding and line ends of the files."""
    for before, after in changes:
        diff = unified_diff(before, after, relative_name(before.path, str(workspace)))
        if sys.stdout.isatty():
            from forwardlens.report.table import render_diff

            show(render_diff(diff))
        else:
            click.echo(after.with_text(diff).to_bytes(), nl=False)


def _replace_file(before: SourceText, after: SourceText) -> None:
    """Write `after` in one step, and only over the text that was measured."""
    path = Path(before.path)
    if SourceText.read(path).text != before.text:
        raise click.UsageError(f"{path} has changed since it was measured; nothing was written to it")
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(handle, "wb") as stream:
        stream.write(after.to_bytes())
    Path(temporary).chmod(path.stat().st_mode)
    Path(temporary).replace(path)


def _summarise(report: FixReport, written: bool) -> None:
    """Fix by fix: those figures come from interleaved runs, the two of the whole forward do not."""
    workspace = str(report.before.request.workspace)
    for verdict, fixes in (("", report.applied), ("left out: ", report.rejected)):
        for finding, fix in fixes:
            place = f"{relative_name(finding.span.file, workspace)}:{finding.span.line}"
            say(f"{place}: {verdict}{fix.title} ({verification_text(fix.verified)})")
    if not report.applied:
        say("no fix to apply")
        return
    before, after = (format_ms(side.profile.forward.wall_ms.median) for side in (report.before, report.after))
    what = f"{format_count(len(report.applied), 'fix', 'fixes')} {'written' if written else 'proven, not written'}"
    say(f"{what}; a forward took {before} before and {after} after")
