# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
"""`tests/test_x.py::test_y`: run that test under the user's pytest and take the forward it calls."""

from __future__ import annotations

import importlib
import os
import sys

from ..case import Case
from ..failures import Failure
from ..overlay import Overlay
from ..watch import Watch


def accepts(entry: str) -> bool:
    return ".py::" in entry


def load(entry: str, request: dict, overlay: Overlay) -> Case:
    file = entry.partition("::")[0]
    if not os.path.isfile(os.path.join(request["workspace"], file)):
        raise Failure("usage", f"there is no file {file} in {request['workspace']}")
    try:
        pytest = importlib.import_module("pytest")
    except ModuleNotFoundError:
        raise Failure("environment", f"{sys.executable} has no pytest to run {entry} with; install it there") from None
    watch = Watch(request)
    with watch:
        # No cache and no capture: the workspace stays as it is, and what the test prints goes to the log.
        code = int(pytest.main([entry, "-q", "-s", "-p", "no:cacheprovider"]))
    case = watch.costliest(entry)
    if case is not None:
        return case
    if code == 0:
        raise Failure("entry", f"{entry} passed without calling a module; choose a test that runs a forward")
    if code in (4, 5):
        raise Failure("usage", f"pytest finds no test {entry}")
    raise Failure("entry", f"{entry} failed before it called a module; the log has pytest's report")
