"""`python -m forwardlens`."""

from forwardlens.cli import main

main()
