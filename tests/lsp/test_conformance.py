"""A whole session of every client: each message lies within the protocol and within what the client declared.

`clients/` holds what real clients declare.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types

from forwardlens.source.paths import uri_from_path

from .conformance import Message, at, violations
from .editor import measured
from .fake_server import FakeEngine
from .wire import Wire

CLIENTS = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in Path(__file__).parent.glob("clients/*")}
NOTHING: Mapping[str, Any] = {}
OPTIONS = {"vscode": {"trusted": True, "showsProblems": True}}

EXPRESSION, FIXED = "self.word(ids)", "self.all(ids)"
COSTLY_CODE = '        note = "🚀é"; x = {}'
LOOP = measured(EXPRESSION, code=COSTLY_CODE, ms=5.0, calls=9, rule="embedding-in-loop", fix=FIXED, related=1)
UNSAFE = measured("x.sort()", code="        return {}", ms=2.0, rule="cat-in-loop", fix="x", applicability="unsafe")
HEAD = "from torch import nn\n\n\nclass Net(nn.Module):\n    def forward(self, ids):\n"
TEXT = f"{HEAD}{LOOP}{UNSAFE}\n\ndef build():\n    return Net(), (1,)\n"
FORWARD, COSTLY = 4, 5

RULES = (
    "without workspace.configuration",
    "without workspace.codeLens.refreshSupport",
    "without workspace.inlayHint.refreshSupport",
    "without window.workDoneProgress",
    "without workspace.didChangeConfiguration.dynamicRegistration",
    "without codeActionLiteralSupport",
    "without the option showsProblems",
    "relatedInformation was",
    "codeDescription was",
    "data was",
    "isPreferred was",
    "disabled was",
    "documentChanges was",
    "changeAnnotations was",
    "markdown was",
    "no tooltip",
)
"""What a session of VS Code does that a client must have declared."""


@dataclass
class Session:
    """One client at work on one file. Positions are in the encoding that was agreed on."""

    wire: Wire
    folder: Path
    text: str = TEXT
    version: int = 1
    encoding: str = "utf-16"

    @property
    def uri(self) -> str:
        return uri_from_path(str(self.folder / "model.py"))

    def start(self) -> None:
        (self.folder / "model.py").write_text(self.text, encoding="utf-8")
        self.wire.start({uri_from_path(str(self.folder)): self.folder.name})
        server = next(message.body for message in self.wire.log if message.kind == "result")
        self.encoding = server["capabilities"].get("positionEncoding") or "utf-16"
        document = {"uri": self.uri, "languageId": "python", "version": 1, "text": self.text}
        self.wire.tell("textDocument/didOpen", {"textDocument": document})

    def type(self, text: str) -> None:
        self.version, self.text = self.version + 1, text
        document = {"uri": self.uri, "version": self.version}
        self.wire.tell("textDocument/didChange", {"textDocument": document, "contentChanges": [{"text": text}]})

    def ask(self, method: str, **params: Any) -> Any:
        return self.wire.ask(f"textDocument/{method}", {"textDocument": {"uri": self.uri}, **params})

    def execute(self, command: Mapping[str, Any]) -> Any:
        return self.wire.ask("workspace/executeCommand", _executed(command))

    def lenses(self) -> list[Mapping[str, Any]]:
        return [lens["command"] for lens in self.ask("codeLens")]

    def diagnostics(self) -> Sequence[Mapping[str, Any]]:
        return self.wire.diagnostics().get(self.uri, ())

    def actions(self, line: int, *only: str) -> list[dict[str, Any]]:
        shown = [found for found in self.diagnostics() if found["range"]["start"]["line"] == line]
        context = {"diagnostics": shown, **({"only": only} if only else {})}
        return self.ask("codeAction", range=_lines(line, line), context=context) or []

    def apply(self, action: dict[str, Any]) -> None:
        """As the client would: resolved where the edit is still to come."""
        if action.get("edit") is None:
            action = self.wire.ask("codeAction/resolve", action)
        edit = action["edit"]
        edits = edit["documentChanges"][0]["edits"] if "documentChanges" in edit else edit["changes"][self.uri]
        text = self.text
        for part in sorted(edits, key=lambda part: list(part["range"]["start"].values()), reverse=True):
            start, end = (self.offset(text, part["range"][end]) for end in ("start", "end"))
            text = text[:start] + part["newText"] + text[end:]
        self.type(text)

    def offset(self, text: str, position: Mapping[str, int]) -> int:
        before = text.splitlines(keepends=True)[: position["line"]]
        line = text.splitlines()[position["line"]]
        unit = {"utf-8": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}[self.encoding]
        size = {"utf-8": 1, "utf-16": 2, "utf-32": 4}[self.encoding]
        return sum(map(len, before)) + len(line.encode(unit)[: size * position["character"]].decode(unit))

    def slice(self, where: Mapping[str, Any]) -> str:
        return self.text[self.offset(self.text, where["start"]) : self.offset(self.text, where["end"])]


def _executed(command: Mapping[str, Any]) -> dict[str, Any]:
    return {"command": command["command"], "arguments": command["arguments"]}


def _lines(first: int, last: int) -> dict[str, Any]:
    return {"start": {"line": first, "character": 0}, "end": {"line": last, "character": 0}}


def play(session: Session) -> None:
    """Everything that a user can do, one after the other."""
    session.start()
    profiles(session)
    looks(session)
    fixes(session)
    edits(session)
    fails(session)
    cancels(session)
    leaves(session)


def profiles(session: Session) -> None:
    """By the lens, or by an action on the same line where the client knows no lenses."""
    declared = session.wire.capabilities.get("textDocument", {})
    offered = [action["command"] for action in session.actions(FORWARD)]
    (profile, *_) = session.lenses()
    assert offered == ([profile] if "codeAction" in declared and "codeLens" not in declared else [])
    assert session.actions(FORWARD + 1) == session.actions(FORWARD, "source") == []
    assert session.execute(profile)["status"] == "done"
    found = {found["code"]: session.slice(found["range"]) for found in session.diagnostics()}
    assert found == {"embedding-in-loop": EXPRESSION, "cat-in-loop": "x.sort()"}


def looks(session: Session) -> None:
    hints = session.ask("inlayHint", range=_lines(0, 99))
    assert [hint["position"]["line"] for hint in hints] == [COSTLY, COSTLY + 1]
    if "data" in hints[0]:
        assert session.wire.ask("inlayHint/resolve", hints[0])["tooltip"]
    assert "5.00 ms" in session.ask("hover", position={"line": COSTLY, "character": 9})["contents"]["value"]
    assert session.ask("hover", position={"line": 0, "character": 0}) is None
    *_, result = session.lenses()
    assert session.execute(result)["schema"]


def fixes(session: Session) -> None:
    together = session.actions(COSTLY, "source.fixAll")
    assert {action["kind"] for action in together} <= {"source.fixAll.forwardlens"}
    found = session.actions(COSTLY) + session.actions(COSTLY + 1) + together
    if not at(session.wire.capabilities, "textDocument.codeAction.codeActionLiteralSupport"):
        assert found == []
        return
    for action in found:
        session.apply(action)
        assert session.text != TEXT
        assert action != found[0] or COSTLY_CODE.format(FIXED) in session.text
        session.type(TEXT)


def edits(session: Session) -> None:
    """Moved lines, then lines that are no longer what was measured."""
    session.type("# moved\n" + TEXT)
    session.lenses()
    assert {session.slice(found["range"]) for found in session.diagnostics()} == {EXPRESSION, "x.sort()"}
    session.type(TEXT.replace("x = self", "y = self"))
    session.lenses()
    assert [found["code"] for found in session.diagnostics()] == ["cat-in-loop"]
    for action in session.actions(COSTLY):
        assert "edit" not in action
        if "command" in action:
            assert session.execute(action["command"])["status"] == "done"
    session.type(TEXT)


def fails(session: Session) -> None:
    session.type(TEXT + '#! {"fail": {"kind": "entry", "message": "It failed.", "line": 3}}\n')
    (profile, *_) = session.lenses()
    assert session.execute(profile)["status"] == "failed"
    assert "run-failed" in [found["code"] for found in session.diagnostics()]
    assert "error" in session.wire.ask("workspace/executeCommand", {"command": "forwardlens.profile", "arguments": []})


def cancels(session: Session) -> None:
    session.type(TEXT + '#! {"block": "profile"}\n')
    (profile, *_) = session.lenses()
    wire, run = session.wire, _executed(profile)

    number = wire.begin("workspace/executeCommand", run)
    assert wire.ask("workspace/executeCommand", {"command": "forwardlens.cancel", "arguments": [{"uri": session.uri}]})
    wire.wait(lambda: number in wire.answers)
    assert wire.result(number) == {"status": "cancelled"}

    number = wire.begin("workspace/executeCommand", run)
    wire.tell("$/cancelRequest", {"id": number})
    wire.wait(lambda: number in wire.answers)
    assert wire.result(number)["error"]["code"] == types.LSPErrorCodes.RequestCancelled.value

    token = "a token of the client"
    number = wire.begin(
        "workspace/executeCommand", {**run, "arguments": [{**run["arguments"][0], "workDoneToken": token}]}
    )
    wire.wait(lambda: any(at(message.body, "token") == token for message in wire.log if message.kind == "notification"))
    wire.tell("window/workDoneProgress/cancel", {"token": token})
    wire.wait(lambda: number in wire.answers)
    assert wire.result(number) == {"status": "cancelled"}


def leaves(session: Session) -> None:
    session.type(TEXT)
    wire = session.wire
    wire.tell("workspace/didChangeConfiguration", {"settings": {"forwardlens": {"inlayHints": False}}})
    wire.tell("textDocument/didSave", {"textDocument": {"uri": session.uri}})
    assert session.execute(session.lenses()[0])["status"] == "done"
    wire.tell("textDocument/didClose", {"textDocument": {"uri": session.uri}})
    wire.ask("workspace/executeCommand", {"command": "forwardlens.clear", "arguments": [{"uri": session.uri}]})
    assert not session.diagnostics()
    wire.stop()


def played(folder: Path, capabilities: Mapping[str, Any], options: Mapping[str, Any]) -> Sequence[Message]:
    session = Session(Wire(FakeEngine(), capabilities=capabilities, options=options), folder)
    try:
        play(session)
    finally:
        session.wire.close()
    return session.wire.log


@pytest.mark.parametrize("name", sorted(CLIENTS))
def test_a_session_lies_within_what_the_client_declared(tmp_path: Path, name: str) -> None:
    capabilities, options = CLIENTS[name]["capabilities"], OPTIONS.get(name, {})
    assert violations(capabilities, options, played(tmp_path, capabilities, options)) == []


def test_a_session_of_another_client_lies_outside(tmp_path: Path) -> None:
    """What is looked at is really there: the same messages, held against a client that declared nothing."""
    vscode = CLIENTS["vscode"]["capabilities"]
    found = "\n".join(violations(NOTHING, NOTHING, played(tmp_path, vscode, OPTIONS["vscode"])))
    assert not [rule for rule in RULES if rule not in found], found


def test_a_session_lies_within_what_a_client_without_capabilities_declared(tmp_path: Path) -> None:
    assert violations(NOTHING, NOTHING, played(tmp_path, NOTHING, NOTHING)) == []
