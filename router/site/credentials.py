"""Finds the credentials of the cluster that a Job needs and a site does not bring: Secrets and service account tokens.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from router.site import globs
from router.site.images import mapped
from router.site.schema import Runtime, Site
from router.workload.exposure import exposed
from router.workload.model import Container, Obstacle, Volume, Workload

_PROJECTED: Final = frozenset({"configMap", "secret", "downwardAPI", "serviceAccountToken"})
_STAGE: Final = "stage"
_DEFAULT_ACCOUNT: Final = "default"


def missing(workload: Workload, site: Site) -> Iterator[Obstacle]:
    """The fields for which a Job needs a credential that the site does not bring."""
    for container in workload.containers:
        yield from _variables(container, site)
    for volume in workload.volumes:
        yield from _volume(volume, site)
    yield from _token(workload, site)
    yield from _pull_secrets(workload, site)


def brought(workload: Workload, site: Site) -> Iterator[tuple[str, str]]:
    """What a site brings of a Job's credentials: a title, and a clause, for each Secret and token."""
    volumes = [found for volume in workload.volumes for found in _sources(volume)]
    secrets = [one.name for container in workload.containers for one in container.secrets]
    secrets += [str(value.get("secretName") or value.get("name")) for _, kind, value in volumes if kind == "secret"]
    for name in dict.fromkeys(secrets):
        yield f"Secret {name}", f"brought to the site; the agent needs the right to read it in {workload.namespace}"
    if any(kind == "serviceAccountToken" for _, kind, _ in volumes) or brings_token(workload, site):
        account = workload.account.name or _DEFAULT_ACCOUNT
        yield "token", f"of service account {account}, bound to the Pod and renewed"


def uses_credentials(workload: Workload, site: Site) -> bool:
    """Whether files of a Pod on a site hold contents of Secrets, or may hold a token."""
    kinds = {kind for volume in workload.volumes for _, kind, _ in _sources(volume)}
    return (
        any(container.secrets for container in workload.containers)
        or not kinds.isdisjoint({"secret", "serviceAccountToken"})
        or brings_token(workload, site)
    )


def brings_token(workload: Workload, site: Site) -> bool:
    """Whether a Pod may get the automatic mount of a token: the Job does not forbid it, but its account may."""
    return site.tokens == _STAGE and site.runtime is not Runtime.HOST and workload.account.mounts_token is not False


def reads_pull_secrets(site: Site) -> bool:
    """Whether images are pulled with the Secrets that Pods name for them."""
    return site.secrets != "cloud" and site.pull == "host"


def _variables(container: Container, site: Site) -> Iterator[Obstacle]:
    if site.secrets != _STAGE:
        for one in container.secrets:
            yield Obstacle(one.path, _no_secret(one.name, one.key, site))
        return
    for found in exposed(container):
        yield Obstacle(found.path, found.reason)


def _volume(volume: Volume, site: Site) -> Iterator[Obstacle]:
    for path, kind, source in _sources(volume):
        if kind not in _PROJECTED:
            yield Obstacle(path, "is a source that HPC nodes do not have")
        elif kind == "secret" and site.secrets != _STAGE:
            yield Obstacle(path, _no_secret(source.get("secretName") or source.get("name"), "", site))
        elif kind == "serviceAccountToken" and site.tokens != _STAGE:
            yield Obstacle(path, f"is a token of a service account, and {_no_tokens(site)}")


def _sources(volume: Volume) -> Iterator[tuple[str, str, Mapping[str, object]]]:
    """Path, kind and value of a secret volume, or of each source of a projected one."""
    here = f"{volume.path}.{volume.kind}"
    if volume.kind == "secret":
        yield here, volume.kind, volume.source
    listed = volume.source.get("sources") if volume.kind == "projected" else None
    for index, source in enumerate(listed if isinstance(listed, list) else ()):
        for kind, value in source.items() if isinstance(source, dict) else ():
            yield f"{here}.sources[{index}].{kind}", kind, value if isinstance(value, dict) else {}


def _no_secret(name: object, key: str, site: Site) -> str:
    what = f"{str(name)[:253]}{f' (key {key})' if key else ''}"
    return f"needs Secret {what}, and secrets of site {site.name} is {site.secrets}; its admin could set {_STAGE}"


def _no_tokens(site: Site) -> str:
    return f"tokens of site {site.name} is {site.tokens}; its admin could set {_STAGE}"


def _token(workload: Workload, site: Site) -> Iterator[Obstacle]:
    """A Job that plainly needs a token: it says so itself, or an admin says so of its service account."""
    if site.tokens == _STAGE:
        return
    account, root = workload.account, workload.pod_path
    name = account.name or _DEFAULT_ACCOUNT
    if account.mounts_token:
        yield Obstacle(
            f"{root}.automountServiceAccountToken",
            f"asks for a token of service account {name}, and {_no_tokens(site)}",
        )
    elif account.mounts_token is None and globs.matches(site.need_tokens, f"{workload.namespace}/{name}"):
        yield Obstacle(
            f"{root}.serviceAccountName",
            f"is {name}, which needs its token by needTokens of site {site.name}, and {_no_tokens(site)}",
        )


def _pull_secrets(workload: Workload, site: Site) -> Iterator[Obstacle]:
    if not workload.account.pull_secrets or site.runtime is Runtime.HOST or reads_pull_secrets(site):
        return
    pulled = [container for container in workload.containers if mapped(site, container.image) is None]
    if pulled:  # a job gets no credentials, as its user's other jobs on the nodes could read them
        yield Obstacle(
            f"{pulled[0].path}.image",
            f"is pulled with the Secret {workload.account.pull_secrets[0]}, which is not brought to site {site.name} "
            "(it would need pull: host, and secrets: pull or stage)",
        )
