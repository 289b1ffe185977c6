"""Every client gets what it can understand; see also `test_conformance.py`."""

from __future__ import annotations

import pytest
from lsprotocol import types
from pytest_lsp import LspSpecificationWarning

from .editor import Editor, StartEditor, measured, modern_capabilities

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.filterwarnings(f"error::{LspSpecificationWarning.__module__}.{LspSpecificationWarning.__name__}"),
]

LOOK_UP = measured("self.word(ids)", code="        return {}", ms=7.1, rule="embedding-in-loop", fix="self.all(ids)")
MODEL = f"""\
from torch import nn


class Net(nn.Module):
    def forward(self, ids):
{LOOK_UP}\


def build():
    return Net(), (1,)
"""
LINE = 5


async def test_a_client_without_capabilities_is_asked_for_nothing(start: StartEditor) -> None:
    editor = await start(types.ClientCapabilities())
    assert editor.server.capabilities.code_action_provider is True
    uri = editor.open(MODEL)
    assert (await editor.profile(uri))["status"] == "done"
    (diagnostic,) = editor.diagnostics(uri)
    assert (diagnostic.code_description, diagnostic.related_information, diagnostic.data) == (None, None, None)
    assert await editor.actions(uri, LINE) == []
    assert (editor.client.progress_reports, editor.refreshed) == ({}, [])
    (hint,) = await editor.hints(uri)
    assert hint.tooltip is not None
    assert "|" not in (await editor.hover(uri, LINE) or "")

    editor.type(uri, MODEL + '#! {"fail": {"kind": "entry", "message": "It failed.", "line": 9}}\n')
    await editor.profile(uri)
    assert editor.messages == ["It failed."]


async def test_edits_come_at_once_for_a_client_that_cannot_resolve_them(start: StartEditor) -> None:
    capabilities = modern_capabilities()
    assert capabilities.text_document is not None
    assert capabilities.text_document.code_action is not None
    assert capabilities.workspace is not None
    capabilities.text_document.code_action.resolve_support = None
    capabilities.text_document.code_action.disabled_support = False
    capabilities.workspace.workspace_edit = None
    editor = await start(capabilities)
    uri = editor.open(MODEL)
    await editor.profile(uri)
    action = await editor.action(uri, LINE, "Look up")
    assert action.edit is not None
    assert action.edit.changes is not None
    assert [edit.new_text for edit in action.edit.changes[uri]] == ["self.all(ids)"]

    editor.type(uri, MODEL.replace("return self.word", "y = self.word"))
    assert [action.title[:13] for action in await editor.actions(uri, LINE)] == ["Profile again"]


async def test_each_folder_of_a_workspace_has_its_own_configuration(editor: Editor) -> None:
    inner = editor.folder / "inner"
    inner.mkdir()
    (editor.folder / "pyproject.toml").write_text('[tool.forwardlens]\nentry = "model.py:outer"\n')
    (inner / "pyproject.toml").write_text('[tool.forwardlens]\nentry = "model.py:inner"\n')
    outer_uri, inner_uri = editor.open(MODEL), editor.open(MODEL, "inner/model.py")
    event = types.WorkspaceFoldersChangeEvent(added=[types.WorkspaceFolder(editor.uri("inner"), "inner")], removed=[])
    editor.client.workspace_did_change_workspace_folders(types.DidChangeWorkspaceFoldersParams(event))
    assert (await editor.profile(outer_uri, entry=None))["entry"] == "model.py:outer"
    assert (await editor.profile(inner_uri, entry=None))["entry"] == "model.py:inner"
