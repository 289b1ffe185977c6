from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

import click

from forwardlens.cli.measuring import EntryCommand, MeasureOptions, measured
from forwardlens.cli.reporting import measure_and_report, reported
from forwardlens.model import Severity

_SEVERITIES: tuple[Severity, ...] = get_args(Severity)
"""Mildest first."""


@click.command("check", cls=EntryCommand)
@measured
@reported
@click.option(
    "--fail-on", type=click.Choice(_SEVERITIES), default="warning", show_default=True, help="Least severity that fails."
)
def command(options: MeasureOptions, outputs: Mapping[str, str], verify: bool, fail_on: Severity) -> None:
    """Profile ENTRY in CI; exit 1 on findings.

    The same as profile, except that a finding of --fail-on or worse makes it exit with 1.
    """
    report = measure_and_report(options, outputs, verify)
    least = _SEVERITIES.index(fail_on)
    if any(_SEVERITIES.index(finding.severity) >= least for finding in report.findings):
        raise click.exceptions.Exit(1)
