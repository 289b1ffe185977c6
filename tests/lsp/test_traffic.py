"""Random traffic: whatever is sent in whatever order, what is shown fits the text, and history leaves no trace.

`FORWARDLENS_MESSAGES=50000` says how many messages; without it some hundred are sent.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import hypothesis
from hypothesis import HealthCheck, strategies
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test
from lsprotocol import types
from lsprotocol.converters import get_converter

from forwardlens.config import Settings
from forwardlens.runner.request import OnProgress, RunRequest
from forwardlens.source.paths import is_inside, uri_from_path
from forwardlens.source.text import SourceText
from forwardlens.workflow import Result

from .changes import change_between
from .editor import measured, offset
from .fake_server import FakeEngine
from .wire import Wire

_CONVERTER = get_converter()
MESSAGES = int(os.environ.get("FORWARDLENS_MESSAGES", "300"))
STEPS = 40
BATCH = 10

_HEAD = "import torch\nfrom torch import nn\n\n\nclass Net(nn.Module):\n    def forward(self, ids):\n"
_TAIL = "\n\ndef build():\n    return Net(), (torch.ones(2),)\n"
_LINES = (
    measured("self.word(ids)", code="        x = {}", ms=6.0, calls=128, rule="embedding-in-loop", fix="self.word(i)"),
    measured("x + 1", code='        y = "🚀", {}', ms=2.0),
    measured("x @ x", code="        z = {}", ms=1.0, rule="cat-in-loop", severity="info"),
    "        note = 'é'  # a comment\n",
    "\n",
    "        # another\n",
    "        if x:\n            pass\n",
)
_ORDERS = (
    '#! {"fail": {"kind": "entry", "message": "boom", "line": 6}}\n',
    '#! {"crash": "profile"}\n',
    '#! {"crash": "verify"}\n',
)
_BROKEN = ("", "def (:\n", "\x0c\n", "\ufeff" + _HEAD, "x = 1\r\ny = 2\r", "\u2028\n# no line end")


def _program(body: list[str], order: str, ends: str) -> str:
    return (_HEAD + "".join(body) + "        return ids\n" + _TAIL + order).replace("\n", ends)


programs = strategies.builds(
    _program,
    strategies.lists(strategies.sampled_from(_LINES), max_size=8),
    strategies.sampled_from(("", "", "", *_ORDERS)),
    strategies.sampled_from(("\n", "\n", "\r\n")),
)
texts = programs | strategies.sampled_from(_BROKEN)
_METHODS = ("no/such", "workspace/executeCommand", "textDocument/hover", "textDocument/didChange", "$/cancelRequest")
_NONSENSE: tuple[object, ...] = (
    None,
    3,
    [],
    {"command": "no.such", "arguments": [3]},
    {"textDocument": {"uri": 3}, "position": None},
)
FILES = ("a/model.py", "a/other.py", "b/model.py")
files = strategies.sampled_from(FILES)
folders = strategies.sampled_from(("a", "b"))


class Gate:
    """Where a run waits until the test lets it go on."""

    def __init__(self, folder: str, stage: str) -> None:
        self.folder, self.stage, self.open = folder, stage, threading.Event()
        self.left = False


class GatedEngine(FakeEngine):
    """The fake engine, whose runs stop after measuring and before trying fixes. No two may run in one folder."""

    def __init__(self) -> None:
        super().__init__()
        self.gates: list[Gate] = []
        self.changed = threading.Condition()

    def prepare(self, python: str | None, folder: Path, /) -> None:
        pass

    def profile(
        self, request: RunRequest, settings: Settings, on_progress: OnProgress, cancelled: threading.Event, /
    ) -> Result:
        # A program reads what it imports, and the folders import nothing of each other.
        inside = {path: text for path, text in request.overlays.items() if is_inside(path, str(request.workspace))}
        result = self._profile(replace(request, overlays=inside), settings, on_progress, cancelled)
        self._wait(request, "profile", cancelled)
        return result

    def verify(self, result: Result, on_progress: OnProgress, cancelled: threading.Event, /) -> Result:
        self._wait(result.request, "verify", cancelled)
        return super().verify(result, on_progress, cancelled)

    def _wait(self, request: RunRequest, stage: str, cancelled: threading.Event) -> None:
        gate = Gate(request.workspace.name, stage)
        with self.changed:
            self.gates.append(gate)
            self.changed.notify_all()
        while not gate.open.wait(0.002) and not cancelled.is_set():
            pass
        with self.changed:
            gate.left = True
            self.changed.notify_all()

    def waiting(self, folder: str) -> Gate | None:
        return next((gate for gate in reversed(self.gates) if gate.folder == folder and not gate.left), None)


@dataclass(frozen=True)
class Measured:
    """A run that is shown: the texts that ran, what was asked, whether its fixes were tried."""

    texts: Mapping[str, str]
    asked: Mapping[str, str]
    verified: bool


@dataclass
class Editor:
    """A client with its documents, and the server it talks to."""

    root: Path
    engine: GatedEngine = field(default_factory=GatedEngine)
    versions: dict[str, int] = field(default_factory=dict[str, int])
    open: dict[str, str] = field(default_factory=dict[str, str])

    def start(self, settings: Mapping[str, object]) -> None:
        self.wire = Wire(self.engine, dict(settings), changed=self.engine.changed)
        self.wire.start({self.uri(name): name for name in ("a", "b")})

    def uri(self, name: str) -> str:
        return uri_from_path(str(self.root / name))

    def text(self, name: str) -> str:
        """As the server sees it, which drops a byte-order mark."""
        text = self.open.get(name)
        return (self.root / name).read_bytes().decode() if text is None else text

    def open_file(self, name: str, text: str) -> None:
        self.open[name], self.versions[name] = text, 1
        document = {"uri": self.uri(name), "languageId": "python", "version": 1, "text": text}
        self.wire.tell("textDocument/didOpen", {"textDocument": document})

    def change(self, name: str, text: str) -> None:
        """One version in full, the next as what differs, as different clients do it."""
        part = _CONVERTER.unstructure(change_between(self.open[name], text))
        self.open[name] = text
        self.versions[name] += 1
        document = {"uri": self.uri(name), "version": self.versions[name]}
        changes = [part] if self.versions[name] % 2 else [{"text": text}]
        self.wire.tell("textDocument/didChange", {"textDocument": document, "contentChanges": changes})

    def close(self, name: str) -> None:
        del self.open[name]
        self.wire.tell("textDocument/didClose", {"textDocument": {"uri": self.uri(name)}})

    def set_text(self, name: str, text: str) -> None:
        self.change(name, text) if name in self.open else self.open_file(name, text)

    def command(self, name: str, arguments: Mapping[str, str]) -> int:
        params = {"command": f"forwardlens.{name}", "arguments": [dict(arguments)]}
        return self.wire.begin("workspace/executeCommand", params)

    def query(self, method: str, name: str, **params: object) -> Any:
        return self.wire.ask(f"textDocument/{method}", {"textDocument": {"uri": self.uri(name)}, **params})

    def settle(self) -> None:
        """All that was sent is handled, and all that followed has arrived."""
        self.wire.ask("textDocument/codeLens", {"textDocument": {"uri": self.uri(FILES[0])}})

    def shown(self) -> dict[str, object]:
        """Everything that a user could see."""
        diagnostics = self.wire.diagnostics()
        found: dict[str, object] = {}
        for name in FILES:
            uri = self.uri(name)
            found[f"diagnostics {name}"] = _comparable(diagnostics.get(uri, []))
            found[f"heat {name}"] = self.wire.heat.get(uri, [])
            if name in self.open:
                everything = {"range": _range(0, 1000)}
                # Where the text does not parse, lenses stay where they were when it did.
                found[f"lenses {name}"] = _parses(self.open[name]) and self.query("codeLens", name)
                found[f"hints {name}"] = self.query("inlayHint", name, **everything)
                actions = self.query("codeAction", name, context={"diagnostics": []}, **everything)
                found[f"actions {name}"] = [
                    (a["title"], a.get("isPreferred"), a.get("disabled")) for a in actions or ()
                ]
                hovers = [self.query("hover", name, position={"line": line, "character": 9}) for line in range(6, 16)]
                found[f"hovers {name}"] = hovers
        return found


class Traffic(RuleBasedStateMachine):
    """The model is what a careful reader of the protocol would expect to be shown."""

    sent = 0
    received = 0

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="forwardlens traffic "))
        for name in FILES:
            (self.root / name).parent.mkdir(exist_ok=True)
            (self.root / name).write_bytes((_HEAD + _LINES[0] + _TAIL).encode())
        self.settings: dict[str, object] = {"heat": True, "inlayHints": True}
        self.editor = Editor(self.root)
        self.editor.start(self.settings)
        self.running: dict[str, tuple[int, Measured]] = {}
        self.success: dict[str, Measured] = {}
        self.failure: dict[str, Measured] = {}
        self.seen = 0

    @rule(name=files, text=texts)
    def opens(self, name: str, text: str) -> None:
        if name not in self.editor.open:
            self._with_texts(name, lambda: self.editor.open_file(name, text))

    @rule(name=files, text=texts)
    def types(self, name: str, text: str) -> None:
        if name in self.editor.open:
            self._with_texts(name, lambda: self.editor.change(name, text))

    @rule(name=files, at=strategies.integers(0, 20), line=strategies.sampled_from((*_LINES, "\n", "x\n")))
    def inserts(self, name: str, at: int, line: str) -> None:
        if name in self.editor.open:
            text = self.editor.open[name].splitlines(keepends=True)
            changed = "".join([*text[:at], line, *text[at:]])
            self._with_texts(name, lambda: self.editor.change(name, changed))

    @rule(name=files, edits=strategies.lists(texts, min_size=2, max_size=5))
    def types_fast(self, name: str, edits: list[str]) -> None:
        """Several changes before anything is answered."""
        if name in self.editor.open:
            allowed = {self.editor.text(name), *edits}
            for text in edits:
                self.editor.change(name, text)
            self._check(name, allowed)

    @rule(name=files)
    def closes(self, name: str) -> None:
        if name in self.editor.open:
            self._with_texts(name, lambda: self.editor.close(name))

    @rule(name=files)
    def saves(self, name: str) -> None:
        if name in self.editor.open:
            (self.root / name).write_bytes(self.editor.open[name].encode())
            self.editor.wire.tell("textDocument/didSave", {"textDocument": {"uri": self.editor.uri(name)}})
            self._check()

    @rule(name=files, wanted=strategies.sampled_from(({}, {"target": "Net"})))
    def profiles(self, name: str, wanted: dict[str, str]) -> None:
        folder = name.partition("/")[0]
        former = self.running.pop(folder, None)
        asked = {"uri": self.editor.uri(name), "entry": "model.py:build", **wanted}
        before = len(self.editor.engine.gates)
        number = self.editor.command("profile", asked)
        self.failure.pop(folder, None)
        if former is not None:
            self.editor.wire.wait(lambda: former[0] in self.editor.wire.answers)
        run = Measured(self._texts(folder), asked, verified=False)
        self._until_waiting_or_done(number, before)
        self._note(folder, number, run)

    @rule(folder=folders)
    def goes_on(self, folder: str) -> None:
        """The run in a folder takes its next step."""
        gate = self.editor.engine.waiting(folder)
        if folder not in self.running or gate is None:
            return
        number, run = self.running.pop(folder)
        before = len(self.editor.engine.gates)
        gate.open.set()
        self._until_waiting_or_done(number, before)
        if gate.stage == "profile":
            self.success[folder] = run
        elif self.editor.wire.result(number)["verified"]:
            # Otherwise nothing new is shown, also where the run was cleared since.
            self.success[folder] = Measured(run.texts, run.asked, verified=True)
        self._note(folder, number, run)

    @rule(folder=folders, everything=strategies.booleans())
    def cancels(self, folder: str, everything: bool) -> None:
        stopped = [folder] if not everything else list(self.running)
        numbers = [self.running.pop(name)[0] for name in stopped if name in self.running]
        argument = {} if everything else {"uri": self.editor.uri(f"{folder}/model.py")}
        number = self.editor.command("cancel", argument)
        self.editor.wire.wait(lambda: all(n in self.editor.wire.answers for n in (number, *numbers)))
        assert self.editor.wire.result(number) is bool(numbers)
        self._check()

    @rule(folder=folders)
    def cancels_the_request(self, folder: str) -> None:
        if folder in self.running:
            number, _ = self.running.pop(folder)
            self.editor.wire.tell("$/cancelRequest", {"id": number})
            self.editor.wire.wait(lambda: number in self.editor.wire.answers)
            self._check()

    @rule(name=files, everything=strategies.booleans())
    def clears(self, name: str, everything: bool) -> None:
        self.editor.wire.ask(
            "workspace/executeCommand",
            {"command": "forwardlens.clear", "arguments": [{} if everything else {"uri": self.editor.uri(name)}]},
        )
        self.failure.clear()
        if everything:
            self.success.clear()
        else:
            self.success.pop(name.partition("/")[0], None)
        self._check()

    @rule(heat=strategies.booleans(), hints=strategies.booleans())
    def changes_settings(self, heat: bool, hints: bool) -> None:
        self.settings = {"heat": heat, "inlayHints": hints}
        self.editor.wire.settings = self.settings
        received = self.editor.wire.received
        self.editor.wire.tell("workspace/didChangeConfiguration", {"settings": None})
        # Each file's settings are asked for; the refresh that follows them says that all is done.
        self.editor.wire.wait(lambda: self.editor.wire.received > received)
        self._check()

    @rule(name=files, line=strategies.integers(0, 40), column=strategies.integers(0, 90))
    def looks(self, name: str, line: int, column: int) -> None:
        """Whatever is asked about a file is answered, also where it has no such line."""
        position = {"line": line, "character": column}
        self.editor.query("hover", name, position=position)
        self.editor.query("inlayHint", name, range=_range(line, line + column))
        actions = self.editor.query("codeAction", name, range=_range(0, 1000), context={"diagnostics": []})
        for action in actions or ():
            if "data" in action and "disabled" not in action:
                self._check_action(name, self.editor.wire.ask("codeAction/resolve", action))
        self.editor.wire.ask("forwardlens/report", {"uri": self.editor.uri(name)})
        self._check()

    @rule(method=strategies.sampled_from(_METHODS), params=strategies.sampled_from(_NONSENSE))
    def asks_nonsense(self, method: str, params: object) -> None:
        assert "error" in self.editor.wire.ask(method, params)
        self._check()

    @rule(method=strategies.sampled_from(_METHODS), params=strategies.sampled_from(_NONSENSE))
    def tells_nonsense(self, method: str, params: object) -> None:
        self.editor.wire.tell(method, params)
        self._check()

    @precondition(lambda self: self.running or self.success)
    @rule()
    def waits(self) -> None:
        self._check()

    def teardown(self) -> None:
        try:
            self._compare()
        finally:
            type(self).sent += self.editor.wire.sent
            type(self).received += self.editor.wire.received
            self.editor.wire.stop()
            shutil.rmtree(self.root)

    def _compare(self) -> None:
        """A server that never saw the history shows the same."""
        self.cancels(folder="a", everything=True)
        fresh = Editor(self.root)
        fresh.start(self.settings)
        for kind in (self.success, self.failure):
            for folder, run in kind.items():
                self._repeat(fresh, folder, run)
        for name in FILES:
            if name in self.editor.open:
                fresh.set_text(name, self.editor.open[name])
            elif name in fresh.open:
                fresh.close(name)
        fresh.settle()
        try:
            assert self.editor.shown() == fresh.shown()
        finally:
            type(self).sent += fresh.wire.sent
            fresh.wire.stop()

    def _repeat(self, fresh: Editor, folder: str, run: Measured) -> None:
        for name, text in run.texts.items():
            fresh.set_text(name, text)
        number = fresh.command("profile", run.asked)
        for stage in ("profile", "verify"):
            fresh.wire.wait(lambda: fresh.engine.waiting(folder) or number in fresh.wire.answers)
            gate = fresh.engine.waiting(folder)
            if gate is None:
                break
            if stage == "verify" and not run.verified:
                fresh.command("cancel", {})
                break
            gate.open.set()
            fresh.wire.wait(lambda gate=gate: gate.left)
        fresh.wire.wait(lambda: number in fresh.wire.answers)

    def _texts(self, folder: str) -> dict[str, str]:
        return {name: self.editor.text(name) for name in FILES if name.startswith(f"{folder}/")}

    def _until_waiting_or_done(self, number: int, before: int) -> None:
        wire, engine = self.editor.wire, self.editor.engine
        wire.wait(lambda: len(engine.gates) > before or number in wire.answers)

    def _note(self, folder: str, number: int, run: Measured) -> None:
        """What the run came to, or that it goes on."""
        if number not in self.editor.wire.answers:
            self.running[folder] = number, run
        elif self.editor.wire.result(number).get("status") == "failed":
            self.failure[folder] = run
        self._check()

    def _with_texts(self, name: str, action: Callable[[], None]) -> None:
        before = self.editor.text(name)
        action()
        self._check(name, {before, self.editor.text(name)})

    def _check(self, changed: str = "", allowed: set[str] | None = None) -> None:
        """Whatever was published since the last check fits a text that the file had since then, and the last one fits
        the present text.
        """
        self.editor.settle()
        wire = self.editor.wire
        new, self.seen = wire.published[self.seen :], len(wire.published)
        names = {self.editor.uri(name): name for name in FILES}
        for uri, diagnostics in new:
            possible = allowed if names[uri] == changed and allowed else {self.editor.text(names[uri])}
            assert any(_fit(diagnostics, text) for text in possible), (uri, diagnostics)
        for uri, diagnostics in wire.diagnostics().items():
            assert _fit(diagnostics, self.editor.text(names[uri])), (uri, diagnostics)

    def _check_action(self, name: str, action: dict[str, Any]) -> None:
        """An edit replaces the expression it was made for."""
        for change in action.get("edit", {}).get("documentChanges", ()):
            version = self.editor.versions[name] if name in self.editor.open else None
            assert change["textDocument"]["version"] == version
            for edit in change["edits"]:
                if edit["newText"] == "self.word(i)":
                    assert _at(self.editor.text(name), edit["range"]) == "self.word(ids)"


def _parses(text: str) -> bool:
    return SourceText("", text.removeprefix("\ufeff")).tree is not None


def _fit(diagnostics: list[dict[str, Any]], text: str) -> bool:
    """Each finding of the fake engine begins with the expression that it stands on."""
    return all(
        diagnostic["code"] == "run-failed"
        or diagnostic["message"].startswith(f"{_at(text, diagnostic['range'])} costs ")
        for diagnostic in diagnostics
    )


def _at(text: str, where: Mapping[str, Any]) -> str:
    """The text at an LSP range, found by deleting it."""
    text = text.removeprefix("\ufeff")
    try:
        offsets = [_offset(text, where[end]) for end in ("start", "end")]
    except IndexError:
        return ""
    return text[offsets[0] : offsets[1]]


def _offset(text: str, position: Mapping[str, int]) -> int:
    return offset(text, types.Position(position["line"], position["character"]))


def _range(first: int, last: int) -> dict[str, object]:
    return {"start": {"line": first, "character": 0}, "end": {"line": last, "character": 0}}


def _comparable(diagnostics: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(diagnostics, key=lambda d: (d["range"]["start"]["line"], d["message"]))


def test_random_traffic_shows_what_fits_and_forgets_what_was() -> None:
    Traffic.sent = Traffic.received = 0
    settings = hypothesis.settings(
        max_examples=BATCH,
        stateful_step_count=STEPS,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )
    for number in _seeds():
        run_state_machine_as_test(hypothesis.seed(number)(Traffic), settings=settings)
    print(f"\n{Traffic.sent:,} messages sent, {Traffic.received:,} received")


def _seeds() -> Iterator[int]:
    number = 0
    while Traffic.sent < MESSAGES:
        yield number
        number += 1
