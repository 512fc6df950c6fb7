"""``batchgate version``: this program, and what runs in a cluster."""

from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING, Any

import click

from router import names

if TYPE_CHECKING:
    from router.cli.cluster import Cluster
    from router.operating.releases import Running
    from router.startup.release import Release


@click.command()
@click.option("--long", "with_packages", is_flag=True, help="Also name the packages of its Python environment.")
@click.option("--client", "which", flag_value="client", help="Only of this program; ask no cluster.")
@click.option("--server", "which", flag_value="server", help="Also of the cluster, which must answer.")
@click.option(
    "--kubeconfig", metavar="FILE", help="Else $KUBECONFIG, ~/.kube/config; without any, no cluster is asked."
)
@click.option("--context", metavar="NAME", help="Of the kubeconfig; its current one by default.")
@click.option(
    "--system-namespace", default=names.SYSTEM_NAMESPACE, show_default=True, metavar="NAME", help="Of the webhook."
)
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def version(*, with_packages: bool, which: str | None, output: str, **reached: Any) -> None:
    """Say which release this is, what is in it, and which releases run in the cluster.

    The revision is the commit of the source, followed by -dirty if files were changed. It is "unknown" in files that
    lie outside git and were not installed from there. JSON always names the packages. Of the cluster: its Kubernetes,
    the webhook's replicas, and the agent of each site. A warning names releases that must not run together.

    \b
    Examples: batchgate version
              batchgate version --client --long
              batchgate version --server -o json | jq -r '.cluster.programs[].release'
    """
    from router.startup.release import packages, release  # noqa: PLC0415 - `--help` needs none of it

    own = release()
    found = None if which == "client" else _look(own.version, demanded=which == "server", **reached)
    if output == "json":
        from router.cli.output import as_document, as_json  # noqa: PLC0415 - loads YAML

        click.echo(as_json({**dataclasses.asdict(own), "packages": packages(), "cluster": as_document(found)}))
    else:
        _print(own, packages() if with_packages else {})
        if found is not None:
            _print_cluster(found)
    for sentence in found.warnings if found is not None else ():
        click.echo(f"Warning: {sentence}", err=True)


@dataclasses.dataclass(frozen=True, slots=True)
class _Found:
    """What was found in the cluster; ``kubernetes`` is its version."""

    kubernetes: str
    programs: tuple[Running, ...]
    warnings: tuple[str, ...]


def _look(
    own: str, *, demanded: bool, kubeconfig: str | None, context: str | None, system_namespace: str
) -> _Found | None:
    """What runs in the cluster; None without a kubeconfig. An undemanded cluster that is away is a warning.

    :raises ApiError: the demanded cluster does not answer
    :raises ConfigError: there is no kubeconfig for it
    """
    if not (demanded or kubeconfig or context or os.environ.get("KUBECONFIG") or _usual_file()):
        return None
    from router.cli.cluster import Cluster, kubeconfig_of  # noqa: PLC0415 - loads the client
    from router.errors import ApiError, ConfigError  # noqa: PLC0415
    from router.kube.client import connect  # noqa: PLC0415

    try:
        api = connect(kubeconfig_of(kubeconfig), context)
        return _programs(own, Cluster(api, "", named=False, system=system_namespace))
    except (ApiError, ConfigError) as error:
        if demanded:
            raise
        click.echo(f"Warning: the cluster was not looked at: {error}", err=True)
        return None


def _usual_file() -> bool:
    """Whether kubectl has its usual file here."""
    return os.path.isfile(os.path.expanduser("~/.kube/config"))  # noqa: PTH111, PTH113 - without a home it is a relative path


def _programs(own: str, cluster: Cluster) -> _Found:
    from router.cli.status import read_programs  # noqa: PLC0415
    from router.operating.releases import Running, too_far  # noqa: PLC0415

    kubernetes = str(cluster.api.get("/version")["gitVersion"])
    programs = read_programs(cluster)
    missed = tuple(cluster.missed)
    return _Found(kubernetes, programs, (*missed, *too_far([Running("client", "", own), *programs])))


def _print(own: Release, packages: Any) -> None:
    kubernetes = own.kubernetes
    click.echo(f"batchgate {own.version}")
    click.echo(f"revision {own.revision}")
    click.echo(f"Python {own.python}")
    click.echo(f"Kubernetes {kubernetes.oldest} to {kubernetes.newest}, client {kubernetes.client}")
    for name, number in packages.items():
        click.echo(f"  {name} {number}")


def _print_cluster(found: _Found) -> None:
    from router.cli.table import print_table  # noqa: PLC0415

    click.echo(f"\nCluster: Kubernetes {found.kubernetes}")
    if found.programs:
        print_table(("PROGRAM", "NAME", "RELEASE"), [(one.program, one.name, one.release) for one in found.programs])
    else:
        click.echo("No webhook and no agent is to be seen here.")
