"""Between the three names of a file: the client's URI, the path in the file system, and the name in a report.

A file that an editor sent keeps the editor's URI for ever: it is never rebuilt from a path. Two spellings of one file
(drive letter, case, percent-encoding, links) meet in `path_key`, which is only for comparing.
"""

from __future__ import annotations

import ntpath
import os
import posixpath
import re
from urllib.parse import quote, unquote, urlsplit

WINDOWS = os.name == "nt"

_DRIVE = re.compile(r"/[A-Za-z]:")


def path_from_uri(uri: str, *, windows: bool = WINDOWS) -> str | None:
    """The path of a `file:` URI; None for anything else, such as `untitled:` or a notebook cell."""
    parts = urlsplit(uri)
    if parts.scheme.lower() != "file":
        return None
    # Paths that are not UTF-8 survive as surrogates, the way Python itself decodes them.
    path = unquote(parts.path, errors="surrogateescape")
    host = "" if parts.netloc.lower() == "localhost" else unquote(parts.netloc)
    if not windows:
        return f"//{host}{path}" if host else path
    if host:
        path = f"//{host}{path}"
    elif _DRIVE.match(path):
        path = path[1].upper() + path[2:]
    return path.replace("/", "\\")


def uri_from_path(path: str, *, windows: bool = WINDOWS) -> str:
    """A URI for an absolute path that no client has named yet."""
    text = os.fsencode(path.replace("\\", "/") if windows else path)
    if windows and not text.startswith(b"//"):
        return f"file:///{quote(text, safe='/:')}"
    return f"file:{quote(text)}" if text.startswith(b"//") else f"file://{quote(text)}"


def path_key(path: str, *, windows: bool = WINDOWS) -> str:
    """What is equal for two spellings of one file. For comparing only: on Windows it is lower-cased."""
    flavour = ntpath if windows else posixpath
    return flavour.normcase(flavour.realpath(path))


def uri_key(uri: str, *, windows: bool = WINDOWS) -> str:
    """`path_key` of the file, or the URI itself where there is none."""
    path = path_from_uri(uri, windows=windows)
    return unquote(uri) if path is None else path_key(path, windows=windows)


def is_inside(path: str, folder: str, *, windows: bool = WINDOWS) -> bool:
    flavour = ntpath if windows else posixpath
    inner, outer = path_key(path, windows=windows), path_key(folder, windows=windows)
    return inner == outer or inner.startswith(outer.rstrip(flavour.sep) + flavour.sep)


def relative_name(path: str, folder: str, *, windows: bool = WINDOWS) -> str:
    """`path` as reports and entries write it: below `folder` with forward slashes, else as it is."""
    flavour = ntpath if windows else posixpath
    if not is_inside(path, folder, windows=windows):
        return path
    # Without links on either side first, so that a folder reached through a link still reads the way the user wrote it.
    plain = flavour.relpath(path, folder)
    if plain.startswith(flavour.pardir):
        plain = flavour.relpath(flavour.realpath(path), flavour.realpath(folder))
    return plain.replace("\\", "/") if windows else plain
