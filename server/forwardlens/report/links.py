"""Addresses of the documentation."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]
# In an installed package, and in a checkout or the editor's extension.
_PAGES = (_PACKAGE / "docs" / "rules", _PACKAGE.parents[1] / "docs" / "rules")


def rule_url(rule: str) -> str:
    """The rule's page, as it came with this version: it fits what this version says, also without a network."""
    folder = next((folder for folder in _PAGES if folder.is_dir()), _PAGES[-1])
    return (folder / f"{rule}.md").as_uri()
