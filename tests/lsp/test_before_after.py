"""After an edit and another run, the lens says what the forward took before."""

from __future__ import annotations

import pytest

from .editor import Editor

pytestmark = pytest.mark.asyncio(loop_scope="module")

MODEL = """\
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        return x


def build():
    return Net(), (1,)
"""


async def titles(editor: Editor, uri: str) -> list[str]:
    await editor.profile(uri)
    return [title for _, title in await editor.lens_titles(uri) if " ms" in title]


def timed(median: float) -> str:
    return f'{MODEL}#! {{"median": {median}}}\n'


async def test_an_edit_that_shows_is_told(editor: Editor) -> None:
    uri = editor.open(timed(6.6))
    assert await titles(editor, uri) == ["6.60 ms · bound by dispatch · no findings"]
    editor.type(uri, timed(2.0))
    assert await titles(editor, uri) == ["was 6.60 ms, now 2.00 ms · bound by dispatch · no findings"]


async def test_what_two_runs_of_the_same_code_differ_by_is_not(editor: Editor) -> None:
    uri = editor.open(timed(6.6))
    await titles(editor, uri)
    assert await titles(editor, uri) == ["6.60 ms · bound by dispatch · no findings"]
    editor.type(uri, timed(6.5))
    assert await titles(editor, uri) == ["6.50 ms · bound by dispatch · no findings"]
