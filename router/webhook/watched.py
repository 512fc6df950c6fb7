"""Caches of the cluster's objects, kept by watches, so that a review needs no request to the API server.

Shell (threads). Each cache is a source like a file, with a value in force and the reason why it may be out of date.
While the API server is unreachable, the last values stay in force.
"""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Generic, TypeVar

from router import names, policy
from router.errors import InputError
from router.kube.client import Api
from router.kube.watching import Watch
from router.policy.decision import NO_QUEUE_STATES, QueueState, QueueStates
from router.workload import clusterfile
from router.workload.claims import Claims, bound_of, wanted_of
from router.workload.cluster import Cluster, LimitDefaults
from router.workload.quotas import Quota

T = TypeVar("T")
Json = dict[str, Any]
Key = tuple[str, str]
"""Namespace and name; the namespace of a cluster-scoped object is empty."""

NAMESPACES: Final = "/api/v1/namespaces"
LIMIT_RANGES: Final = "/api/v1/limitranges"
QUOTAS: Final = "/api/v1/resourcequotas"
CLAIMS: Final = "/api/v1/persistentvolumeclaims"
VOLUMES: Final = "/api/v1/persistentvolumes"
RUNTIME_CLASSES: Final = "/apis/node.k8s.io/v1/runtimeclasses"


class Cache(Generic[T]):
    """A projection of each object of a list.

    ``objects`` is replaced as a whole at each change, so that a reader sees one consistent state.

    :param project: returns the part of an object to keep
    :param changed: called after each change, by the watch's thread
    """

    def __init__(
        self,
        api: Api,
        path: str,
        project: Callable[[Json], T],
        changed: Callable[[], None],
        query: Mapping[str, str] | None = None,
    ) -> None:
        self.objects: Mapping[Key, T] = {}
        self.listed = False
        self.watch = Watch(api, path, self._listed, self._seen, query)
        self._project = project
        self._changed = changed

    def _listed(self, objects: Iterator[Json]) -> None:
        self.objects = {_key(found): self._project(found) for found in objects}
        self.listed = True
        self._changed()

    def _seen(self, kind: str, found: Json) -> None:
        key = _key(found)
        others = {other: value for other, value in self.objects.items() if other != key}
        self.objects = others if kind == "DELETED" else {**others, key: self._project(found)}
        self._changed()


