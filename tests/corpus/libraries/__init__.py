"""Diagnosis of code that nobody wrote for us: public models, with their library counted as the user's code.

`python -m tests.corpus.libraries [NAME ...]` builds each model of `models.py` from configuration, profiles it, tries
every fix and prints every finding with what its reader said of it (`judgements.toml`). A finding that nobody has read
is named; so is a judgement whose finding is gone.
"""
