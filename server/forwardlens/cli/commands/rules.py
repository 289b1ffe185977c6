from __future__ import annotations

import sys
from collections.abc import Collection
from typing import TYPE_CHECKING

import click

from forwardlens.config import nearest

if TYPE_CHECKING:
    from forwardlens.rules.contract import Rule


@click.command("rules")
@click.argument("name", metavar="[RULE]", required=False)
def command(name: str | None) -> None:
    """List the rules, or explain one."""
    from forwardlens.rules.engine import catalogue

    rules = {rule.name: rule for rule in catalogue()}
    if name is None:
        _list(rules.values())
    elif name in rules:
        _explain(rules[name])
    else:
        raise click.UsageError(f"unknown rule '{name}'; {nearest(name, rules)}")


def _list(rules: Collection[Rule]) -> None:
    names, levels = (max(map(len, column)) for column in zip(*((r.name, r.highest) for r in rules), strict=True))
    for rule in rules:
        click.echo(f"{rule.name:<{names}}  {rule.highest:<{levels}}  {rule.summary}")


def _explain(rule: Rule) -> None:
    from forwardlens.rules.docs import explanation

    page = explanation(rule)
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.markdown import Markdown

        Console().print(Markdown(page))
    else:
        click.echo(page, nl=False)
