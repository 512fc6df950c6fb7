"""``batchgate demo``."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import click

from router.policy.schema import Runtime


@click.command()
@click.option("--examples", default="examples", show_default=True, type=click.Path(path_type=Path), metavar="DIR")
@click.option(
    "--work",
    default="build/demo",
    show_default=True,
    type=click.Path(path_type=Path),
    help="Where the demo works; emptied first if a demo made it.",
)
@click.option("--runtime", type=click.Choice([str(one) for one in Runtime]), help="[default: what the machine has]")
def demo(examples: Path, work: Path, runtime: str | None) -> None:
    """Judge the examples, run what goes to HPC, show what went where and why.

    Exit code 0 only if every outcome was the expected one.

    \b
    Example:  batchgate demo --work /tmp/demo
    """
    from router.demo import site  # noqa: PLC0415 - the help text needs none of it
    from router.demo.run import demo as run  # noqa: PLC0415

    machine = site.look()
    if runtime is not None:
        machine = replace(machine, runtime=Runtime(runtime))
    sys.exit(0 if run(examples, work.resolve(), machine) else 1)
