"""Start the language server, or say whether this Python could.

    python -I start.py check FOLDER...
    python -I start.py serve FOLDER...

The folders come first on sys.path. They are not passed through PYTHONPATH, because the code that is profiled would
inherit it and import our copies of libraries in place of its own. Nothing here needs a recent Python: an old one must
get far enough to say that it is old.
"""

import importlib.machinery
import importlib.util
import json
import runpy
import sys

NEEDED = ("forwardlens", "pygls", "lsprotocol", "cattrs", "attrs", "libcst")


def missing():
    """Names of the modules that are not there; nothing is imported, so this takes milliseconds."""
    names = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    return names if "libcst" in names or has_native_libcst() else [*names, "libcst.native"]


def has_native_libcst():
    """Whether libcst has its compiled half for this very Python: a bundle holds those of a few versions only."""
    folders = list(importlib.util.find_spec("libcst").submodule_search_locations)
    return importlib.machinery.PathFinder.find_spec("native", folders) is not None


def main(mode, folders):
    sys.path[:0] = folders
    if mode == "check":
        json.dump({"version": list(sys.version_info[:2]), "missing": missing()}, sys.stdout)
    else:
        sys.argv[1:] = []
        runpy.run_module("forwardlens.lsp", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
