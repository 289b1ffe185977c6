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
from forwardlens.cli.reporting import writable, write_output
from forwardlens.config import nearest
from forwardlens.report.diff import unified_diff
from forwardlens.source.paths import relative_name
from forwardlens.source.text import SourceText

if TYPE_CHECKING:
    from forwardlens.workflow import FixReport


@click.command("fix", cls=EntryCommand)
@measured
@click.option("--rule", "rules", multiple=True, metavar="RULE", help="Only fixes of this rule; may be repeated.")
@click.option("--write/--diff", default=False, help="Change the files, or print the change (the default).")
@click.option(
    "--json",
    "json_file",
    metavar="FILE",
    callback=writable,
    help="Write what was done as JSON; - for stdout, without a diff.",
)
@click.option("--unsafe", is_flag=True, help="Also apply fixes that may change results in cases the run did not meet.")
def command(options: MeasureOptions, rules: tuple[str, ...], write: bool, json_file: str | None, unsafe: bool) -> None:
    """Apply the fixes that prove themselves.

    They are tried one on top of the other on the running model. One that leaves the outputs equal and is not slower
    is kept: what gains nothing here may gain on another device. The program after all of them is run against the one
    before the first.
    """
    from forwardlens import workflow
    from forwardlens.report.fixes import render, summary

    _check_names(rules)
    request, settings = prepare(options)
    with cancelled_by_interrupt() as cancelled, progress() as on_progress:
        report = workflow.fix_all(request, settings, on_progress, cancelled, frozenset(rules) or None, unsafe)
    changes = tuple(_changes(report))
    if write:
        for before, after in changes:
            _replace_file(before, after)
    elif json_file != "-":
        _print_diffs(changes, request.workspace)
    for line in summary(report, written=write):
        say(line)
    if json_file:
        write_output(render(report), json_file)


def _check_names(rules: tuple[str, ...]) -> None:
    from forwardlens.rules.engine import rule_names

    for name in rules:
        if name not in rule_names():
            raise click.UsageError(f"unknown rule '{name}'; {nearest(name, rule_names())}")


def _changes(report: FixReport) -> Iterator[tuple[SourceText, SourceText]]:
    for path, after in report.texts.items():
        yield report.before.sources[path], after


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
