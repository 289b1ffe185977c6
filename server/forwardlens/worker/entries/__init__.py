# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
"""Kinds of entry points, one module each.

A kind has `accepts(entry) -> bool` and `load(entry, request, overlay) -> Case`. Adding one touches one file.
"""

from __future__ import annotations

import importlib
import pkgutil

from ..case import Case
from ..failures import Failure
from ..overlay import Overlay


def load(entry: str, request: dict, overlay: Overlay) -> Case:
    for info in sorted(pkgutil.iter_modules(__path__), key=lambda info: info.name):
        kind = importlib.import_module(f"{__name__}.{info.name}")
        if kind.accepts(entry):
            return kind.load(entry, request, overlay)
    raise Failure(
        "usage", f"`{entry}` is no entry; write path/to/file.py:name, package.module:name or path/to/script.py"
    )
