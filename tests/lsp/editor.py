from __future__ import annotations

import ast
import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, cast

import pytest_asyncio
from lsprotocol import types
from lsprotocol.converters import get_converter
from pytest_lsp import ClientServerConfig, LanguageClient

from forwardlens.source.paths import uri_from_path

from .changes import change_between

PUBLISH = types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS
HEAT = "forwardlens/profileChanged"
FAKE = [sys.executable, str(Path(__file__).with_name("fake_server.py"))]
REAL = [sys.executable, "-m", "forwardlens.lsp"]
_LONGEST_WAIT = 120.0


def measured(expression: str, *, code: str = "{}", **mark: object) -> str:
    """A line of code around an expression that the fake engine measured; see `fake_server.py`."""
    return f"{code.format(expression)}  #$ {json.dumps({'expr': expression, **mark})}\n"


def modern_capabilities() -> types.ClientCapabilities:
    """What a present-day VS Code declares, as far as it concerns us."""
    refresh = {"refreshSupport": True}
    return get_converter().structure(
        {
            "general": {"positionEncodings": ["utf-16"]},
            "window": {
                "workDoneProgress": True,
                "showMessage": {"messageActionItem": {"additionalPropertiesSupport": True}},
            },
            "workspace": {
                "configuration": True,
                "codeLens": refresh,
                "inlayHint": refresh,
                "workspaceEdit": {"documentChanges": True, "changeAnnotationSupport": {"groupsOnLabel": True}},
            },
            "textDocument": {
                "codeLens": {},
                "hover": {"contentFormat": ["markdown", "plaintext"]},
                "inlayHint": {"resolveSupport": {"properties": ["tooltip", "textEdits"]}},
                "publishDiagnostics": {
                    "relatedInformation": True,
                    "codeDescriptionSupport": True,
                    "dataSupport": True,
                },
                "codeAction": {
                    "codeActionLiteralSupport": {
                        "codeActionKind": {"valueSet": ["", "quickfix", "source", "source.fixAll"]}
                    },
                    "isPreferredSupport": True,
                    "disabledSupport": True,
                    "dataSupport": True,
                    "resolveSupport": {"properties": ["edit", "command"]},
                },
            },
        },
        types.ClientCapabilities,
    )


