"""Lifting the statements of a loop round: what each of them becomes when all rounds are done at once.

`Work` is what is known and written so far, one module for each kind of statement has the rules, and `Rounds` picks
among them.
"""
