"""Two windows with a workspace each and one interpreter: what happens in one is nothing to the other."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.faults.processes import wait_until_gone, workers
from tests.faults.programs import GOOD
from tests.faults.test_faults import CANCEL_S, END_S, only_when_asked, until
from tests.lsp.editor import REAL, Editor, launch, modern_capabilities, within

pytestmark = [pytest.mark.asyncio, pytest.mark.torch]

# Goes on when the file `go` is there, so that the test says what happens meanwhile.
WAITING = GOOD.text.replace(
    "def build():\n",
    """\
def build():
    import pathlib, time
    pathlib.Path("started").touch()
    while not pathlib.Path("go").exists():
        time.sleep(0.01)
""",
)
COSTS = next(number for number, line in enumerate(WAITING.splitlines()) if line.endswith("# costs"))


@dataclass(frozen=True)
class Window:
    """An editor with one open file, and the variable that marks what its server starts."""

    editor: Editor
    uri: str
    mark: str

    def profile(self) -> asyncio.Task[Any]:
        return asyncio.create_task(self.editor.profile(self.uri))

    async def started(self) -> None:
        await until((self.editor.folder / "started").exists)

    def go(self) -> None:
        (self.editor.folder / "go").touch()

    def finds(self) -> bool:
        return ("embedding-in-loop", COSTS) in [
            (diagnostic.code, diagnostic.range.start.line) for diagnostic in self.editor.diagnostics(self.uri)
        ]


@asynccontextmanager
async def window(folder: Path) -> AsyncGenerator[Window]:
    """A server of its own; everything that it started has ended when it has."""
    folder.mkdir()
    name, value = "FORWARDLENS_TEST_WINDOW", f"{folder.name}-{os.getpid()}"
    os.environ[name] = value
    client, recorder, result = await launch(REAL, modern_capabilities(), None, [folder])
    del os.environ[name]
    recorder.editor = editor = Editor(client, folder, result)
    try:
        yield Window(editor, editor.open(WAITING), f"{name}={value}")
    finally:
        await within(client.shutdown_session())
        await client.stop()
    assert await asyncio.to_thread(wait_until_gone, f"{name}={value}", END_S, spares=True) == set()


async def test_a_run_that_is_cancelled_in_one_window_leaves_that_of_the_other(tmp_path: Path) -> None:
    async with window(tmp_path / "left") as left, window(tmp_path / "right") as right:
        cancelled, kept = left.profile(), right.profile()
        await left.started()
        await right.started()
        beside = workers(right.mark)

        assert await left.editor.command("cancel")
        assert (await cancelled)["status"] == "cancelled"
        assert await asyncio.to_thread(wait_until_gone, left.mark, CANCEL_S) == set()
        assert workers(right.mark) == beside
        right.go()
        assert (await kept)["status"] == "done"
        assert (left.finds(), right.finds()) == (False, True)

        left.go()
        assert (await left.profile())["status"] == "done"
        assert (left.finds(), right.finds()) == (True, True)
        assert left.editor.messages == right.editor.messages == []


@only_when_asked
async def test_a_window_that_is_closed_during_its_run_leaves_that_of_the_other(tmp_path: Path) -> None:
    async with window(tmp_path / "right") as right:
        kept = right.profile()
        async with window(tmp_path / "left") as left:
            ended = left.profile()
            await left.started()
            await right.started()
            beside = workers(right.mark)
        await asyncio.gather(ended, return_exceptions=True)
        assert workers(right.mark) == beside
        right.go()
        assert (await kept)["status"] == "done"
        assert right.finds()
