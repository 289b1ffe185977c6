"""The command line before anything is measured: help, wrong usage, wrong settings."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]

ENTRY = "from torch import nn\n\n\ndef build():\n    return nn.Linear(2, 2), ()\n"


def complaint(done: subprocess.CompletedProcess[str]) -> str:
    """The last line on stderr of a run that must fail as wrong usage and print no result."""
    assert (done.returncode, done.stdout) == (2, ""), done
    assert "Traceback" not in done.stderr
    return done.stderr.strip().splitlines()[-1]


def test_help_lists_every_command(forwardlens: Run):
    done = forwardlens("--help")

    assert (done.returncode, done.stderr) == (0, "")
    commands = [line.split()[0] for line in done.stdout.partition("Commands:\n")[2].splitlines()]
    assert commands == ["check", "doctor", "fix", "profile", "rules", "server"]
    assert "..." not in done.stdout.partition("Commands:")[2]


@pytest.mark.parametrize("command", ["check", "doctor", "fix", "profile", "rules", "server"])
def test_every_command_explains_itself(forwardlens: Run, command: str):
    done = forwardlens(command, "-h")

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"Usage: forwardlens {command} ")


def test_every_format_has_its_option(forwardlens: Run):
    done = forwardlens("profile", "--help")

    assert "--json FILE" in done.stdout
    assert "--sarif FILE" in done.stdout


def test_no_command_is_wrong_usage(forwardlens: Run):
    done = forwardlens()

    assert (done.returncode, done.stdout) == (2, "")
    assert "Commands:" in done.stderr


def test_version(forwardlens: Run):
    from forwardlens import __version__

    assert forwardlens("--version").stdout == f"forwardlens, version {__version__}\n"


def test_help_loads_neither_torch_nor_the_slow_libraries():
    script = (
        "import sys\nfrom forwardlens.cli.shell import run\nrun(['profile', '--help'])\n"
        "print(sorted({'torch', 'libcst', 'pygls', 'lsprotocol', 'rich', 'cattrs'} & sys.modules.keys()))"
    )

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("prfile",), "Error: no such command 'prfile'; did you mean 'profile'?"),
        (("profile", "a.py", "b.py"), "Error: Got unexpected extra argument (b.py)"),
        (("profile", "--iterations", "0"), "Error: Invalid value for '--iterations': 0 is not in the range x>=1."),
        (("profile", "--nonsense"), "Error: No such option '--nonsense'."),
        (("check", "--fail-on", "error"), "'error' is not one of 'hint', 'info', 'warning'."),
        (("profile", "a.py:f", "--json", "no/such/folder/out.json"), "its folder does not exist"),
        (("profile", "a.py:f", "--sarif", "."), "cannot write '.'"),
        (("profile", "a.py:f", "--json", "-", "--sarif", "-"), "Error: only one format can go to stdout"),
        (("profile", "bert"), "'bert' is neither a configured entry nor of the form file.py:name"),
        (("rules", "embeding-in-loop"), "Error: unknown rule 'embeding-in-loop'; did you mean 'embedding-in-loop'?"),
        (("fix", "a.py:f", "--rule", "cat"), "Error: unknown rule 'cat'"),
    ],
)
def test_wrong_usage_is_one_sentence_and_exit_code_2(forwardlens: Run, arguments: tuple[str, ...], message: str):
    assert message in complaint(forwardlens(*arguments))


def test_a_wrong_setting_is_placed(forwardlens: Run, tmp_path: Path):
    (tmp_path / "pyproject.toml").write_text("[tool.forwardlens]\ntreshold = 0.1\n")

    assert complaint(forwardlens("profile", "a.py:f")) == (
        "Error: pyproject.toml:2: unknown key 'treshold' in [tool.forwardlens]; did you mean 'threshold'?"
    )


def test_a_wrong_rule_name_in_the_settings_is_placed(forwardlens: Run, tmp_path: Path):
    (tmp_path / "pyproject.toml").write_text("[tool.forwardlens.rules]\nembeding-in-loop = 'off'\n")

    assert complaint(forwardlens("doctor")) == (
        "Error: pyproject.toml:2: unknown rule 'embeding-in-loop'; did you mean 'embedding-in-loop'?"
    )


def test_settings_are_found_from_a_folder_below(forwardlens: Run, tmp_path: Path):
    (tmp_path / "pyproject.toml").write_text("[tool.forwardlens]\ntreshold = 0.1\n")
    (tmp_path / "a" / "b").mkdir(parents=True)

    message = complaint(forwardlens("profile", "a.py:f", cwd=tmp_path / "a" / "b"))

    assert f"{tmp_path / 'pyproject.toml'}:2: unknown key" in message


def test_without_an_entry_the_candidates_are_named(forwardlens: Run, tmp_path: Path):
    (tmp_path / "net.py").write_text(ENTRY)

    assert complaint(forwardlens("profile")).endswith("functions that look like entries: net.py:build")


def test_rules_are_listed(forwardlens: Run):
    done = forwardlens("rules")

    assert (done.returncode, done.stderr) == (0, "")
    rows = {line.split()[0]: line.split()[1] for line in done.stdout.splitlines()}
    assert rows["embedding-in-loop"] in ("hint", "info", "warning")


def test_a_rule_is_explained_even_on_a_stream_that_knows_only_ascii(forwardlens: Run):
    for encoding in ("utf-8", "ascii"):
        done = forwardlens("rules", "embedding-in-loop", PYTHONIOENCODING=encoding)

        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("# embedding-in-loop\n")
        assert "Why it costs" in done.stdout


def test_a_reader_that_stops_early_gets_no_traceback(tmp_path: Path):
    """As in `forwardlens rules | head -1`: the pipe is closed before anything is written."""
    with subprocess.Popen(
        [sys.executable, "-m", "forwardlens", "rules"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        error = process.stderr.read().decode()

    assert "Traceback" not in error
    assert "Exception ignored" not in error
    assert process.returncode == 141


def test_the_server_answers_on_stdio(tmp_path: Path):
    start: dict[str, Any] = {
        "id": 1,
        "method": "initialize",
        "params": {"processId": None, "rootUri": None, "capabilities": {}},
    }
    bodies = [json.dumps({"jsonrpc": "2.0", **message}) for message in (start, {"method": "exit"})]
    messages = "".join(f"Content-Length: {len(body)}\r\n\r\n{body}" for body in bodies)

    done = subprocess.run(
        [sys.executable, "-m", "forwardlens", "server", "--stdio"],
        input=messages.encode(),
        capture_output=True,
        cwd=tmp_path,
        timeout=60,
        check=False,
    )

    assert done.stdout.startswith(b"Content-Length: "), done.stderr
    assert b'"forwardlens"' in done.stdout


def test_a_module_and_an_entry_are_one_too_many(forwardlens: Run):
    assert "leave out 'model.py:build'" in complaint(forwardlens("profile", "-m", "package", "model.py:build"))
