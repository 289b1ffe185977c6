"""What users read, as sentences: the command line shows the same words behind its own `error:`."""

from __future__ import annotations

import re

_PLAIN_WORD = re.compile(r"[a-z]+[ ,]")
_ENDS = (".", "!", "?", "…", ":")


def sentence(text: str) -> str:
    """With a capital, unless it begins with a name from the code, and with a full stop."""
    begun = text[:1].upper() + text[1:] if _PLAIN_WORD.match(text) else text
    return begun if begun.endswith(_ENDS) or "\n" in begun else f"{begun}."
