"""``batchgate site add`` and ``site remove``: the account of a site's agents outside the cluster, and the join file.

Shell: the API with the caller's own rights, one file, the clock. ``router.joining`` says what is made.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import click

from router import names
from router import policy as policies
from router.agent import sites
from router.cli.cluster import Cluster, cluster_options, kubeconfig_of
from router.cli.forget import pods_of
from router.cli.output import as_yaml
from router.errors import ApiError, ConfigError, InputError, NotFound
from router.joining import accounts, joinfile
from router.joining.accounts import Placed
from router.joining.joinfile import Join
from router.kube import tokens
from router.kube.client import Api, connect
from router.operating import forgetting
from router.policy.configmap import texts_of
from router.policy.model import Policy
from router.startup.options import Duration
from router.startup.policyfiles import read_directory

_MANAGER: Final = "batchgate"
_MOST_NAMED: Final = 10
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_INSTALL: Final = "install the chart, or `kubectl apply -k manifests/base`, first"


@click.command()
@click.argument("site")
@click.option("--kubeconfig", metavar="FILE", help="An admin's; else $KUBECONFIG, ~/.kube/config.")
@click.option("--context", metavar="NAME", help="Of the kubeconfig; its current one by default.")
@click.option(
    "-n",
    "--namespace",
    default=names.SYSTEM_NAMESPACE,
    show_default=True,
    metavar="NAME",
    help="Of Batchgate's objects.",
)
@click.option("--policy", type=click.Path(path_type=Path), metavar="DIR", help="Instead of the policy in the cluster.")
@click.option("--server", metavar="URL", help="Of the API server, as the login node reaches it; else the kubeconfig's.")
@click.option(
    "--public-key",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Verifies the webhook's signatures; else the ConfigMap batchgate-public-keys.",
)
@click.option("--lifetime", type=Duration(), default="1h", show_default=True, help="Of the join file; at least 10m.")
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="The join file; else SITE.join.")
@click.option("--force", is_flag=True, help="Replace the join file that is there.")
@click.option("--dry-run", is_flag=True, help="Print the objects that would be made, and make nothing.")
def add(site: str, namespace: str, **options: Any) -> None:
    """Make the account of a SITE's agent outside the cluster, and a file by which a login node joins.

    The account gets the rights of every agent, kept to the Nodes of this site, and may renew its own credential. The
    file holds a credential for an hour: carry it to the login node as you would a password. Run it again for another
    file; what is there stays as it is.

    \b
    Example:  batchgate site add hpc
              scp hpc.join root@login.hpc.example.org:
    """
    file = options["output"] or Path(f"{site}.join")
    if options["dry_run"]:
        click.echo(as_yaml([one.body for one in accounts.objects(site, namespace)]), nl=False)
        return
    if file.exists() and not options["force"]:
        raise ConfigError(f"{file} exists; --force replaces it")
    kubeconfig = kubeconfig_of(options["kubeconfig"])
    api = connect(kubeconfig, options["context"])
    _demand_installed(api, namespace)
    sites.site_of(_policy(api, namespace, options["policy"]), site)
    keys = _public_keys(api, namespace, options["public_key"])
    server, ca, name = _server(kubeconfig, options["context"], options["server"])
    for one in accounts.objects(site, namespace):
        click.echo(f"{one.words}: {_applied(api, one)}")
    token = _token(api, namespace, names.agent_account(site), options["lifetime"])
    _write(file, Join(site, namespace, server, name, ca, keys, token))
    _say_next(site, file, tokens.claims(token).expires)


def _demand_installed(api: Api, namespace: str) -> None:
    for words, path in accounts.needed(namespace).items():
        if api.find(path) is None:
            raise ConfigError(f"the cluster has no {words}; {_INSTALL}")


def _policy(api: Api, namespace: str, directory: Path | None) -> Policy:
    """The policy of the files, or else the one in force in the cluster. Raises ConfigError."""
    if directory is not None:
        return policies.load(read_directory(directory))
    place = f"ConfigMap {namespace}/{names.POLICIES_CONFIG_MAP}"
    found = api.find(f"/api/v1/namespaces/{namespace}/configmaps/{names.POLICIES_CONFIG_MAP}")
    if found is None:
        raise ConfigError(
            f"there is no {place}; `batchgate policy apply DIR` makes it, or name the files with --policy"
        )
    return policies.load(texts_of(found, place))


def _public_keys(api: Api, namespace: str, file: Path | None) -> str:
    if file is not None:
        try:
            return file.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{file}: the public key cannot be read: {error}") from None
    found = api.find(f"/api/v1/namespaces/{namespace}/configmaps/{names.PUBLIC_KEYS_CONFIG_MAP}") or {}
    keys = (found.get("data") or {}).get(names.PUBLIC_KEYS_KEY)
    if not keys:
        raise ConfigError(
            f"there is no ConfigMap {namespace}/{names.PUBLIC_KEYS_CONFIG_MAP} with {names.PUBLIC_KEYS_KEY}; `batchgate "
            "certs ensure` makes it, or name the file with --public-key"
        )
    return str(keys)


def _server(kubeconfig: str | None, context: str | None, named: str | None) -> tuple[str, str, str]:
    """URL, CA and name of the API server, for the login node. Raises ConfigError."""
    from router.kube.credentials import server_of  # noqa: PLC0415 - the import takes most of a second

    found = server_of(kubeconfig, context)
    if not found.verified:
        raise ConfigError(
            "the kubeconfig has insecure-skip-tls-verify: the login node could not tell your API server from another; "
            "name one with the cluster's CA"
        )
    url = (named or found.url).rstrip("/")
    if urlsplit(url).scheme != "https":
        raise ConfigError(f"{url} is no https:// URL; name one with --server")
    if urlsplit(url).hostname in _LOOPBACK:
        click.echo(f"Warning: {url} is this machine alone; name the URL for the login node with --server", err=True)
    return url, found.ca, found.name


def _applied(api: Api, one: Placed) -> str:
    before = api.find(one.path)
    after = api.apply(one.path, one.body, _MANAGER)
    if before is None:
        return "made"
    same = before["metadata"].get("resourceVersion") == after["metadata"].get("resourceVersion")
    return "unchanged" if same else "corrected"


def _token(api: Api, namespace: str, account: str, seconds: int) -> str:
    try:
        return tokens.granted(api.create(tokens.path(namespace, account), tokens.request(seconds)))
    except InputError as error:
        raise ConfigError(f"no credential for the join file: {error}") from None


def _write(file: Path, join: Join) -> None:
    """Write the join file, readable by its owner only, also while it is being written."""
    text = (
        "# Lets a login node join as the agent of this site, until its token ends. Keep it as secret as a password.\n"
    )
    file.unlink(missing_ok=True)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w") as stream:
        stream.write(text + as_yaml([joinfile.write(join)]))


def _say_next(site: str, file: Path, ends: int) -> None:
    click.echo(
        f"\n{file} holds a credential until {tokens.shown(ends)}. Bring it to the login node, and there, as root, run:\n\n"
        f"    batchgate site install {site} --from {file.name}\n"
    )


@click.command()
@click.argument("site")
@cluster_options
@click.option("--force", is_flag=True, help="Also while Pods of the site live; their batch jobs run on, unattended.")
@click.option("--dry-run", is_flag=True, help="Only say what would be deleted.")
def remove(cluster: Cluster, site: str, *, force: bool, dry_run: bool) -> None:
    """Take away the account of a SITE's agent outside the cluster: its credential ends within seconds.

    It refuses while Pods of the site live, as nobody would follow or cancel their batch jobs. Where a credential has
    been stolen, use --force, then add the site again. Nodes of a site that is gone for good: `batchgate forget`.

    \b
    Example:  batchgate site remove hpc
    """
    found = [one for one in accounts.objects(site, cluster.system) if cluster.api.find(one.path) is not None]
    if not found:
        raise ConfigError(
            f"the cluster has no account of agents of a site {site!r}; `batchgate site add` would make it"
        )
    against = living(cluster, site)
    if against and not force:
        click.echo(f"Error: {against}. Nothing was done", err=True)
        sys.exit(1)
    for one in reversed(found):  # the account last: if this is interrupted, the next try finds it
        if not dry_run:
            _delete(cluster.api, one)
        click.echo(f"{one.words}: {'would be deleted' if dry_run else 'deleted'}")
    if not dry_run:
        click.echo(f"\nOn the login node, as root: batchgate site uninstall {site}")


def living(cluster: Cluster, site: str) -> str:
    """What of a site still needs its agent, in one sentence; empty if nothing does. An agent's own rights suffice.

    Raises ConfigError if it cannot be seen, ApiError.
    """
    nodes = cluster.every("the Nodes of queues", "/api/v1/nodes", dict, labelSelector=names.NODE_KIND) or ()
    found = pods_of(cluster, site, [str(one["metadata"]["name"]) for one in nodes if forgetting.is_of(one, site)])
    if cluster.missed:
        raise ConfigError("; ".join(cluster.missed))
    pods = forgetting.in_need(found)
    if not pods:
        return ""
    shown = ", ".join(pods[:_MOST_NAMED]) + (f" and {len(pods) - _MOST_NAMED} more" if len(pods) > _MOST_NAMED else "")
    return f"{len(pods)} Pods of site {site} live: {shown}. Wait until they have ended, or delete their Jobs"


def _delete(api: Api, one: Placed) -> None:
    try:
        api.delete(one.path)
    except NotFound:
        return
    except ApiError as error:
        raise ConfigError(f"{one.words} was not deleted: {error}") from error
