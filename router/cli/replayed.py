"""Reads the Jobs that the commands of ``policy`` judge again: from decision logs, manifests, or a cluster.

Shell (files, the API with the caller's own rights, the terminal).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import click
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from router import names
from router.cli.cluster import Cluster as Connection
from router.cli.manifests import read_manifests
from router.errors import ConfigError, InputError
from router.placement import signing
from router.replay.cases import Case, Skipped, StatesOfLog, from_line
from router.replay.manifests import Known, from_manifest
from router.startup.settings import log_files
from router.workload.clusterfile import KINDS, cluster_of

T = TypeVar("T")
Found = Iterator[Case | Skipped]
_UNREADABLE: Final = "lines that cannot be read"
_LONGEST_LINE: Final = 1024 * 1024
_BATCH: Final = "/apis/batch/v1"
_FEW: Final = 50
"""Jobs of a page. The largest that an API server takes have 1.5 MiB each."""
_FACTS: Final = (
    ("namespaces", "/api/v1", "Namespace"),
    ("limitranges", "/api/v1", "LimitRange"),
    ("runtimeclasses", "/apis/node.k8s.io/v1", "RuntimeClass"),
    ("persistentvolumeclaims", "/api/v1", "PersistentVolumeClaim"),
    ("persistentvolumes", "/api/v1", "PersistentVolume"),
)
"""What else decides about Jobs, of all namespaces."""


def progress(length: int, label: str) -> AbstractContextManager[Any]:
    """A progress bar on standard error, if that is a terminal."""
    return click.progressbar(length=length, label=label, file=sys.stderr, hidden=not sys.stderr.isatty())


# --- decision logs ----------------------------------------------------------------------------------------------


def from_logs(paths: Sequence[str], since: float) -> Found:
    """The decisions of logs, each with its older files, the oldest first. Raises InputError."""
    files = [file for path in paths for file in _with_older(Path(path))]
    states = StatesOfLog()
    with progress(sum(file.stat().st_size for file in files), "Judging") as bar:
        for file in files:
            yield from _of_file(file, states, since, bar.update)


def _with_older(path: Path) -> list[Path]:
    found = [one for one in reversed(log_files(path)) if one.is_file()]
    if not found:
        raise InputError(f"{path}: there is no such decision log; the webhook's option --decision-log writes one")
    return found


def _of_file(path: Path, states: StatesOfLog, since: float, read: Callable[[int], None]) -> Found:
    """The decisions of one file. Raises InputError if its first line is of another kind."""
    with path.open("rb") as file:
        for number in range(1, sys.maxsize):
            data = file.readline(_LONGEST_LINE)
            if not data:
                return
            read(len(data))
            place = f"{path}:{number}"
            try:
                yield from_line(data.decode("utf-8"), place, states, since)
            except ValueError as error:
                if number == 1:
                    raise InputError(f"{place}: {error}") from None
                yield Skipped(_UNREADABLE, f"{place}: {error}")


# --- manifests --------------------------------------------------------------------------------------------------


def from_files(paths: Sequence[str], known: Known) -> Found:
    """The Jobs of manifests, as ``kubectl get jobs,cronjobs -o yaml`` prints them; other objects there tell more."""
    objects = [(one.value, one.place) for one in read_manifests(paths, recursive=True) if isinstance(one.value, dict)]
    facts = [(value, place) for value, place in objects if value.get("kind") in KINDS]
    yield from _of_objects(objects, replace(known, cluster=cluster_of(facts)))


def _of_objects(objects: Sequence[tuple[Mapping[str, Any], str]], known: Known) -> Found:
    with progress(len(objects), "Judging") as bar:
        for value, place in objects:
            found = from_manifest(value, place, known)
            if found is not None:
                yield found
            bar.update(1)


# --- a cluster --------------------------------------------------------------------------------------------------


def from_cluster(cluster: Connection, known: Known) -> Found:
    """The Jobs and CronJobs that are in a cluster. Raises ApiError; what may not be listed is in ``cluster.missed``."""
    jobs = ((kind, cluster.everywhere(kind, _BATCH, dict)) for kind in ("jobs", "cronjobs"))
    found = [
        one for (kind, listed), name in zip(jobs, ("Job", "CronJob"), strict=True) for one in _named(kind, name, listed)
    ]
    yield from _of_objects(found, with_facts(cluster, known))


def with_facts(cluster: Connection, known: Known, without: Collection[str] = ()) -> Known:
    """What is known, with the cluster's own facts. Raises ApiError; what may not be listed is in ``cluster.missed``.

    :param without: kinds that are not read, by their plurals
    """
    facts = [
        one
        for kind, group, name in _FACTS
        if kind not in without
        for one in _named(kind, name, cluster.every(kind, f"{group}/{kind}", dict) or ())
    ]
    return replace(known, cluster=cluster_of(facts), keys=_keys(cluster))


def _keys(cluster: Connection) -> Mapping[str, Ed25519PublicKey]:
    """The public keys in force. Before the first is made no Job is signed, so all makers are unknown."""
    place = f"ConfigMap {cluster.system}/{names.PUBLIC_KEYS_CONFIG_MAP}"
    path = f"/api/v1/namespaces/{cluster.system}/configmaps/{names.PUBLIC_KEYS_CONFIG_MAP}"
    found = cluster.one(f"{place}, without which it is unknown who made Jobs,", path)
    text = str(((found or {}).get("data") or {}).get(names.PUBLIC_KEYS_KEY, "")).strip()
    try:
        return signing.load_public(text.encode()) if text else {}
    except ConfigError as error:
        raise ConfigError(f"{place}: {names.PUBLIC_KEYS_KEY}: {error}") from None


def each_in_cluster(
    cluster: Connection, known: Known, keep: Callable[[Mapping[str, Any], Case | Skipped], T]
) -> Iterator[T]:
    """``keep`` of each Job and CronJob in a cluster and of its case, page by page: no more of them is in memory.

    Raises ApiError; what may not be listed is in ``cluster.missed``.

    :param known: with the cluster's facts
    """

    def kept(kind: str, name: str, value: Mapping[str, Any]) -> T | None:
        ((named, place),) = _named(kind, name, (value,))
        found = from_manifest(named, place, known)
        return None if found is None else keep(named, found)

    few = replace(cluster, page=_FEW)  # with the same list of what was missed
    for kind, name in (("jobs", "Job"), ("cronjobs", "CronJob")):
        for one in few.everywhere(kind, _BATCH, partial(kept, kind, name)):
            if one is not None:
                yield one


def _named(kind: str, name: str, listed: Iterable[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Objects with their kind, which the API server leaves out in lists, and their path as place."""
    for one in listed:
        metadata = one["metadata"]
        place = "/".join([part for part in (kind, metadata.get("namespace"), metadata["name"]) if part])
        yield {**one, "kind": name, "apiVersion": "batch/v1"}, place
