"""Writing to the terminal, or to whatever stands in for it."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

import click

from forwardlens.runner.request import OnProgress, Progress, warned_once

if TYPE_CHECKING:
    from rich.text import Text


def make_encodable(*streams: TextIO) -> None:
    """Never fail on a character the stream cannot express, as on a Windows pipe: show a `?` instead."""
    for stream in streams:
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")


def say(message: str) -> None:
    """A message to the user, on stderr."""
    click.echo(message, err=True)


def complain(message: str) -> None:
    """What went wrong, the way click says it."""
    say(f"Error: {message}")


def show(lines: Iterable[Text]) -> None:
    """Results, on stdout. Long lines stay whole: a pipe has no width, and a terminal wraps them itself."""
    from rich.console import Console

    console = Console(highlight=False, markup=False, emoji=False)
    for line in lines:
        console.print(line, soft_wrap=True)


@contextmanager
def progress() -> Generator[OnProgress]:
    """A line that tells what is being done, on a terminal only."""
    from rich.console import Console

    console = Console(stderr=True)
    if not sys.stderr.isatty() or console.is_dumb_terminal:
        yield warned_once(lambda step: say(step.message) if step.stage == "warning" else None)
        return
    with console.status("Starting") as status:

        @warned_once
        def on_progress(step: Progress) -> None:
            if step.stage == "warning":
                console.print(step.message, markup=False)
            elif step.stage != "output":
                status.update(_describe(step))

        yield on_progress


def _describe(step: Progress) -> str:
    from rich.markup import escape

    message = escape(step.message)
    return message if step.fraction is None else f"{message} ({step.fraction:.0%})"
