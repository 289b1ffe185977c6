"""Why steps that look like attention are left alone."""


class NoAttentionError(Exception):
    """No attention, or one whose weights are needed."""


class NoCounterpartError(Exception):
    """Attention without an exact counterpart. The message says why."""
