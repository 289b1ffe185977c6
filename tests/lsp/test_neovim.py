"""A real Neovim with the configuration of the page for users, and the real server.

`FORWARDLENS_NVIM` names further `nvim`s (separated as in `PATH`) beside the one on `PATH`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .slow_model import FORWARD_LINE, LOOP_LINE, MODEL

FOUND = [os.environ.get("FORWARDLENS_NVIM", ""), shutil.which("nvim") or ""]
EDITORS = [editor for names in FOUND for editor in names.split(os.pathsep) if editor]
PAGE = Path(__file__).resolve().parents[2] / "docs" / "editors" / "others.md"

pytestmark = [
    pytest.mark.torch,
    pytest.mark.editor,
    pytest.mark.skipif(not EDITORS, reason="no nvim is on PATH: apt-get install neovim"),
]


def version(editor: str) -> tuple[int, int]:
    said = subprocess.run([editor, "--version"], capture_output=True, text=True, check=True).stdout
    found = re.match(r"NVIM v(\d+)\.(\d+)", said)
    assert found, said
    return int(found.group(1)), int(found.group(2))


def configuration(editor: str) -> str:
    """What the page tells users of this version to write into their `init.lua`."""
    page = PAGE.read_text(encoding="utf-8")
    section = page[page.index("## Neovim") :].split("\n## ")[0]
    newer, older = re.findall(r"```lua\n(.*?)```", section, re.DOTALL)
    return newer if version(editor) >= (0, 11) else older


@pytest.mark.parametrize("editor", EDITORS)
def test_a_model_is_profiled_and_fixed_in_neovim(editor: str, tmp_path: Path) -> None:
    work = tmp_path / "work space"
    work.mkdir()
    model, configured, answered = work / "model.py", tmp_path / "init.lua", tmp_path / "answer.json"
    model.write_text(MODEL, encoding="utf-8")
    (work / "pyproject.toml").write_text("", encoding="utf-8")
    configured.write_text(configuration(editor), encoding="utf-8")
    environment = {
        **os.environ,
        # As in a shell with the virtual environment activated.
        "VIRTUAL_ENV": sys.prefix,
        "PATH": str(Path(sys.executable).parent) + os.pathsep + os.environ["PATH"],
        # Nothing of the user's own Neovim.
        **{f"XDG_{name}_HOME": str(tmp_path / name.lower()) for name in ("CONFIG", "DATA", "STATE", "CACHE")},
        "FORWARDLENS_ANSWER": str(answered),
        "FORWARDLENS_LINE": str(FORWARD_LINE + 1),
    }
    drive = f"luafile {Path(__file__).with_name('neovim.lua')}"
    command = [editor, "--headless", "--noplugin", "-u", str(configured), "-c", drive, str(model)]
    done = subprocess.run(
        command, cwd=work, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120
    )

    assert answered.exists(), done.stderr
    answer: dict[str, Any] = json.loads(answered.read_text(encoding="utf-8"))
    assert "problem" not in answer, answer
    assert answer["messages"] == ""

    assert answer["lenses"] == ["Profile this forward()", "Profile what this builds"]
    assert any(re.match(r"[\d.]+ ms · ", title) for title in answer["lenses_after"]), answer["lenses_after"]
    loop = MODEL.splitlines()[LOOP_LINE]
    (finding,) = [found for found in answer["diagnostics"] if found["code"] == "embedding-in-loop"]
    column = len(loop[: loop.index("self.word")].encode())
    assert (finding["source"], finding["line"], finding["column"]) == ("forwardlens", LOOP_LINE, column)
    assert "`self.word(ids[:, t])`" in answer["hover"]
    if version(editor) >= (0, 10):
        (cost,) = [hint["label"] for hint in answer["hints"] if hint["line"] == LOOP_LINE]
        assert re.search(r"\d % · [\d.]+ ms · 256 calls", cost), cost
    fix, ignore, fix_all = answer["actions"]
    assert "outputs equal" in fix
    assert ignore == "Ignore embedding-in-loop on this line"
    # Whether the model's other fix gains anything is up to the machine.
    assert re.match(r"Apply \d proven ForwardLens fix", fix_all), fix_all
    lookups, stack = loop[loop.index("[") :], "torch.stack(words, dim=1)"
    assert answer["fixed"] == MODEL.replace(lookups, "self.word(ids)").replace(stack, "words")
