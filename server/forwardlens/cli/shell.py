"""The `forwardlens` command itself: finding its subcommands, and turning failures into messages and exit codes."""

from __future__ import annotations

import errno
import importlib
import os
import pkgutil
import sys
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TextIO

import click

from forwardlens import __version__
from forwardlens.cli import commands
from forwardlens.cli.console import complain, make_encodable, say
from forwardlens.config import ConfigError, nearest
from forwardlens.runner.request import FailureKind, RunFailedError
from forwardlens.source.paths import relative_name

USAGE = 2
INTERRUPTED = 130
READER_GONE = 141
"""As a shell reports a program that SIGPIPE ended: `head` has seen enough, whatever else there was to say."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
INTERNAL = 70
"""`EX_SOFTWARE` of sysexits.h: our own bug must not look like findings (1) or like the user's (3)."""
EXIT_CODES: Mapping[FailureKind, int] = {
    "usage": USAGE,
    "entry": 3,
    "crashed": 3,
    "device": 3,
    "environment": 4,
    "cancelled": INTERRUPTED,
}


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's signature
        return sorted(found.name for found in pkgutil.iter_modules(commands.__path__))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        return importlib.import_module(f"{commands.__name__}.{cmd_name}").command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.list_commands(ctx)
        if args[0] not in known:
            ctx.fail(f"no such command '{args[0]}'; {nearest(args[0], known)}")
        return super().resolve_command(ctx, args)


@click.command("forwardlens", cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="forwardlens")
def _forwardlens() -> None:
    """What each line of a PyTorch forward costs, why, and a fix that was tried."""


def run(arguments: Sequence[str]) -> int:
    """Run the command line and return its exit code. Messages go to stderr."""
    make_encodable(sys.stdout, sys.stderr)
    try:
        code: object = _forwardlens.main(list(arguments), prog_name="forwardlens", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        return USAGE
    except ConfigError as error:
        complain(f"{_place(error)}{error.message}")
        return USAGE
    except RunFailedError as error:
        _explain(error)
        return EXIT_CODES[error.kind]
    except (click.Abort, KeyboardInterrupt):
        complain("interrupted")
        return INTERRUPTED
    except (SystemExit, BrokenPipeError):  # the former is click's own answer to the latter
        _drop(sys.stdout)
        return READER_GONE
    except OSError as error:
        if error.errno not in _FULL:
            return _bug()
        _drop(sys.stdout)
        with suppress(OSError):  # it may be the same disk
            complain(f"cannot write the results: {error.strerror}; send them elsewhere")
        return USAGE
    except Exception:  # everything expected was handled above
        return _bug()
    return code if isinstance(code, int) else 0


def _drop(stream: TextIO) -> None:
    """What is left in its buffer goes nowhere, so that the interpreter does not try once more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _bug() -> int:
    complain("this is a bug in ForwardLens, please report it with the following:")
    traceback.print_exc()
    return INTERNAL


def _explain(error: RunFailedError) -> None:
    complain(error.message)
    if error.trace:
        say(error.trace.rstrip())
    # An exception tells by itself what happened; a process that died does not.
    if error.log.strip() and (error.kind == "crashed" or not error.trace):
        say(f"The run printed last:\n{error.log.rstrip()}")


def _place(error: ConfigError) -> str:
    """Only what is wrong in the file has a line; a missing choice is not the fault of any."""
    return "" if error.line is None else f"{relative_name(error.file, str(Path.cwd()))}:{error.line}: "
