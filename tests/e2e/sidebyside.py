"""Runs the same Jobs in two namespaces: of one they run on the cloud node, of the other on a virtual node."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from router import names
from tests.agent.whole.waiting import until
from tests.e2e import oracle
from tests.e2e.oracle import Cluster

Pair = tuple[oracle.Seen, oracle.Seen]
"""What was seen of a Job in the cloud and on HPC."""
CLOUD, HPC = "oracle-cloud", "oracle-batch"
"""The two namespaces, of one length, as a name's length is seen in a file's size."""
SECONDS: Final = 900.0
"""For all Jobs of one call to end."""
OTHER: Final = "other"
"""A service account of both namespaces."""


@dataclass(frozen=True)
class Places:
    """The two namespaces."""

    cluster: Cluster
    cloud: str
    hpc: str

    @property
    def both(self) -> tuple[str, str]:
        return self.cloud, self.hpc


@contextlib.contextmanager
def places(cluster: Cluster, data: Mapping[str, Mapping[str, Any]], agent: str) -> Iterator[Places]:
    """Make the namespaces with these objects, by kind and name; at the end the objects and all Jobs are gone.

    :param agent: the account of the site's agent, which may read the Secrets
    """
    found = Places(cluster, CLOUD, HPC)
    objects = [_object("ServiceAccount", OTHER, place) for place in found.both]
    for kind, held in data.items():
        objects += [_object(kind, name, place, **fields) for place in found.both for name, fields in held.items()]
    namespaces = _namespace(CLOUD, "disabled"), _namespace(HPC, names.GATE_ENABLED)
    cluster.ok("apply", "-f", "-", stdin=_list(*namespaces, *objects, _right(HPC, agent)))
    try:
        yield found
    finally:
        clear(found)
        cluster.ok("delete", "-f", "-", stdin=_list(*objects))


def clear(where: Places) -> None:
    """Delete all Jobs."""
    for place in where.both:
        where.cluster.ok("delete", "jobs", "--all", "-n", place, "--timeout=300s")


def run(where: Places, jobs: Mapping[str, Mapping[str, Any]], seconds: float = SECONDS) -> dict[str, Pair]:
    """Run Jobs in both namespaces at once; by name what is seen when all have ended. One that is suspended is resumed."""
    for place in where.both:
        where.cluster.ok("create", "-f", "-", stdin=_list(*(_named(job, name, place) for name, job in jobs.items())))
    resumed = [name for name, job in jobs.items() if job["spec"].get("suspend")]
    if resumed:
        for place in where.both:
            where.cluster.ok("-n", place, "patch", "jobs", *resumed, "--type=merge", "-p", '{"spec":{"suspend":false}}')
    for place in where.both:
        until(lambda place=place: _running(where.cluster, place), lambda left: not left, seconds=seconds, pause=2)  # type: ignore[misc]
    with ThreadPoolExecutor(4) as pool:
        seen = {place: oracle.observe(where.cluster, place, list(jobs), pool) for place in where.both}
    return {name: (seen[where.cloud][name], seen[where.hpc][name]) for name in jobs}


def on_virtual_nodes(where: Places, place: str) -> list[bool]:
    """Whether each Pod of a namespace is on a virtual node."""
    nodes = where.cluster.ok("-n", place, "get", "pods", "-o", "jsonpath={.items[*].spec.nodeName}").split()
    return [node.endswith(".batchgate") for node in nodes]


def _running(cluster: Cluster, place: str) -> list[str]:
    """The Jobs that have not ended."""
    jobs = json.loads(cluster.ok("-n", place, "get", "jobs", "-o", "json"))["items"]
    return [str(job["metadata"]["name"]) for job in jobs if not _ended(job)]


def _ended(job: Mapping[str, Any]) -> bool:
    conditions = job["status"].get("conditions", ())
    return any(one["type"] in {"Complete", "Failed"} and one["status"] == "True" for one in conditions)


def _named(job: Mapping[str, Any], name: str, place: str) -> dict[str, Any]:
    return {**job, "metadata": {"name": name, "namespace": place}}


def _list(*objects: Mapping[str, Any]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})


def _namespace(name: str, gate: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {names.LABEL_GATE: gate}}}


def _object(kind: str, name: str, place: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": place}, **fields}


def _right(place: str, agent: str) -> dict[str, Any]:
    """To read the Secrets of the namespace, as docs/secrets.md has an admin give it."""
    return _object("RoleBinding", "secrets", place) | {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "batchgate-secrets"},
        "subjects": [{"kind": "ServiceAccount", "name": agent, "namespace": names.SYSTEM_NAMESPACE}],
    }
