from __future__ import annotations

import click


@click.command("server")
@click.option("--stdio", is_flag=True, expose_value=False, hidden=True)  # some editors pass it
def command() -> None:
    """Run the language server on stdin and stdout."""
    from forwardlens.lsp import main

    main()
