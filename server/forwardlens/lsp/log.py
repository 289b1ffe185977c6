"""What the server writes to standard error, which editors show as its log."""

from __future__ import annotations

import logging
import sys


def configure_logging() -> None:
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    # At INFO it writes out every message that is sent.
    logging.getLogger("pygls").setLevel(logging.WARNING)
    logging.getLogger("pygls.protocol.json_rpc").addFilter(_is_unexpected)


def _is_unexpected(record: logging.LogRecord) -> bool:
    """Drop the tracebacks of errors that are ordinary answers."""
    from forwardlens.lsp.server import ContentModifiedError, RequestFailedError

    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, ContentModifiedError | RequestFailedError)
