"""Quick fixes: which are offered, what they change, and when they refuse."""

from __future__ import annotations

from typing import Any

import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcException

from .editor import Editor, measured, within

pytestmark = pytest.mark.asyncio(loop_scope="module")

FIX_ALL = "source.fixAll.forwardlens"


def costly(expression: str = "self.word(ids)", fix: str = "self.all(ids)", ms: float = 3.0, **more: Any) -> str:
    return measured(expression, ms=ms, rule="embedding-in-loop", fix=fix, **more)


async def titles(editor: Editor, text: str, line: int = 0) -> list[str]:
    uri = editor.open(text)
    await editor.profile(uri)
    return [action.title for action in await editor.actions(uri, line)]


async def test_a_fix_chosen_after_the_text_moved_is_made_for_the_new_place(editor: Editor) -> None:
    uri = editor.open(costly())
    await editor.profile(uri)
    action = await editor.action(uri, 0, "Look up")
    moved = f"# a line\n{costly()}"
    editor.type(uri, moved)
    assert await editor.applied(action, moved) == moved.replace("self.word(ids)", "self.all(ids)", 1)


async def test_a_fix_chosen_after_its_line_changed_is_refused(editor: Editor) -> None:
    uri = editor.open(costly())
    await editor.profile(uri)
    action = await editor.action(uri, 0, "Look up")
    editor.type(uri, "y = " + costly())
    with pytest.raises(JsonRpcException, match="changed since it was measured") as caught:
        await editor.resolve(action)
    assert caught.value.code == types.LSPErrorCodes.ContentModified.value


async def test_a_fix_is_disabled_with_a_reason_when_its_code_changed(editor: Editor) -> None:
    uri = editor.open(costly())
    await editor.profile(uri)
    editor.type(uri, "y = " + costly())
    fix, again = await editor.actions(uri, 0)
    assert fix.disabled is not None
    assert fix.disabled.reason == "The code has changed since it was measured; profile it again for a fix that fits."
    assert (again.disabled, again.edit, again.title[:13]) == (None, None, "Profile again")
    assert again.command is not None
    assert (again.command.command, again.command.arguments) == (
        "forwardlens.profile",
        [{"uri": uri, "entry": "model.py:build"}],
    )


async def test_a_fix_is_disabled_when_the_loop_around_it_changed(editor: Editor) -> None:
    loop = "for t in range(9):\n    "
    uri = editor.open(loop + costly(related=1))
    await editor.profile(uri)
    editor.type(uri, loop.replace("9", "len(x)") + costly(related=1))
    assert len(editor.diagnostics(uri)) == 1
    assert (await editor.action(uri, 1, "Look up")).disabled is not None


async def test_all_proven_safe_fixes_are_applied_together(editor: Editor) -> None:
    text = costly() + costly("self.b(x)", "self.c(x)") + costly("self.d(x)", "self.e(x)", outcome="no-gain")
    uri = editor.open(text)
    await editor.profile(uri)
    (action,) = await editor.actions(uri, 0, only=["source.fixAll"])
    assert (action.kind, action.title) == (FIX_ALL, "Apply 2 proven ForwardLens fixes")
    wanted = text.replace("self.word(ids)", "self.all(ids)", 1).replace("self.b(x)", "self.c(x)", 1)
    assert await editor.applied(action, text) == wanted


@pytest.mark.parametrize(("first", "second", "fixed"), [(5.0, 1.0, 0), (1.0, 5.0, 1)])
async def test_of_two_fixes_of_the_same_text_the_costlier_is_applied(
    editor: Editor, first: float, second: float, fixed: int
) -> None:
    # The first fix replaces its line's expression and everything up to the end of the second one.
    text = costly("self.a(x)", "self.A(x)", ms=first, lines=2) + costly("self.b(x)", "self.B(x)", ms=second)
    uri = editor.open(text)
    await editor.profile(uri)
    (action,) = await editor.actions(uri, 0, only=[FIX_ALL])
    assert action.title == "Apply 1 proven ForwardLens fix"
    applied = await editor.applied(action, text)
    assert ("self.A(x)  #$" in applied, "self.B(x)  #$" in applied) == (fixed == 0, fixed == 1)


