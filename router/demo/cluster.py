"""The demo on a real control plane: applies the examples with kubectl, follows them to their end, shows the results.

Shell: runs kubectl as a user who may edit one namespace, reads the decisions in the webhook's log, and prints.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from router import names
from router.demo.examples import Example
from router.demo.kubectl import Kubectl
from router.demo.outcome import DENIED, FAILED, KEPT, NO_LAUNCHER, SUCCEEDED, UNFINISHED, Outcome, PodOutcome
from router.workload import workload_of

PATIENCE: Final = 180
"""Seconds for all Jobs together; they take about twenty."""
INTERVAL: Final = 0.5
NAMESPACE: Final = "default"
_SHOWN: Final = "large"
_TAIL: Final = 25


@dataclass(frozen=True, slots=True)
class Applied:
    """An applied example, or one left out because the machine lacks a launcher. ``said`` is kubectl's stderr."""

    example: Example
    allowed: bool
    said: str
    left_out: bool = False

    @property
    def job(self) -> str:
        """The Job's name."""
        name: str = self.example.job["metadata"]["name"]
        return name


def apply(kubectl: Kubectl, found: Sequence[Example], *, launcher: bool) -> list[Applied]:
    """Apply every example. Without a launcher, an MPI example is only a dry run on the server."""
    applied = []
    for example in found:
        dry = not launcher and bool(workload_of(example.job, namespace=NAMESPACE).mpi)
        words = ["apply", "-f", str(example.file), *(["--dry-run=server"] if dry else [])]
        done = kubectl.show(*words)
        applied.append(Applied(example, done.returncode == 0, done.stderr, left_out=dry))
    return applied


def follow(kubectl: Kubectl, applied: Sequence[Applied], *, cloud_runs: bool) -> list[dict[str, Any]]:
    """Wait until every Job that can end has ended, and show each change; returns the Jobs.

    :param cloud_runs: whether a Job that stays in the cloud really runs
    """
    waiting = {one.job for one in applied if one.allowed and not one.left_out}
    seen: dict[str, str] = {}
    until = time.monotonic() + PATIENCE
    while True:
        jobs = [job for job in kubectl.items("jobs") if job["metadata"]["name"] in waiting]
        for job in jobs:
            name, words = job["metadata"]["name"], _progress(job)
            if seen.get(name) != words:
                seen[name] = words
                click.echo(f"  job/{name}: {words}")
        if all(_is_over(job) or (not cloud_runs and not _is_routed(job)) or _cannot_run(job) for job in jobs):
            return jobs
        if time.monotonic() > until:
            click.echo(f"Not all Jobs have ended within {PATIENCE} seconds.", err=True)
            return jobs
        time.sleep(INTERVAL)


def _progress(job: Mapping[str, Any]) -> str:
    status = job.get("status") or {}
    ended = next((one["type"] for one in status.get("conditions") or () if _is_end(one)), "")
    figures = ", ".join(f"{status[key]} {key}" for key in ("active", "ready", "succeeded", "failed") if status.get(key))
    return ended or figures or "created"


def _is_end(condition: Mapping[str, Any]) -> bool:
    return condition["type"] in {"Complete", "Failed"} and condition["status"] == "True"


def _is_over(job: Mapping[str, Any]) -> bool:
    return any(_is_end(one) for one in (job.get("status") or {}).get("conditions") or ())


def _is_routed(job: Mapping[str, Any]) -> bool:
    return _label(job, names.KEY_TARGET) == names.TARGET_HPC


def _cannot_run(job: Mapping[str, Any]) -> bool:
    """Whether a cloud Job waits for ever for a volume that no provisioner provides, as it would without Batchgate."""
    volumes = job["spec"]["template"]["spec"].get("volumes") or ()
    return not _is_routed(job) and any("persistentVolumeClaim" in volume for volume in volumes)


def _label(thing: Mapping[str, Any], key: str) -> str:
    return str((thing["metadata"].get("labels") or {}).get(key, ""))


def _annotation(thing: Mapping[str, Any], key: str) -> str:
    return str((thing["metadata"].get("annotations") or {}).get(key, ""))


