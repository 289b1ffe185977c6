"""Machine-readable reports: a module in this package that defines `FORMAT` is one, and gets its own option."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass

from forwardlens.report.record import Report


@dataclass(frozen=True, slots=True)
class Format:
    """`render` returns the whole document, in ASCII where the format can escape: it must survive every terminal and
    pipe. `suffix` ends the names of its files.
    """

    title: str
    suffix: str
    render: Callable[[Report], str]


def format_names() -> tuple[str, ...]:
    """The names of all formats, without loading them."""
    return tuple(found.name for found in pkgutil.iter_modules(__path__))


def load_format(name: str) -> Format:
    return importlib.import_module(f"{__name__}.{name}").FORMAT
