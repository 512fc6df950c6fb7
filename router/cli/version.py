"""``batchgate version``."""

from __future__ import annotations

import click

from router import __version__


@click.command()
def version() -> None:
    """Print the version.

    \b
    Example:  batchgate version
    """
    click.echo(f"batchgate {__version__}")
