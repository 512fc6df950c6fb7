"""``python -m imagebuild``: builds the images and their bills of materials.

Shell: reads the command line, prints.
"""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click

from imagebuild import archive, base, builders, commands
from imagebuild.builders import BILLS, BUILDERS, IMAGES, Plan
from imagebuild.commands import BuildError
from imagebuild.source import ROOT, source

OUT: Final = ROOT / "build" / "image"
_MIB: Final = 1 << 20


@click.command()
@click.option("--builder", type=click.Choice(sorted(BUILDERS)), help="By default Docker, if its daemon answers.")
@click.option("--base", "named", metavar="IMAGE", help=f"By default {base.PUBLISHED}, or one made of packages.")
@click.option("--cache/--no-cache", default=True, help="Take parts that were fetched today; else fetch all anew.")
@click.option("--out", default=OUT, type=click.Path(path_type=Path), help="Directory of the archives.")
def build(*, builder: str | None, named: str | None, cache: bool, out: Path) -> None:
    """Build the images batchgate and batchgate-local, and list what is in them."""
    chosen = builder or builders.find()
    begun = time.monotonic()
    plan = Plan(source(), named or base.ensure(chosen, click.echo), fetched(cache=cache), builders.secrets())
    click.echo(f"Building {plan.source.version}, revision {plan.source.revision}, with {chosen} on {plan.base} …")
    out.mkdir(parents=True, exist_ok=True)
    for target in IMAGES:
        click.echo(_described(make(chosen, plan, target, out / f"{target}.tar")))
    make(chosen, plan, BILLS, out)
    click.echo(f"{out}: archives and bills of materials, after {time.monotonic() - begun:.0f} s")


def fetched(*, cache: bool = True) -> str:
    """A plan's word for its parts: Debian's updates come in each day, without ``cache`` at once."""
    return datetime.now(UTC).strftime("%Y-%m-%d" if cache else "%Y-%m-%dT%H:%M:%SZ")


def make(builder: str, plan: Plan, target: str, out: Path) -> Path:
    """Build one target. An archive is replaced only by a whole one."""
    if target == BILLS:
        for argv in BUILDERS[builder](plan, target, out):
            commands.run(argv)
        return out
    saved, half = out.with_name(f"{out.name}.saved"), out.with_name(f"{out.name}.half")
    saved.unlink(missing_ok=True)  # podman appends to an archive that is there
    for argv in BUILDERS[builder](plan, target, saved):
        commands.run(argv)
    archive.copy(saved, half, plan.source.epoch)
    saved.unlink()
    half.replace(out)
    return out


def _described(written: Path) -> str:
    found = archive.read(written)
    return f"{', '.join(found.tags)}  {found.digest}  {found.size / _MIB:.0f} MiB"


def main() -> None:
    """Run the command line; an error is one sentence, with exit code 2."""
    try:
        build(prog_name="python -m imagebuild")
    except BuildError as error:
        click.echo(f"image: {error}", err=True)
        sys.exit(2)
