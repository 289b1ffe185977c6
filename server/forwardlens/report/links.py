"""Addresses of the documentation."""

from __future__ import annotations

HOME = "https://github.com/forwardlens/forwardlens"


def rule_url(rule: str) -> str:
    return f"{HOME}/blob/main/docs/rules/{rule}.md"
