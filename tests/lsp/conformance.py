"""What a server may send to a client, by the LSP specification: nothing that the client did not say it can take.

`violations` looks at everything that one connection carried. Capabilities, parameters and results are plain JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import cattrs
from lsprotocol import types
from lsprotocol.converters import get_converter

Json = Any
Kind = Literal["sent", "request", "notification", "result", "error"]

_CONVERTER = get_converter(cattrs.Converter(forbid_extra_keys=True))

OURS = {
    "forwardlens/profileChanged": None,
    "forwardlens/problem": "showsProblems",
    "forwardlens/runChanged": "showsProblems",
}
"""The notifications beside the protocol's own, and the initialization option that asks for each."""

_REQUESTS = {
    "client/registerCapability": None,
    "window/showMessageRequest": None,
    "window/showDocument": "window.showDocument.support",
    "window/workDoneProgress/create": "window.workDoneProgress",
    "workspace/applyEdit": "workspace.applyEdit",
    "workspace/codeLens/refresh": "workspace.codeLens.refreshSupport",
    "workspace/configuration": "workspace.configuration",
    "workspace/diagnostic/refresh": "workspace.diagnostics.refreshSupport",
    "workspace/inlayHint/refresh": "workspace.inlayHint.refreshSupport",
    "workspace/workspaceFolders": "workspace.workspaceFolders",
}
"""What a server may ask for, and the capability that allows it."""
_NOTIFICATIONS = {"$/progress", "window/logMessage", "window/showMessage", "textDocument/publishDiagnostics"}
_BEFORE_INITIALIZED = {"window/logMessage", "window/showMessage", "window/showMessageRequest", "telemetry/event"}


@dataclass(frozen=True, slots=True)
class Message:
    """One message; `sent` ones come from the client. `body` is what is asked, told or answered, or the error."""

    kind: Kind
    method: str
    body: Json
    whole: Mapping[str, Json]


@dataclass
class Client:
    """What the client declared, what the server answered to that, and what is open."""

    capabilities: Mapping[str, Json]
    options: Mapping[str, Json]
    server: Mapping[str, Json] = field(default_factory=dict[str, Json])
    versions: dict[str, int] = field(default_factory=dict[str, int])
    tokens: dict[object, str] = field(default_factory=dict[object, str])
    initialized: bool = False
    shut_down: bool = False

    def can(self, path: str) -> Json:
        return at(self.capabilities, path)

    def lists(self, path: str, item: Json) -> bool:
        return item in (self.can(path) or ())


def at(value: Json, path: str) -> Json:
    for name in path.split("."):
        value = cast("Json", value).get(name) if isinstance(value, Mapping) else None
    return value


def violations(capabilities: Mapping[str, Json], options: Mapping[str, Json], log: Sequence[Message]) -> list[str]:
    """Whatever of what the server sent is outside of what the client declared or of the protocol."""
    client, found = Client(capabilities, options), list[str]()
    for message in log:
        if message.kind == "sent":
            _follow(client, message)
        else:
            found += [f"{message.method}: {problem}" for problem in _problems(client, message)]
    return found


def _follow(client: Client, message: Message) -> None:
    document = at(message.body, "textDocument")
    if message.method in ("textDocument/didOpen", "textDocument/didChange"):
        client.versions[document["uri"]] = document["version"]
    elif message.method == "textDocument/didClose":
        del client.versions[document["uri"]]
    for argument in at(message.body, "arguments") or ():
        if "workDoneToken" in argument:
            client.tokens[argument["workDoneToken"]] = "created"


def _problems(client: Client, message: Message) -> Iterator[str]:
    if client.shut_down:
        yield "sent after the shutdown"
    if not client.initialized and message.kind in ("request", "notification"):
        yield from [] if message.method in _BEFORE_INITIALIZED else ["sent before the answer to initialize"]
    yield from _shape(message)
    if message.kind == "request":
        yield from _request(client, message)
    elif message.kind == "notification":
        yield from _notification(client, message)
    elif message.kind == "result" and message.method in _RESULTS:
        yield from _RESULTS[message.method](client, message.body)


