"""Real faults and their look-alikes, judged through the whole workflow.

`python -m tests.corpus [--cases FOLDER] [NN ...]` profiles every case, tries every fix, compares what was found with
what the case says must be found, and writes the totals into docs/benchmarks.md. Only this judge reads what a case
expects.
"""
