from __future__ import annotations

import os
import shutil
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
        replace_files(changes)
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


def replace_files(changes: tuple[tuple[SourceText, SourceText], ...]) -> None:
    """Write all texts or none, each in one step, and only over those that were measured.

    Raises `click.ClickException` that says what is written, which is nothing unless the last step itself fails.
    """
    path, pending, written = Path(), list[tuple[Path, Path]](), list[str]()
    try:
        for before, after in changes:
            path = Path(before.path).resolve()
            if SourceText.read(path).text != before.text:
                raise click.ClickException(f"{path} has changed since it was measured; nothing was written")
            handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
            pending.append((Path(temporary), path))
            _fill(handle, after.to_bytes())
            shutil.copymode(path, temporary)
        for temporary, path in pending:
            temporary.replace(path)
            written.append(str(path))
    except OSError as error:
        done = f"only {', '.join(written)}" if written else "nothing"
        raise click.ClickException(f"cannot write '{path}': {error.strerror}; {done} was written") from None
    finally:
        for temporary, _ in pending:
            temporary.unlink(missing_ok=True)


def _fill(handle: int, content: bytes) -> None:
    """Some file systems tell only here that the disk is full."""
    with os.fdopen(handle, "wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(handle)
