"""Unified diffs, as `patch` and `git apply` read them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping

from forwardlens.model import Fix
from forwardlens.source.edits import apply_edits
from forwardlens.source.text import SourceText

# Only what those tools count as the end of a line; a form feed in the source is part of one.
_LINE = re.compile(r"[^\n]*\n|[^\n]+")


def unified_diff(before: SourceText, after: SourceText, name: str) -> str:
    """The change from `before` to `after`; empty if there is none. `name` stands in both headers."""
    lines = difflib.unified_diff(
        _LINE.findall(before.text), _LINE.findall(after.text), fromfile=f"a/{name}", tofile=f"b/{name}"
    )
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def fix_diff(fix: Fix, sources: Mapping[str, SourceText], names: Mapping[str, str]) -> str:
    """What `fix` changes, file by file. `names` says what each file is called in the headers."""
    return "".join(
        unified_diff(
            sources[file], apply_edits(sources[file], (e for e in fix.edits if e.file == file)), names.get(file, file)
        )
        for file in _files(fix)
        if file in sources
    )


def _files(fix: Fix) -> Iterable[str]:
    return dict.fromkeys(edit.file for edit in fix.edits)
