"""The whole way over stdio with the real engine: a worker with torch, the rules, and fixes that are tried."""

from __future__ import annotations

import pytest
from lsprotocol import types

from .editor import REAL, StartEditor
from .slow_model import LOOP_LINE, MODEL

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.torch]


async def test_a_slow_model_is_profiled_found_and_fixed(start: StartEditor) -> None:
    editor = await start(command=REAL)
    uri = editor.open(MODEL)

    summary = await editor.profile(uri, entry=None, target="Tagger")

    assert (summary["status"], summary["verified"]) == ("done", True), summary
    (finding,) = [d for d in editor.diagnostics(uri) if d.code == "embedding-in-loop"]
    line = MODEL.splitlines()[LOOP_LINE]
    utf16_columns = len(line[: line.index("self.word")].encode("utf-16-le")) // 2
    assert finding.range.start == types.Position(LOOP_LINE, utf16_columns)
    assert LOOP_LINE in [at for at, _ in await editor.hint_labels(uri)]
    actions = await editor.actions(uri, LOOP_LINE)
    preferred = [action for action in actions if action.is_preferred]
    assert len(preferred) == 1, [action.title for action in actions]
    assert "outputs equal" in preferred[0].title

    # Code above moves the finding, an edit of its own line takes it away, and undoing that brings it back.
    longer = "import math\n" + MODEL.replace("        hidden =", "        assert math.pi\n        hidden =")
    editor.type(uri, longer)
    await editor.settled(uri)
    assert [d.range.start.line for d in editor.diagnostics(uri) if d.code == finding.code] == [LOOP_LINE + 1]
    editor.type(uri, MODEL.replace("ids[:, t]", "ids[:, t - 1]"))
    await editor.settled(uri)
    assert [d for d in editor.diagnostics(uri) if d.code == finding.code] == []
    editor.type(uri, MODEL)
    await editor.settled(uri)
    assert [d.range for d in editor.diagnostics(uri) if d.code == finding.code] == [finding.range]

    fixed = await editor.applied(preferred[0], MODEL)
    editor.type(uri, fixed)
    again = await editor.profile(uri, entry=None, target="Tagger")
    assert again["medianMs"] < summary["medianMs"]
    assert [d for d in editor.diagnostics(uri) if d.code == "embedding-in-loop"] == []


async def test_an_error_in_the_users_code_stands_on_its_line(start: StartEditor) -> None:
    editor = await start(command=REAL)
    uri = editor.open(MODEL.replace("return self.head(hidden)", "return self.heads(hidden)"))
    summary = await editor.profile(uri)
    assert (summary["status"], summary["kind"], summary["line"]) == ("failed", "entry", 14), summary
    (diagnostic,) = editor.diagnostics(uri)
    assert diagnostic.range.start.line == 13
    assert "heads" in diagnostic.message

    editor.type(uri, MODEL)
    assert (await editor.profile(uri))["status"] == "done"
    assert "run-failed" not in [diagnostic.code for diagnostic in editor.diagnostics(uri)]
