"""Reads the Jobs that the commands of ``policy`` judge again: from decision logs, manifests, or a cluster.

Shell (files, the API with the caller's own rights, the terminal).
"""

from __future__ import annotations

import errno
import json
import os
import stat
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeVar

import click
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from router import names
from router.cli.cluster import Cluster as Connection
from router.cli.manifests import STDIN, each_object, files_of
from router.errors import ConfigError, InputError
from router.operating.gating import judged_namespaces
from router.placement import signing
from router.policy.matchcondition import PATH, PLACE
from router.replay.cases import Case, Skipped, StatesOfLog, from_line
from router.replay.manifests import Known, from_manifest
from router.startup.logfiles import Identity, LogFile, open_log
from router.workload.clusterfile import KINDS, cluster_of

T = TypeVar("T")
Found = Iterator[Case | Skipped]
_UNREADABLE: Final = "lines that cannot be read"
_NO_OBJECT: Final = "no Kubernetes object: a mapping with a kind was expected"
_STDIN: Final = "/dev/stdin"
_GZIP: Final = b"\x1f\x8b"
_LONGEST_LINE: Final = 1024 * 1024
_BATCH: Final = "/apis/batch/v1"
_LISTED: Final = (("jobs", "Job"), ("cronjobs", "CronJob"))
_JOB_KINDS: Final = frozenset({"Job", "CronJob"})
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


def progress(length: int | None, label: str) -> AbstractContextManager[Any]:
    """A progress bar on standard error, if that is a terminal. None: it is unknown how much comes."""
    steps = None if length is not None else (_ for _ in ())  # click asks others than generators for their length
    return click.progressbar(steps, length=length, label=label, file=sys.stderr, hidden=not sys.stderr.isatty())


# --- decision logs ----------------------------------------------------------------------------------------------


def from_logs(paths: Sequence[str], since: float) -> Found:
    """The decisions of logs, each with its older files, the oldest first; a file that is named twice counts once.

    Raises InputError.
    """
    with ExitStack() as stack:
        files: dict[Identity, LogFile] = {}
        for path in (Path(_STDIN if one == STDIN else one) for one in paths):
            # All are opened before the first is read, as the webhook may rename them meanwhile.
            found = stack.enter_context(open_log(path))
            if not found:
                raise InputError(
                    f"{path}: there is no such decision log; the webhook's option --decision-log writes one"
                )
            for identity, file in reversed(found.items()):
                files.setdefault(identity, file)
        states = StatesOfLog()
        with progress(_whole([one.status for one in files.values()]), "Judging") as bar:
            for file in files.values():
                yield from _of_file(file, states, since, bar.update)


def _of_file(log: LogFile, states: StatesOfLog, since: float, read: Callable[[int], None]) -> Found:
    """The decisions of one file. Raises InputError if its first line is of another kind."""
    begun = False
    with log.file or log.path.open("rb") as file:
        for number in range(1, sys.maxsize):
            data = file.readline(_LONGEST_LINE)
            if not data:
                return
            read(len(data))
            place = f"{log.path}:{number}"
            if not data.strip():
                continue
            try:
                yield from_line(_text(data, number), place, states, since)
            except ValueError as error:
                if not begun:
                    raise InputError(f"{place}: {error}") from None
                yield Skipped(_UNREADABLE, f"{place}: {error}")
            begun = True


def _text(data: bytes, number: int) -> str:
    """A line as text; the first one without a mark of the byte order. Raises ValueError."""
    try:
        return data.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError:
        packed = " but packed by gzip: unpack it, such as with zcat FILE | … --log -" if data.startswith(_GZIP) else ""
        raise ValueError(f"is no text in UTF-8{packed}") from None


# --- manifests --------------------------------------------------------------------------------------------------


def from_files(paths: Sequence[str], known: Known) -> Found:
    """The Jobs of manifests, as ``kubectl get jobs,cronjobs -o json`` prints them; other objects there tell more.

    They may be more than fit into memory. So they wait in a temporary file until all that tells more has been read.
    """
    files = [file for path in paths for file in files_of(path, recursive=True)]
    facts: list[tuple[Mapping[str, Any], str]] = []
    with _room_told(), tempfile.TemporaryFile() as file:
        waiting = _Waiting(file)
        with progress(_bytes_of(files), "Reading") as bar:
            for one in each_object(files, bar.update):
                if not isinstance(one.value, dict) or not isinstance(kind := one.value.get("kind"), str):
                    yield Skipped(_NO_OBJECT, one.place)
                elif kind in KINDS:
                    facts.append((one.value, one.place))
                elif kind in _JOB_KINDS:
                    waiting.put(one.value, one.place)
        yield from _of_objects(waiting.count, waiting.taken(), replace(known, cluster=cluster_of(facts)))


