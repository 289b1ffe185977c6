"""How the programs of these tests run."""

from __future__ import annotations

import os

# Small programs must not wait for the machine's other cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")
