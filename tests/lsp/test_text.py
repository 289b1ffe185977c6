"""Costs, findings and edits stay with their text, however it is spelt and wherever it moves."""

from __future__ import annotations

from typing import Any

import pytest
from lsprotocol import types

from .editor import Editor, StartEditor, measured, modern_capabilities

pytestmark = pytest.mark.asyncio(loop_scope="module")

EXPRESSION = "self.word(ids[:, t])"
MARK: dict[str, Any] = {"ms": 7.1, "rule": "embedding-in-loop", "fix": "self.word(ids)"}
MODEL = f"""\
from torch import nn


class Net(nn.Module):
    def forward(self, ids):
        first = ids + 1  #$ {{"ms": 0.5}}
{measured(EXPRESSION, code="        out = {}", **MARK)}\
        return out


def build():
    return Net(), (1,)
"""
LINE = 6


async def test_moved_lines_keep_their_cost_and_finding(editor: Editor) -> None:
    uri = editor.open(MODEL)
    await editor.profile(uri)
    editor.type(uri, f"# one\n# two\n{MODEL}")

    assert await editor.hint_labels(uri) == [(LINE + 1, "5.0 % · 500 µs"), (LINE + 2, "71 % · 7.10 ms")]
    assert [diagnostic.range.start.line for diagnostic in editor.diagnostics(uri)] == [LINE + 2]
    assert [line["range"]["start"]["line"] for line in editor.heat[uri]] == [LINE + 1, LINE + 2]
    titles = [title for _, title in await editor.lens_titles(uri)]
    assert "10.0 ms · bound by dispatch · 1 finding" in titles


async def test_an_edited_line_is_stale_and_has_no_diagnostic(editor: Editor) -> None:
    uri = editor.open(MODEL)
    await editor.profile(uri)
    editor.type(uri, MODEL.replace("out = self", "result = self"))

    assert await editor.hint_labels(uri) == [(LINE - 1, "5.0 % · 500 µs"), (LINE, "~71 % · 7.10 ms")]
    assert editor.diagnostics(uri) == []
    assert [line["range"]["start"]["line"] for line in editor.heat[uri]] == [LINE - 1]
    assert "has changed since it was measured" in (await editor.hover(uri, LINE) or "")
    titles = [title for _, title in await editor.lens_titles(uri)]
    assert "~10.0 ms · bound by dispatch" in titles


async def test_undoing_an_edit_brings_everything_back(editor: Editor) -> None:
    uri = editor.open(MODEL)
    await editor.profile(uri)
    before = (editor.diagnostics(uri), editor.heat[uri], await editor.lens_titles(uri))
    editor.type(uri, MODEL.replace("out = self", "result = self"))
    editor.type(uri, MODEL)
    titles = await editor.lens_titles(uri)
    assert (editor.diagnostics(uri), editor.heat[uri], titles) == before


async def test_lenses_stay_while_the_text_does_not_parse(editor: Editor) -> None:
    uri = editor.open(MODEL)
    before = await editor.lens_titles(uri)
    editor.type(uri, f"import (\n{MODEL}")
    assert await editor.lens_titles(uri) == [(line + 1, title) for line, title in before]


async def test_a_deleted_line_takes_its_cost_with_it(editor: Editor) -> None:
    uri = editor.open(MODEL)
    await editor.profile(uri)
    editor.type(uri, "".join(line for line in MODEL.splitlines(keepends=True) if EXPRESSION not in line))
    assert await editor.hint_labels(uri) == [(LINE - 1, "5.0 % · 500 µs")]
    assert editor.diagnostics(uri) == []


async def test_hints_are_limited_to_the_range(editor: Editor) -> None:
    uri = editor.open(MODEL)
    await editor.profile(uri)
    assert [hint.position.line for hint in await editor.hints(uri, LINE, LINE)] == [LINE]


async def test_a_hint_stands_at_the_end_and_its_tooltip_is_resolved(editor: Editor) -> None:
    uri = editor.open(MODEL)
    await editor.profile(uri)
    hint = (await editor.hints(uri, LINE, LINE))[0]
    assert (hint.position.character, hint.tooltip) == (len(MODEL.splitlines()[LINE]), None)
    resolved = await editor.client.inlay_hint_resolve_async(hint)
    assert isinstance(resolved.tooltip, types.MarkupContent)
    assert "| `embedding` | 1 | 7.10 ms |" in resolved.tooltip.value


