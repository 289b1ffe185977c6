# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
"""Running unsaved or edited text in place of files on disk, without touching the disk."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import io
import linecache
import os
import sys
import threading
import tokenize
from types import CodeType

from .failures import Failure

MOST_BYTES = 64 << 20


def normal(path: str) -> str:
    return os.path.normcase(os.path.realpath(path))


class Overlay(importlib.abc.MetaPathFinder):
    """Finds modules as usual, and gives those whose file has other text a loader that compiles that text."""

    def __init__(self, texts: dict[str, str]) -> None:
        self._texts = {normal(path): text for path, text in texts.items()}
        self._names = {*texts, *self._texts}
        self._asking = threading.local()
        self._compiled: dict[str, str] = {}

    def text(self, path: str) -> str:
        """What `path` stands for: its overlay, what was compiled of it, or its text on disk. Line ends stay."""
        known = normal(path)
        text = self._texts.get(known, self._compiled.get(known))
        return read_source(path) if text is None else text

    def has(self, path: str) -> bool:
        """Whether there is a text: files come and go, the user's own code may delete them."""
        known = normal(path)
        return known in self._texts or known in self._compiled or os.path.isfile(path)

    def compile(self, path: str) -> CodeType:
        text = self._compiled[normal(path)] = self.text(path)
        return compile(text, path, "exec", dont_inherit=True)

    def find_spec(self, fullname, path=None, target=None):
        if not self._texts or getattr(self._asking, "others", False):
            return None
        spec = self._found_by_others(fullname, path, target)
        if spec is not None and spec.has_location and normal(spec.origin) in self._texts:
            spec.loader = self.loader(fullname, spec.origin)
        return spec

    def _found_by_others(self, fullname, path, target):
        """By whatever finds the project's modules, such as the finder of an editable install."""
        self._asking.others = True
        try:
            for finder in sys.meta_path:
                find = getattr(finder, "find_spec", None)
                spec = find(fullname, path, target) if find is not None and finder is not self else None
                if spec is not None:
                    return spec
        finally:
            self._asking.others = False
        return None

    def loader(self, fullname: str, path: str) -> importlib.machinery.SourceFileLoader:
        return _TextLoader(fullname, path, self)

    def install(self) -> None:
        """Come first among the finders, also after another one has put itself in front."""
        self.remove()
        sys.meta_path.insert(0, self)
        for path in self._names:
            text = self._texts[normal(path)]
            linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)

    def remove(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        for path in self._names:
            linecache.cache.pop(path, None)


class _TextLoader(importlib.machinery.SourceFileLoader):
    """Compiles from text and neither reads nor writes cached bytecode."""

    def __init__(self, fullname: str, path: str, overlay: Overlay) -> None:
        super().__init__(fullname, path)
        self._overlay = overlay

    def get_code(self, fullname):
        return self._overlay.compile(self.path)


def read_source(path: str) -> str:
    """A Python file decoded as the interpreter does, line ends kept. Raises `SyntaxError` as it does."""
    if os.path.getsize(path) > MOST_BYTES:
        raise Failure("usage", f"{path} has more than {MOST_BYTES >> 20} MiB, so it is no Python source", path)
    with open(path, "rb") as file:
        data = file.read()
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise SyntaxError(f"(unicode error) {error}", (path, line, None, None)) from None
    except SyntaxError as error:  # the encoding that it declares is none, or not what it is in
        raise SyntaxError(f"{error.msg}", (path, 1, None, None)) from None
