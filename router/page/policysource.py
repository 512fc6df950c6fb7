"""Finds the policy by which a Job is explained: a directory's, or the cluster's if the reader may see it.

Shell (files, the API). The ConfigMap is read anew each time, with the rights of who looks; only what was made of its
text is kept.
"""

from __future__ import annotations

import threading
from pathlib import Path

from router import names
from router.cli.cluster import Cluster
from router.errors import ApiError, ConfigError
from router.policy import Policy
from router.policy.configmap import texts_of
from router.policy.loading import load
from router.startup.policyfiles import read_directory


class Policies:
    """The policy, for all readers.

    :param directory: its files; None takes it from the cluster
    :param shared: whether others than whoever has started the page look at it
    """

    def __init__(self, directory: Path | None = None, *, shared: bool = False) -> None:
        self._directory = directory
        self._shared = shared
        self._lock = threading.Lock()
        self._texts: dict[str, str] = {}
        self._policy: Policy | None = None

    def find(self, cluster: Cluster) -> tuple[Policy | None, str]:
        """The policy, or None and the reason. Raises ApiError if the API server does not answer."""
        try:
            texts = read_directory(self._directory) if self._directory else self._of_cluster(cluster)
        except ApiError as error:
            if error.status not in (403, 404):
                raise
            return None, f"{error.message}; {self._advice(cluster)}"
        except ConfigError as error:
            return None, str(error)
        return self._loaded(texts)

    def _advice(self, cluster: Cluster) -> str:
        if self._shared:
            return f"it takes the right to get ConfigMap {names.POLICIES_CONFIG_MAP} of namespace {cluster.system}"
        return "start batchgate page with --policy DIR to see it"

    def _of_cluster(self, cluster: Cluster) -> dict[str, str]:
        place = f"{cluster.system}/{names.POLICIES_CONFIG_MAP}"
        found = cluster.api.get(f"/api/v1/namespaces/{cluster.system}/configmaps/{names.POLICIES_CONFIG_MAP}")
        return texts_of(found, f"ConfigMap {place}")

    def _loaded(self, texts: dict[str, str]) -> tuple[Policy | None, str]:
        with self._lock:
            if self._policy is None or texts != self._texts:
                try:
                    self._policy, self._texts = load(texts), texts
                except ConfigError as error:
                    return None, str(error)
            return self._policy, ""