async def test_fix_all_is_not_offered_without_a_proven_fix(editor: Editor) -> None:
    uri = editor.open(costly(applicability="unsafe"))
    await editor.profile(uri)
    assert await editor.actions(uri, 0, only=["source.fixAll"]) == []


async def test_only_the_kind_that_is_asked_for_is_answered(editor: Editor) -> None:
    uri = editor.open(costly())
    await editor.profile(uri)
    assert {action.kind for action in await editor.actions(uri, 0, only=["quickfix"])} == {"quickfix"}
    assert await editor.actions(uri, 0, only=["refactor"]) == []


async def test_a_cursor_beside_a_finding_gets_the_fixes_of_the_diagnostics_on_its_line(editor: Editor) -> None:
    uri = editor.open(costly(code='note = "🚀"; x = {}') + costly("self.b(x)"))
    await editor.profile(uri)
    start, line = types.Position(0, 0), editor.diagnostics(uri)[:1]
    params = types.CodeActionParams(
        types.TextDocumentIdentifier(uri), types.Range(start, start), types.CodeActionContext(line)
    )
    found = await within(editor.client.text_document_code_action_async(params))
    assert [action.title.partition(" (")[0] for action in found or ()] == [
        "Look up all at once",
        "Ignore embedding-in-loop on this line",
        "Apply 2 proven ForwardLens fixes",
    ]
    params.context.diagnostics = []
    assert not await within(editor.client.text_document_code_action_async(params))


async def test_there_is_nothing_to_do_on_another_line(editor: Editor) -> None:
    assert await titles(editor, costly() + "x = 1\n", line=1) == []


@pytest.mark.parametrize("outcome", ["differs", "raises", "slower"])
async def test_a_fix_that_did_harm_is_not_offered(editor: Editor, outcome: str) -> None:
    assert await titles(editor, costly(outcome=outcome)) == ["Ignore embedding-in-loop on this line"]


async def test_a_fix_without_gain_says_so_and_is_not_preferred(editor: Editor) -> None:
    uri = editor.open(costly(outcome="no-gain"))
    await editor.profile(uri)
    action = await editor.action(uri, 0, "Look up")
    assert action.title == "Look up all at once (outputs equal, no gain measured)"
    assert action.is_preferred is None


async def test_an_unsafe_fix_is_not_preferred_and_is_shown_before_it_is_made(editor: Editor) -> None:
    uri = editor.open(costly(applicability="unsafe"))
    await editor.profile(uri)
    action = await editor.action(uri, 0, "Look up")
    assert action.is_preferred is None
    edit = (await editor.resolve(action)).edit
    assert edit is not None
    (annotation,) = (edit.change_annotations or {}).values()
    assert annotation == types.ChangeAnnotation("the order of the results may differ", needs_confirmation=True)


async def test_a_rule_is_ignored_on_its_line(editor: Editor) -> None:
    text = costly()
    uri = editor.open(text)
    await editor.profile(uri)
    action = await editor.action(uri, 0, "Ignore embedding-in-loop on this line")
    assert await editor.applied(action, text) == f"{text[:-1]}  # forwardlens: ignore[embedding-in-loop]\n"


async def test_a_second_rule_is_ignored_in_the_same_comment(editor: Editor) -> None:
    text = costly(note="# forwardlens: ignore[cat-in-loop]")
    uri = editor.open(text)
    await editor.profile(uri)
    action = await editor.action(uri, 0, "Ignore embedding-in-loop on this line")
    assert await editor.applied(action, text) == text.replace("[cat-in-loop]", "[cat-in-loop, embedding-in-loop]")


async def test_a_rule_is_not_ignored_inside_a_string(editor: Editor) -> None:
    assert await titles(editor, f"x = '''{costly()}'''\n") == [
        "Look up all at once (measured: this forward 9.8x faster, outputs equal)",
        "Apply 1 proven ForwardLens fix",
    ]


async def test_a_second_action_is_computed_on_the_first_ones_result(editor: Editor) -> None:
    text = costly() + costly("self.b(x)", "self.c(x)")
    uri = editor.open(text)
    await editor.profile(uri)
    text = await editor.applied(await editor.action(uri, 0, "Look up"), text)
    editor.type(uri, text)
    text = await editor.applied(await editor.action(uri, 1, "Look up"), text)
    assert [line.partition("  #")[0] for line in text.splitlines()] == ["self.all(ids)", "self.c(x)"]
