# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
"""Importing a file of the user's the way Python itself would."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from types import ModuleType

from .overlay import Overlay


def search(*first: str, workspace: str) -> None:
    """Put folders on the import path: `first` at its front, as Python does with a script's own folder; the workspace
    and its `src` at its end, where they shadow nothing, for projects that are run without being installed.
    """
    for folder in reversed(first):
        if folder not in sys.path:
            sys.path.insert(0, folder)
    for folder in source_roots(workspace):
        if folder not in sys.path:
            sys.path.append(folder)


def source_roots(workspace: str) -> list[str]:
    """Where a project's packages lie, the innermost folder first."""
    return [folder for folder in (os.path.join(workspace, "src"), workspace) if os.path.isdir(folder)]


def import_file(path: str, workspace: str, overlay: Overlay) -> ModuleType:
    """The module of a file: as part of its package if it lies in one, else by its own name."""
    root, name = module_name(path, workspace, overlay)
    search(root, workspace=workspace)
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


def module_name(path: str, workspace: str, overlay: Overlay) -> tuple[str, str]:
    """The folder to import from and the dotted name, for a file in nested packages or in none.

    Folders with an `__init__.py` are packages. One without may be a namespace package; it is taken for one if the file
    itself imports as part of it.
    """
    folder, parts = os.path.dirname(path), [os.path.splitext(os.path.basename(path))[0]]
    while os.path.isfile(os.path.join(folder, "__init__.py")):
        folder, package = os.path.split(folder)
        parts.insert(0, package)
    root, outer = _namespace(folder, workspace)
    if outer and _imports_as_part_of(outer[0], len(parts), overlay.text(path)):
        folder, parts = root, [*outer, *parts]
    if len(parts) > 1 and parts[-1] == "__init__":
        parts.pop()
    return folder, ".".join(parts)


def _namespace(folder: str, workspace: str) -> tuple[str, list[str]]:
    """The source root above `folder` and the names of the folders from there; none where they are no names."""
    for root in source_roots(workspace):
        inner = os.path.relpath(folder, root)
        parts = inner.split(os.sep)
        if inner != os.curdir and all(part.isidentifier() for part in parts):
            return root, parts
    return folder, []


def _imports_as_part_of(package: str, depth: int, text: str) -> bool:
    """Whether a file imports from `package` by name, or with more dots than the `depth` of packages around it has."""
    return any(dots >= depth if dots else name.partition(".")[0] == package for dots, name in imports(text))


def imports(text: str) -> Iterator[tuple[int, str]]:
    """Leading dots and names of everything a file imports; nothing if it is no Python, which running it will tell."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield node.level, node.module or ""
        elif isinstance(node, ast.Import):
            yield from ((0, alias.name) for alias in node.names)


def forget_user_modules(is_user) -> None:
    """Drop the user's modules, so that the next import runs their text again."""
    # All are found before any goes: the folders of a namespace package are looked up through its parent.
    users = [name for name, module in list(sys.modules.items()) if any(map(is_user, _files(module)))]
    for name in users:
        if name != "__main__":
            del sys.modules[name]


def _files(module: ModuleType) -> Iterator[str]:
    """Where a module comes from. A namespace package has folders only."""
    file = getattr(module, "__file__", None)
    if file:
        yield file
    elif type(getattr(module, "__path__", None)).__name__ == "_NamespacePath":
        yield from (os.path.join(folder, "__init__.py") for folder in module.__path__)