@contextmanager
def _room_told() -> Iterator[None]:
    """Name the directory of temporary files where it is full, and how to choose another one."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        where = tempfile.gettempdir()
        raise ConfigError(f"{where}: {error.strerror}; TMPDIR names a directory with room for all Jobs") from None


def _bytes_of(files: Sequence[str]) -> int | None:
    """The bytes of all files; None with standard input or a pipe, whose end is unknown."""
    try:
        found = [Path(file).stat() for file in files if file != STDIN]
    except OSError:
        return None  # reading it says why
    return _whole(found) if len(found) == len(files) else None


def _whole(found: Sequence[os.stat_result]) -> int | None:
    return sum(one.st_size for one in found) if all(stat.S_ISREG(one.st_mode) for one in found) else None


class _Waiting:
    """Objects with their places, in a file."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.count = 0

    def put(self, value: Mapping[str, Any], place: str) -> None:
        """Add one. Raises InputError for text or numbers that cannot be sent on."""
        try:
            line = json.dumps([value, place], ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
        except ValueError as error:  # half a surrogate pair, 1e400
            why = "has half a character" if isinstance(error, UnicodeEncodeError) else "has a number that is too large"
            raise InputError(f"{place}: {why}") from None
        self._file.write(line + b"\n")
        self.count += 1

    def taken(self) -> Iterator[tuple[Mapping[str, Any], str]]:
        """All of them, in order."""
        self._file.seek(0)
        for line in self._file:
            value, place = json.loads(line)
            yield value, place


def _of_objects(count: int, objects: Iterable[tuple[Mapping[str, Any], str]], known: Known) -> Found:
    with progress(count, "Judging") as bar:
        for value, place in objects:
            found = from_manifest(value, place, known)
            if found is not None:
                yield found
            bar.update(1)


# --- a cluster --------------------------------------------------------------------------------------------------


def from_cluster(cluster: Connection, known: Known) -> Found:
    """The Jobs and CronJobs that are in a cluster. Raises ApiError; what may not be listed is in ``cluster.missed``.

    While they wait, each is a text of a few KB: as Python's objects they take several times as much.
    """
    found = [(kind, name, text) for kind, name in _LISTED for text in _texts(cluster, kind)]
    known = with_facts(cluster, known)
    objects = (one for kind, name, text in found for one in _named(kind, name, (json.loads(text),)))
    yield from _of_objects(len(found), objects, known)


def _texts(cluster: Connection, kind: str) -> tuple[bytes, ...]:
    with progress(None, f"Listing {kind}") as bar:

        def left(count: int | None) -> None:
            bar.length = None if count is None else bar.pos + count

        def keep(one: Mapping[str, Any]) -> bytes:
            bar.update(1)
            return json.dumps(one, separators=(",", ":")).encode()

        return replace(cluster, left=left).everywhere(kind, _BATCH, keep)


def with_facts(cluster: Connection, known: Known, without: Collection[str] = ()) -> Known:
    """What is known, with the cluster's own facts. Raises ApiError; what may not be read is in ``cluster.missed``.

    :param without: kinds that are not read, by their plurals
    """
    facts = [
        one
        for kind, group, name in _FACTS
        if kind not in without
        for one in _named(kind, name, cluster.every(kind, f"{group}/{kind}", dict) or ())
    ]
    here = cluster_of(facts)
    return replace(known, cluster=here, keys=_keys(cluster), judged=_judged(cluster, here.namespaces))


def _judged(cluster: Connection, namespaces: Mapping[str, Mapping[str, str]]) -> frozenset[str] | None:
    """The namespaces whose Jobs the webhook judges; None if that is unknown, as is then who made Jobs in the cloud."""
    because = ""
    if namespaces:
        missed = len(cluster.missed)
        gating = cluster.one(f"{PLACE}, without which it is unknown who made Jobs,", PATH)
        if (judged := judged_namespaces(gating, namespaces)) is not None:
            return judged
        because = f"as no {PLACE} has {names.JOBS_WEBHOOK}, " if len(cluster.missed) == missed else ""
    cluster.missed.append(
        f"which namespaces the webhook judges is unknown, {because}so Jobs of all namespaces are judged"
    )
    return None


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
    for kind, name in _LISTED:
        for one in few.everywhere(kind, _BATCH, partial(kept, kind, name)):
            if one is not None:
                yield one


def _named(kind: str, name: str, listed: Iterable[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Objects with their kind, which the API server leaves out in lists, and their path as place."""
    for one in listed:
        metadata = one["metadata"]
        place = "/".join([part for part in (kind, metadata.get("namespace"), metadata["name"]) if part])
        yield {**one, "kind": name, "apiVersion": "batch/v1"}, place
