# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
"""`tests/test_x.py::test_y`: run that test under the user's pytest and take the forward it calls."""

from __future__ import annotations

import ast
import difflib
import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator

from ..failures import Failure
from ..modules import search
from ..overlay import Overlay

# Of pytest's exit codes: the command line, or the test, is not one it knows.
_UNKNOWN = (4, 5)


def accepts(entry: str) -> bool:
    return ".py::" in entry


def run(entry: str, request: dict, overlay: Overlay, watch) -> str:
    file, _, node = entry.partition("::")
    path = os.path.join(request["workspace"], file)
    if not os.path.isfile(path):
        raise Failure("usage", f"there is no file {file} in {request['workspace']}")
    try:
        pytest = importlib.import_module("pytest")
    except ModuleNotFoundError:
        raise Failure("environment", f"{sys.executable} has no pytest to run {entry} with; install it there") from None
    search(workspace=request["workspace"])
    # A skipped test is what a test that was ended on purpose looks like to pytest, to its plugins and to unittest.
    watch.stop = lambda: pytest.skip.Exception("enough of its calls were seen")
    plugin = _plugin(pytest, overlay, watch)
    code = int(pytest.main([entry, *_options()], plugins=[plugin]))
    if watch.is_done or code == 0:
        return "passed"
    if plugin.error is not None:
        raise plugin.error
    if code in _UNKNOWN and plugin.started:
        raise Failure("usage", f"pytest finds no test {entry}{_nearest(node, overlay.text(path))}")
    raise Failure("entry", f"pytest could not run {entry}; the log has its report")


def _options() -> list[str]:
    """No cache and no capture: the workspace stays as it is, and what the test prints goes to the log. In this process
    and without a second tracer, whatever the project's own options say.
    """
    options = ["-q", "-s", "-p", "no:cacheprovider"]
    if importlib.util.find_spec("pytest_cov"):
        options.append("--no-cov")
    if importlib.util.find_spec("xdist"):
        options.append("-n0")
    return options


def _plugin(pytest, overlay: Overlay, watch):
    """What pytest asks on its way. The class is made here because its marks come from the user's pytest."""

    class Plugin:
        def __init__(self) -> None:
            self.started = False
            self.error: BaseException | None = None

        @pytest.hookimpl(tryfirst=True)
        def pytest_load_initial_conftests(self) -> None:
            # Before the import hook that pytest has just put in front: it rewrites the text on disk.
            overlay.install()

        def pytest_sessionstart(self) -> None:
            self.started = True

        @pytest.hookimpl(hookwrapper=True)
        def pytest_runtest_setup(self, item) -> Iterator[None]:
            with watch:
                yield

        @pytest.hookimpl(hookwrapper=True)
        def pytest_runtest_call(self, item) -> Iterator[None]:
            with watch:
                yield
            if watch.is_done:
                item.session.shouldstop = "enough calls were seen"

        def pytest_exception_interact(self, call) -> None:
            error = call.excinfo.value
            # An import that fails while tests are collected arrives inside an error of pytest's own.
            self.error = self.error or error.__cause__ or error

    return Plugin()


def _nearest(node: str, text: str) -> str:
    close = difflib.get_close_matches(node.partition("[")[0], _tests(ast.parse(text)), n=1)
    return f"; did you mean `{close[0]}`?" if close else ""


def _tests(node: ast.AST, prefix: str = "") -> list[str]:
    found = []
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            found += _tests(child, f"{child.name}::")
        elif isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)) and child.name.startswith("test"):
            found.append(prefix + child.name)
    return found
