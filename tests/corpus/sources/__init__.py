"""Rules on source that nobody chose: every file of a package, with no costs and with made-up ones.

`python -m tests.corpus.sources [--packages torch transformers] [--every N]` runs each rule on each file. It checks that
none raises, how long each takes, and that every fix gives a file that compiles, changes nothing outside its edits and
reads no name that nothing binds.
"""
