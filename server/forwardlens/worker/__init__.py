# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
"""Runs in the user's interpreter: standard library and torch only, Python 3.10 or later.

Nothing else of the package imports this; the runner starts `__main__.py` as a process and talks to it over pipes.
"""
