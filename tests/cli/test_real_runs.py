"""The command line with real workers, and every way a user's program can fail it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import jsonschema
import pytest

import forwardlens.report

Run = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.torch

SCHEMA = json.loads((Path(forwardlens.report.__file__).parent / "forwardlens-1.schema.json").read_text("utf-8"))

SLOW = """\
import torch
from torch import nn


class Lookup(nn.Module):
    def __init__(self):
        super().__init__()
        self.word = nn.Embedding(100, 16)

    @torch.inference_mode()
    def forward(self, ids):
        rows = []
        for t in range(ids.size(1)):
            rows.append(self.word(ids[:, t]))
        return torch.stack(rows, dim=1)


def build():
    torch.manual_seed(0)
    return Lookup().eval(), (torch.randint(0, 100, (4, 200)),)
"""
FAILING = """\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        return helper(x)


def helper(x):
    raise ValueError("shapes do not fit")


def build():
    return Net(), (torch.ones(2),)


def broken():
    raise RuntimeError("no data here")


def nonsense():
    return 42


def needy(path):
    return Net(), ()


def stuck():
    import time

    print("waiting", flush=True)
    time.sleep(600)


def dies():
    import os

    print("about to die", flush=True)
    os._exit(9)


number = 3
"""


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    (tmp_path / "slow.py").write_text(SLOW)
    return tmp_path


@pytest.fixture
def failing(tmp_path: Path) -> Path:
    (tmp_path / "net.py").write_text(FAILING)
    (tmp_path / "typo.py").write_text("def build(:\n    pass\n")
    return tmp_path


def test_profile_shows_the_line_its_cost_and_the_proven_fix(forwardlens: Run, slow: Path):
    done = forwardlens("profile", "slow.py:build")

    assert (done.returncode, done.stderr) == (0, "")
    line = next(line for line in done.stdout.splitlines() if line.endswith("rows.append(self.word(ids[:, t]))"))
    _, unit, share, percent, calls, number, *_ = line.split()
    assert unit in ("ms", "µs")
    assert percent == "%"
    assert float(share) > 30
    assert (calls, number) == ("200", "14")
    assert "slow.py:14:25  warning  embedding-in-loop" in done.stdout
    assert "outputs equal" in done.stdout
    assert "+" in done.stdout


def test_json_from_a_real_run_follows_the_schema(forwardlens: Run, slow: Path):
    done = forwardlens("check", "slow.py:build", "--json", "-", "--sarif", "out.sarif")

    assert (done.returncode, done.stderr) == (1, "")
    document = json.loads(done.stdout)
    cast("Any", jsonschema).validate(document, SCHEMA)
    assert [finding["rule"] for finding in document["findings"]] == ["embedding-in-loop"]
    assert {line["file"] for line in document["lines"]} == {"slow.py"}
    median = document["forward"]["wall_ms"]["median"]
    total = sum(line["self_ms"] for line in document["lines"]) + document["unattributed_share"] * median
    assert total == pytest.approx(median, rel=1e-3)
    sarif = json.loads((slow / "out.sarif").read_text("utf-8"))
    assert sarif["runs"][0]["results"][0]["ruleId"] == "embedding-in-loop"


def test_fix_prints_a_patch_that_git_applies_and_that_removes_the_finding(forwardlens: Run, slow: Path):
    done = forwardlens("fix", "slow.py:build")

    assert done.returncode == 0, done.stderr
    assert "1 fix proven" in done.stderr
    assert (slow / "slow.py").read_text() == SLOW
    subprocess.run(["git", "apply", "-"], input=done.stdout.encode(), cwd=slow, check=True)
    assert "for t in" not in (slow / "slow.py").read_text()
    assert forwardlens("check", "slow.py:build", "--fail-on", "hint", "--no-verify").returncode == 0


def test_fix_writes_the_same(forwardlens: Run, slow: Path):
    done = forwardlens("fix", "slow.py:build", "--write", "--rule", "embedding-in-loop")

    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert "1 fix written" in done.stderr
    assert "for t in" not in (slow / "slow.py").read_text()


def test_fix_of_another_rule_changes_nothing(forwardlens: Run, slow: Path):
    done = forwardlens("fix", "slow.py:build", "--write", "--rule", "contiguous-churn")

    assert (done.returncode, done.stderr) == (0, "no fix to apply\n")
    assert (slow / "slow.py").read_text() == SLOW


@pytest.mark.parametrize(
    ("entry", "code", "said"),
    [
        ("missing.py:build", 2, "there is no file missing.py"),
        ("missing.module:build", 2, "there is no module missing.module"),
        ("missing.py", 2, "there is no file missing.py"),
        ("net.py:buidl", 2, "has no `buidl`; did you mean `build`?"),
        ("net.py:number", 2, "is not callable"),
        ("net.py:needy", 2, "needs path"),
        ("net.py:nonsense", 3, "returned a value of type int"),
        ("net.py:broken", 3, "RuntimeError: no data here"),
        ("net.py:build", 3, "ValueError: shapes do not fit"),
        ("typo.py:build", 3, "SyntaxError"),
        ("net.py:dies", 3, "exited with code 9"),
        ("net.py", 3, "without calling a torch.nn.Module"),
    ],
)
def test_a_failure_is_one_sentence_and_only_the_user_s_traceback(
    forwardlens: Run, failing: Path, entry: str, code: int, said: str
):
    done = forwardlens("profile", entry)

    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    first, *rest = done.stderr.splitlines()
    assert first.startswith("Error: ")
    assert said in first
    assert "forwardlens" not in "\n".join(rest)


def test_the_traceback_is_the_one_the_user_would_have_seen(forwardlens: Run, failing: Path):
    done = forwardlens("profile", "net.py:build")

    places = [line.split(", ", 1)[1] for line in done.stderr.splitlines() if line.startswith('  File "')]
    assert "line 11, in helper" in places
    assert places[-1] == "line 11, in helper"
    assert done.stderr.endswith("ValueError: shapes do not fit\n")


def test_what_a_dead_run_printed_is_shown(forwardlens: Run, failing: Path):
    assert "about to die" in forwardlens("profile", "net.py:dies").stderr


@pytest.fixture(scope="module")
def without_torch(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("env")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    return str(folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python"))


def test_an_interpreter_without_torch_is_an_environment_problem(forwardlens: Run, slow: Path, without_torch: str):
    done = forwardlens("profile", "slow.py:build", "--python", without_torch)

    assert (done.returncode, done.stdout) == (4, "")
    assert "torch" in done.stderr
    assert without_torch in done.stderr
    assert "Traceback" not in done.stderr


def test_an_interpreter_that_does_not_exist_is_one_too(forwardlens: Run, slow: Path):
    done = forwardlens("profile", "slow.py:build", "--python", "/no/such/python")

    assert (done.returncode, done.stdout) == (4, "")
    assert "/no/such/python" in done.stderr
    assert "Traceback" not in done.stderr


def test_doctor_tells_what_would_run_and_why(forwardlens: Run, slow: Path):
    done = forwardlens("doctor", "--python", sys.executable)

    rows = {line.split("  ", 1)[0]: line.split("  ", 1)[1].strip() for line in done.stdout.splitlines()}
    assert (done.returncode, done.stderr) == (0, "")
    assert rows["interpreter"].startswith(f"{sys.executable}, because ")
    assert rows["torch"][0].isdigit()
    assert rows["devices"].startswith("cpu")
    assert rows["would run"].startswith("nothing without an ENTRY: name what to profile")
    assert rows["candidate"] == "slow.py:build, because it returns a module and its inputs"


@pytest.mark.parametrize("python", ["without torch", "/no/such/python"])
def test_doctor_exits_with_4_where_nothing_can_run(forwardlens: Run, slow: Path, without_torch: str, python: str):
    done = forwardlens("doctor", "--python", without_torch if python == "without torch" else python)

    assert done.returncode == 4
    assert "problem" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT for one process")
def test_an_interrupt_ends_the_run_and_its_process(failing: Path):
    command = [sys.executable, "-m", "forwardlens", "profile", "net.py:stuck"]
    with subprocess.Popen(command, cwd=failing, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        time.sleep(4)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)

    assert (process.returncode, out) == (130, "")
    assert "cancelled" in err
    assert "Traceback" not in err
