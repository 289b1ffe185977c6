# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
"""Importing a file of the user's the way Python itself would."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from types import ModuleType

from .overlay import Overlay


def import_file(path: str, overlay: Overlay) -> ModuleType:
    """The module of a file: as part of its package if it lies in one, else by its own name."""
    root, name = _root_and_name(path)
    if root not in sys.path:
        sys.path.insert(0, root)
    if "." in name:
        return importlib.import_module(name)
    loaded = sys.modules.get(name)
    if loaded is not None and os.path.realpath(getattr(loaded, "__file__", None) or "") == os.path.realpath(path):
        return loaded
    loader = overlay.loader(name, path)
    module = ModuleType(name)
    module.__file__, module.__loader__ = path, loader
    module.__spec__ = importlib.util.spec_from_file_location(name, path, loader=loader)
    sys.modules[name] = module
    loader.exec_module(module)
    return module


def _root_and_name(path: str) -> tuple[str, str]:
    """The folder to import from and the dotted name, for a file in nested packages or in none."""
    folder, parts = os.path.dirname(path), [os.path.splitext(os.path.basename(path))[0]]
    while os.path.isfile(os.path.join(folder, "__init__.py")):
        folder, package = os.path.split(folder)
        parts.insert(0, package)
    if len(parts) > 1 and parts[-1] == "__init__":
        parts.pop()
    return folder, ".".join(parts)


def forget_user_modules(is_user) -> None:
    """Drop the user's modules, so that the next import runs their text again."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name != "__main__" and file and is_user(file):
            del sys.modules[name]
