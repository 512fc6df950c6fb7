"""``batchgate site uninstall``: takes off a login node what ``site install`` has put there.

Shell: this machine as root, and the cluster, which is asked whether Pods of the site live.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import click

from router.cli.cluster import Cluster
from router.cli.siteadd import living
from router.cli.siteinstall import demand_machine, files_of_others, recorded
from router.errors import ApiError, ConfigError
from router.joining import machine, planning
from router.joining.layout import ACCOUNT, ETC, STATE, Layout
from router.kube.client import connect


@click.command()
@click.argument("site")
@click.option("--force", is_flag=True, help="Also while Pods of the site live, or where the cluster does not answer.")
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
def uninstall(site: str, *, force: bool, dry_run: bool) -> None:
    """Take the agent of a SITE off this machine: unit, files, credential, and the account if no other site needs it.

    It refuses while Pods of the site live: their batch jobs would run on, unattended. Users' directories and the embedded
    queue stay.

    \b
    Example:  batchgate site uninstall hpc
    """
    demand_machine(dry=False, starts=False)
    layout = Layout(site)
    own = recorded(layout)
    if own is None:
        raise ConfigError(f"no agent of a site {site!r} was installed on this machine: there is no {layout.record}")
    if not force:
        _demand_nothing_lives(layout)
    others = files_of_others(site)
    removed = planning.removable(layout, own.files, others)
    if dry_run:
        click.echo("\n".join((*removed, layout.etc, layout.token, layout.certificates)))
        click.echo("Nothing was done (--dry-run)")
        return
    _remove(layout, removed)
    if not others and (told := machine.remove_account()):
        click.echo(f"account {ACCOUNT}: {told}")
    click.echo(f"\nAs an admin of the cluster: batchgate site remove {site}")


def _remove(layout: Layout, files: Collection[str]) -> None:
    """End the unit, and remove these files, the credential and what is empty then."""
    if machine.has_systemd():
        machine.run(["systemctl", "disable", "--now", "--quiet", layout.unit])
    for path in files:
        click.echo(f"{path}: {'removed' if machine.remove_file(path) else 'was not there'}")
    for path in (layout.certificates, layout.etc):
        machine.remove_tree(path)
    machine.remove_file(layout.token)
    for folder in (layout.state, STATE, ETC, *(str(Path(path).parent) for path in files)):
        if Path(folder).is_relative_to(STATE) or Path(folder).name == ACCOUNT:
            machine.remove_empty(folder)
    if machine.has_systemd():
        machine.run(["systemctl", "daemon-reload"])


def _demand_nothing_lives(layout: Layout) -> None:
    """Raise ConfigError if Pods of the site live, or if this cannot be seen."""
    from router.kube.credentials import namespace_of  # noqa: PLC0415 - the import takes most of a second

    try:
        system = namespace_of(layout.kubeconfig)
        against = living(Cluster(connect(layout.kubeconfig), system, named=False, system=system), layout.site)
    except (ApiError, ConfigError) as error:
        raise ConfigError(
            f"whether Pods of site {layout.site} live cannot be seen: {error}. --force takes its agent off all the same"
        ) from error
    if against:
        raise ConfigError(f"{against}. --force takes the agent off all the same; batch jobs run on, unattended")
