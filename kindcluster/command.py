"""``python -m kindcluster``: packages, up, down, load, kubectl, status, image.

Shell: reads the command line, prints.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click

from bed.commands import BedError
from kindcluster import cluster, installing, nodeimage
from kindcluster.commands import KindError
from kindcluster.layout import Layout
from router.errors import ConfigError


@click.group()
def commands() -> None:
    """A kind cluster on this machine, with Batchgate in it."""


@commands.command()
def packages() -> None:
    """Install what the images are built with, and the cluster runs on, where there is no Docker."""
    cluster.ensure_packages(Layout(), cluster.choose(), click.echo)


@commands.command()
def up() -> None:
    """Make the cluster and bring Batchgate into it; existing parts stay."""
    layout = Layout()
    chosen = cluster.up(layout, click.echo)
    if installing.load(layout, chosen, click.echo):
        installing.install(layout, chosen, click.echo)
    click.echo(f"To use it: . {layout.variables}")


@commands.command()
@click.option("--clean", is_flag=True, help="also remove the node image; programs and packages stay")
def down(*, clean: bool) -> None:
    """Take the cluster away. Packages and what was built stay."""
    cluster.down(Layout(), click.echo)
    if clean:
        nodeimage.forget(click.echo)


@commands.command()
@click.argument("archives", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
def load(archives: tuple[Path, ...]) -> None:
    """Bring archives of images to the cluster."""
    cluster.load(Layout(), cluster.choose(), archives, click.echo)


@commands.command(context_settings={"ignore_unknown_options": True})
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def kubectl(words: tuple[str, ...]) -> None:
    """Run kubectl on the cluster, as its admin."""
    argv = cluster.kubectl(Layout(), cluster.choose(), words)
    sys.exit(subprocess.run(argv, check=False).returncode)


@commands.command()
def status() -> None:
    """Show the states of the nodes' containers. The exit code is 1 if there is no running cluster."""
    states = cluster.states(Layout(), cluster.choose())
    click.echo("\n".join(states) or "There is no cluster.")
    sys.exit(0 if states and set(states) == {"running"} else 1)


@commands.command()
def image() -> None:
    """Make the node image, which a machine without Docker needs, and keep it in the cache."""
    click.echo(nodeimage.ensure(click.echo).folder)


def main() -> None:
    """Run the command line; an error is told in words, with exit code 2. An OSError is a full disk, above all."""
    try:
        commands(prog_name="python -m kindcluster")
    except (KindError, BedError, ConfigError, OSError) as error:
        click.echo(f"kind: {error}", err=True)
        sys.exit(2)
