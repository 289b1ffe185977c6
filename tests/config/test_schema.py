"""The schema that editors check pyproject.toml with says what the reader says."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from forwardlens import config_schema
from forwardlens.config import ConfigError, load_settings
from forwardlens.rules.engine import rule_names


def test_schema_is_current() -> None:
    """Run `make docs` if this fails."""
    assert config_schema.FILE.read_text(encoding="utf-8") == config_schema.text()


TABLES = [
    "",
    "[tool.other]\nx = 1\n",
    "[tool.forwardlens]\nthreshold = 0.5\ninclude = ['a']\nentry = 'a.py:b'\n",
    "[tool.forwardlens]\nthreshold = 2\n",
    "[tool.forwardlens]\nthreshold = '2%'\n",
    "[tool.forwardlens]\ntreshold = 0.1\n",
    "[tool.forwardlens]\ninclude = 'a'\n",
    "[tool.forwardlens.rules]\ncat-in-loop = 'off'\n",
    "[tool.forwardlens.rules]\ncat-in-loop = 'error'\n",
    "[tool.forwardlens.rules]\nno-such-rule = 'off'\n",
    "[tool.forwardlens.entries.a]\nrun = '-m a.b'\nwarmup = 0\nbackward = true\narguments = ['--x']\n",
    "[tool.forwardlens.entries.a]\nrun = 'a.py'\niterations = 0\n",
    "[tool.forwardlens.entries.a]\ndevice = 'cpu'\n",
    "[tool.forwardlens.entries.a]\nrun = 'a.py'\ndevcie = 'cpu'\n",
    "[tool.forwardlens]\nentries = 3\n",
]


@pytest.mark.parametrize("table", TABLES)
def test_schema_and_reader_agree(tmp_path: Path, table: str) -> None:
    (tmp_path / "pyproject.toml").write_text(table)
    try:
        load_settings(tmp_path, rule_names())
        read = True
    except ConfigError:
        read = False
    validator: Any = jsonschema.Draft7Validator(config_schema.schema())
    valid = validator.is_valid(tomllib.loads(table))
    assert valid == read


def test_every_setting_is_described() -> None:
    schema: Any = config_schema.schema()
    settings = schema["properties"]["tool"]["properties"]["forwardlens"]["properties"]
    entry = settings["entries"]["additionalProperties"]["properties"]
    undescribed = [name for part in (settings, entry) for name, item in part.items() if "description" not in item]
    assert undescribed == []
