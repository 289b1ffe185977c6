"""Figures about the product, measured in one run and written into docs/benchmarks.md.

One module per figure: `run()` measures and returns a `Table`. `python -m tests.benchmarks [NAME ...]` runs them and
replaces their sections in the page; everything else on it is written by hand.
"""
