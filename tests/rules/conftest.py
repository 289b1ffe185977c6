"""How the examples of these tests run."""

from __future__ import annotations

import os

# Shares of small examples must not depend on how busy the machine's other cores are.
os.environ.setdefault("OMP_NUM_THREADS", "1")
