"""Interpreters with torch that tests are held on beside their own: `/opt/py310/bin/python:/opt/py313/bin/python`."""

from __future__ import annotations

import os

OTHERS = [python for python in os.environ.get("FORWARDLENS_TEST_PYTHONS", "").split(os.pathsep) if python]
