"""The language server: a shell around the session. Every LSP method has its own module under `handlers`."""

from __future__ import annotations

import asyncio
import importlib
import logging
import math
import pkgutil
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from lsprotocol import types
from pygls.exceptions import FeatureRequestError, JsonRpcException
from pygls.lsp.server import LanguageServer

from forwardlens import __version__
from forwardlens.lsp import handlers
from forwardlens.lsp.client import SECTION, ClientFeatures, ClientSettings, parse_settings
from forwardlens.lsp.convert import Encoding
from forwardlens.lsp.engine import Engine
from forwardlens.lsp.messages import sentence
from forwardlens.lsp.protocol import Protocol
from forwardlens.lsp.publish import HeatLine, Publisher
from forwardlens.lsp.session import Session
from forwardlens.runner.request import Progress, RunFailedError
from forwardlens.source.callers import OutlineCache
from forwardlens.source.paths import is_inside, path_from_uri, path_key

PROFILE_CHANGED = "forwardlens/profileChanged"
PROBLEM = "forwardlens/problem"
RUN_CHANGED = "forwardlens/runChanged"
LOGGED = {"output": types.MessageType.Log, "warning": types.MessageType.Warning}
"""The stages of a run's `Progress` that are no steps of it."""
_LONGEST_STOP = 2.0
"""Seconds that cancelled work may take to end when the server does."""
_PREPARE_AGAIN_S = 60.0
"""A user who reads a file for longer than this keeps its spare worker from ending."""

T = TypeVar("T")

logger = logging.getLogger(__name__)


class RequestFailedError(JsonRpcException):
    """A request that cannot be answered, for a reason the user can understand."""

    CODE = types.LSPErrorCodes.RequestFailed.value
    MESSAGE = "Request failed"


class ContentModifiedError(JsonRpcException):
    """The text is no longer what the request speaks about."""

    CODE = types.LSPErrorCodes.ContentModified.value
    MESSAGE = "Content modified"


