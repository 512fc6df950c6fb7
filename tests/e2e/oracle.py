"""What a Job shows, read the same way on the cloud node and on a virtual node: Pods, containers, logs, the Job's end.

Pure, but for ``observe``, which asks the cluster.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Protocol


class Cluster(Protocol):
    """A cluster as its admin sees it."""

    def kubectl(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]: ...

    def ok(self, *words: str, stdin: str = "") -> str:
        """The output of a command that must succeed."""
        ...


Seen = dict[str, Any]

ALLOWED: Final[dict[str, str]] = {
    "KUBERNETES_*": "no address of a Service is reached from a batch job, and tokens are not staged",
    "APPTAINER_*, SINGULARITY_*, PS1, LD_LIBRARY_PATH, PROMPT_COMMAND, USER_PATH, UDOCKER_CONTAINER": "the runtime's own",
    "PWD": "Apptainer sets it, and a shell does so by itself",
    "PS1=": "Apptainer takes an empty one for none, and sets its own",
    "LD_LIBRARY_PATH=…:/.singularity.d/libs": "Apptainer adds its directory behind the Job's own, as it does for GPUs",
    "LANG=C": "Apptainer's own; it means what no LANG means",
    "/bin/sh: for sh:": "Apptainer names a program by the path where it was found",
    "namespace": "the two are in two namespaces, whose names messages of the Job controller have",
    "OMP_NUM_THREADS": "set to the cores that the batch job has (docs/judging.md)",
    "Queued": "the condition batchgate.dev/Queued, which a kubelet does not know",
    "signal": "a kubelet with containerd never gives it; here it follows from codes of 129 to 159, as a shell's do",
    "PodReadyToStartContainers": "a condition of sandboxes, of which there are none",
}
"""The differences that are looked over, each with its reason."""

_RUNTIME = re.compile(
    r"^(KUBERNETES_\w*|APPTAINER_\w*|SINGULARITY_\w*|PS1|LD_LIBRARY_PATH|PROMPT_COMMAND|USER_PATH|UDOCKER_CONTAINER"
    r"|OMP_NUM_THREADS|PWD|LANG(?==C\n))=.*\n",
    re.MULTILINE,
)
_LIBRARIES: Final = ":/.singularity.d/libs"
_PROGRAM = re.compile(r"^/bin/sh: ", re.MULTILINE)
_CONDITIONS: Final = {"batchgate.dev/Queued", "PodReadyToStartContainers"}


def observe(cluster: Cluster, namespace: str, names: Collection[str], pool: ThreadPoolExecutor) -> dict[str, Seen]:
    """By name what is to be seen of ended Jobs; Pods in an order of their contents, as their names are drawn by lot."""
    jobs = json.loads(cluster.ok("-n", namespace, "get", "jobs", "-o", "json"))["items"]
    pods = json.loads(cluster.ok("-n", namespace, "get", "pods", "-o", "json"))["items"]
    found = {job["metadata"]["name"]: of_job(job) for job in jobs}
    logs = pool.map(lambda pod: _logs(cluster, pod), pods)
    seen: dict[str, list[Seen]] = {name: [] for name in names}
    for pod, log in zip(pods, logs, strict=True):
        if (name := pod["metadata"]["labels"]["job-name"]) in seen:
            seen[name].append(of_pod(pod, log))
    return {
        name: {"job": found[name], "pods": sorted(held, key=lambda pod: json.dumps(pod, sort_keys=True))}
        for name, held in seen.items()
    }


def differences(cloud: Seen, hpc: Seen) -> dict[str, tuple[Any, Any]]:
    """By path, such as ``pods.0.phase``, what is seen in the cloud and what on HPC; None where one has nothing there."""
    one, other = dict(_flat("", cloud)), dict(_flat("", hpc))
    return {
        path: (one.get(path), other.get(path)) for path in sorted({*one, *other}) if one.get(path) != other.get(path)
    }


def _flat(path: str, value: Any) -> Iterable[tuple[str, Any]]:
    if isinstance(value, (dict, list)) and value:
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for key, held in pairs:
            yield from _flat(f"{path}.{key}".lstrip("."), held)
    else:
        yield path, value


def of_job(job: Mapping[str, Any]) -> Seen:
    """The Job's counts and conditions."""
    status = job["status"]
    counts = {key: status.get(key) for key in ("succeeded", "failed", "completedIndexes", "failedIndexes")}
    return counts | {"conditions": _told(status.get("conditions", ()), job["metadata"])}


