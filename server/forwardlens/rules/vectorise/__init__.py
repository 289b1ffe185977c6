"""Replacing a loop over an axis by tensor work on the whole axis.

`vectorised` answers with edits only if it is sure: every round must be independent of the others, every expression
must have a form for all rounds, and nothing after the loop may read what only the loop would leave behind.
Otherwise it raises `RefusedError`, whose message says what stood in the way.
"""

from forwardlens.rules.vectorise.hoisting import hoisted, hoisted_results
from forwardlens.rules.vectorise.whole import vectorised

__all__ = ["hoisted", "hoisted_results", "vectorised"]
