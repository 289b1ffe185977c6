"""Say whether this Python can run the language server, and run it if so.

    python -I start.py FOLDER...

The first line on standard error is a JSON object with `version`, `missing` (modules) and `executable`. Whoever started
this reads it and ends a Python that will not do: to ask first and start then would start every Python twice.

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


def main(folders):
    sys.path[:0] = folders
    absent = missing()
    facts = {"version": list(sys.version_info[:2]), "missing": absent, "executable": sys.executable}
    sys.stderr.write(json.dumps(facts) + "\n")
    sys.stderr.flush()
    if not absent:
        sys.argv[1:] = []
        runpy.run_module("forwardlens.lsp", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1:])
