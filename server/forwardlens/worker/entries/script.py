# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
"""`path/to/script.py`: run it as `__main__` and take the forward it calls."""

from __future__ import annotations

import os
import sys
import types

from ..case import Case
from ..failures import Failure
from ..overlay import Overlay
from ..watch import Watch


def accepts(entry: str) -> bool:
    return entry.endswith(".py")


def load(entry: str, request: dict, overlay: Overlay) -> Case:
    path = os.path.abspath(os.path.join(request["workspace"], entry))
    if not os.path.isfile(path):
        raise Failure("usage", f"there is no file {entry} in {request['workspace']}")
    name = os.path.basename(path)
    watch = Watch(request)
    exit_code = _run_as_main(path, overlay, watch)
    case = watch.costliest(name)
    if case is None:
        ended = "ran to its end" if exit_code is None else f"exited with {exit_code!r}"
        raise Failure("entry", f"{name} {ended} without calling a module; give an entry as {entry}:function")
    return case


def _run_as_main(path: str, overlay: Overlay, watch: Watch) -> object:
    """Run a file like `python file` does; what it gave to `sys.exit`, if it did."""
    main = types.ModuleType("__main__")
    main.__file__ = path
    saved_main, saved_argv = sys.modules["__main__"], sys.argv
    sys.modules["__main__"], sys.argv = main, [path, *sys.argv[1:]]
    sys.path.insert(0, os.path.dirname(path))
    try:
        with watch:
            exec(overlay.compile(path), main.__dict__)
    except SystemExit as ended:
        return ended.code
    finally:
        sys.modules["__main__"], sys.argv = saved_main, saved_argv
    return None