def _key(found: Json) -> Key:
    metadata = found["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


class Watched(ABC):
    """The base of watched sources; see ``router.startup.sources.Source`` for ``error`` and ``failures``."""

    name = ""

    def __init__(self, log: logging.Logger) -> None:
        self.error = ""
        self.failures = 0
        self._log = log

    @property
    @abstractmethod
    def watches(self) -> tuple[Watch, ...]:
        """The threads of its watches."""

    @property
    def alive(self) -> bool:
        """Whether all of these run."""
        return all(watch.alive for watch in self.watches)

    @property
    def synced(self) -> bool:
        """Whether everything was listed once; before that, reviews cannot be judged."""
        return all(watch.synced.is_set() for watch in self.watches)

    def start(self) -> None:
        """Begin to watch."""
        for watch in self.watches:
            watch.start()

    def check(self) -> None:
        """Check the watches for problems; called every other second."""
        self._tell("; ".join(dict.fromkeys(watch.problem for watch in self.watches if watch.problem)))

    def _tell(self, error: str) -> None:
        if error == self.error:
            return
        self.error = error
        if error:
            self.failures += 1
            self._log.error("out of date", extra={"fields": {"source": self.name, "error": error}})
        else:
            self._log.info("up to date again", extra={"fields": {"source": self.name}})


class WatchedCluster(Watched):
    """Namespaces' labels, LimitRanges' defaults, RuntimeClasses' overhead, ResourceQuotas, and claims with volumes if
    asked. ``value`` is never changed in place.

    :param claims: whether to watch claims and volumes. Without the right to it they stay unknown, and all else works
    """

    name = "cluster"

    def __init__(self, api: Api, log: logging.Logger, *, claims: bool = False) -> None:
        super().__init__(log)
        self.value = Cluster()
        self.modified: float | None = None
        self._lock = threading.Lock()
        self._wanted = Cache(api, CLAIMS, wanted_of, self._put_together) if claims else None
        self._bound = Cache(api, VOLUMES, bound_of, self._put_together) if claims else None
        self._labels = Cache(api, NAMESPACES, _labels, self._put_together)
        self._defaults = Cache(api, LIMIT_RANGES, _defaults, self._put_together)
        self._overheads = Cache(api, RUNTIME_CLASSES, _overhead, self._put_together)
        self._quotas = Cache(api, QUOTAS, _quota, self._put_together)

    @property
    def watches(self) -> tuple[Watch, ...]:
        """One watch for each kind."""
        return (*self._needed, *[cache.watch for cache in (self._wanted, self._bound) if cache is not None])

    @property
    def _needed(self) -> tuple[Watch, ...]:
        return self._labels.watch, self._defaults.watch, self._overheads.watch, self._quotas.watch

    @property
    def synced(self) -> bool:
        """Whether all that is needed was listed once, and claims and volumes were, or the API server refused them."""
        return all(watch.synced.is_set() or (watch not in self._needed and watch.problem) for watch in self.watches)

    def _claims(self) -> Claims | None:
        if self._wanted is None or self._bound is None or not (self._wanted.listed and self._bound.listed):
            return None
        return Claims(self._wanted.objects, self._bound.objects)

    def _put_together(self) -> None:
        with self._lock:
            limits: dict[str, tuple[LimitDefaults, ...]] = {}
            for (namespace, _), found in sorted(self._defaults.objects.items(), key=lambda item: item[0]):
                limits[namespace] = limits.get(namespace, ()) + found
            quotas: dict[str, tuple[Quota, ...]] = {}
            for (namespace, _), quota in sorted(self._quotas.objects.items(), key=lambda item: item[0]):
                quotas[namespace] = (*quotas.get(namespace, ()), quota)
            self.value = Cluster(
                namespaces={name: labels for (_, name), labels in self._labels.objects.items()},
                limits=limits,
                overheads={name: overhead for (_, name), overhead in self._overheads.objects.items()},
                quotas=quotas,
                claims=self._claims(),
            )


# The API server has validated the types of these fields: an InputError would be a bug, and would end the thread.
def _labels(found: Json) -> Mapping[str, str]:
    return clusterfile.labels_of(found, NAMESPACES)


def _defaults(found: Json) -> tuple[LimitDefaults, ...]:
    return clusterfile.defaults_of(found, LIMIT_RANGES)


def _overhead(found: Json) -> Mapping[str, str]:
    return clusterfile.overhead_of(found, RUNTIME_CLASSES)


def _quota(found: Json) -> Quota:
    return clusterfile.quota_of(found, QUOTAS)


class WatchedQueues(Watched):
    """The queue state that agents publish in a ConfigMap: one document for each site, under its own key.

    :param most: seconds; a document whose ``time`` is older, or that has none, counts as unknown
    """

    name = "queues"

    def __init__(self, api: Api, namespace: str, most: int, log: logging.Logger) -> None:
        super().__init__(log)
        self.value = NO_QUEUE_STATES
        self.modified: float | None = None
        self._most = most
        self._place = f"ConfigMap {namespace}/{names.QUEUES_CONFIG_MAP}"
        self._lock = threading.Lock()
        self._found: Cache[Mapping[str, QueueStates | str]] = Cache(
            api,
            f"/api/v1/namespaces/{namespace}/configmaps",
            self._documents,
            self.check,
            {"fieldSelector": f"metadata.name={names.QUEUES_CONFIG_MAP}"},
        )

    @property
    def watches(self) -> tuple[Watch, ...]:
        """The one watch of the ConfigMap."""
        return (self._found.watch,)

    @property
    def synced(self) -> bool:
        """True: rules can handle an unknown state of queues."""
        return True

    def check(self) -> None:
        """Update ``value``: leave out outdated documents, and report problems."""
        with self._lock:
            documents = next(iter(self._found.objects.values()), None)
            problems = [self._found.watch.problem] if self._found.watch.problem else []
            if documents is None and self._found.watch.synced.is_set():
                problems.append(f"there is no {self._place}; an agent publishes it")
            states: dict[Key, QueueState] = {}
            times: list[float] = []
            for key, document in (documents or {}).items():
                if isinstance(document, str):
                    problems.append(document)
                elif problem := self._age_problem(document):
                    problems.append(f"{self._place}, {key} {problem}")
                else:
                    states.update(document.states)
                    times.append(document.time or 0.0)
            found = QueueStates(states, time=min(times, default=None)) if states else NO_QUEUE_STATES
            # Keep the same object if nothing changed, as the values that conditions read are cached by it.
            self.value = self.value if found == self.value else found
            self.modified = min(times, default=None)
            self._tell("; ".join(problems))

    def _age_problem(self, document: QueueStates) -> str:
        if document.time is None:
            return "has no time, so its age is unknown"
        problem = policy.age_problem(document, now=time.time(), most=self._most)
        return f"{problem}; see to its agent, or --queues-max-age" if problem else ""

    def _documents(self, found: Json) -> Mapping[str, QueueStates | str]:
        return {key: self._read(key, str(text)) for key, text in (found.get("data") or {}).items()}

    def _read(self, key: str, text: str) -> QueueStates | str:
        try:
            found = policy.queue_states(text, f"{self._place}, {key}")
        except InputError as error:
            return str(error)
        # Each site's agents write their own key alone: a guard keeps them to it, and this to their own queues.
        others = sorted({site for site, _ in found.states if names.site_key(site) != key})
        return f"{self._place}, {key}: has queues of site {others[0]}, which that key is not for" if others else found
