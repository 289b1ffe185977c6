"""What could be run, which interpreter runs it, and what the client hears of it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcException

from .editor import Editor, StartEditor, within

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    # The test client only knows the tokens of requests that it makes itself.
    pytest.mark.filterwarnings("ignore:Unknown progress token"),
]

MODEL = """\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        return x
"""
BUILD = "\n\ndef build():\n    return Net(), (torch.ones(1),)\n"
CONFIGURED = '[tool.forwardlens.entries.net]\nrun = "model.py:build"\npython = "/configured/python"\n'


async def run(editor: Editor, uri: str, **more: object) -> dict[str, Any]:
    params = types.ExecuteCommandParams("forwardlens.profile", arguments=[{"uri": uri, **more}])
    summary = await within(editor.client.workspace_execute_command_async(params))
    assert summary["status"] == "done", summary
    return json.loads(editor.client.log_messages[-1].message)


async def test_scripts_tests_and_functions_that_reach_the_forward_are_offered(editor: Editor) -> None:
    for name, text in {
        "bench.py": f"import torch\nfrom model import Net\n{BUILD}",
        "train.py": "from model import Net\nNet()(1)\n",
        "test_net.py": "from model import Net\n\ndef test_forward():\n    Net()(1)\n",
        "unrelated.py": "print(1)\n",
        "pyproject.toml": CONFIGURED,
    }.items():
        (editor.folder / name).write_text(text)
    uri = editor.open(MODEL + BUILD)
    assert await editor.command("entries", uri=uri, target="Net") == [
        {"entry": "model.py:build", "kind": "file", "line": 10},
        {"entry": "net", "kind": "configured"},
        {"entry": "bench.py:build", "kind": "workspace", "line": 5},
        {"entry": "train.py", "kind": "script", "line": 2},
        {"entry": "test_net.py::test_forward", "kind": "test", "line": 3},
        {"entry": "model.py", "kind": "self"},
    ]


async def test_a_script_of_a_package_is_offered_as_a_module(editor: Editor) -> None:
    package = editor.folder / "src" / "pkg"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    for name in ("train.py", "__main__.py"):
        (package / name).write_text("from .net import Net\nNet()(1)\n")
    uri = editor.open(MODEL, "src/pkg/net.py")
    offered = [candidate["entry"] for candidate in await editor.command("entries", uri=uri)]
    assert offered == ["-m pkg", "-m pkg.train", "src/pkg/net.py"]


async def test_unsaved_callers_are_offered(editor: Editor) -> None:
    uri = editor.open(MODEL)
    script = editor.open("print(1)\n", "train.py")
    editor.type(script, "from model import Net\nNet()(1)\n")
    offered = await editor.command("entries", uri=uri)
    assert {"entry": "train.py", "kind": "script", "line": 2} in offered


async def test_how_a_script_is_started_reaches_the_run(editor: Editor) -> None:
    uri = editor.open(MODEL)
    asked = {"arguments": ["--epochs", "1"], "environment": {"SEED": "3"}, "cwd": str(editor.folder / "data")}
    request = await run(editor, uri, entry="model.py", **asked)
    assert (request["arguments"], request["environment"]) == (["--epochs", "1"], {"SEED": "3"})
    assert request["cwd"] == str(editor.folder / "data")


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [("arguments", "--fast", "a list of strings"), ("environment", {"A": 1}, "an object of strings")],
)
async def test_arguments_of_a_wrong_type_are_named(editor: Editor, name: str, value: object, wanted: str) -> None:
    params = types.ExecuteCommandParams("forwardlens.profile", arguments=[{"uri": editor.uri(), name: value}])
    with pytest.raises(JsonRpcException, match=f"'{name}' must be {wanted}"):
        await within(editor.client.workspace_execute_command_async(params))


SELECTED = {"path": "/selected/python", "origin": "Python extension"}


@pytest.mark.parametrize(
    ("settings", "asked", "python", "origin"),
    [
        ({"interpreter": "/set/python"}, {"entry": "net"}, "/set/python", "the setting forwardlens.interpreter"),
        ({}, {"entry": "net", "python": "/launch/python"}, "/launch/python", "launch.json"),
        ({}, {"entry": "net"}, "/configured/python", "pyproject.toml"),
        ({}, {"entry": "model.py:build"}, "/selected/python", "Python extension"),
    ],
)
async def test_the_most_deliberate_choice_of_an_interpreter_wins(
    start: StartEditor, settings: dict[str, str], asked: dict[str, str], python: str, origin: str
) -> None:
    editor = await start(options={"showsProblems": True})
    editor.set_settings(selectedInterpreter=SELECTED, **settings)
    (editor.folder / "pyproject.toml").write_text(CONFIGURED)
    uri = editor.open(MODEL + BUILD)
    assert (await run(editor, uri, **asked))["python"] == python
    told = [change for change in editor.changes if change.get("interpreter")]
    assert [change["interpreter"] for change in told] == [{"path": python, "origin": origin}]


async def test_a_run_tells_when_it_begins_what_it_runs_on_and_when_it_ends(start: StartEditor) -> None:
    editor = await start(options={"showsProblems": True})
    uri = editor.open(MODEL + BUILD)
    await run(editor, uri)
    await editor.settled(uri)
    assert {change["uri"] for change in editor.changes} == {uri}
    assert [change["running"] for change in editor.changes][-1] is False
    assert all(change["running"] for change in editor.changes[:-1])
    (environment,) = [change["environment"] for change in editor.changes if "environment" in change][:1]
    assert (environment["device"], environment["torch"]) == ("cpu", "2.13")


async def test_progress_goes_under_the_token_that_the_client_chose(editor: Editor) -> None:
    uri = editor.open(MODEL + BUILD)
    await run(editor, uri, workDoneToken="mine")
    begin, *_, end = editor.client.progress_reports["mine"]
    assert isinstance(begin, types.WorkDoneProgressBegin)
    assert isinstance(end, types.WorkDoneProgressEnd)
    assert list(editor.client.progress_reports) == ["mine"]


async def test_runs_of_two_folders_go_on_side_by_side(editor: Editor, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    folder = types.WorkspaceFolder(other.as_uri(), "other")
    event = types.WorkspaceFoldersChangeEvent([folder], [])
    editor.client.workspace_did_change_workspace_folders(types.DidChangeWorkspaceFoldersParams(event))
    blocked = editor.open(MODEL + BUILD + '#! {"block": "profile"}\n')
    (other / "model.py").write_text(MODEL + BUILD)
    first = asyncio.ensure_future(
        editor.client.workspace_execute_command_async(
            types.ExecuteCommandParams("forwardlens.profile", arguments=[{"uri": blocked, "workDoneToken": "first"}])
        )
    )
    await editor.until(lambda: bool(editor.client.progress_reports.get("first")), types.PROGRESS)
    second = asyncio.ensure_future(run(editor, (other / "model.py").as_uri(), workDoneToken="second"))
    await editor.until(lambda: bool(editor.client.progress_reports.get("second")), types.PROGRESS)
    await editor.command("cancel", uri=blocked)
    assert await within(first) == {"status": "cancelled"}
    await second
    event = types.WorkspaceFoldersChangeEvent([], [folder])
    editor.client.workspace_did_change_workspace_folders(types.DidChangeWorkspaceFoldersParams(event))
