"""`python -m forwardlens.lsp`."""

from forwardlens.lsp import main

if __name__ == "__main__":
    main()
