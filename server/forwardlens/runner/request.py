"""What a run is asked for, what it says on the way, and how it fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

FailureKind = Literal["usage", "entry", "environment", "cancelled", "crashed", "device"]


@dataclass(frozen=True, slots=True)
class RunRequest:
    """One forward to measure.

    `entry` is an ENTRY of the command line except a configured name (`config.resolve_entry` turns that into one).
    `environment` is added to the run's variables, and `cwd` is where it starts, the workspace if None.
    `overlays` maps absolute paths to unsaved editor text that must run in place of the file.
    `time_limit` is how many seconds one forward may take before it is measured in part.
    `memory_limit` is how many bytes the process may have of its own; most of the machine's memory when None.
    `save_trace` is where the worker writes a Chrome trace of one more forward.
    `iterations` and `warmup` are chosen by the worker when None.
    `graph_breaks` asks Dynamo, after everything else, where it would break the graph of the whole forward.
    """

    entry: str
    workspace: Path
    target: str | None = None
    python: str | None = None
    device: str | None = None
    iterations: int | None = None
    warmup: int | None = None
    backward: bool = False
    graph_breaks: bool = False
    include: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    save_trace: str | None = None
    time_limit: float | None = None
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    cwd: Path | None = None
    memory_limit: int | None = None
    overlays: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Progress:
    """`stage` is a short stable word: `start`, `load`, `warm-up`, `time`, `profile`, `clock`, `graphs`,
    `verify`.

    Two are no steps: the message of `output` is what the user's code printed, that of `warning` is something its user
    should know although the run went well.
    """

    stage: str
    message: str
    fraction: float | None = None


OnProgress = Callable[[Progress], None]


@dataclass
class RunFailedError(Exception):
    """A run that gave no profile, in one sentence for the user.

    `kind`: usage - the request is wrong; entry - the user's code failed; environment - no usable torch or
    interpreter; cancelled; crashed - the process died. `trace` is the user's own traceback without our frames,
    `log` the end of what the run printed.
    """

    kind: FailureKind
    message: str
    file: str | None = None
    line: int | None = None
    trace: str = ""
    log: str = ""

    def __str__(self) -> str:
        return self.message


def warned_once(on_progress: OnProgress) -> OnProgress:
    """Each warning is passed on once: every process of a run has the same ones."""
    told: set[str] = set()

    def tell(step: Progress) -> None:
        if step.stage != "warning" or step.message not in told:
            told.add(step.message)
            on_progress(step)

    return tell
