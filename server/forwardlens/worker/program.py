# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
"""Running a program of the user's as `__main__`, and ending it as Python ends one."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import traceback
from collections.abc import Iterator
from types import CodeType, ModuleType
from typing import Any

from .usercode import UserCode
from .watch import Watch


def run_as_main(code: CodeType, names: dict[str, Any], watch: Watch, workspace: str) -> str:
    """Run a program's code; `names` are what its `__main__` knows about itself, such as `__file__`.

    How it ended, to complete "it ... without calling a module". The module stays `__main__` afterwards: what its
    forward looks up there must be found when it is run again.
    """
    main = ModuleType("__main__")
    main.__dict__.update(names)
    sys.modules["__main__"] = main
    ended = "ran to its end"
    with _exit_handlers(UserCode([workspace, os.path.dirname(names["__file__"])], [])):
        try:
            with watch:
                exec(code, main.__dict__)
        except SystemExit as error:
            ended = f"exited with {error.code!r}"
    return ended


@contextlib.contextmanager
def _exit_handlers(is_user: UserCode) -> Iterator[None]:
    """Run at the end what the user's own code registers with `atexit` inside.

    The process goes on, so the handlers of libraries wait for its end.
    """
    pending: list[tuple] = []
    register, unregister = atexit.register, atexit.unregister

    def register_here(function, /, *args, **kwargs):
        if not is_user(sys._getframe(1).f_code.co_filename):
            return register(function, *args, **kwargs)
        pending.append((function, args, kwargs))
        return function

    def unregister_here(function):
        pending[:] = [item for item in pending if item[0] != function]
        unregister(function)

    atexit.register, atexit.unregister = register_here, unregister_here
    try:
        yield
    finally:
        atexit.register, atexit.unregister = register, unregister
        while pending:
            _run_exit_handler(*pending.pop())


def _run_exit_handler(function, args: tuple, kwargs: dict) -> None:
    """Python, too, prints what a handler raises and goes on."""
    try:
        function(*args, **kwargs)
    except SystemExit:
        pass
    except Exception:
        traceback.print_exc()
