# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
"""Start of a worker process: `python __main__.py READ WRITE LIFE TOKEN`, three inherited pipe ends and a word.

The package is loaded under a private name and its folder is taken off `sys.path`, so that no module of ours can
shadow one of the user's.
"""

import importlib
import sys
import types
from pathlib import Path

_PACKAGE = "_forwardlens_worker"


def _load_package() -> None:
    folder = Path(__file__).resolve().parent
    if sys.path and Path(sys.path[0] or ".").resolve() == folder:
        del sys.path[0]
    package = types.ModuleType(_PACKAGE)
    package.__path__ = [str(folder)]
    sys.modules[_PACKAGE] = package


if __name__ == "__main__":
    _load_package()
    importlib.import_module(f"{_PACKAGE}.service").serve(*map(int, sys.argv[1:4]), sys.argv[4])
