from __future__ import annotations

import logging
import os
import sys
from typing import BinaryIO

import click


@click.command("server")
@click.option("--stdio", is_flag=True, expose_value=False, hidden=True)  # some editors pass it
def command() -> None:
    """Run the language server on stdin and stdout."""
    stdout = _private_stdout()
    from forwardlens.lsp.engine import WorkflowEngine
    from forwardlens.lsp.server import create_server

    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    create_server(WorkflowEngine()).start_io(sys.stdin.buffer, stdout)


def _private_stdout() -> BinaryIO:
    """The stream to the editor. What anything else prints goes to stderr: one stray word would break the protocol."""
    sys.stdout.flush()
    stream = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return stream
