"""From the lens to findings on the right lines."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcException

from .editor import Editor, StartEditor, measured, modern_capabilities, within

pytestmark = pytest.mark.asyncio(loop_scope="module")

LOOP_LINE = 8
EXPRESSION = "self.word(ids[:, t])"
LOOK_UP = measured(
    EXPRESSION,
    code="            out.append({})",
    ms=7.1,
    calls=128,
    rule="embedding-in-loop",
    fix="self.word(ids)",
    related=8,
)
MODEL = f"""\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, ids):
        out = []
        for t in range(128):
{LOOK_UP}\
        return torch.stack(out)  #$ {{"ms": 0.05}}


def build():
    return Net(), (torch.ones(1, 128),)
"""
BLOCKED = '#! {"block": "profile"}\n'
FAILING = (
    MODEL + '#! {"fail": {"kind": "entry", "message": "build() of model.py raised ValueError: no.", "line": 14}}\n'
)


async def test_one_run_fills_every_surface(editor: Editor) -> None:
    uri = editor.open(MODEL)
    assert await editor.lens_titles(uri) == [(5, "Profile this forward()"), (12, "Profile what this builds")]
    assert (await editor.hints(uri), await editor.hover(uri, LOOP_LINE), editor.diagnostics(uri)) == ([], None, [])

    summary = await editor.profile(uri)

    assert (summary["status"], summary["medianMs"], summary["bound"]) == ("done", 10.0, "dispatch")
    assert (summary["findings"], summary["provenFixes"], summary["verified"]) == (1, 1, True)
    (diagnostic,) = editor.diagnostics(uri)
    start_of_expression = MODEL.splitlines()[LOOP_LINE].index(EXPRESSION)
    assert diagnostic.range == types.Range(
        types.Position(LOOP_LINE, start_of_expression),
        types.Position(LOOP_LINE, start_of_expression + len(EXPRESSION)),
    )
    assert (diagnostic.source, diagnostic.code) == ("forwardlens", "embedding-in-loop")
    assert diagnostic.severity == types.DiagnosticSeverity.Warning
    assert diagnostic.code_description is not None
    assert diagnostic.code_description.href.endswith("/embedding-in-loop.md")
    (related,) = list(diagnostic.related_information or ())
    assert (related.location.uri, related.location.range.start.line, related.message) == (uri, 7, "this loop")
    summary_title = "10.0 ms · bound by dispatch · 1 finding"
    assert await editor.lens_titles(uri) == [
        (5, "Profile this forward()"),
        (5, summary_title),
        (12, "Profile what this builds"),
        (12, summary_title),
    ]
    assert await editor.hint_labels(uri) == [(LOOP_LINE, "71 % · 7.10 ms · 128 calls")]
    assert "embedding" in (await editor.hover(uri, LOOP_LINE) or "")
    (heat,) = editor.heat[uri]
    assert (heat["range"]["start"], heat["share"], heat["level"]) == ({"line": LOOP_LINE, "character": 0}, 0.71, 4)
    assert set(editor.refreshed) == {"lens", "hint"}


async def test_the_lens_says_how_many_smaller_findings_are_not_shown(editor: Editor) -> None:
    uri = editor.open(MODEL + '#! {"smaller": 5}\n')
    await editor.profile(uri)
    titles = [title for _, title in await editor.lens_titles(uri)]
    assert "10.0 ms · bound by dispatch · 1 finding and 5 smaller" in titles


async def test_the_lens_commands_profile_what_they_stand_on(editor: Editor) -> None:
    uri = editor.open(MODEL)
    forward, entry = (lens.command for lens in await editor.lenses(uri))
    assert forward is not None
    assert entry is not None
    assert (forward.command, forward.arguments) == ("forwardlens.profile", ({"uri": uri, "target": "Net"},))
    assert (entry.command, entry.arguments) == ("forwardlens.profile", ({"uri": uri, "entry": "model.py:build"},))

    params = types.ExecuteCommandParams(forward.command, arguments=forward.arguments)
    summary = await within(editor.client.workspace_execute_command_async(params))
    assert (summary["entry"], summary["target"]) == ("model.py:build", "Net")


async def test_findings_are_shown_before_their_fixes_are_tried(editor: Editor) -> None:
    uri = editor.open(MODEL + '#! {"block": "verify"}\n')
    run = asyncio.ensure_future(editor.profile(uri))
    await editor.until(lambda: bool(editor.diagnostics(uri)))

    action = await editor.action(uri, LOOP_LINE, "Look up")
    assert (action.title, action.is_preferred) == ("Look up all at once", None)

    await editor.command("cancel", uri=uri)
    summary = await run
    assert (summary["status"], summary["verified"], summary["findings"]) == ("done", False, 1)
    assert len(editor.diagnostics(uri)) == 1


async def test_a_proven_fix_says_so_and_is_preferred(editor: Editor) -> None:
    uri = editor.open(MODEL)
    await editor.profile(uri)
    action = await editor.action(uri, LOOP_LINE, "Look up")
    assert action.title == "Look up all at once (measured: this forward 9.8x faster, outputs equal)"
    assert action.is_preferred


async def test_progress_is_shown_and_ends(editor: Editor) -> None:
    uri = editor.open(MODEL)
    await editor.profile(uri)
    ((begin, *reports, end),) = editor.client.progress_reports.values()
    assert isinstance(begin, types.WorkDoneProgressBegin)
    assert begin.cancellable
    messages = [report.message for report in reports if isinstance(report, types.WorkDoneProgressReport)]
    assert messages == ["starting a worker", "timing", "trying fixes"]
    assert isinstance(end, types.WorkDoneProgressEnd)


async def test_cancelling_the_progress_stops_the_run(editor: Editor) -> None:
    uri = editor.open(MODEL + BLOCKED)
    run = asyncio.ensure_future(editor.profile(uri))
    await editor.until(lambda: any(editor.client.progress_reports.values()), types.PROGRESS)
    (token,) = editor.client.progress_reports
    editor.client.window_work_done_progress_cancel(types.WorkDoneProgressCancelParams(token))

    assert await run == {"status": "cancelled"}
    assert (editor.published, editor.messages) == ([], [])


async def test_a_new_run_replaces_the_one_before_it(editor: Editor) -> None:
    uri = editor.open(MODEL + BLOCKED)
    first = asyncio.ensure_future(editor.profile(uri))
    await editor.until(lambda: any(editor.client.progress_reports.values()), types.PROGRESS)
    editor.type(uri, MODEL)
    second = await editor.profile(uri)

    assert (await first, second["status"]) == ({"status": "cancelled"}, "done")
    assert not (editor.folder / "overlap").exists()
    assert len(editor.diagnostics(uri)) == 1


async def test_unsaved_text_is_what_runs(editor: Editor) -> None:
    uri = editor.open(MODEL)
    editor.open("clean = True\n", "clean.py")
    editor.type(uri, f"# not saved\n{MODEL}")
    await editor.profile(uri)

    assert requested(editor)["overlays"] == [str(editor.folder / "model.py")]
    assert editor.diagnostics(uri)[0].range.start.line == LOOP_LINE + 1


async def test_the_settings_of_the_file_reach_the_run(editor: Editor) -> None:
    settings = {"interpreter": "/venv/bin/python", "iterations": 7, "threshold": 0.1, "entry": "", "inlayHints": False}
    editor.set_settings(**settings, graphBreaks=True)
    uri = editor.open(MODEL)
    await editor.profile(uri)
    request = requested(editor)
    assert (request["python"], request["iterations"], request["threshold"]) == ("/venv/bin/python", 7, 0.1)
    assert request["graph_breaks"]
    assert await editor.hints(uri) == []


async def test_settings_come_from_initialization_options_without_workspace_configuration(start: StartEditor) -> None:
    capabilities = modern_capabilities()
    assert capabilities.workspace is not None
    capabilities.workspace.configuration = False
    editor = await start(capabilities, options={"settings": {"iterations": 9, "entry": "model.py:build"}})
    uri = editor.open(MODEL)
    await editor.profile(uri, entry=None)
    assert requested(editor)["iterations"] == 9


async def test_a_setting_of_a_wrong_type_is_named(editor: Editor) -> None:
    editor.set_settings(iterations="many")
    uri = editor.open(MODEL)
    summary = await editor.profile(uri)
    sentence = "The setting forwardlens.iterations must be a whole number of at least 1, not 'many'."
    assert (summary["status"], summary["message"]) == ("failed", sentence)
    assert editor.messages == [sentence]


async def test_changed_settings_apply_to_what_is_shown(editor: Editor) -> None:
    editor.set_settings(heat=False, inlayHints=False)
    uri = editor.open(MODEL)
    await editor.profile(uri)
    assert (await editor.hints(uri), editor.heat) == ([], {})

    editor.client.set_configuration({"forwardlens": {"heat": True, "inlayHints": True}})
    editor.client.workspace_did_change_configuration(types.DidChangeConfigurationParams(settings=None))
    await editor.until(lambda: uri in editor.heat, "forwardlens/profileChanged")
    assert len(await editor.hints(uri)) == 1


async def test_the_only_candidate_of_the_file_is_run(editor: Editor) -> None:
    uri = editor.open(MODEL)
    assert (await editor.profile(uri, entry=None, target="Net"))["entry"] == "model.py:build"


async def test_several_candidates_are_listed(editor: Editor) -> None:
    uri = editor.open(MODEL + MODEL[MODEL.index("def build") :].replace("build", "make_small"))
    summary = await editor.profile(uri, entry=None)
    assert summary["kind"] == "usage"
    assert summary["message"].endswith("forwardlens.entry: model.py:build, model.py:make_small.")
    offered = [candidate["entry"] for candidate in await editor.command("entries", uri=uri)]
    assert offered == ["model.py:build", "model.py:make_small", "model.py"]


async def test_candidates_elsewhere_are_offered_to_a_file_without_any(editor: Editor) -> None:
    editor.open(MODEL)
    uri = editor.open("x = 1\n", "other.py")
    assert await editor.command("entries", uri=uri) == [
        {"entry": "model.py:build", "kind": "workspace"},
        {"entry": "other.py", "kind": "self"},
    ]


async def test_the_candidate_that_builds_the_target_is_run(editor: Editor) -> None:
    other = MODEL.replace("Net", "Other").replace("build", "other")
    uri = editor.open(MODEL + other)
    assert (await editor.profile(uri, entry=None, target="Other"))["entry"] == "model.py:other"


async def test_the_configured_entry_is_run(editor: Editor) -> None:
    (editor.folder / "pyproject.toml").write_text(
        '[tool.forwardlens]\nentry = "net"\n[tool.forwardlens.entries.net]\nrun = "model.py:build"\niterations = 3\n'
    )
    uri = editor.open(MODEL)
    assert (await editor.profile(uri, entry=None))["entry"] == "model.py:build"
    assert requested(editor)["iterations"] == 3


async def test_a_candidate_that_is_configured_is_run_as_configured(editor: Editor) -> None:
    (editor.folder / "pyproject.toml").write_text(
        '[tool.forwardlens.entries.net]\nrun = "model.py:build"\nmemory_limit = 2\n'
        '[tool.forwardlens.entries.else]\nrun = "other.py:build"\n'
    )
    uri = editor.open(MODEL)
    assert (await editor.profile(uri, entry=None))["entry"] == "model.py:build"
    assert requested(editor)["memory_limit"] == 2_000_000_000


async def test_a_wrong_configuration_is_one_sentence_with_its_place(editor: Editor) -> None:
    (editor.folder / "pyproject.toml").write_text("[tool.forwardlens]\nentri = 1\n")
    uri = editor.open(MODEL)
    summary = await editor.profile(uri)
    assert summary["message"].startswith("pyproject.toml:2: unknown key 'entri'")
    (diagnostic,) = editor.diagnostics(editor.uri("pyproject.toml"))
    assert diagnostic.range.start.line == 1


async def test_a_file_without_any_candidate_says_what_is_needed(editor: Editor) -> None:
    uri = editor.open("x = 1\n")
    summary = await editor.profile(uri, entry=None)
    assert summary["message"].startswith("Name what to profile, for example model.py:build")
    assert (editor.diagnostics(uri), editor.messages) == ([], [summary["message"]])


async def test_an_unknown_rule_is_named_with_the_nearest(editor: Editor) -> None:
    editor.set_settings(rules={"embeding-in-loop": "off"})
    uri = editor.open(MODEL)
    sentence = "The setting forwardlens.rules names no rule 'embeding-in-loop'; did you mean 'embedding-in-loop'?"
    assert (await editor.profile(uri))["message"] == sentence

    editor.set_settings()
    (editor.folder / "pyproject.toml").write_text("[tool.forwardlens.rules]\nembeding-in-loop = 'off'\n")
    assert (await editor.profile(uri))["message"].startswith("pyproject.toml:2: unknown rule 'embeding-in-loop'")


async def test_a_failing_entry_is_told_on_its_line_and_the_next_run_clears_it(editor: Editor) -> None:
    uri = editor.open(FAILING)
    summary = await editor.profile(uri)
    sentence = "build() of model.py raised ValueError: no."
    assert summary == {
        "status": "failed",
        "kind": "entry",
        "message": sentence,
        "file": str(editor.folder / "model.py"),
        "line": 14,
    }
    (diagnostic,) = editor.diagnostics(uri)
    assert (diagnostic.range.start.line, diagnostic.message) == (13, sentence)
    assert diagnostic.severity == types.DiagnosticSeverity.Error
    assert editor.messages == [sentence]
    assert any("the traceback" in message.message for message in editor.client.log_messages)

    editor.type(uri, MODEL)
    assert (await editor.profile(uri))["status"] == "done"
    assert [diagnostic.code for diagnostic in editor.diagnostics(uri)] == ["embedding-in-loop"]


async def test_a_client_that_shows_problems_itself_is_told_their_kind(start: StartEditor) -> None:
    editor = await start(options={"showsProblems": True})
    uri = editor.open(MODEL + '#! {"fail": {"kind": "environment", "message": "no torch in /venv/bin/python"}}\n')
    await editor.profile(uri)
    await editor.settled(uri)
    assert editor.problems == [("environment", "No torch in /venv/bin/python.")]
    assert editor.messages == []


async def test_what_a_run_has_to_tell_is_logged_once(editor: Editor) -> None:
    uri = editor.open(MODEL + '#! {"note": "no fix was tried"}\n')
    await editor.profile(uri)
    await editor.settled(uri)
    assert [m.message for m in editor.client.log_messages].count("no fix was tried") == 1


@pytest.mark.parametrize("stage", ["profile", "verify"])
async def test_a_bug_in_the_engine_leaves_the_server_alive(editor: Editor, stage: str) -> None:
    uri = editor.open(MODEL + f'#! {{"crash": "{stage}"}}\n')
    summary = await editor.profile(uri)
    assert summary["status"] == ("failed" if stage == "profile" else "done")
    await editor.settled(uri)
    sentence = "ForwardLens itself failed with ZeroDivisionError: a bug in the engine; its log has the details."
    assert editor.messages == [sentence]

    editor.type(uri, MODEL)
    assert (await editor.profile(uri))["verified"]


async def test_nothing_runs_in_a_workspace_that_is_not_trusted(start: StartEditor) -> None:
    editor = await start(options={"trusted": False})
    uri = editor.open(MODEL)
    assert len(await editor.lenses(uri)) == 2
    with pytest.raises(JsonRpcException, match="workspace is not trusted"):
        await editor.profile(uri)

    editor.client.protocol.notify("forwardlens/trustGranted", {})
    assert (await editor.profile(uri))["status"] == "done"


async def test_an_unsaved_document_has_no_lenses_and_cannot_be_profiled(editor: Editor) -> None:
    uri = editor.open(MODEL, save=False, uri="untitled:Untitled-1")
    assert await editor.lenses(uri) == []
    with pytest.raises(JsonRpcException, match="save untitled:Untitled-1 first"):
        await editor.profile(uri)


async def test_missing_and_wrong_arguments_are_named(editor: Editor) -> None:
    with pytest.raises(JsonRpcException, match="'uri' is missing"):
        await editor.command("profile")
    params = types.ExecuteCommandParams("forwardlens.profile", arguments=[{"uri": 3}])
    with pytest.raises(JsonRpcException, match="'uri' must be a string, not 3"):
        await within(editor.client.workspace_execute_command_async(params))


async def test_a_file_that_a_run_no_longer_reaches_is_cleared(editor: Editor) -> None:
    layers = editor.open(LOOK_UP.lstrip().replace('"related": 8', '"related": 1'), "layers.py")
    uri = editor.open(MODEL)
    await editor.profile(uri)
    assert len(editor.diagnostics(layers)) == 1

    editor.type(uri, MODEL + '#! {"skip": "layers.py"}\n')
    await editor.profile(uri)
    assert (len(editor.diagnostics(uri)), editor.diagnostics(layers)) == (1, [])


async def test_clear_takes_everything_away(editor: Editor) -> None:
    uri = editor.open(MODEL)
    await editor.profile(uri)
    await editor.command("clear")
    assert (editor.diagnostics(uri), editor.heat[uri], await editor.hints(uri)) == ([], [], [])
    assert len(await editor.lenses(uri)) == 2


async def test_equal_diagnostics_are_not_sent_twice(editor: Editor) -> None:
    uri = editor.open(MODEL)
    await editor.profile(uri)
    await editor.profile(uri)
    editor.type(uri, MODEL + "\n\n# a comment below\n")
    await editor.settled(uri)
    assert len(editor.published) == 1


async def test_saving_repeats_a_run_but_never_starts_one(editor: Editor) -> None:
    editor.set_settings(profileOnSave=True)
    uri = editor.open(MODEL)
    saved = types.DidSaveTextDocumentParams(types.TextDocumentIdentifier(uri))
    editor.client.text_document_did_save(saved)
    await editor.settled(uri)
    assert editor.client.progress_reports == {}

    await editor.profile(uri)
    editor.client.text_document_did_save(saved)
    await editor.until(lambda: len(editor.client.progress_reports) == 2 and ended(editor), types.PROGRESS)


async def test_the_report_has_the_whole_run_and_the_present_places(editor: Editor) -> None:
    uri = editor.open(MODEL)
    assert await editor.command("report", uri=uri) is None
    await editor.profile(uri)
    editor.type(uri, f"\n{MODEL.replace('torch.stack', 'torch.cat')}")

    report = await editor.command("report", uri=uri)
    assert (report["schema"], report["stale"], report["verified"]) == ("forwardlens/1", True, True)
    assert report["files"] == {"model.py": uri}
    assert list(zip([line["line"] for line in report["lines"]], report["places"], strict=True)) == [(9, 9), (10, None)]

    asked = await ask(editor, "report", uri=uri)
    assert asked.entry == "model.py:build"


async def ask(editor: Editor, what: str, **params: object) -> Any:
    return await within(editor.client.protocol.send_request_async(f"forwardlens/{what}", params))


async def test_a_second_run_is_compared_with_the_first(editor: Editor) -> None:
    uri = editor.open(MODEL)
    await editor.profile(uri)
    first = await ask(editor, "report", uri=uri)
    assert first.comparison is None
    editor.type(uri, MODEL.replace("torch.stack", "torch.cat"))
    await editor.profile(uri)
    second = await ask(editor, "report")
    assert second.run > first.run
    assert (second.request.uri, second.request.target) == (uri, None)
    assert second.comparison.verdict == "same"
    assert [(line.line_before, line.line) for line in second.comparison.lines if line.line_before != line.line] == []
    # Each with the one before it, not with the first.
    await editor.profile(uri)
    assert len((await ask(editor, "report", uri=uri)).comparison.lines) == len(second.comparison.lines)


async def test_a_place_of_the_report_is_found_after_edits(editor: Editor) -> None:
    uri = editor.open(MODEL)
    await editor.profile(uri)
    line = (await ask(editor, "report", uri=uri)).lines[0]
    span = {
        "file": line.file,
        "line": line.line,
        "column": line.column,
        "end_line": line.end_line,
        "end_column": line.end_column,
    }
    editor.type(uri, f"\n\n{MODEL}")
    place = await ask(editor, "place", uri=uri, **span)
    assert (place.uri, place.range.start.line) == (uri, line.line + 1)
    assert place.range.start.character == line.column
    whole = await ask(editor, "place", uri=uri, **{**span, "column": 0, "end_line": line.line, "end_column": 0})
    assert whole.range.start.line == line.line + 1
    assert whole.range.end.character > whole.range.start.character
    editor.type(uri, MODEL.replace(MODEL.splitlines()[int(line.line) - 1], "        pass"))
    assert (await ask(editor, "place", uri=uri, **span)).range is None
    assert await ask(editor, "place", uri=uri, **{**span, "file": "other.py"}) is None


async def test_a_run_is_exported_in_every_format(editor: Editor) -> None:
    uri = editor.open(MODEL)
    assert await ask(editor, "export", uri=uri, format="csv") is None
    await editor.profile(uri)
    formats = {item["name"]: item["suffix"] for item in await ask(editor, "exportFormats")}
    assert formats == {
        "chrome": ".trace.json",
        "csv": ".csv",
        "json": ".json",
        "sarif": ".sarif",
        "speedscope": ".speedscope.json",
    }
    texts = {name: await ask(editor, "export", uri=uri, format=name) for name in formats}
    assert texts["csv"].startswith("file,line,")
    assert all(json.loads(texts[name]) for name in formats if name != "csv")
    with pytest.raises(JsonRpcException, match="no report format 'xml'; there are chrome, csv"):
        await ask(editor, "export", uri=uri, format="xml")


async def test_a_run_without_a_timeline_has_none(editor: Editor) -> None:
    uri = editor.open(MODEL)
    await editor.profile(uri)
    assert await ask(editor, "timeline", uri=uri) is None


def requested(editor: Editor) -> dict[str, object]:
    """What the engine was asked for; it says so in the run's log."""
    return json.loads(editor.client.log_messages[-1].message)


def ended(editor: Editor) -> bool:
    return all(
        isinstance(reports[-1], types.WorkDoneProgressEnd) for reports in editor.client.progress_reports.values()
    )