def _shape(message: Message) -> Iterator[str]:
    """Whether the message is one of the protocol, member by member."""
    whole = message.whole
    if whole.get("jsonrpc") != "2.0":
        yield "no JSON-RPC 2.0"
    if "params" in whole and not isinstance(whole["params"], dict | list):
        yield "params that are no object"
    if message.kind == "error":
        if not (isinstance(at(whole, "error.code"), int) and isinstance(at(whole, "error.message"), str)):
            yield f"no error of the protocol: {whole['error']}"
        return
    if message.kind == "result" and "result" not in whole:
        yield "an answer without a result"
    if message.method not in types.METHOD_TO_TYPES:
        return
    request, response, *_ = types.METHOD_TO_TYPES[message.method]
    yield from _differences(whole, response if message.kind == "result" else request)
    if message.method == types.TEXT_DOCUMENT_CODE_ACTION:
        for action in message.body or ():
            yield from _differences(action, types.Command if _is_command(action) else types.CodeAction)


def _differences(value: Json, kind: Json) -> Iterator[str]:
    if kind is types.CodeActionResponse:
        # lsprotocol reads an action with a command as a command; each action is looked at for itself.
        value = {**value, "result": None}
    try:
        again = _CONVERTER.unstructure(_CONVERTER.structure(value, kind))
    except Exception as error:
        yield f"no {kind.__name__}: {cattrs.transform_error(error)} in {value}"
        return
    if _without_null(again) != _without_null(value):
        yield f"no {kind.__name__}: {value} was read as {again}"


def _without_null(value: Json) -> Json:
    if isinstance(value, dict):
        members = cast("dict[str, Json]", value)
        return {name: _without_null(member) for name, member in members.items() if member is not None}
    return [_without_null(member) for member in cast("list[Json]", value)] if isinstance(value, list) else value


def _is_command(action: Json) -> bool:
    return isinstance(action.get("command"), str)


# What the server begins itself.


def _request(client: Client, message: Message) -> Iterator[str]:
    method, params = message.method, message.body
    if method not in _REQUESTS:
        yield "a request that no client knows"
        return
    needed = _REQUESTS[method]
    if needed is not None and client.can(needed) is not True:
        yield f"asked without {needed}"
    if method == "client/registerCapability":
        for registration in params["registrations"]:
            path = f"{registration['method'].replace('/', '.')}.dynamicRegistration"
            if client.can(path) is not True:
                yield f"registered without {path}"
    elif method == "window/workDoneProgress/create":
        client.tokens[params["token"]] = "created"
    elif method == "workspace/applyEdit":
        yield from _edit(client, params["edit"])


def _notification(client: Client, message: Message) -> Iterator[str]:
    method, params = message.method, message.body
    if method in OURS:
        option = OURS[method]
        if option is not None and client.options.get(option) is not True:
            yield f"told without the option {option}"
    elif method not in _NOTIFICATIONS:
        yield "a notification that no client knows"
    elif method == "$/progress":
        yield from _progress(client, params)
    elif method == "textDocument/publishDiagnostics":
        if params.get("version") is not None and not client.can("textDocument.publishDiagnostics.versionSupport"):
            yield "version without versionSupport"
        for diagnostic in params["diagnostics"]:
            yield from _diagnostic(client, diagnostic)


def _progress(client: Client, params: Json) -> Iterator[str]:
    token, kind = params["token"], params["value"]["kind"]
    before = client.tokens.get(token)
    if before is None:
        yield f"progress under a token that nobody made: {token}"
    elif (kind == "begin") != (before == "created") or before == "end":
        yield f"progress '{kind}' after '{before}'"
    client.tokens[token] = kind


def _diagnostic(client: Client, diagnostic: Json) -> Iterator[str]:
    declared = "textDocument.publishDiagnostics"
    yield from _undeclared(
        diagnostic,
        {
            "relatedInformation": client.can(f"{declared}.relatedInformation"),
            "codeDescription": client.can(f"{declared}.codeDescriptionSupport"),
            "data": client.can(f"{declared}.dataSupport"),
        },
    )
    for tag in diagnostic.get("tags") or ():
        if not client.lists(f"{declared}.tagSupport.valueSet", tag):
            yield f"the tag {tag} without tagSupport"
    if not isinstance(diagnostic["message"], str):
        yield "a message that is no text"


def _undeclared(value: Json, allowed: Mapping[str, Json]) -> Iterator[str]:
    for name, declared in allowed.items():
        if value.get(name) is not None and not declared:
            yield f"{name} was not declared"


# What the server answers.


def _initialize(client: Client, result: Json) -> Iterator[str]:
    client.initialized, client.server = True, result["capabilities"]
    encoding = client.server.get("positionEncoding") or "utf-16"
    if encoding not in (client.can("general.positionEncodings") or ["utf-16"]):
        yield f"the position encoding {encoding} was not offered"
    literals = client.can("textDocument.codeAction.codeActionLiteralSupport")
    if isinstance(client.server.get("codeActionProvider"), dict) and not literals:
        yield "options for code actions without codeActionLiteralSupport"


