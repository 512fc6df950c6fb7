"""``batchgate version``."""

from __future__ import annotations

import dataclasses

import click


@click.command()
@click.option("--long", "with_packages", is_flag=True, help="Also name the packages of its Python environment.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def version(*, with_packages: bool, output: str) -> None:
    """Say which release this is, and what is in it.

    The revision is the commit of the source, followed by -dirty if files were changed. It is "unknown" in files that
    lie outside git and were not installed from there. JSON always names the packages.

    \b
    Examples: batchgate version
              batchgate version --long
              batchgate version -o json | jq -r .revision
    """
    from router.startup.release import packages, release  # noqa: PLC0415 - `--help` needs none of it

    found = release()
    if output == "json":
        from router.cli.output import as_json  # noqa: PLC0415 - loads YAML

        click.echo(as_json({**dataclasses.asdict(found), "packages": packages()}))
        return
    kubernetes = found.kubernetes
    click.echo(f"batchgate {found.version}")
    click.echo(f"revision {found.revision}")
    click.echo(f"Python {found.python}")
    click.echo(f"Kubernetes {kubernetes.oldest} to {kubernetes.newest}, client {kubernetes.client}")
    if with_packages:
        for name, number in packages().items():
            click.echo(f"  {name} {number}")
