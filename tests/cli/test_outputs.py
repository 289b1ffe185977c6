"""Where results go, and the exit codes, with a measurement that is made up."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import signal
import sys
import threading
from pathlib import Path

import click
import pytest
from tests.faults.disk import full_disk

from forwardlens import workflow
from forwardlens.cli.commands.fix import replace_files
from forwardlens.cli.shell import run
from forwardlens.config import Settings
from forwardlens.model import (
    Edit,
    Environment,
    ExpressionCost,
    Finding,
    Fix,
    Forward,
    GradUse,
    OpCost,
    Profile,
    Quantiles,
    RunError,
    Severity,
    Span,
    Verification,
)
from forwardlens.report.formats import format_names
from forwardlens.runner.request import FailureKind, OnProgress, RunFailedError, RunRequest
from forwardlens.source.text import SourceText
from forwardlens.workflow import FixReport, Result

TEXT = "x = 1\r\ny = 2  # é\r\n"
CHANGED = "x = 1\r\ny = 3  # é\r\n"


def result_for(request: RunRequest, severity: Severity | None = "info") -> Result:
    path = str(request.workspace / "net.py")
    source = SourceText(path, TEXT)
    fix = Fix(
        "Count to three",
        "safe",
        (Edit(path, (2, 4), (2, 5), "3"),),
        verified=Verification("equal", 0.0, 4.0, 2.0, 2.0, 1.9, 2.1, 20),
    )
    finding = Finding("embedding-in-loop", severity or "hint", "it is two", Span(path, 2, 4, 2, 5), 0.5, {}, (), (fix,))
    note = RunError("note", "outputs differ between runs")
    profile = Profile(
        entry=request.entry,
        target=request.target,
        environment=Environment("3.11", "2.13", "Linux", "cpu", "cpu", None, None, 1, grad_mode=True, training=False),
        forward=Forward(Quantiles(4.0, 3.5, 4.5, 10), None, None, None, "compute"),
        grad=GradUse(
            grad_enabled=True, inference_mode=False, training=False, outputs_require_grad=False, backward_ran=False
        ),
        unattributed_share=1.0,
        lines=(),
        texts={path: TEXT},
        errors=(note,),
    )
    return Result(request, profile, {path: source}, (finding,) if severity else (), (note,))


@dataclasses.dataclass
class FakeWorkflow:
    """Stands in for the measurement and remembers what it was asked for."""

    severity: Severity | None = "info"
    failure: RunFailedError | None = None
    requests: list[RunRequest] = dataclasses.field(default_factory=list[RunRequest])
    verified: int = 0

    def profile(
        self, request: RunRequest, _settings: Settings, _on_progress: OnProgress, _cancelled: threading.Event
    ) -> Result:
        self.requests.append(request)
        if self.failure:
            raise self.failure
        return result_for(request, self.severity)

    def verify(self, result: Result, _on_progress: OnProgress, _cancelled: threading.Event) -> Result:
        self.verified += 1
        return result


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeWorkflow:
    (tmp_path / "net.py").write_bytes(TEXT.encode())
    monkeypatch.chdir(tmp_path)
    fake = FakeWorkflow()
    monkeypatch.setattr(workflow, "profile", fake.profile)
    monkeypatch.setattr(workflow, "verify", fake.verify)
    return fake


def test_the_table_goes_to_stdout_and_nothing_to_stderr(fake: FakeWorkflow, capsys: pytest.CaptureFixture[str]):
    assert run(["profile", "net.py:build"]) == 0

    out, err = capsys.readouterr()
    assert "net.py:2:5  info  embedding-in-loop  50 %" in out
    assert out.count("outputs differ between runs") == 1
    assert err == ""
    assert "\x1b" not in out


def test_json_on_stdout_is_alone_there(fake: FakeWorkflow, capsys: pytest.CaptureFixture[str]):
    assert run(["profile", "net.py:build", "--json", "-"]) == 0

    out, err = capsys.readouterr()
    assert json.loads(out)["findings"][0]["rule"] == "embedding-in-loop"
    assert err == ""


def test_files_are_written_beside_the_table(fake: FakeWorkflow, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert run(["profile", "net.py:build", "--json", "out.json", "--sarif", "out.sarif"]) == 0

    assert json.loads((tmp_path / "out.json").read_text("utf-8"))["schema"] == "forwardlens/1"
    assert json.loads((tmp_path / "out.sarif").read_text("utf-8"))["version"] == "2.1.0"
    assert "embedding-in-loop" in capsys.readouterr().out


def test_fixes_are_tried_unless_told_otherwise(fake: FakeWorkflow):
    run(["profile", "net.py:build", "--no-verify"])
    assert fake.verified == 0

    run(["profile", "net.py:build"])
    assert fake.verified == 1


@pytest.mark.parametrize(
    ("severity", "fail_on", "code"),
    [
        (None, "hint", 0),
        ("hint", "hint", 1),
        ("hint", "info", 0),
        ("info", "hint", 1),
        ("info", "info", 1),
        ("info", "warning", 0),
        ("warning", "info", 1),
        ("warning", "warning", 1),
    ],
)
def test_check_fails_on_findings_that_are_bad_enough(
    fake: FakeWorkflow, severity: Severity | None, fail_on: str, code: int
):
    fake.severity = severity

    assert run(["check", "net.py:build", "--fail-on", fail_on]) == code
    assert run(["profile", "net.py:build"]) == 0


def test_check_fails_on_warnings_by_default(fake: FakeWorkflow):
    assert run(["check", "net.py:build"]) == 0
    fake.severity = "warning"
    assert run(["check", "net.py:build"]) == 1


@pytest.mark.parametrize(
    ("kind", "code"), [("usage", 2), ("entry", 3), ("crashed", 3), ("environment", 4), ("cancelled", 130)]
)
def test_a_failed_run_is_one_sentence_with_the_user_s_traceback(
    fake: FakeWorkflow, capsys: pytest.CaptureFixture[str], kind: FailureKind, code: int
):
    trace = 'Traceback (most recent call last):\n  File "net.py", line 2, in build\nValueError: no\n'
    fake.failure = RunFailedError(kind, "net.py:2: ValueError: no", str(Path.cwd() / "net.py"), 2, trace)

    assert run(["profile", "net.py:build"]) == code

    out, err = capsys.readouterr()
    assert out == ""
    assert err == f"Error: net.py:2: ValueError: no\n{trace}"


def test_a_run_that_died_shows_what_it_printed_last(fake: FakeWorkflow, capsys: pytest.CaptureFixture[str]):
    fake.failure = RunFailedError("crashed", "the process was killed by SIGSEGV", log="loading\nboom\n")

    assert run(["profile", "net.py:build"]) == 3

    assert capsys.readouterr().err == (
        "Error: the process was killed by SIGSEGV\nThe run printed last:\nloading\nboom\n"
    )


def test_a_bug_of_ours_is_owned_up_to_and_is_no_finding(
    fake: FakeWorkflow, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def broken(*_: object) -> Result:
        raise KeyError("oops")

    monkeypatch.setattr(workflow, "profile", broken)

    assert run(["check", "net.py:build"]) == 70
    assert "bug in ForwardLens" in capsys.readouterr().err


def test_the_command_line_goes_before_the_entry_s_settings(fake: FakeWorkflow, tmp_path: Path):
    (tmp_path / "pyproject.toml").write_text(
        """
        [tool.forwardlens.entries.net]
        run = "net.py"
        target = "Net"
        device = "cuda"
        python = "env/bin/python"
        iterations = 5
        warmup = 6
        arguments = ["--a"]
        """
    )

    run(["profile"])
    run(
        [
            *("profile", "net", "--target", "Other", "--device", "cpu", "--python", "python3", "--backward"),
            *("--iterations", "7", "--warmup", "0", "--include", "theirs", "--", "--b", "c"),
        ]
    )

    configured, told = fake.requests
    assert configured == RunRequest(
        entry="net.py",
        workspace=tmp_path,
        target="Net",
        python="env/bin/python",
        device="cuda",
        iterations=5,
        warmup=6,
        arguments=("--a",),
    )
    assert told == RunRequest(
        entry="net.py",
        workspace=tmp_path,
        target="Other",
        python="python3",
        device="cpu",
        iterations=7,
        warmup=0,
        backward=True,
        include=("theirs",),
        arguments=("--b", "c"),
    )


def test_an_entry_is_named_from_the_current_folder(fake: FakeWorkflow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "net.py").touch()
    monkeypatch.chdir(tmp_path / "src")

    run(["profile", "net.py:build"])
    run(["profile", "package.module:build"])

    assert [request.entry for request in fake.requests] == ["src/net.py:build", "package.module:build"]
    assert {request.workspace for request in fake.requests} == {tmp_path}


def test_ctrl_c_ends_the_run_and_exits_with_130(
    fake: FakeWorkflow, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def interrupted(*arguments: object) -> Result:
        signal.raise_signal(signal.SIGINT)
        cancelled = arguments[-1]
        assert isinstance(cancelled, threading.Event)
        assert cancelled.is_set()
        raise RunFailedError("cancelled", "cancelled")

    monkeypatch.setattr(workflow, "profile", interrupted)
    before = signal.getsignal(signal.SIGINT)

    assert run(["profile", "net.py:build"]) == 130
    assert signal.getsignal(signal.SIGINT) is before
    assert capsys.readouterr().err == "Error: cancelled\n"


def line_cost(path: str, ms: float, *ops: OpCost) -> ExpressionCost:
    return ExpressionCost(Span(path, 2, 0, 2, 5), "f", 1, 1, ms, ms, ms / 4.0, 0.0, 0.0, 0, ops)


@pytest.fixture
def fixing(fake: FakeWorkflow, monkeypatch: pytest.MonkeyPatch) -> list[tuple[frozenset[str] | None, bool]]:
    """`fix_all` that changes one character; the list collects the rules and the unsafe flag it was given."""
    asked: list[tuple[frozenset[str] | None, bool]] = []

    def fix_all(
        request: RunRequest,
        settings: Settings,
        on_progress: OnProgress,
        cancelled: threading.Event,
        rules: frozenset[str] | None,
        unsafe: bool,
    ) -> FixReport:
        asked.append((rules, unsafe))
        before = result_for(request)
        (path, source), *_ = before.sources.items()
        wall = Quantiles(2.0, 1.9, 2.1, 10)
        path = source.path
        slow = line_cost(path, 3.0, OpCost("aten::where", 128, 1.0, 1.0, 0.0, 0, (), 1, outermost=True))
        before = dataclasses.replace(before, profile=dataclasses.replace(before.profile, lines=(slow,)))
        faster = dataclasses.replace(
            before.profile,
            forward=dataclasses.replace(before.profile.forward, wall_ms=wall),
            lines=(line_cost(path, 1.0),),
            texts={path: CHANGED},
        )
        slower = Fix("Count to four", "safe", (), verified=Verification("slower", before_ms=4.0, after_ms=5.0))
        return FixReport(
            before=before,
            after=dataclasses.replace(before, profile=faster),
            applied=((before.findings[0], before.findings[0].fixes[0]),),
            rejected=((before.findings[0], slower),),
            texts={path: source.with_text(CHANGED)},
            verified=before.findings[0].fixes[0].verified,
        )

    monkeypatch.setattr(workflow, "fix_all", fix_all)
    return asked


def test_fix_prints_a_patch_and_leaves_the_files(
    fixing: list[tuple[frozenset[str] | None, bool]], tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
):
    assert run(["fix", "net.py:build"]) == 0

    out, err = capfdbinary.readouterr()
    assert out == ("--- a/net.py\n+++ b/net.py\n@@ -1,2 +1,2 @@\n x = 1\r\n-y = 2  # é\r\n+y = 3  # é\r\n".encode())
    assert err.decode().splitlines() == [
        "net.py:2: Count to three (tried: 2.0x faster (1.90x to 2.1x over 20 pairs), outputs equal)",
        "net.py:2: left out: Count to four (tried: slower (4.00 ms before, 5.00 ms after))",
        (
            "1 fix proven, not written; a forward took 4.00 ms before and 2.00 ms after; "
            "all together tried: 2.0x faster (1.90x to 2.1x over 20 pairs), outputs equal"
        ),
        "    before      after  line",
        "   3.00 ms    1.00 ms  net.py:2  y = 3  # é",
        "gone: aten::where (128 calls)",
    ]
    assert (tmp_path / "net.py").read_bytes() == TEXT.encode()
    assert fixing == [(None, False)]


def test_fix_writes_when_told_and_keeps_line_ends_and_mode(
    fixing: list[tuple[frozenset[str] | None, bool]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "net.py").chmod(0o750)

    assert run(["fix", "net.py:build", "--write", "--unsafe", "--rule", "embedding-in-loop"]) == 0

    assert (tmp_path / "net.py").read_bytes() == CHANGED.encode()
    assert (tmp_path / "net.py").stat().st_mode & 0o777 == 0o750
    assert [path.name for path in tmp_path.iterdir()] == ["net.py"]
    out, err = capsys.readouterr()
    assert out == ""
    assert "1 fix written" in err
    assert fixing == [(frozenset({"embedding-in-loop"}), True)]


def test_fix_tells_machines_the_same(
    fixing: list[tuple[frozenset[str] | None, bool]], capsys: pytest.CaptureFixture[str]
):
    assert run(["fix", "net.py:build", "--json", "-"]) == 0

    told = json.loads(capsys.readouterr().out)
    assert (told["before_ms"], told["after_ms"], told["verified"]["speedup"]) == (4.0, 2.0, 2.0)
    assert [fix["title"] for fix in told["applied"]] == ["Count to three"]
    assert [fix["verified"]["outcome"] for fix in told["rejected"]] == ["slower"]
    assert told["vanished"] == [{"name": "aten::where", "calls": 128}]
    assert told["lines"] == [
        {"file": "net.py", "line_before": 2, "line_after": 2, "code": "y = 3  # é", "before_ms": 3.0, "after_ms": 1.0}
    ]
    assert "+y = 3" in told["diffs"]["net.py"]


def test_fix_does_not_overwrite_what_changed_meanwhile(
    fixing: list[tuple[frozenset[str] | None, bool]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "net.py").write_text("z = 1\n")

    assert run(["fix", "net.py:build", "--write"]) == 2

    assert (tmp_path / "net.py").read_text() == "z = 1\n"
    assert "has changed since it was measured" in capsys.readouterr().err


def test_fix_on_a_full_disk_leaves_the_file_and_nothing_else(
    fixing: list[tuple[frozenset[str] | None, bool]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    with full_disk(4):
        assert run(["fix", "net.py:build", "--write"]) == 2

    assert [path.name for path in tmp_path.iterdir()] == ["net.py"]
    assert (tmp_path / "net.py").read_bytes() == TEXT.encode()
    (line,) = capsys.readouterr().err.splitlines()
    assert line == f"Error: cannot write '{tmp_path / 'net.py'}': {os.strerror(errno.EFBIG)}; nothing was written"


def test_a_file_that_cannot_be_written_leaves_the_others_as_they_were(tmp_path: Path):
    texts = [SourceText(str(tmp_path / name), TEXT) for name in ("a.py", "b.py")]
    Path(texts[0].path).write_bytes(TEXT.encode())
    changes = tuple((text, text.with_text(CHANGED)) for text in texts)

    with pytest.raises(click.ClickException, match=r"cannot write '.*b\.py': .*; nothing was written"):
        replace_files(changes)

    assert [path.name for path in tmp_path.iterdir()] == ["a.py"]
    assert (tmp_path / "a.py").read_bytes() == TEXT.encode()


@pytest.mark.parametrize("name", format_names())
def test_a_report_that_does_not_fit_on_the_disk_is_one_sentence_after_the_table(
    name: str, fake: FakeWorkflow, capsys: pytest.CaptureFixture[str]
):
    with full_disk(4):
        assert run(["profile", "net.py:build", f"--{name}", "out"]) == 2

    out, err = capsys.readouterr()
    assert "net.py:2:5  info  embedding-in-loop" in out
    assert err == f"Error: cannot write 'out': {os.strerror(errno.EFBIG)}; name a file elsewhere\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is full")
@pytest.mark.parametrize("options", [(), ("--json", "-")])
def test_results_that_do_not_fit_on_the_disk_are_one_sentence(
    options: tuple[str, ...],
    fake: FakeWorkflow,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert run(["profile", "net.py:build", *options]) == 2

    message = f"Error: cannot write the results: {os.strerror(errno.ENOSPC)}; send them elsewhere\n"
    assert capsys.readouterr().err == message
