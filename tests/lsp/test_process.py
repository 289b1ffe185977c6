"""The server as a process: how it starts and how it ends."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

import pytest

from forwardlens.source.paths import uri_from_path

from .editor import FAKE

STARTED = """
import sys
from forwardlens.lsp.engine import WorkflowEngine
from forwardlens.lsp.server import create_server
create_server(WorkflowEngine())
print(*{"click", "libcst", "numpy", "rich", "torch"} & set(sys.modules))
"""
INITIALIZE: dict[str, Any] = {"processId": None, "rootUri": None, "capabilities": {}}
BLOCKED = """\
from torch import nn


def build():
    return nn.Linear(1, 1), (1,)


#! {"block": "profile"}
"""


def test_starting_imports_nothing_heavy() -> None:
    done = subprocess.run([sys.executable, "-c", STARTED], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_it_ends_when_its_input_does() -> None:
    command = [sys.executable, "-m", "forwardlens.lsp"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (1, b"")


def test_prints_do_not_get_between_the_messages(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(BLOCKED.replace('{"block": "profile"}', '{"print": true}'))
    with subprocess.Popen(FAKE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(_message("initialize", INITIALIZE, 1))
        server.stdin.write(_message("workspace/executeCommand", _profile_command(tmp_path), 2))
        server.stdin.flush()
        while _read_message(server.stdout).get("id") != 2:
            pass
        _, log = server.communicate(_message("shutdown", None, 3) + _message("exit", None, None), timeout=60)
    assert all(noise in log for noise in (b"noise\n", b"more noise\n", b"noise of a child"))


@pytest.mark.parametrize("farewell", [["shutdown", "exit"], ["exit"], []], ids=["polite", "abrupt", "gone"])
def test_no_run_outlives_the_server(tmp_path: Path, farewell: list[str]) -> None:
    (tmp_path / "model.py").write_text(BLOCKED)
    with subprocess.Popen(FAKE, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as server:
        assert server.stdin is not None
        assert server.stderr is not None
        server.stdin.write(_message("initialize", INITIALIZE, 1))
        server.stdin.write(_message("workspace/executeCommand", _profile_command(tmp_path), 2))
        server.stdin.flush()
        assert any(b"blocked" in line for line in server.stderr)
        for method in farewell:
            server.stdin.write(_message(method, None, 9 if method == "shutdown" else None))
        server.stdin.close()
        server.stderr.close()
        assert server.wait(timeout=60) == (0 if "shutdown" in farewell else 1)
    assert (tmp_path / "stopped").exists()


def _profile_command(folder: Path) -> dict[str, Any]:
    return {"command": "forwardlens.profile", "arguments": [{"uri": uri_from_path(str(folder / "model.py"))}]}


def _read_message(stream: IO[bytes]) -> dict[str, Any]:
    """The next message, of a stream that must hold nothing else."""
    length = stream.readline()
    assert length.startswith(b"Content-Length: "), length
    while stream.readline().strip():
        pass
    return json.loads(stream.read(int(length.split(b":")[1])))


def _message(method: str, params: Any, number: int | None) -> bytes:
    body: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
    if number is not None:
        body["id"] = number
    text = json.dumps(body).encode()
    return b"Content-Length: %d\r\n\r\n%s" % (len(text), text)
