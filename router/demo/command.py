"""``batchgate demo``."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import click

from router.site.schema import Runtime


@click.command()
@click.option("--examples", default="examples", show_default=True, type=click.Path(path_type=Path), metavar="DIR")
@click.option(
    "--work",
    default="build/demo",
    show_default=True,
    type=click.Path(path_type=Path),
    help="The demo's directory; emptied first if a demo made it.",
)
@click.option("--no-control-plane", is_flag=True, help="Post the examples to the webhook without a cluster.")
@click.option("--runtime", type=click.Choice([str(one) for one in Runtime]), help="[default: what the machine has]")
def demo(examples: Path, work: Path, runtime: str | None, no_control_plane: bool) -> None:  # noqa: FBT001 - click's
    """Apply the examples to a real control plane, run those that go to HPC, show where each went and why.

    Builds the control plane once, with Go. If that fails, the examples are posted to the webhook instead.
    The exit code is 0 only if every outcome was the expected one.

    \b
    Example:  batchgate demo --work /tmp/demo
    """
    from router.demo import run, site, whole  # noqa: PLC0415 - not needed for --help

    machine = site.look()
    if runtime is not None:
        machine = replace(machine, runtime=Runtime(runtime))
    lacking = "" if no_control_plane else whole.can_be_had()
    if lacking:
        click.echo(f"No control plane can be had here: {lacking}\n", err=True)
    demonstrate = run.demo if lacking or no_control_plane else whole.demo
    sys.exit(0 if demonstrate(examples, work.resolve(), machine) else 1)
