"""What a Job shows, read the same way on the cloud node and on a virtual node: Pods, containers, logs, the Job's end.

Pure, but for ``observe``, which asks the cluster.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from tests.together.installed import Installed

Seen = dict[str, Any]

ALLOWED: Final[dict[str, str]] = {
    "KUBERNETES_*": "no address of a Service is reached from a batch job, and tokens are not staged",
    "APPTAINER_*, SINGULARITY_*, PS1, LD_LIBRARY_PATH, PROMPT_COMMAND, USER_PATH, UDOCKER_CONTAINER": "the runtime's own",
    "LANG=C": "Apptainer's own; it means what no LANG means",
    "/bin/sh: for sh:": "Apptainer names a program by the path where it was found",
    "namespace": "the two are in two namespaces, whose names messages of the Job controller have",
    "OMP_NUM_THREADS": "set to the cores that the batch job has (docs/judging.md)",
    "Queued": "the condition batchgate.dev/Queued, which a kubelet does not know",
    "PodReadyToStartContainers": "a condition of sandboxes, of which there are none",
}
"""The differences that are looked over, each with its reason."""

_RUNTIME = re.compile(
    r"(KUBERNETES_\w*|APPTAINER_\w*|SINGULARITY_\w*|PS1|LD_LIBRARY_PATH|PROMPT_COMMAND|USER_PATH|UDOCKER_CONTAINER"
    r"|OMP_NUM_THREADS)=.*\n|LANG=C\n",
)
_PROGRAM = re.compile(r"^/bin/sh: ", re.MULTILINE)
_CONDITIONS: Final = {"batchgate.dev/Queued", "PodReadyToStartContainers"}


def observe(installed: Installed, namespace: str, name: str) -> Seen:
    """What is to be seen of an ended Job; Pods in the order of their ends, as their names are drawn by lot."""
    job = json.loads(installed.ok("-n", namespace, "get", "job", name, "-o", "json"))
    listed = json.loads(installed.ok("-n", namespace, "get", "pods", "-l", f"job-name={name}", "-o", "json"))["items"]
    pods = [_pod(pod, _logs(installed, pod)) for pod in listed]
    return {"job": of_job(job), "pods": sorted(pods, key=lambda pod: json.dumps(pod, sort_keys=True))}


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


def _pod(pod: Mapping[str, Any], logs: Mapping[str, str]) -> Seen:
    status, name = pod["status"], pod["metadata"]["name"]
    return {
        "phase": status["phase"],
        "reason": status.get("reason", ""),
        "message": re.sub(r"^job \S+", "job N", status.get("message", "")),
        "qosClass": status.get("qosClass"),
        "index": pod["metadata"].get("annotations", {}).get("batch.kubernetes.io/job-completion-index"),
        "conditions": [one[:3] for one in _told(status.get("conditions", ()), pod["metadata"])],
        "init": [_container(one) for one in status.get("initContainerStatuses", ())],
        "containers": [_container(one) for one in status.get("containerStatuses", ())],
        "logs": {key: without_allowed(text).replace(name, "POD") for key, text in logs.items()},
    }


def _container(status: Mapping[str, Any]) -> Seen:
    told = {key: status.get(key) for key in ("name", "ready", "started", "restartCount")}
    return told | {"state": _state(status["state"]), "last": _state(status.get("lastState", {}))}


def _state(state: Mapping[str, Any]) -> Seen:
    """Without times and ids."""
    return {
        kind: {key: value for key, value in held.items() if key in {"exitCode", "signal", "reason", "message"}}
        for kind, held in state.items()
    }


def without_allowed(text: str) -> str:
    """A log without what may differ."""
    return _PROGRAM.sub("sh: ", _RUNTIME.sub("", text))


def _logs(installed: Installed, pod: Mapping[str, Any]) -> dict[str, str]:
    found = {}
    for container in (*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]):
        place = ("-n", pod["metadata"]["namespace"], "logs", pod["metadata"]["name"], "-c", container["name"])
        found[container["name"]] = installed.kubectl(*place).stdout
    return found
