"""Attention written out in several operators: its steps, its masks, and the call that does the same."""