class ForwardLensServer(LanguageServer):
    """Holds the session and speaks to the client."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(  # pyright: ignore[reportUnknownMemberType]
            "forwardlens",
            __version__,
            text_document_sync_kind=types.TextDocumentSyncKind.Incremental,
            protocol_cls=Protocol,
        )
        self.engine = engine
        self.session = Session()
        self.features = ClientFeatures()
        self.publisher = Publisher(
            self.session,
            lambda: self.features,
            lambda: self.encoding,
            self.text_document_publish_diagnostics,
            self._send_heat,
        )
        self.outlines = OutlineCache()
        self._prepared: dict[str, float] = {}
        self._preparing: asyncio.Task[None] | None = None
        self._threads: list[threading.Thread] = []

    @property
    def encoding(self) -> Encoding:
        """The unit of columns that was agreed on with the client."""
        return self.workspace.position_encoding or types.PositionEncodingKind.Utf16

    def folder_of(self, path: str) -> Path:
        """The innermost workspace folder of a file, else the folder it lies in."""
        known = (path_from_uri(folder.uri) for folder in self.workspace.folders.values())
        around = [folder for folder in known if folder is not None and is_inside(path, folder)]
        root = self.workspace.root_path
        if not around and root and is_inside(path, root):
            around = [root]
        return Path(max(around, key=len)) if around else Path(path).parent

    async def settings_for(self, uri: str) -> ClientSettings:
        """The user's settings that apply to a file. Raises `RunFailedError` for one of a wrong type."""
        if not self.features.configuration:
            return self.session.initial_settings
        item = types.ConfigurationItem(scope_uri=uri, section=SECTION)
        try:
            values = await self.workspace_configuration_async(types.ConfigurationParams([item]))
        except JsonRpcException:
            logger.warning("the client could not say its settings; those of the start are used")
            return self.session.initial_settings
        return parse_settings(values[0] if values else None)

    def publish(self, *, refresh: bool = False) -> None:
        """Show the session as it is now. `refresh` also makes the client ask again for lenses and hints."""
        self.publisher.publish()
        if refresh and self.features.lens_refresh:
            self.workspace_code_lens_refresh(None)
        if refresh and self.features.hint_refresh:
            self.workspace_inlay_hint_refresh(None)

    def _send_heat(self, uri: str, lines: tuple[HeatLine, ...]) -> None:
        self.protocol.notify(PROFILE_CHANGED, {"uri": uri, "lines": list(lines)})

    def tell_run(self, change: Mapping[str, object]) -> None:
        """What a run is doing, for clients that show it: `uri` is the file it was asked for, the rest what is new."""
        if self.features.shows_problems:
            self.protocol.notify(RUN_CHANGED, dict(change))

    def show_error(self, error: RunFailedError, uri: str | None = None) -> None:
        """One sentence where the user looks, everything else in the log. `uri` is the file it is about.

        A client with something better than a message shows the sentence itself: it knows what helps against a `kind`.
        """
        message = sentence(error.message)
        details = "\n".join(part for part in (message, error.trace, error.log) if part)
        self.window_log_message(types.LogMessageParams(types.MessageType.Error, details))
        if self.features.shows_problems:
            self.protocol.notify(PROBLEM, {"kind": error.kind, "message": message, "uri": uri})
        else:
            self.window_show_message(types.ShowMessageParams(types.MessageType.Error, message))

    def log_step(self, step: Progress) -> None:
        """What the user's code prints, and warns of at its end, goes where the editor keeps logs."""
        self.window_log_message(types.LogMessageParams(LOGGED[step.stage], step.message.rstrip("\n")))

    def prepare_run(self, uri: str, path: str) -> None:
        """Start what a run of this file will need, so that the command need not wait for it."""
        folder, now = self.folder_of(path), time.monotonic()
        key = path_key(str(folder))
        if self.session.trusted and now - self._prepared.get(key, -math.inf) > _PREPARE_AGAIN_S:
            self._prepared[key] = now
            self._preparing = asyncio.get_running_loop().create_task(self._prepare(uri, folder))

    async def _prepare(self, uri: str, folder: Path) -> None:
        # Whatever is wrong will be told by the run.
        with suppress(RunFailedError):
            settings = await self.settings_for(uri)
            selected = None if settings.selected is None else settings.selected.path
            python = settings.interpreter or selected
            await self.in_thread(lambda: self.engine.prepare(python, folder))

    async def in_thread(self, work: Callable[[], T]) -> T:
        """The result of `work`, done beside the event loop. Anything but a `RunFailedError` becomes one."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def deliver(action: Callable[[], None]) -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(lambda: None if future.done() else action())

        def run() -> None:
            try:
                result = work()
            except Exception as error:
                failure = _as_run_failure(error)
                deliver(lambda: future.set_exception(failure))
            else:
                deliver(lambda: future.set_result(result))

        # A daemon, so that one that hangs cannot keep the server's process alive.
        thread = threading.Thread(target=run, name="forwardlens-work", daemon=True)
        self._threads = [other for other in self._threads if other.is_alive()] + [thread]
        thread.start()
        return await future

    def report_server_error(self, error: Exception, source: type[Any]) -> None:
        """To the log. A stray exception is ours to fix and no reason to interrupt the user."""
        if source is not FeatureRequestError:
            logger.error("%s: %s", source.__name__, error)

    def shutdown(self) -> None:
        """Called at the end, however it comes: no run may outlive the server."""
        self.session.cancel()
        for thread in self._threads:
            thread.join(_LONGEST_STOP)
        super().shutdown()


def _as_run_failure(error: Exception) -> RunFailedError:
    if isinstance(error, RunFailedError):
        return error
    logger.error("a run failed inside ForwardLens", exc_info=error)
    return RunFailedError(
        "crashed", f"ForwardLens itself failed with {type(error).__name__}: {error}; its log has the details."
    )


def create_server(engine: Engine) -> ForwardLensServer:
    """A server with every handler registered, ready for `start_io`."""
    server = ForwardLensServer(engine)
    for info in pkgutil.iter_modules(handlers.__path__):
        importlib.import_module(f"{handlers.__name__}.{info.name}").register(server)
    return server
