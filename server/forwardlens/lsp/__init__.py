"""The language server."""

from __future__ import annotations

import gc
import os
import sys
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from forwardlens.lsp.engine import Engine


def main(engine: Engine | None = None) -> None:
    """Serve on standard input and output until the client leaves; exits with 1 if it left without a word."""
    # Before anything else is imported: whatever prints from now on must not end up between the messages.
    stdin, stdout = _take_standard_streams()

    # The lenses of 5,000 lines are some 8,000 objects, gone with the answer. With Python's own thresholds they made it
    # look through all that the server holds, some 300 ms for one answer of forty (tests/benchmarks/server_latency.py).
    # Before the imports, whose objects stay: collecting among them took a tenth of the server's start.
    gc.set_threshold(100_000, 20, 20)

    from forwardlens.lsp.engine import WorkflowEngine
    from forwardlens.lsp.log import configure_logging
    from forwardlens.lsp.server import create_server

    configure_logging()
    server = create_server(engine or WorkflowEngine())
    server.start_io(stdin, stdout)
    sys.exit(0 if server.session.shut_down else 1)


def _take_standard_streams() -> tuple[BinaryIO, BinaryIO]:
    """The client's streams, private to us: prints go to standard error and children inherit an empty input."""
    stdin, stdout = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return stdin, stdout
