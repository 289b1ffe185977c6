"""Makes `import harness` work: the tests are collected with importlib, which puts no folder on the path."""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
# Shares of small examples must not depend on how busy the machine's other cores are.
os.environ.setdefault("OMP_NUM_THREADS", "1")
