"""The command line: the only package that imports click.

A command is a module under `commands/` that defines `command`; its file name is what users type.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Run `forwardlens` with the arguments of this process, and end the process."""
    from forwardlens.cli.shell import run

    sys.exit(run(sys.argv[1:]))