@pytest.mark.parametrize(
    ("encoding", "units"),
    [("utf-16", 2), ("utf-8", 4), ("utf-32", 1)],
)
async def test_columns_are_in_the_unit_that_was_agreed_on(start: StartEditor, encoding: str, units: int) -> None:
    capabilities = modern_capabilities()
    assert capabilities.general is not None
    capabilities.general.position_encodings = [encoding]
    editor = await start(capabilities)
    text = MODEL.replace("out = self", "out = '🚀' + self")
    uri = editor.open(text)
    await editor.profile(uri)

    assert editor.server.capabilities.position_encoding == encoding
    line = text.splitlines()[LINE]
    (diagnostic,) = editor.diagnostics(uri)
    begin = line.index(EXPRESSION) - 1 + units
    assert (diagnostic.range.start.character, diagnostic.range.end.character) == (begin, begin + len(EXPRESSION))
    (hint,) = await editor.hints(uri, LINE, LINE)
    assert hint.position.character == len(line) - 1 + units


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("x", "x", id="plain"),
        pytest.param("\n", "\r\n", id="crlf"),
        pytest.param("class Net", "\f\nclass Net", id="form feed"),
        pytest.param("class Net", "note = 'a\u2028b'\nclass Net", id="line separator"),
        pytest.param("out = self", "out = '🚀' + self", id="emoji"),
        pytest.param("    ", "\t", id="tabs"),
        pytest.param("from torch", "note = 'é\u00a0'\nfrom torch", id="accents"),
    ],
)
async def test_a_fix_changes_its_expression_and_no_other_byte(editor: Editor, old: str, new: str) -> None:
    text = MODEL.replace(old, new)
    uri = editor.open(text)
    await editor.profile(uri)
    (diagnostic,) = editor.diagnostics(uri)
    action = await editor.action(uri, diagnostic.range.start.line, "Look up")
    wanted = text.replace(f"{EXPRESSION}  #", "self.word(ids)  #")
    assert wanted != text
    assert await editor.applied(action, text) == wanted


async def test_a_byte_order_mark_on_disk_does_not_make_the_text_differ(editor: Editor) -> None:
    uri = editor.uri()
    (editor.folder / "model.py").write_bytes(MODEL.encode("utf-8-sig"))
    editor.open(MODEL, save=False)
    await editor.profile(uri)
    assert '"overlays": []' in editor.client.log_messages[-1].message
    assert editor.diagnostics(uri)[0].range.start.line == LINE


async def test_answers_use_the_uri_that_the_client_sent(editor: Editor) -> None:
    unusual = editor.uri().replace("model.py", "%6Dodel.py")
    editor.open(MODEL, uri=unusual)
    await editor.profile(unusual)
    assert {params.uri for params in editor.published} == {unusual}
    assert list(editor.heat) == [unusual]


async def test_a_file_that_is_not_open_is_shown_too(editor: Editor) -> None:
    layer = measured(EXPRESSION, **MARK)
    (editor.folder / "layers.py").write_text(layer)
    uri = editor.open(MODEL)
    await editor.profile(uri)
    assert [d.range.start.line for d in editor.diagnostics(editor.uri("layers.py"))] == [0]

    (editor.folder / "layers.py").write_text(f"\n{layer}")
    editor.type(uri, MODEL + "\n")
    await editor.settled(uri)
    assert [d.range.start.line for d in editor.diagnostics(editor.uri("layers.py"))] == [1]


async def test_closing_without_saving_shows_the_file_again(editor: Editor) -> None:
    uri = editor.open(MODEL)
    await editor.profile(uri)
    editor.type(uri, MODEL.replace("out = self", "result = self"))
    editor.close(uri)
    other = editor.open("x = 1\n", "other.py")
    await editor.settled(other)
    assert [d.range.start.line for d in editor.diagnostics(uri)] == [LINE]
