"""The pages about the command line and the configuration name what there is, and nothing else."""

from __future__ import annotations

import importlib
import pkgutil
import re
from dataclasses import fields
from pathlib import Path

import click
import pytest

from forwardlens.cli import commands, shell
from forwardlens.config import EntryConfig, Settings

DOCS = Path(__file__).resolve().parents[2] / "docs"
COMMANDS: dict[str, click.Command] = {
    found.name: importlib.import_module(f"{commands.__name__}.{found.name}").command
    for found in pkgutil.iter_modules(commands.__path__)
}


def text_of(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8")


def first_column(section: str) -> set[str]:
    return set(re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE))


def test_every_option_is_on_the_page_and_every_option_there_exists():
    exists = {
        option
        for command in COMMANDS.values()
        for parameter in command.params
        if isinstance(parameter, click.Option) and not parameter.hidden
        for option in (*parameter.opts, *parameter.secondary_opts)
        if option.startswith("--")  # each has a long form
    }

    assert set(re.findall(r"--[a-z][a-z-]+", text_of("command-line.md"))) == exists


def test_every_command_is_on_the_page():
    named = re.findall(r"^forwardlens (\w+)", text_of("command-line.md").partition("```\n\n")[0], re.MULTILINE)

    assert sorted(named) == sorted(COMMANDS)


def test_the_exit_codes_are_on_the_page():
    table = text_of("command-line.md").partition("## Exit codes")[2].partition("##")[0]
    codes = {int(code) for code in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)}

    assert codes == {0, 1, shell.USAGE, shell.READER_GONE, shell.INTERNAL, *shell.EXIT_CODES.values()}


@pytest.mark.parametrize(
    ("heading", "record", "tables"),
    [
        ("## `[tool.forwardlens]`", Settings, {"rules", "entries"}),
        ("## `[tool.forwardlens.entries.NAME]`", EntryConfig, set[str]()),
    ],
)
def test_every_setting_is_on_the_page(heading: str, record: type[Settings | EntryConfig], tables: set[str]):
    section = text_of("configuration.md").partition(heading)[2].partition("\n## ")[0]

    assert first_column(section) == {item.name for item in fields(record)} - tables