def _shutdown(client: Client, _result: Json) -> Iterator[str]:
    client.shut_down = True
    yield from ()


def _command(client: Client, command: Json) -> Iterator[str]:
    if command["command"] not in (at(client.server, "executeCommandProvider.commands") or ()):
        yield f"the command {command['command']} is not provided"


def _lenses(client: Client, lenses: Json) -> Iterator[str]:
    for lens in lenses or ():
        if lens.get("command") is not None:
            yield from _command(client, lens["command"])
        elif not at(client.server, "codeLensProvider.resolveProvider"):
            yield "a lens without a command, and nothing to resolve it"


def _actions(client: Client, actions: Json) -> Iterator[str]:
    for action in actions or ():
        yield from _command(client, action) if _is_command(action) else _action(client, action, resolved=False)


def _resolved_action(client: Client, action: Json) -> Iterator[str]:
    yield from _action(client, action, resolved=True)


def _action(client: Client, action: Json, *, resolved: bool) -> Iterator[str]:
    declared = "textDocument.codeAction"
    if not client.can(f"{declared}.codeActionLiteralSupport"):
        yield "an action that is no command without codeActionLiteralSupport"
    yield from _undeclared(
        action,
        {
            "isPreferred": client.can(f"{declared}.isPreferredSupport"),
            "disabled": client.can(f"{declared}.disabledSupport"),
            "data": client.can(f"{declared}.dataSupport"),
            "tags": client.can(f"{declared}.tagSupport"),
        },
    )
    kinds = at(client.server, "codeActionProvider.codeActionKinds")
    kind = action.get("kind")
    if kind is not None and kinds is not None and not any(kind == k or kind.startswith(f"{k}.") for k in kinds):
        yield f"the kind {kind} is not among those of codeActionProvider"
    for diagnostic in action.get("diagnostics") or ():
        yield from _diagnostic(client, diagnostic)
    if action.get("command") is not None:
        yield from _command(client, action["command"])
    if action.get("edit") is not None:
        yield from _edit(client, action["edit"])
    elif action.get("command") is None and action.get("disabled") is None:
        lazily = client.lists(f"{declared}.resolveSupport.properties", "edit") and not resolved
        if not (lazily and at(client.server, "codeActionProvider.resolveProvider")):
            yield "an action that does nothing"


def _edit(client: Client, edit: Json) -> Iterator[str]:
    declared = "workspace.workspaceEdit"
    annotated = client.can(f"{declared}.changeAnnotationSupport")
    yield from _undeclared(
        edit, {"documentChanges": client.can(f"{declared}.documentChanges"), "changeAnnotations": annotated}
    )
    for change in edit.get("documentChanges") or ():
        if "kind" in change and not client.lists(f"{declared}.resourceOperations", change["kind"]):
            yield f"the operation {change['kind']} was not declared"
        elif "kind" not in change:
            document = change["textDocument"]
            if document["version"] != client.versions.get(document["uri"]):
                yield f"an edit of version {document['version']} of {document['uri']}"
            for part in change["edits"]:
                yield from _undeclared(part, {"annotationId": annotated})
                if part.get("annotationId") not in (None, *(edit.get("changeAnnotations") or ())):
                    yield f"no annotation {part['annotationId']}"


def _hover(client: Client, hover: Json) -> Iterator[str]:
    kind = "plaintext" if hover is None else hover["contents"]["kind"]
    if kind != "plaintext" and not client.lists("textDocument.hover.contentFormat", kind):
        yield f"{kind} was not declared"


def _hints(client: Client, hints: Json) -> Iterator[str]:
    for hint in hints or ():
        lazy = client.can("textDocument.inlayHint.resolveSupport.properties") or ()
        if hint.get("data") is not None and not (lazy and at(client.server, "inlayHintProvider.resolveProvider")):
            yield "data that nobody resolves"
        if hint.get("tooltip") is None and "tooltip" not in lazy:
            yield "no tooltip, and none to be resolved"
        parts = hint["label"] if isinstance(hint["label"], list) else ()
        for part in cast("Sequence[Json]", parts):
            if part.get("command") is not None:
                yield from _command(client, part["command"])


_RESULTS: Mapping[str, Callable[[Client, Json], Iterator[str]]] = {
    "initialize": _initialize,
    "shutdown": _shutdown,
    "textDocument/codeLens": _lenses,
    "textDocument/codeAction": _actions,
    "codeAction/resolve": _resolved_action,
    "textDocument/hover": _hover,
    "textDocument/inlayHint": _hints,
}
