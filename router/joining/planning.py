"""Plans what is put on a login node for the agent of a site: the account, directories, files.

Pure: values. ``machine`` puts them there. Files are compared whole, so that a second run leaves them as they are.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

import yaml

from router.errors import ConfigError
from router.joining.joinfile import Join
from router.joining.layout import ACCOUNT, ETC, STATE, Layout
from router.kube import tokens
from router.kube.tokens import Claims
from router.site.schema import Access, Runtime, Site
from router.site.systems import SYSTEMS

ROOT: Final = "root"
LOCAL: Final = "local"
"""The host of a site that is this machine."""
_HOMES: Final = ("/home/", "/root/", "/run/user/")


@dataclass(frozen=True, slots=True)
class Directory:
    """A directory, and those above it that are missing."""

    path: str
    owner: str
    group: str
    mode: int


@dataclass(frozen=True, slots=True)
class File:
    """A file and its whole text. ``checked``: by ``visudo`` before it is put in place."""

    path: str
    text: str
    owner: str
    group: str
    mode: int
    checked: bool = False


def account_of(site: Site, users: Collection[str], named: str) -> str:
    """The account that the agent runs as.

    :param users: the HPC users whom the policy's accounts name for the site
    :param named: by the admin; empty: nobody
    :raises ConfigError: the agent would act as nobody's user, or as root
    """
    if named == ROOT:
        raise ConfigError("the agent does not run as root; leave --user out, or name another account")
    if site.host != LOCAL or site.access is not Access.OWN or SYSTEMS[site.system].TRAITS.embedded:
        return named or ACCOUNT
    if not named and len(users) == 1:
        return next(iter(users))
    if named not in users:
        known = ", ".join(sorted(users)) or "nobody"
        raise ConfigError(
            f"site {site.name} has host local and access own: its agent runs as the one HPC user whose jobs it submits. Name "
            f"this user with --user; the policy's accounts name {known}"
        )
    return named


def further_options(
    site: Site, layout: Layout, *, listen: str, address: str, metrics: str, self_signed: bool
) -> tuple[str, ...]:
    """The options of ``batchgate agent`` that depend on site and machine."""
    embedded = SYSTEMS[site.system].TRAITS.embedded
    return (
        f"--listen={listen}",
        f"--address={address}",
        f"--metrics={metrics}",
        *(("--self-signed",) if self_signed else ()),
        *((f"--local-state={layout.queue}",) if embedded else ()),
    )


def sees_homes(program: str, site: Site) -> bool:
    """Whether the program, or what the site names on this machine, lies in a home directory."""
    return any(path.startswith(_HOMES) for path in (program, site.keys or "", site.known_hosts or ""))


def writable(site: Site) -> tuple[str, ...]:
    """Directories that the agent of a site over ssh writes on its own machine: where results are collected."""
    return (site.results_dir.partition("{")[0],) if site.results_dir else ()


def kubeconfig(join: Join, layout: Layout) -> dict[str, Any]:
    """The agent's kubeconfig, without a secret: it names the file of the credential."""
    cluster = {"server": join.server} | ({"certificate-authority": layout.ca} if join.ca else {})
    cluster |= {"tls-server-name": join.server_name} if join.server_name else {}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "cluster", "cluster": cluster}],
        "users": [{"name": "agent", "user": {"tokenFile": layout.token}}],
        "contexts": [
            {"name": "agent", "context": {"cluster": "cluster", "user": "agent", "namespace": join.namespace}}
        ],
        "current-context": "agent",
    }


def directories(layout: Layout, account: str, group: str) -> tuple[Directory, ...]:
    """The directories, those above first."""
    return (
        Directory(ETC, ROOT, ROOT, 0o755),
        Directory(layout.etc, ROOT, group, 0o750),
        Directory(STATE, ROOT, ROOT, 0o755),
        Directory(layout.state, account, group, 0o700),
    )


def own_files(join: Join, layout: Layout, group: str, unit: str, configuration: str) -> tuple[File, ...]:
    """The files of every site.

    :param unit: the text of the unit
    :param configuration: the text of the kubeconfig
    """
    ca = (File(layout.ca, join.ca, ROOT, group, 0o640),) if join.ca else ()
    return (
        *ca,
        File(layout.public_keys, join.public_keys, ROOT, group, 0o640),
        File(layout.kubeconfig, configuration, ROOT, group, 0o640),
        File(layout.unit_file, unit, ROOT, ROOT, 0o644),
    )


def programs(site: Site) -> Mapping[str, str]:
    """The files that the site expects on this machine, by the names of their sources: ``sitehelper``, ``imagepull``."""
    if site.host != LOCAL:
        return {}
    helper = {"sitehelper": site.helper} if site.access is Access.SUDO else {}
    pulls = site.pull == "host" and site.runtime is not Runtime.HOST
    return helper | ({"imagepull": site.imagepull} if pulls else {})


def is_usable(held: Claims | None, wanted: Claims, now: float) -> bool:
    """Whether the credential that is there may stay: it is of the same account, and not yet due for its renewal."""
    return held is not None and held.user == wanted.user and now < tokens.renew_at(held)


@dataclass(frozen=True, slots=True)
class Record:
    """What `site install` was told, and the files that it put in place: for the next run, and for their removal.

    ``release``: of the program that runs; another one is a change, after which the agent is started anew.
    """

    release: str
    options: Mapping[str, str | bool]
    files: tuple[str, ...]


def write_record(record: Record) -> str:
    """The text of a record."""
    found = {"release": record.release, "options": dict(record.options), "files": sorted(record.files)}
    return json.dumps(found, indent=2, sort_keys=True) + "\n"


def read_record(text: str, place: str) -> Record:
    """Read a record. Raises ConfigError if it is none."""
    try:
        found = json.loads(text)
        return Record(str(found["release"]), dict(found["options"]), tuple(map(str, found["files"])))
    except (ValueError, KeyError, TypeError):
        raise ConfigError(f"{place}: is not what `site install` writes; remove it, and install again") from None


def installed_join(site: str, configuration: str, ca: str, public_keys: str, token: str) -> Join:
    """What a join file said, from the files that were made of it and the present credential.

    :param configuration: the text of the kubeconfig, as ``kubeconfig`` makes it
    :raises ConfigError: it is another one
    """
    try:
        found = yaml.safe_load(configuration)
        cluster = found["clusters"][0]["cluster"]
        namespace = found["contexts"][0]["context"]["namespace"]
        name = str(cluster.get("tls-server-name", ""))
        return Join(site, str(namespace), str(cluster["server"]), name, ca, public_keys, token)
    except (yaml.YAMLError, KeyError, TypeError, IndexError, AttributeError):
        raise ConfigError(
            "the agent's kubeconfig is not what `site install` writes; name a join file with --from"
        ) from None


def removable(layout: Layout, own: Collection[str], others: Collection[str]) -> tuple[str, ...]:
    """The files to remove of those that a site's record names: what another site's record names too stays.

    Files of no site's alone are the site helper and the image puller.
    """
    return tuple(sorted(set(own) - set(others) - {layout.record}))
