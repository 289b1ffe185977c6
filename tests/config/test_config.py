"""`[tool.forwardlens]`: what is read, and what is said about what cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from forwardlens.config import ConfigError, EntryConfig, Settings, entry_candidates, load_settings, resolve_entry

RULES = ("cat-in-loop", "embedding-in-loop", "masking-in-loop")
FORMS = "file.py:name, package.module:name, script.py, -m package.module or tests/test_x.py::test_y"
ENTRY_FILE = "import torch\n\n\ndef {name}():\n    return torch.nn.Linear(2, 2), (torch.ones(2),)\n"


def settings_from(folder: Path, toml: str) -> Settings:
    (folder / "pyproject.toml").write_text(toml, encoding="utf-8")
    return load_settings(folder, RULES)


def test_every_key_is_read(tmp_path: Path):
    settings = settings_from(
        tmp_path,
        """
        [project]
        name = "unrelated"

        [tool.forwardlens]
        entry = "bert"
        include = ["our_lib", "their_lib"]
        threshold = 1

        [tool.forwardlens.rules]
        cat-in-loop = "off"

        [tool.forwardlens.entries.bert]
        run = "models/bert.py:build"
        target = "Bert.forward"
        device = "cuda:1"
        python = "env/bin/python"
        iterations = 20
        warmup = 0
        backward = true
        arguments = ["--layers", "2"]

        [tool.forwardlens.entries."with space"]
        run = "serve.py"
        """,
    )

    assert settings == Settings(
        entry="bert",
        include=("our_lib", "their_lib"),
        threshold=1.0,
        rules={"cat-in-loop": "off"},
        entries={
            "bert": EntryConfig(
                run="models/bert.py:build",
                target="Bert.forward",
                device="cuda:1",
                python="env/bin/python",
                iterations=20,
                warmup=0,
                backward=True,
                arguments=("--layers", "2"),
            ),
            "with space": EntryConfig(run="serve.py"),
        },
    )
    assert isinstance(settings.threshold, float)


@pytest.mark.parametrize("toml", ["", "[tool.other]\nx = 1\n", "[tool.forwardlens]\n", "\ufeff[project]\nname = 'a'\n"])
def test_defaults_where_nothing_is_said(tmp_path: Path, toml: str):
    assert settings_from(tmp_path, toml) == Settings()


def test_defaults_without_a_file(tmp_path: Path):
    assert load_settings(tmp_path, RULES) == Settings()


@pytest.mark.parametrize(
    ("toml", "line", "message"),
    [
        (
            "[tool.forwardlens]\n\ntreshold = 0.1\n",
            3,
            "unknown key 'treshold' in [tool.forwardlens]; did you mean 'threshold'?",
        ),
        (
            "[tool.forwardlens]\nzzz = 1\n",
            2,
            "unknown key 'zzz' in [tool.forwardlens]; known: entries, entry, include, rules, threshold",
        ),
        (
            "[tool.forwardlens.entries.bert]\nrun = 'a.py'\ndevcie = 'cpu'\n",
            3,
            "unknown key 'devcie' in [tool.forwardlens.entries.bert]; did you mean 'device'?",
        ),
        (
            "[tool.forwardlens.entries]\na.run = 'a.py'\n'b c' = { run = 'b.py', wramup = 2 }\n",
            3,
            "unknown key 'wramup' in [tool.forwardlens.entries.b c]; did you mean 'warmup'?",
        ),
        (
            "[tool.forwardlens.rules]\ncat-in-loop = 'off'\nembeding-in-loop = 'off'\n",
            3,
            "unknown rule 'embeding-in-loop'; did you mean 'embedding-in-loop'?",
        ),
        (
            "[tool.forwardlens.rules]\ncat-in-loop = 'error'\n",
            2,
            "'cat-in-loop' must be one of off, hint, info, warning, not 'error'",
        ),
        (
            "[tool.forwardlens.rules]\ncat-in-loop = []\n",
            2,
            "'cat-in-loop' must be one of off, hint, info, warning, not []",
        ),
        ("[tool.forwardlens]\nentry = 3\n", 2, "'entry' must be a string, not 3"),
        ("[tool.forwardlens]\ninclude = 'a'\n", 2, "'include' must be a list of strings, not 'a'"),
        ("[tool.forwardlens]\ninclude = ['a', 1]\n", 2, "'include' must be a list of strings, not ['a', 1]"),
        ("[tool.forwardlens]\nthreshold = true\n", 2, "'threshold' must be a number, not True"),
        ("[tool.forwardlens]\nthreshold = '2%'\n", 2, "'threshold' must be a number, not '2%'"),
        ("[tool.forwardlens]\nthreshold = 2\n", 2, "'threshold' must be between 0 and 1, not 2"),
        ("[tool.forwardlens]\nthreshold = nan\n", 2, "'threshold' must be between 0 and 1, not nan"),
        ("[tool.forwardlens]\nrules = ['cat-in-loop']\n", 2, "'tool.forwardlens.rules' must be a table"),
        ("[tool]\nforwardlens = 1\n", 2, "'tool.forwardlens' must be a table"),
        (
            "[tool.forwardlens.entries.a]\nrun = 'a.py'\niterations = 0\n",
            3,
            "'iterations' must be at least 1, not 0",
        ),
        (
            "[tool.forwardlens.entries.a]\nrun = 'a.py'\niterations = 1.5\n",
            3,
            "'iterations' must be a whole number, not 1.5",
        ),
        ("[tool.forwardlens.entries.a]\nrun = 'a.py'\nbackward = 1\n", 3, "'backward' must be true or false, not 1"),
        ("[tool]\nforwardlens.entries.a.device = 'cpu'\n", 2, "[tool.forwardlens.entries.a] needs the key 'run'"),
        ("[tool.forwardlens.entries.a]\ndevice = 'cpu'\n", 1, "[tool.forwardlens.entries.a] needs the key 'run'"),
        (
            "[tool.forwardlens]\nentry = 'brt'\n[tool.forwardlens.entries.bert]\nrun = 'a.py'\n",
            2,
            f"'brt' is neither a configured entry nor of the form {FORMS}; did you mean 'bert'?",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, toml: str, line: int, message: str):
    with pytest.raises(ConfigError) as caught:
        settings_from(tmp_path, toml)

    assert (caught.value.message, caught.value.line) == (message, line)
    assert caught.value.file == str(tmp_path / "pyproject.toml")


def test_broken_toml_is_reported_with_its_line(tmp_path: Path):
    with pytest.raises(ConfigError, match="not valid TOML") as caught:
        settings_from(tmp_path, "[tool.forwardlens]\nentry = \n")

    assert caught.value.line == 2


def test_toml_that_ends_too_early_is_reported_on_its_last_line(tmp_path: Path):
    with pytest.raises(ConfigError, match="not valid TOML") as caught:
        settings_from(tmp_path, "[tool.forwardlens]\ninclude = [\n'a',\n\n")

    assert caught.value.line == 3


def test_a_file_that_is_not_utf8_is_reported(tmp_path: Path):
    (tmp_path / "pyproject.toml").write_bytes(b"[tool.forwardlens]\nentry = '\xff'\n")

    with pytest.raises(ConfigError, match=r"cannot read .*pyproject\.toml"):
        load_settings(tmp_path, RULES)


def test_rule_names_are_not_checked_without_a_list_of_them(tmp_path: Path):
    (tmp_path / "pyproject.toml").write_text("[tool.forwardlens.rules]\nanything = 'hint'\n")

    assert load_settings(tmp_path).rules == {"anything": "hint"}


def test_a_name_means_its_entry_and_anything_else_itself(tmp_path: Path):
    bert = EntryConfig(run="a.py:build", device="cpu")
    settings = Settings(entries={"bert": bert})

    assert resolve_entry(settings, "bert", tmp_path) is bert
    assert resolve_entry(settings, "b.py:make", tmp_path) == EntryConfig(run="b.py:make")
    assert resolve_entry(settings, "script.py", tmp_path) == EntryConfig(run="script.py")
    assert resolve_entry(settings, "package.module:make", tmp_path) == EntryConfig(run="package.module:make")


def test_without_a_choice_the_default_or_the_only_entry_is_taken(tmp_path: Path):
    a, b = EntryConfig(run="a.py"), EntryConfig(run="b.py")

    assert resolve_entry(Settings(entries={"a": a}), None, tmp_path) is a
    assert resolve_entry(Settings(entry="b", entries={"a": a, "b": b}), None, tmp_path) is b
    assert resolve_entry(Settings(entry="c.py:build", entries={"a": a}), None, tmp_path) == EntryConfig(
        run="c.py:build"
    )


def test_several_entries_without_a_default_are_listed(tmp_path: Path):
    settings = Settings(entries={"a": EntryConfig(run="a.py"), "b": EntryConfig(run="b.py")})

    with pytest.raises(ConfigError, match="none is the default; name one of: a, b"):
        resolve_entry(settings, None, tmp_path)


def test_a_misspelt_name_is_an_error_with_the_nearest_one(tmp_path: Path):
    with pytest.raises(ConfigError, match="did you mean 'bert'"):
        resolve_entry(Settings(entries={"bert": EntryConfig(run="a.py")}), "bret", tmp_path)


def test_candidates_come_from_the_workspace_files(tmp_path: Path):
    for name in ("model.py", "src/deep/net.py", ".hidden/no.py", "env/lib/no.py", "node_modules/no.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(ENTRY_FILE.format(name="build"))
    (tmp_path / "env/pyvenv.cfg").touch()
    (tmp_path / "broken.py").write_text("def build(:\n")
    (tmp_path / "latin.py").write_bytes(b"x = '\xe9'\n")

    assert entry_candidates(tmp_path) == ("model.py:build", "src/deep/net.py:build")
    assert entry_candidates(tmp_path, limit=1) == ("model.py:build",)
    with pytest.raises(ConfigError, match=r"look like entries: model\.py:build, src/deep/net\.py:build"):
        resolve_entry(Settings(), None, tmp_path)


def test_without_candidates_an_example_is_given(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"for example model\.py:build"):
        resolve_entry(Settings(), None, tmp_path)