@dataclass
class Editor:
    """A client with one workspace folder, in the words of its user, and what the server sent it unasked."""

    client: LanguageClient
    folder: Path
    server: types.InitializeResult
    heat: dict[str, list[dict[str, Any]]] = field(default_factory=dict[str, list[dict[str, Any]]])
    problems: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    changes: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    refreshed: list[str] = field(default_factory=list[str])
    published: list[types.PublishDiagnosticsParams] = field(default_factory=list[types.PublishDiagnosticsParams])
    _versions: dict[str, int] = field(default_factory=dict[str, int])
    _texts: dict[str, str] = field(default_factory=dict[str, str])

    def set_settings(self, **settings: object) -> None:
        self.client.set_configuration({"forwardlens": settings})

    def uri(self, name: str = "model.py") -> str:
        return uri_from_path(str(self.folder / name))

    def open(self, text: str, name: str = "model.py", *, save: bool = True, uri: str | None = None) -> str:
        """Open a file, by default one that is on disk with the same text."""
        if save:
            (self.folder / name).write_bytes(text.encode())
        uri = uri or self.uri(name)
        self._versions[uri], self._texts[uri] = 1, text
        document = types.TextDocumentItem(uri, "python", 1, text)
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(document))
        return uri

    def close(self, uri: str) -> None:
        del self._versions[uri]
        self.client.text_document_did_close(types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(uri)))

    def close_all(self) -> None:
        for uri in list(self._versions):
            self.close(uri)

    def type(self, uri: str, text: str) -> None:
        change = change_between(self._texts[uri], text, str(self.server.capabilities.position_encoding or "utf-16"))
        self._versions[uri], self._texts[uri] = self._versions[uri] + 1, text
        identity = types.VersionedTextDocumentIdentifier(self._versions[uri], uri)
        self.client.text_document_did_change(types.DidChangeTextDocumentParams(identity, [change]))

    async def command(self, name: str, **arguments: str | None) -> Any:
        given = {key: value for key, value in arguments.items() if value is not None}
        params = types.ExecuteCommandParams(f"forwardlens.{name}", arguments=[given])
        return await within(self.client.workspace_execute_command_async(params))

    async def profile(self, uri: str, *, entry: str | None = "model.py:build", target: str | None = None) -> Any:
        return await self.command("profile", uri=uri, entry=entry, target=target)

    async def lenses(self, uri: str) -> list[types.CodeLens]:
        params = types.CodeLensParams(types.TextDocumentIdentifier(uri))
        return list(await within(self.client.text_document_code_lens_async(params)) or [])

    async def lens_titles(self, uri: str) -> list[tuple[int, str]]:
        lenses = await self.lenses(uri)
        return [(lens.range.start.line, lens.command.title) for lens in lenses if lens.command is not None]

    async def hints(self, uri: str, first: int = 0, last: int = 10_000) -> list[types.InlayHint]:
        params = types.InlayHintParams(types.TextDocumentIdentifier(uri), lines(first, last))
        return list(await within(self.client.text_document_inlay_hint_async(params)) or [])

    async def hint_labels(self, uri: str) -> list[tuple[int, str]]:
        return [(hint.position.line, str(hint.label)) for hint in await self.hints(uri)]

    async def hover(self, uri: str, line: int) -> str | None:
        params = types.HoverParams(types.TextDocumentIdentifier(uri), types.Position(line, 0))
        hover = await within(self.client.text_document_hover_async(params))
        return hover.contents.value if hover and isinstance(hover.contents, types.MarkupContent) else None

    async def actions(self, uri: str, line: int, only: Sequence[str] | None = None) -> list[types.CodeAction]:
        params = types.CodeActionParams(
            types.TextDocumentIdentifier(uri),
            lines(line, line, end=1000),
            types.CodeActionContext(diagnostics=[], only=list(only) if only else None),
        )
        found: Sequence[object] = await within(self.client.text_document_code_action_async(params)) or ()
        return [_code_action(action) for action in found]

    async def action(self, uri: str, line: int, title: str) -> types.CodeAction:
        actions = await self.actions(uri, line)
        return next(action for action in actions if title in action.title)

    async def resolve(self, action: types.CodeAction) -> types.CodeAction:
        return await within(self.client.code_action_resolve_async(action))

    async def applied(self, action: types.CodeAction, text: str) -> str:
        """The text of the one file that an action changes, after it."""
        edit = (await self.resolve(action)).edit
        assert edit is not None
        changes = edit.document_changes or ()
        assert len(changes) == 1
        change = changes[0]
        assert isinstance(change, types.TextDocumentEdit)
        assert change.text_document.version == self._versions[change.text_document.uri]
        return edited(text, [part for part in change.edits if isinstance(part, types.TextEdit)])

    @property
    def messages(self) -> list[str]:
        """What the user was told in messages."""
        return [shown.message for shown in self.client.messages]

    def diagnostics(self, uri: str) -> list[types.Diagnostic]:
        return list(self.client.diagnostics.get(uri, ()))

    async def until(self, condition: Callable[[], bool], method: str = PUBLISH) -> None:
        """Wait for messages of a method until something holds."""
        while not condition():
            await within(cast("Any", self.client).wait_for_notification(method))

    async def settled(self, uri: str) -> None:
        """Everything sent so far has been handled, and everything that followed from it has arrived."""
        await self.lenses(uri)


def _code_action(action: object) -> types.CodeAction:
    """lsprotocol reads an action that has a command as a bare command, with the real one written out as its name."""
    if isinstance(action, types.Command):
        return types.CodeAction(action.title, command=types.Command(**ast.literal_eval(action.command)))
    assert isinstance(action, types.CodeAction)
    return action


async def within(awaitable: Awaitable[Any]) -> Any:
    return await asyncio.wait_for(awaitable, _LONGEST_WAIT)


def lines(first: int, last: int, end: int = 0) -> types.Range:
    return types.Range(types.Position(first, 0), types.Position(last, end))


def edited(text: str, edits: Sequence[types.TextEdit]) -> str:
    """`text` after edits in UTF-16 positions, the way an editor applies them."""
    for edit in sorted(edits, key=lambda edit: (edit.range.start.line, edit.range.start.character), reverse=True):
        start, end = (offset(text, position) for position in (edit.range.start, edit.range.end))
        text = text[:start] + edit.new_text + text[end:]
    return text


def offset(text: str, position: types.Position) -> int:
    starts = [0, *(match.end() for match in re.finditer(r"\r\n|\r|\n", text))]
    start = starts[position.line]
    units = text[start:].encode("utf-16-le")[: 2 * position.character]
    return start + len(units.decode("utf-16-le"))


class StartEditor(Protocol):
    def __call__(
        self,
        capabilities: types.ClientCapabilities | None = ...,
        *,
        options: object = ...,
        command: list[str] = ...,
    ) -> Awaitable[Editor]: ...


