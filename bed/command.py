"""``python -m bed``: up, down, status, programs, start, stop.

Shell: reads the command line, prints.
"""

from __future__ import annotations

import json
import sys

import click

from bed import daemons, making, site, standing
from bed import programs as further
from bed.commands import BedError
from bed.layout import CORES, Layout


@click.group()
def commands() -> None:
    """A small, real HPC site on this machine: Slurm, sshd, Apptainer, Open MPI."""


@commands.command()
@click.option(
    "--accounting/--no-accounting", default=True, help="with slurmdbd, which an operator and submit limits need"
)
@click.option(
    "--cores",
    type=click.IntRange(1, 64),
    default=CORES,
    show_default=True,
    help="of each node; the machine may have less",
)
@click.option("--image/--no-image", default=True, help="make the small image")
@click.option("--ssh-port", default=Layout().ssh_port, show_default=True, help="of the login node, on loopback")
@click.option("--first-port", default=Layout().first_port, show_default=True, help="Slurm takes it and the 13 after it")
def up(*, accounting: bool, cores: int, image: bool, ssh_port: int, first_port: int) -> None:
    """Make the bed and start it; existing parts stay."""
    layout = Layout(ssh_port=ssh_port, first_port=first_port)
    making.up(layout, accounting=accounting, cores=cores, with_image=image, tell=click.echo)


@commands.command()
@click.option("--clean", is_flag=True, help="also remove files, users and devices; the packages stay")
def down(*, clean: bool) -> None:
    """End all that runs. Keys, image, job numbers and accounting data stay."""
    making.down(standing.layout(), clean=clean, tell=click.echo)


@commands.command()
@click.option("--json", "as_json", is_flag=True, help="for programs")
def status(*, as_json: bool) -> None:
    """Show what runs. The exit code is 1 if a daemon is down."""
    layout = standing.layout()
    running, nodes, mounts = making.status(layout), site.node_states(), making.mounts(layout)
    if as_json:
        click.echo(json.dumps({"daemons": running, "nodes": nodes, "mounts": mounts}))
    else:
        for name, pid in running.items():
            click.echo(f"{name:<10} {f'pid {pid}' if pid else 'down':<14} {nodes.get(name, '')}".rstrip())
        for point in mounts:
            click.echo(f"mounted    {point}")
    sys.exit(0 if all(running.values()) else 1)


@commands.command()
def start() -> None:
    """Start the daemons of the existing bed that do not run."""
    layout = standing.layout()
    site.start(layout, standing.variant(layout))


@commands.command()
def programs() -> None:
    """Make further images and MPI launchers, for tests with third-party programs; takes a minute and the network."""
    layout = standing.layout()
    standing.variant(layout)
    making.check(layout)
    further.make(layout, click.echo)


@commands.command()
@click.argument("names", nargs=-1, required=True)
def stop(names: tuple[str, ...]) -> None:
    """End single daemons, as tests do: slurmctld, slurmdbd, sshd, node1, …"""
    layout = standing.layout()
    known = {daemon.name: daemon for daemon in daemons.all_daemons(layout)}
    for name in names:
        if name not in known:
            raise BedError(f"{name} is no daemon of the bed; there are {', '.join(known)}")
        daemons.stop(layout, known[name])


def main() -> None:
    """Run the command line; an error is one sentence, with exit code 2."""
    try:
        commands(prog_name="python -m bed")
    except BedError as error:
        click.echo(f"bed: {error}", err=True)
        sys.exit(2)
