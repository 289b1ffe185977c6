"""Run benchmarks and write their sections of docs/benchmarks.md."""

from __future__ import annotations

import datetime
import importlib
import pkgutil
import platform
import re
import sys
from pathlib import Path

from tests import benchmarks
from tests.benchmarks.programs import processor, torch_version
from tests.benchmarks.table import Table

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"
HELPERS = {"__main__", "programs", "server", "table"}


def names() -> list[str]:
    return sorted(info.name for info in pkgutil.iter_modules(benchmarks.__path__) if info.name not in HELPERS)


def section(name: str, table: Table) -> str:
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    where = f"{today}, {processor()}, Python {platform.python_version()}, torch {torch_version()}, one thread"
    return f"<!-- {name} -->\n{table.markdown()}\n\n{where}\n<!-- end {name} -->"


def with_section(page: str, name: str, text: str) -> str:
    """The page with the section of that name replaced, or added at its end."""
    found = re.search(rf"<!-- {name} -->.*?<!-- end {name} -->", page, re.DOTALL)
    if found is None:
        return f"{page.rstrip()}\n\n{text}\n"
    return page[: found.start()] + text + page[found.end() :]


def main(wanted: list[str]) -> int:
    unknown = set(wanted) - set(names())
    if unknown:
        print(f"no benchmark named {', '.join(sorted(unknown))}; there are {', '.join(names())}", file=sys.stderr)
        return 2
    for name in wanted or names():
        table: Table = importlib.import_module(f"tests.benchmarks.{name}").run()
        print(table.markdown(), end="\n\n", flush=True)
        PAGE.write_text(with_section(PAGE.read_text(encoding="utf-8"), name, section(name, table)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