def show(kubectl: Kubectl, admin: Kubectl) -> None:
    """Show an admin's view, the nodes, and a user's: Jobs, Pods, one Pod's description, its log."""
    click.echo("\nAs an admin:")
    admin.show("get", "nodes")
    click.echo("As a user:")
    kubectl.show("get", "jobs")
    kubectl.show("get", "pods", "-o", "wide")
    click.echo(f"$ kubectl describe pod -l {names.JOB_NAME}={_SHOWN}   # its end")
    described = kubectl.demand("describe", "pod", "-l", f"{names.JOB_NAME}={_SHOWN}").splitlines()
    click.echo("".join(f"  {line}\n" for line in described[-_TAIL:]), nl=False)
    kubectl.show("logs", f"job/{_SHOWN}")


def outcomes(
    kubectl: Kubectl, applied: Sequence[Applied], jobs: Sequence[Mapping[str, Any]], log: Path, results: Path
) -> list[Outcome]:
    """The outcome of every example.

    :param log: the webhook's log, with a line of JSON for each decision
    :param results: the directory to which the agent brings results
    """
    by_name = {job["metadata"]["name"]: job for job in jobs}
    decisions = _decisions(log)
    pods = kubectl.items("pods")
    return [_outcome(kubectl, one, by_name.get(one.job), decisions.get(one.job, {}), pods, results) for one in applied]


def _decisions(log: Path) -> dict[str, dict[str, Any]]:
    """The decision about each Job at its creation, from the webhook's log."""
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    created = [line for line in lines if line.get("message") == "decision" and line.get("operation") == "CREATE"]
    return {line["name"]: line for line in created}


def _outcome(
    kubectl: Kubectl,
    applied: Applied,
    job: Mapping[str, Any] | None,
    decided: Mapping[str, Any],
    pods: Sequence[Mapping[str, Any]],
    results: Path,
) -> Outcome:
    own = [pod for pod in pods if _label(pod, names.JOB_NAME) == applied.job] if job and _is_routed(job) else []
    return Outcome(
        name=applied.example.name,
        job=applied.job,
        decision=_decision(applied, decided),
        reason=str(decided.get("reason", "")),
        state=_state(applied, job),
        pods=[_pod_outcome(kubectl, pod, results) for pod in own],
        warnings=tuple(line for line in applied.said.splitlines() if line.startswith("Warning: ")),
    )


def _decision(applied: Applied, decided: Mapping[str, Any]) -> dict[str, Any]:
    """The decision in the words of expected.yaml."""
    found: dict[str, Any] = {"target": decided.get("target"), "rule": decided.get("rule")}
    if decided.get("target") == names.TARGET_HPC:
        found |= {"site": decided.get("site"), "queue": decided.get("queue")}
    said = f"{decided.get('reason', '')} {applied.said}"
    found["fields"] = [field for field in applied.example.expected.decision.get("fields", ()) if field in said]
    found["audited"] = list(decided.get("audited", ()))
    return found


def _state(applied: Applied, job: Mapping[str, Any] | None) -> str:
    if not applied.allowed:
        return DENIED
    if applied.left_out:
        return NO_LAUNCHER
    if job is None:
        return UNFINISHED
    if not _is_routed(job):
        return KEPT
    conditions = [one["type"] for one in (job.get("status") or {}).get("conditions") or () if _is_end(one)]
    return {"Complete": SUCCEEDED, "Failed": FAILED}[conditions[0]] if conditions else UNFINISHED


def _pod_outcome(kubectl: Kubectl, pod: Mapping[str, Any], results: Path) -> PodOutcome:
    name = pod["metadata"]["name"]
    containers = [one["name"] for one in (*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"])]
    logs = {one: kubectl.run("logs", name, "-c", one).stdout for one in containers}
    brought = next(iter(results.glob(f"*/*/{name}*")), results)
    return PodOutcome(str(brought), _annotation(pod, names.KEY_JOB_ID), _exit_code(pod), logs)


def _exit_code(pod: Mapping[str, Any]) -> int | None:
    """The first exit code other than 0, else 0; None while a main container lacks one. Sidecars are ignored."""
    status = pod.get("status") or {}
    sidecars = {one["name"] for one in pod["spec"].get("initContainers", ()) if one.get("restartPolicy") == "Always"}
    main = list(_codes(status.get("containerStatuses") or ()))
    codes = [code for name, code in _codes(status.get("initContainerStatuses") or ()) if name not in sidecars]
    codes += [code for _, code in main]
    if not main or None in [code for _, code in main]:
        return next((code for code in codes if code), None)
    return next((code for code in codes if code), 0)


def _codes(statuses: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, int | None]]:
    for status in statuses:
        yield status["name"], (status.get("state", {}).get("terminated") or {}).get("exitCode")
