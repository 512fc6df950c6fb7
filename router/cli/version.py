"""``batchgate version``."""

from __future__ import annotations

import click

from router import __version__


@click.command()
def version() -> None:
    """Print the version, as `batchgate 0.1.0`."""
    click.echo(f"batchgate {__version__}")
