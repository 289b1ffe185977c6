"""Elements that a boolean mask picks, and the same work on all elements instead."""
