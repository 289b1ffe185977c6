# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
"""Which files count as the user's code."""

from __future__ import annotations

import importlib.util
import os
import sys
import sysconfig
from types import CodeType


class UserCode:
    """Answers for a code object's file name whether its lines are wanted, with a cache: tracers ask on every call.

    A file is the user's if it lies under one of `roots` and not in an installed package or the standard library,
    or in one of the packages named in `include`.
    """

    def __init__(self, roots: list[str], include: list[str]) -> None:
        self._roots = tuple(_folder(root) for root in roots)
        self._include_names = include
        self._include: tuple[str, ...] | None = None
        self._installed = _installed_folders()
        self._answers: dict[str, bool] = {}

    def __call__(self, filename: str) -> bool:
        answer = self._answers.get(filename)
        if answer is None:
            answer = self._answers[filename] = self._decide(filename)
        return answer

    def _decide(self, filename: str) -> bool:
        if filename.startswith("<"):
            return False
        path = os.path.normcase(os.path.abspath(filename))
        if self._include is None:
            self._include = tuple(folder for name in self._include_names for folder in _package_folders(name))
        if path.startswith(self._include):
            return True
        if os.path.dirname(os.path.abspath(__file__)) in path:
            return False
        return path.startswith(self._roots) and not path.startswith(self._installed) and not _is_installed(path)


def is_compiled(code: CodeType) -> bool:
    """Whether torch.compile wrote this bytecode. Its lines are those of the original in name only, so it counts as part
    of whoever calls it.
    """
    return any(name.startswith("__compiled_fn") for name in code.co_names)


def _folder(path: str) -> str:
    return os.path.normcase(os.path.join(os.path.abspath(path), ""))


def _is_installed(path: str) -> bool:
    parts = path.split(os.sep)
    return "site-packages" in parts or "dist-packages" in parts


def _installed_folders() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    return tuple({_folder(paths[key]) for key in ("stdlib", "platstdlib")} | {_folder(os.path.dirname(os.__file__))})


def _package_folders(name: str) -> list[str]:
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        return []
    if spec.submodule_search_locations:
        return [_folder(folder) for folder in spec.submodule_search_locations]
    return [os.path.normcase(spec.origin)] if spec.origin else []


def missing_packages(names: list[str]) -> list[str]:
    return [name for name in names if name not in sys.modules and not _package_folders(name)]
