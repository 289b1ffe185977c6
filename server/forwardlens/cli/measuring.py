"""What `profile`, `check` and `fix` share: the ENTRY, how to measure it, and how to be interrupted."""

from __future__ import annotations

import functools
import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from types import FrameType
from typing import Any

import click

from forwardlens.config import EntryConfig, Settings, load_settings, resolve_entry
from forwardlens.runner.request import RunRequest


@dataclass(frozen=True, slots=True)
class MeasureOptions:
    """What was said on the command line; None where nothing was."""

    entry: str | None
    target: str | None
    python: str | None
    device: str | None
    iterations: int | None
    warmup: int | None
    backward: bool
    graph_breaks: bool
    include: tuple[str, ...]
    save_trace: Path | None
    time_limit: float | None
    memory_limit: float | None
    arguments: tuple[str, ...]


class EntryCommand(click.Command):
    """A command that takes everything after `--` as the arguments of the user's script."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        split = args.index("--") if "--" in args else len(args)
        ctx.obj = tuple(args[split + 1 :])
        return super().parse_args(ctx, args[:split])

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- ARGUMENTS]"]


def measured(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the ENTRY argument and the measuring options, as one `MeasureOptions` in front."""

    @functools.wraps(command)
    @click.pass_obj
    def collect(arguments: tuple[str, ...], **values: Any) -> None:
        module = values.pop("module")
        if module is not None and values["entry"] is not None:
            raise click.UsageError(
                f"-m {module} is an ENTRY; leave out '{values['entry']}', or put -- before arguments"
            )
        values["arguments"] = arguments
        values["entry"] = values["entry"] if module is None else f"-m {module}"
        command(MeasureOptions(**{item.name: values.pop(item.name) for item in fields(MeasureOptions)}), **values)

    options = (
        click.argument("entry", required=False),
        click.option("-m", "--module", metavar="MODULE", help="In place of ENTRY: a module to run, as with python -m."),
        click.option("--target", metavar="TARGET", help="Class, Class.method, model.path.to.module or file.py:line."),
        click.option("--python", metavar="PATH", help="The interpreter that has torch and your code's packages."),
        click.option("--device", metavar="DEVICE", help="Where the model and its inputs go: cpu, cuda, cuda:1, ..."),
        click.option("--iterations", type=click.IntRange(min=1), metavar="N", help="Timed runs."),
        click.option("--warmup", type=click.IntRange(min=0), metavar="N", help="Runs before any is timed."),
        click.option("--backward", is_flag=True, help="Run the backward pass too."),
        click.option("--graph-breaks", is_flag=True, help="Also say where torch.compile would break the graph."),
        click.option("--include", multiple=True, metavar="PACKAGE", help="Count an installed package as user code."),
        click.option(
            "--time-limit",
            type=click.FloatRange(min=0, min_open=True),
            metavar="SECONDS",
            help="Measure a forward in part that takes longer than this; 60 if not given.",
        ),
        click.option(
            "--memory-limit",
            type=click.FloatRange(min=0.5),
            metavar="GB",
            help="The most memory the run may have; nine tenths of the machine's if not given.",
        ),
        click.option(
            "--save-trace",
            type=click.Path(dir_okay=False, writable=True, resolve_path=True, path_type=Path),
            metavar="FILE",
            help="Write a Chrome trace of one forward, for Perfetto.",
        ),
    )
    for option in reversed(options):
        collect = option(collect)
    return collect


def prepare(options: MeasureOptions) -> tuple[RunRequest, Settings]:
    """The request that the options and the workspace's settings ask for. Raises `ConfigError`."""
    from forwardlens.rules.engine import rule_names

    workspace = find_workspace(Path.cwd())
    settings = load_settings(workspace, rule_names())
    entry = resolve_entry(settings, _rebased(options.entry, settings, workspace), workspace)
    return _request(options, entry, workspace), settings


def find_workspace(start: Path) -> Path:
    """The nearest folder from `start` upwards with a pyproject.toml, else `start`."""
    return next((folder for folder in (start, *start.parents) if (folder / "pyproject.toml").is_file()), start)


def _rebased(entry: str | None, settings: Settings, workspace: Path) -> str | None:
    """An ENTRY whose file was named relative to the current folder, as the workspace names it."""
    if entry is None or entry in settings.entries or Path.cwd() == workspace:
        return entry
    file, mark, rest = entry.partition(".py")
    path = Path.cwd() / f"{file}{mark}"
    if not mark or not path.is_file() or not path.is_relative_to(workspace):
        return entry
    return f"{path.relative_to(workspace).as_posix()}{rest}"


def _request(options: MeasureOptions, entry: EntryConfig, workspace: Path) -> RunRequest:
    """The command line goes before the entry's settings."""
    return RunRequest(
        entry=entry.run,
        workspace=workspace,
        target=options.target or entry.target,
        python=options.python or entry.python,
        device=options.device or entry.device,
        iterations=entry.iterations if options.iterations is None else options.iterations,
        warmup=entry.warmup if options.warmup is None else options.warmup,
        backward=options.backward or entry.backward,
        graph_breaks=options.graph_breaks or entry.graph_breaks,
        include=options.include,
        arguments=options.arguments or entry.arguments,
        time_limit=options.time_limit or entry.time_limit,
        memory_limit=entry.memory_bytes if options.memory_limit is None else int(options.memory_limit * 1e9),
        save_trace=None if options.save_trace is None else str(options.save_trace),
    )


@contextmanager
def cancelled_by_interrupt() -> Generator[threading.Event]:
    """An event that Ctrl-C sets, so that the run can end its processes; a second Ctrl-C interrupts at once."""
    cancelled = threading.Event()

    def cancel(number: int, _frame: FrameType | None) -> None:
        cancelled.set()
        signal.signal(number, signal.default_int_handler)

    previous = signal.signal(signal.SIGINT, cancel)
    try:
        yield cancelled
    finally:
        signal.signal(signal.SIGINT, previous)
