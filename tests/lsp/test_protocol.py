"""Whatever form a message has, whoever waits for an answer gets one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from forwardlens.source.paths import uri_from_path

from .fake_server import FakeEngine
from .wire import Wire

INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, CANCELLED = -32600, -32601, -32602, -32800
MODEL = "from torch import nn\n\n\ndef build():\n    return nn.Linear(1, 1), (1,)\n"
BLOCKED = MODEL + '#! {"block": "profile"}\n'


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[Wire]:
    wire = Wire(FakeEngine())
    wire.start({uri_from_path(str(tmp_path)): "work space"})
    yield wire
    wire.stop()


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("textDocument/hover", {"textDocument": {"uri": 3}}, INVALID_PARAMS),
        ("textDocument/codeLens", 3, INVALID_PARAMS),
        ("workspace/executeCommand", None, INVALID_PARAMS),
        ("workspace/executeCommand", {"command": "no.such"}, INVALID_PARAMS),
        ("forwardlens/report", {"uri": 3}, INVALID_PARAMS),
        ("no/such", None, METHOD_NOT_FOUND),
        (["no", "such"], None, INVALID_PARAMS),
    ],
)
def test_a_request_that_makes_no_sense_is_answered(wire: Wire, method: Any, params: object, code: int) -> None:
    assert wire.ask(method, params)["error"]["code"] == code


def test_a_request_may_leave_out_its_parameters(wire: Wire) -> None:
    number = wire.begin("forwardlens/exportFormats")
    wire.wait(lambda: number in wire.answers)
    assert "csv" in [item["name"] for item in wire.result(number)]


def test_a_run_goes_on_where_the_client_answers_nonsense(tmp_path: Path) -> None:
    class Confused(Wire):
        def _take(self, message: dict[str, Any]) -> None:
            if message.get("method") == "workspace/configuration":
                self._send({"id": message["id"], "result": 3})
            else:
                super()._take(message)

    wire = Confused(FakeEngine())
    wire.start({uri_from_path(str(tmp_path)): "work space"})
    assert wire.ask(*profile(tmp_path, MODEL))["status"] == "done"
    wire.stop()


def test_cancelling_the_request_stops_the_run_before_the_next_begins(wire: Wire, tmp_path: Path) -> None:
    number = wire.begin(*profile(tmp_path, BLOCKED))
    until_measuring(wire)
    wire.tell("$/cancelRequest", {"id": number})
    summary = wire.ask(*profile(tmp_path, MODEL))
    assert wire.result(number)["error"]["code"] == CANCELLED
    assert summary["status"] == "done"
    assert (tmp_path / "stopped").exists()
    assert not (tmp_path / "overlap").exists()


def test_shutting_down_during_a_run_is_answered_and_so_is_what_comes_after(wire: Wire, tmp_path: Path) -> None:
    number = wire.begin(*profile(tmp_path, BLOCKED))
    until_measuring(wire)
    assert wire.ask("shutdown", None) is None
    wire.wait(lambda: number in wire.answers)
    assert wire.result(number)["error"]["code"] == CANCELLED
    assert wire.ask("textDocument/hover", None)["error"]["code"] == INVALID_PARAMS
    assert wire.ask("forwardlens/report", {})["error"]["code"] == INVALID_REQUEST


def until_measuring(wire: Wire) -> None:
    wire.wait(lambda: "starting a worker" in wire.steps)


def profile(folder: Path, text: str) -> tuple[str, object]:
    path = folder / "model.py"
    path.write_text(text)
    arguments = [{"uri": uri_from_path(str(path)), "entry": "model.py:build"}]
    return "workspace/executeCommand", {"command": "forwardlens.profile", "arguments": arguments}
