"""Opening a workspace and working in it runs none of its code, whatever its files say."""

from __future__ import annotations

import pytest
from tests.entries.mean import EVIL, MODEL, has_run, mean_workspace

from .editor import REAL, StartEditor

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize("trusted", [True, False])
async def test_opening_a_mean_workspace_runs_nothing(start: StartEditor, trusted: bool) -> None:
    editor = await start(command=REAL, options={"trusted": trusted})
    mean_workspace(editor.folder)
    for name in ("evil.py", "conftest.py", "deep/model.py"):
        uri = editor.open(EVIL + MODEL, name)
        editor.type(uri, f"# edited\n{EVIL}{MODEL}")
        assert await editor.lenses(uri)
        assert await editor.hints(uri) == []
        assert await editor.command("entries", uri=uri, target="Net") is not None
    assert not has_run(editor.folder)