@dataclass
class Recorder:
    """Hands what a server sends on its own to the editor of the present test."""

    editor: Editor | None = None

    def listen(self, client: Any) -> None:
        """`client` is a `LanguageClient`, whose decorators have no types."""

        @client.feature(HEAT)
        def heat(params: Any) -> None:
            if self.editor:
                self.editor.heat[params.uri] = [_plain(line) for line in params.lines]

        @client.feature("forwardlens/problem")
        def problem(params: Any) -> None:
            if self.editor:
                self.editor.problems.append((params.kind, params.message))

        @client.feature("forwardlens/runChanged")
        def changed(params: Any) -> None:
            if self.editor:
                self.editor.changes.append(_plain(params))

        @client.feature(types.WORKSPACE_CODE_LENS_REFRESH)
        def lens_refresh(params: None) -> None:
            if self.editor:
                self.editor.refreshed.append("lens")

        @client.feature(types.WORKSPACE_INLAY_HINT_REFRESH)
        def hint_refresh(params: None) -> None:
            if self.editor:
                self.editor.refreshed.append("hint")

        features = client.protocol.fm.features
        remember = features[PUBLISH]

        def publish(params: types.PublishDiagnosticsParams) -> None:
            if self.editor:
                self.editor.published.append(params)
            remember(params)

        features[PUBLISH] = publish


async def launch(
    command: list[str],
    capabilities: types.ClientCapabilities,
    options: object = None,
    folders: Sequence[Path] = (),
) -> tuple[LanguageClient, Recorder, types.InitializeResult]:
    client = await ClientServerConfig(server_command=command).start()
    assert isinstance(client, LanguageClient)
    client.set_configuration({"forwardlens": {}})
    recorder = Recorder()
    recorder.listen(client)
    params = types.InitializeParams(
        capabilities=capabilities,
        workspace_folders=[_folder(folder) for folder in folders],
        initialization_options=cast("Any", options),
    )
    return client, recorder, await within(client.initialize_session(params))


@pytest_asyncio.fixture(loop_scope="module")
async def start(tmp_path: Path) -> AsyncIterator[StartEditor]:
    """Start a server for this test alone; it ends with the test."""
    clients: list[LanguageClient] = []

    async def start_editor(
        capabilities: types.ClientCapabilities | None = None,
        *,
        options: object = None,
        command: list[str] = FAKE,
    ) -> Editor:
        folder = tmp_path / "work space"
        folder.mkdir()
        chosen = modern_capabilities() if capabilities is None else capabilities
        client, recorder, result = await launch(command, chosen, options, [folder])
        clients.append(client)
        recorder.editor = Editor(client, folder, result)
        return recorder.editor

    yield start_editor
    for client in clients:
        await within(client.shutdown_session())
        await client.stop()


Shared = tuple[LanguageClient, Recorder, types.InitializeResult]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared() -> AsyncIterator[Shared]:
    """One server for the tests of a module that need nothing special of it."""
    launched = await launch(FAKE, modern_capabilities())
    yield launched
    await within(launched[0].shutdown_session())
    await launched[0].stop()


@pytest_asyncio.fixture(loop_scope="module")
async def editor(shared: Shared, tmp_path: Path) -> AsyncIterator[Editor]:
    """A modern client of the shared server, with a workspace folder and a memory of its own."""
    client, recorder, result = shared
    folder = tmp_path / "work space"
    folder.mkdir()
    client.workspace_did_change_workspace_folders(_folders_changed(added=[folder]))
    client.progress_reports.clear()
    client.log_messages.clear()
    client.messages.clear()
    client.set_configuration({"forwardlens": {}})
    recorder.editor = found = Editor(client, folder, result)
    yield found
    recorder.editor = None
    await found.command("cancel")
    await found.command("clear")
    found.close_all()
    client.workspace_did_change_workspace_folders(_folders_changed(removed=[folder]))


def _folder(folder: Path) -> types.WorkspaceFolder:
    return types.WorkspaceFolder(uri_from_path(str(folder)), folder.name)


def _folders_changed(added: Sequence[Path] = (), removed: Sequence[Path] = ()) -> types.DidChangeWorkspaceFoldersParams:
    return types.DidChangeWorkspaceFoldersParams(
        types.WorkspaceFoldersChangeEvent([_folder(f) for f in added], [_folder(f) for f in removed])
    )


def _plain(value: Any) -> Any:
    """pygls gives unknown messages as nested named tuples."""
    if hasattr(value, "_asdict"):
        return {key: _plain(item) for key, item in value._asdict().items()}
    return value
