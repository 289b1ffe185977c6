from __future__ import annotations

from collections.abc import Mapping

import click

from forwardlens.cli.measuring import EntryCommand, MeasureOptions, measured
from forwardlens.cli.reporting import measure_and_report, reported


@click.command("profile", cls=EntryCommand)
@measured
@reported
def command(options: MeasureOptions, outputs: Mapping[str, str], verify: bool) -> None:
    """Print the costly lines of ENTRY and the findings.

    ENTRY is file.py:name or package.module:name, a callable that returns (model, inputs); a script.py; a test,
    tests/test_x.py::test_y; or a name under [tool.forwardlens.entries]. Without it the configured default is taken.
    """
    measure_and_report(options, outputs, verify)
