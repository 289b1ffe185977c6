"""Makes `import programs` work: the tests are collected with importlib, which puts no folder on the path."""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
# Small programs must not wait for the machine's other cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")
