"""Takes the policy from a ConfigMap of the cluster and follows its changes.

Shell (a watch).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import Any, Final

from router.errors import ConfigError
from router.kube.client import Api
from router.kube.watching import Watch
from router.policy.configmap import texts_of
from router.policy.loading import load
from router.startup.policysource import OnReload, PolicySource

_ADDED: Final = "kubectl create configmap, or batchgate policy apply, makes it"


class PolicyConfigMap(PolicySource):
    """The policy in force, which follows a ConfigMap; ``start`` it, ``stop`` it in the end.

    The last good policy stays in force while the ConfigMap is missing, invalid or unreadable; ``error`` says why.
    """

    def __init__(self, api: Api, namespace: str, name: str, on_reload: OnReload | None = None) -> None:
        super().__init__(on_reload)
        self.place = f"ConfigMap {namespace}/{name}"
        self._lock = threading.RLock()
        self._invalid = ""
        """Why the ConfigMap as it was last seen is not in force."""
        self._watch = Watch(
            api,
            f"/api/v1/namespaces/{namespace}/configmaps",
            self._listed,
            self._changed,
            # The role names the one object, and the API server then allows only lists and watches of this name.
            {"fieldSelector": f"metadata.name={name}"},
        )

    @property
    def alive(self) -> bool:
        """Whether the thread of the watch runs."""
        return self._watch.alive

    def start(self) -> None:
        """Begin to watch."""
        self._watch.start()

    def stop(self) -> None:
        """Watch no more."""
        self._watch.stop()

    def check(self) -> None:
        """Note whether the API server answers; changes of the ConfigMap come by the watch."""
        with self._lock:
            error = "; ".join(problem for problem in (self._watch.problem, self._invalid) if problem)
            if error == self.error:
                return
            self.error = error
            self.failures += bool(error)
            self._reloaded()

    def _listed(self, objects: Iterator[dict[str, Any]]) -> None:
        self._see(next(objects, None))

    def _changed(self, kind: str, found: dict[str, Any]) -> None:
        self._see(None if kind == "DELETED" else found)

    def _see(self, found: Mapping[str, Any] | None) -> None:
        with self._lock:
            try:
                policy = load(self._texts(found))
            except ConfigError as error:
                self._invalid = str(error)
            else:
                self._invalid = ""
                generation = self.generation
                self._put_in_force(policy)
                if self.generation != generation and not self.error:
                    self._reloaded()
            self.check()

    def _texts(self, found: Mapping[str, Any] | None) -> dict[str, str]:
        if found is None:
            raise ConfigError(f"there is no {self.place}; {_ADDED}")
        return texts_of(found, self.place)
