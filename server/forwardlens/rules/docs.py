"""Writes the pages under docs/rules from the rules: `python -m forwardlens.rules.docs [FOLDER]`."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from pathlib import Path

from forwardlens.rules.contract import Example, Rule
from forwardlens.rules.engine import catalogue

_MARK = "  #!"
_NOTE = "<!-- Written by `python -m forwardlens.rules.docs`: change the rule's file, not this one. -->"


def pages() -> Mapping[str, str]:
    """The text of every page by file name: one for each rule, and the list of them."""
    rules = catalogue()
    return {"README.md": _index(rules), **{f"{rule.name}.md": page(rule) for rule in rules}}


def page(rule: Rule) -> str:
    return f"{_NOTE}\n{explanation(rule)}"


def explanation(rule: Rule) -> str:
    """Everything there is to say about a rule, as Markdown."""
    parts = [f"# {rule.name}", f"{rule.summary}.", inspect.cleandoc(rule.__doc__ or ""), "## Examples"]
    flagged = [example for example in rule.examples if _MARK in example.code]
    clean = [example for example in rule.examples if _MARK not in example.code]
    parts += [part for example in flagged for part in _flagged(example)]
    if clean:
        parts.append("### Not reported")
        parts += [part for example in clean for part in (f"{_title(example)}:", _code(example.code))]
    return "\n\n".join(parts) + "\n"


def _index(rules: tuple[Rule, ...]) -> str:
    rows = [f"| [{rule.name}]({rule.name}.md) | {rule.summary} |" for rule in rules]
    return "\n\n".join(["# Rules", _NOTE, "\n".join(["| rule | what it finds |", "|---|---|", *rows])]) + "\n"


def _flagged(example: Example) -> list[str]:
    parts = [f"### {_title(example)}", _code(example.code.replace(_MARK, "  # reported"))]
    if example.fixed is not None:
        parts += ["becomes", _code(example.fixed)]
    else:
        parts.append("There is no safe fix.")
    return parts


def _title(example: Example) -> str:
    words = example.name.replace("-", " ")
    return words[:1].upper() + words[1:]


def _code(text: str) -> str:
    """The part of an example between its imports and its `build`, which is what it shows."""
    lines = text.rstrip("\n").split("\n")
    start = next(number for number, line in enumerate(lines) if line.startswith(("class ", "def ")))
    end = next((number for number, line in enumerate(lines) if line.startswith("def build(")), len(lines))
    return "```python\n" + "\n".join(lines[start:end]).rstrip() + "\n```"


def write(folder: Path) -> None:
    """Write every page, and remove those of rules that are gone."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = pages()
    for old in folder.glob("*.md"):
        if old.name not in wanted:
            old.unlink()
    for name, text in wanted.items():
        (folder / name).write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[3] / "docs" / "rules")
