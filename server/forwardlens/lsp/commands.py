"""The names of our commands, which lenses and editors' menus refer to."""

from __future__ import annotations

PROFILE = "forwardlens.profile"
CANCEL = "forwardlens.cancel"
CLEAR = "forwardlens.clear"
REPORT = "forwardlens.report"
ENTRIES = "forwardlens.entries"
