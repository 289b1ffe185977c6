"""Whatever a program does to its process: the server lives, the user is told once and where, nothing is left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pytest
import pytest_asyncio
from lsprotocol import types
from tests.faults.processes import wait_until_gone, workers
from tests.faults.programs import FAULTS, GOOD, SETTINGS, Fault
from tests.lsp.editor import REAL, Editor, launch, modern_capabilities, within

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.torch,
    pytest.mark.skipif(sys.platform == "win32", reason="the programs fork and send signals"),
]
# A server that is told to cancel has a second for the whole tree; a busy machine needs some to look.
CANCEL_S, END_S = 1.0, 5.0
WARNING = types.MessageType.Warning
_BY_NAME = {fault.name: fault for fault in FAULTS}
# Every way to end is among these. The rest take minutes on a busy machine: FORWARDLENS_FAULTS=all runs them too.
_ALWAYS = (
    "segfault",
    "os._exit",
    "SystemExit",
    "exception in import",
    "exception in forward",
    "exception in atexit",
    "ignores SIGTERM",
)
_ALL = os.environ.get("FORWARDLENS_FAULTS") == "all"
only_when_asked = pytest.mark.skipif(not _ALL, reason="FORWARDLENS_FAULTS=all runs it")
CHOSEN = FAULTS if _ALL else tuple(_BY_NAME[name] for name in _ALWAYS)


@dataclass(frozen=True)
class Place:
    """One server and the variable that marks what it starts."""

    editor: Editor
    mark: str


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Place]:
    folder = tmp_path_factory.mktemp("faults")
    name, value = "FORWARDLENS_TEST_FAULTS", f"server-{folder.name}-{os.getpid()}"
    os.environ[name] = value
    client, recorder, result = await launch(REAL, modern_capabilities(), None, [folder])
    del os.environ[name]
    recorder.editor = editor = Editor(client, folder, result)
    yield Place(editor, f"{name}={value}")
    await within(client.shutdown_session())
    await client.stop()


@pytest.mark.parametrize("fault", CHOSEN, ids=lambda fault: fault.name)
async def test_a_program_harms_nothing(fault: Fault, place: Place, tmp_path: Path) -> None:
    in_editor, in_shell = tmp_path / "editor", tmp_path / "shell"
    for folder in (in_editor, in_shell):
        folder.mkdir()
        write(folder, fault)
    # Side by side, because each mostly waits for torch to be imported.
    shell = asyncio.create_task(asyncio.to_thread(check_command, in_shell, fault))
    try:
        await check_server(place, in_editor, fault)
    finally:
        await shell


def write(folder: Path, fault: Fault) -> None:
    (folder / "model.py").write_text(fault.text, encoding="utf-8")
    (folder / "pyproject.toml").write_text(SETTINGS.format(memory_limit=fault.memory_limit), encoding="utf-8")


async def check_server(place: Place, folder: Path, fault: Fault) -> None:
    editor = Editor(place.editor.client, folder, place.editor.server)
    client = editor.client
    client.messages.clear()
    client.log_messages.clear()
    client.progress_reports.clear()
    folders = [types.WorkspaceFolder(editor.uri("")[:-1], folder.name)]
    client.workspace_did_change_workspace_folders(
        types.DidChangeWorkspaceFoldersParams(types.WorkspaceFoldersChangeEvent(folders, []))
    )
    uri = editor.open(fault.text)

    summary = await profile(place, editor, uri, fault)

    diagnostics = editor.diagnostics(uri)
    logged = "\n".join(message.message for message in client.log_messages)
    assert summary["status"] == fault.ends, (summary, logged)
    if fault.ends == "failed":
        assert fault.says
        (shown,) = diagnostics
        assert (shown.code, shown.range.start.line + 1) == ("run-failed", fault.line("here")), shown
        assert fault.says in shown.message
        assert "\n" not in shown.message
        assert [message for message in editor.messages if fault.says in message] == editor.messages
        assert len(editor.messages) == 1
    if fault.ends == "done":
        assert "embedding-in-loop" in [d.code for d in diagnostics if d.range.start.line + 1 == fault.line("costs")]
        assert editor.messages == []
        assert len(logged) < 1_000_000
        if fault.says:
            told = f"model.py:{fault.line('here')}: " if "# here" in fault.text else ""
            await until_logged(editor, fault.says, told)
            assert len([m for m in client.log_messages if m.type == WARNING and fault.says in m.message]) <= 1
    assert wait_until_gone(place.mark, END_S) == set()

    if fault.ends != "done":
        editor.type(uri, GOOD.text)
        assert (await editor.profile(uri, entry=None))["status"] == "done"
        assert "run-failed" not in [diagnostic.code for diagnostic in editor.diagnostics(uri)]
    editor.close(uri)
    await editor.command("clear")


async def profile(place: Place, editor: Editor, uri: str, fault: Fault) -> Any:
    if fault.ends != "cancelled":
        return await editor.profile(uri, entry=None)
    run = asyncio.create_task(editor.profile(uri, entry=None))
    await until(lambda: (editor.folder / "started").exists())
    if "# here" in fault.text:
        where = f"model.py:{fault.line('here')}"
        near = f"model.py:{fault.line('here') - 1}"
        await until(lambda: any(where in step or near in step for step in progress_messages(editor)))
    assert workers(place.mark)
    assert await editor.command("cancel", uri=uri)
    assert await asyncio.to_thread(wait_until_gone, place.mark, CANCEL_S) == set()
    return await run


def progress_messages(editor: Editor) -> list[str]:
    reports = editor.client.progress_reports.values()
    return [str(getattr(step, "message", "")) for steps in reports for step in steps]


async def until(condition: Any) -> None:
    async def wait() -> None:
        while not condition():
            await asyncio.sleep(0.05)

    await within(wait())


async def until_logged(editor: Editor, said: str, place: str) -> None:
    await until(lambda: any(said in m.message and place in m.message for m in editor.client.log_messages))


def check_command(folder: Path, fault: Fault) -> None:
    """The same program under `forwardlens profile`."""
    value = f"shell-{folder.parent.name}-{os.getpid()}"
    mark = f"FORWARDLENS_TEST_FAULTS={value}"
    with subprocess.Popen(
        [sys.executable, "-m", "forwardlens", "profile", "--no-verify"],
        cwd=folder,
        env={**os.environ, "FORWARDLENS_TEST_FAULTS": value},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        if fault.ends == "cancelled":
            interrupt_when_started(process, folder)
        out, err = process.communicate(timeout=120)
    assert wait_until_gone(mark, END_S) == set()
    assert "Traceback" not in err or fault.ends == "failed"
    first = next(iter(err.splitlines()), "")
    if fault.ends == "cancelled":
        assert (process.returncode, out) == (130, ""), err
        assert "cancelled" in first
    elif fault.ends == "failed":
        assert fault.says
        assert (process.returncode, out) == (3, ""), err
        assert first.startswith(f"Error: model.py:{fault.line('here')}: "), err
        assert fault.says in first
    else:
        assert process.returncode == 0, err
        assert f":{fault.line('costs')}:" in out
        if "# here" in fault.text:
            assert f"model.py:{fault.line('here')}: " in out + err
            assert fault.says
            assert fault.says in out + err


def interrupt_when_started(process: subprocess.Popen[Any], folder: Path) -> None:
    while not (folder / "started").exists():
        assert process.poll() is None, _rest(process.stderr)
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)


def _rest(stream: IO[str] | None) -> str:
    return "" if stream is None else stream.read()
