"""What `profile` and `check` share: measuring, and writing what was found in every form that was asked for."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from forwardlens.cli.console import progress, show
from forwardlens.cli.measuring import MeasureOptions, cancelled_by_interrupt, prepare
from forwardlens.report.formats import format_names, load_format

if TYPE_CHECKING:
    from forwardlens.report.record import Report
    from forwardlens.workflow import Result


def reported(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command one option per machine format, as a mapping `outputs` from format to file."""

    @functools.wraps(command)
    def collect(*positional: Any, **values: Any) -> None:
        outputs = {name: values.pop(name) for name in format_names()}
        command(*positional, outputs={name: file for name, file in outputs.items() if file}, **values)

    for name in reversed(format_names()):
        text = f"Write the report as {load_format(name).title}; - for stdout."
        collect = click.option(f"--{name}", metavar="FILE", callback=writable, help=text)(collect)
    return click.option("--verify/--no-verify", default=True, help="Try each fix (the default).")(collect)


def measure_and_report(options: MeasureOptions, outputs: Mapping[str, str], verify: bool) -> Report:
    """Profile, look for faults, try the fixes and write it all out."""
    if list(outputs.values()).count("-") > 1:
        raise click.UsageError("only one format can go to stdout")
    report = make_report(_measure(options, verify))
    # The table first: what was measured is not lost where a file cannot be written.
    if "-" not in outputs.values():
        from forwardlens.report.table import render

        show(render(report))
    for name, file in outputs.items():
        write_output(load_format(name).render(report), file)
    return report


def make_report(result: Result) -> Report:
    from forwardlens.report.record import Report

    workspace = result.request.workspace
    return Report(workspace, result.profile, result.findings, result.sources, result.errors, result.rejected)


def _measure(options: MeasureOptions, verify: bool) -> Result:
    from forwardlens import workflow

    request, settings = prepare(options)
    with cancelled_by_interrupt() as cancelled, progress() as on_progress:
        result = workflow.profile(request, settings, on_progress, cancelled)
        return workflow.verify(result, on_progress, cancelled) if verify else result


def writable(_context: click.Context, _parameter: click.Parameter, file: str | None) -> str | None:
    """Complain about an option's file before the measurement, not after it. Raises `click.BadParameter`."""
    if not file or file == "-":
        return file
    path = Path(file).absolute()
    if path.is_dir() or not path.parent.is_dir():
        raise click.BadParameter(f"cannot write '{file}': it is a folder, or its folder does not exist")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise click.BadParameter(f"cannot write '{file}': it may not be written to; name a file elsewhere")
    return file


def write_output(text: str, file: str) -> None:
    """Write a machine format to a file, or to stdout for `-`. Raises `click.ClickException`."""
    if file == "-":
        sys.stdout.write(text)
        return
    try:
        Path(file).write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise click.ClickException(f"cannot write '{file}': {error.strerror}; name a file elsewhere") from None