def _told(conditions: Iterable[Mapping[str, Any]], metadata: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Type, status, reason and message."""
    names = re.compile(rf"{re.escape(metadata['namespace'])}/{re.escape(metadata['name'])}\S*")
    plain = lambda text: names.sub("POD", text)  # noqa: E731
    return sorted(
        (one["type"], one["status"], one.get("reason", ""), plain(one.get("message", "")))
        for one in conditions
        if one["type"] not in _CONDITIONS
    )


def of_pod(pod: Mapping[str, Any], logs: Mapping[str, str]) -> Seen:
    """The Pod's state and its logs."""
    status = pod["status"]
    own = {
        one["name"]: {variable["name"] for variable in one.get("env", ()) if _surely(variable)}
        for one in _containers(pod)
    }
    return {
        "phase": status["phase"],
        "reason": status.get("reason", ""),
        "message": re.sub(r"^job \S+", "job N", status.get("message", "")),
        "qosClass": status.get("qosClass"),
        "index": pod["metadata"].get("annotations", {}).get("batch.kubernetes.io/job-completion-index"),
        "conditions": [one[:3] for one in _told(status.get("conditions", ()), pod["metadata"])],
        "init": [_container(one) for one in status.get("initContainerStatuses", ())],
        "containers": [_container(one) for one in status.get("containerStatuses", ())],
        "logs": {key: _unnamed(pod, without_allowed(text, own[key])) for key, text in logs.items()},
    }


def _surely(variable: Mapping[str, Any]) -> bool:
    """Whether a container has the variable; an optional key may be missing, and then it is the runtime's own."""
    return not any(source.get("optional") for source in variable.get("valueFrom", {}).values())


def _container(status: Mapping[str, Any]) -> Seen:
    told = {key: status.get(key) for key in ("name", "ready", "started", "restartCount")}
    return told | {"state": _state(status["state"]), "last": _state(status.get("lastState", {}))}


def _state(state: Mapping[str, Any]) -> Seen:
    """Without times and ids."""
    return {
        kind: {key: value for key, value in held.items() if key in {"exitCode", "reason", "message"}}
        for kind, held in state.items()
    }


def without_allowed(text: str, own: Collection[str] = ()) -> str:
    """A log without what may differ.

    :param own: the variables that the container sets itself, which are never left out
    """
    kept = _RUNTIME.sub(lambda found: found[0].replace(_LIBRARIES, "") if found[1] in own else "", text)
    kept = re.sub(r"^PS1=(Apptainer> )?\n", "", kept, flags=re.MULTILINE)
    return _PROGRAM.sub("sh: ", kept)


def _unnamed(pod: Mapping[str, Any], text: str) -> str:
    """A text without the names that two Pods cannot share."""
    for field, word in (("name", "POD"), ("uid", "UID"), ("namespace", "NAMESPACE")):
        text = text.replace(pod["metadata"][field], word)
    return text


def _containers(pod: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]]


def _logs(cluster: Cluster, pod: Mapping[str, Any]) -> dict[str, str]:
    found = {}
    for container in _containers(pod):
        place = ("-n", pod["metadata"]["namespace"], "logs", pod["metadata"]["name"], "-c", container["name"])
        found[container["name"]] = cluster.kubectl(*place).stdout
    return found
