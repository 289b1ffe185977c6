"""The specs that drive a real VS Code, each as one test. They are TypeScript; this only finds and runs them."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from tests.e2e.missing import what_is_missing

ROOT = Path(__file__).resolve().parents[2]
SPECS = sorted(Path(__file__).parent.glob("*.spec.ts"))
MISSING = what_is_missing()

pytestmark = [pytest.mark.editor, pytest.mark.skipif(MISSING is not None, reason=MISSING or "")]


def run_script(name: str, *arguments: str) -> None:
    command = [sys.executable, str(ROOT / "scripts" / name), *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.fail(f"{name} {' '.join(arguments)}\n{done.stdout}\n{done.stderr}", pytrace=False)


@pytest.fixture(scope="session")
def vsix() -> Path:
    """Built anew, so that the editor never runs older code than the checkout holds."""
    run_script("vsix.py")
    return max((ROOT / "dist").glob("*.vsix"), key=lambda path: path.stat().st_mtime)


def test_the_vsix_holds_what_it_needs_and_no_more(vsix: Path) -> None:
    with zipfile.ZipFile(vsix) as archive:
        names = {name.removeprefix("extension/") for name in archive.namelist()}
    # The pages lie three folders above the server's report/links.py, which leads to them.
    pages = {f"docs/rules/{page.name}" for page in (ROOT / "docs" / "rules").glob("*.md")}
    assert {"server/forwardlens/report/links.py", "extension/dist/main.cjs", "extension/launcher/start.py"} <= names
    assert {"extension/dist/report.js", "extension/dist/report.css"} <= names
    assert pages
    assert pages <= names
    assert not [name for name in names if name.startswith(("tests/", "samples/", "scripts/", "extension/src/", "."))]


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name.removesuffix(".spec.ts"))
@pytest.mark.usefixtures("vsix")
def test_editor(spec: Path) -> None:
    run_script("node.py", "node", "--test", str(spec))
