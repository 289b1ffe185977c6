"""Rewriting the expressions of one loop round for all rounds at once.

Each kind of expression has one rule that says how the result's dimensions follow from its operands'. Ranks come from
the operators that the run recorded at the same expression; whatever the run contradicts or does not tell is refused.

`Scope` is what is known inside a round, one module per kind of expression has the rules, and `Lifter` picks among them.
"""
