"""The language server as an editor starts it, for what is measured from outside."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.lsp.wire import Wire

from forwardlens.lsp.engine import WorkflowEngine
from forwardlens.source.paths import uri_from_path


@dataclass(frozen=True)
class Served:
    """A server over stdio, and the client that speaks to it."""

    wire: Wire
    pid: int

    def open(self, path: Path) -> str:
        """Open a file of the folder; its URI."""
        uri = uri_from_path(str(path))
        text = path.read_text(encoding="utf-8")
        document = {"uri": uri, "languageId": "python", "version": 1, "text": text}
        self.wire.tell("textDocument/didOpen", {"textDocument": document})
        return uri

    def begin_profile(self, uri: str, entry: str) -> int:
        """Ask for a run of an entry; the number of the request."""
        arguments = [{"uri": uri, "entry": entry}]
        return self.wire.begin("workspace/executeCommand", {"command": "forwardlens.profile", "arguments": arguments})

    def profile(self, uri: str, entry: str) -> Any:
        """What the server says of a run when it has ended."""
        number = self.begin_profile(uri, entry)
        self.wire.wait(lambda: number in self.wire.answers)
        return self.wire.result(number)


@contextmanager
def served(folder: Path) -> Generator[Served]:
    """A server whose workspace is `folder`; it ends with the block."""
    server = subprocess.Popen([sys.executable, "-m", "forwardlens.lsp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdin is not None
    assert server.stdout is not None
    wire = Wire(WorkflowEngine())  # not used: the server is another process
    wire.connect(server.stdin.fileno(), server.stdout.fileno(), {uri_from_path(str(folder)): folder.name})
    try:
        yield Served(wire, server.pid)
    finally:
        wire.ask("shutdown", None)
        wire.tell("exit", None)
        server.wait(60)
