"""The demo without a control plane, from the first review to the last log: judges, submits, follows, compares.

Shell: combines the other modules of this package, and prints.
"""

from __future__ import annotations

import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from router import names, placement
from router.demo import batch, services, site
from router.demo.apiserver import AdmissionOutcome, post, review_of
from router.demo.examples import Example, runnable
from router.demo.outcome import DENIED, FAILED, KEPT, NO_LAUNCHER, SUCCEEDED, UNFINISHED, Outcome
from router.demo.pods import pods_of
from router.demo.report import near, print_outcomes, print_verdict
from router.demo.workplace import workplace
from router.hpc import Commands, JobReport, cluster_id
from router.site.schema import Runtime
from router.workload import workload_of
from router.workload.model import Workload

USER: Final = "ada"
NAMESPACE: Final = "default"
PATIENCE: Final = 180
"""Seconds for all jobs together, which take a few."""


@dataclass(frozen=True, slots=True)
class Judged:
    """An example and the webhook's answer; ``workload`` is None unless it goes to HPC."""

    example: Example
    answer: AdmissionOutcome
    workload: Workload | None


def demo(examples: Path, work: Path, machine: site.Machine) -> bool:
    """Run the demo; returns whether every outcome was the expected one."""
    found = runnable(examples)
    with workplace(work):
        return _demo(found, examples, work, machine)


def _demo(found: Sequence[Example], examples: Path, work: Path, machine: site.Machine) -> bool:
    work_dir, policy = work / site.WORK_DIR, work / "policy"
    site.prepare(examples, policy, machine, work)
    _introduce(machine)
    # A socket's path may have about 100 characters, so the queue's state has a short path.
    with tempfile.TemporaryDirectory(prefix="batchgate-demo-", ignore_cleanup_errors=True) as state:
        with services.webhook(policy, work / "webhook") as server:
            judged = [_judge(example, server) for example in found]
        with services.queue(Path(state), site.queue_definitions(policy)) as commands:
            outcomes = _run(judged, work_dir, commands, machine)
    return _report(found, outcomes, work, machine)


def _introduce(machine: site.Machine) -> None:
    click.echo("No control plane: the demo posts admission reviews itself and plays the Job controller and the agent.")
    if machine.runtime is Runtime.HOST:
        click.echo("No Apptainer or Singularity here: commands run without a container (runtime `host`).")
    else:
        click.echo(f"Containers run under {machine.runtime}, from an image made of this machine's own shell.")
    if machine.mpi is None:
        click.echo("No MPI here: the MPI example is judged, and not run.")
    click.echo()


def _judge(example: Example, server: services.Webhook) -> Judged:
    review = review_of(example.job, user=USER, groups=(), namespace=NAMESPACE)
    answer = post(f"{server.url}/mutate", review, server.ca_file)
    click.echo(f"{example.job['metadata']['name']}: {_decision_words(answer)}")
    for warning in answer.warnings:
        click.echo(f"  Warning: {warning}")
    workload = None
    if _labels(answer.job).get(names.KEY_TARGET) == names.TARGET_HPC:
        workload = workload_of(placement.strip(answer.job).job, namespace=NAMESPACE)
    return Judged(example, answer, workload)


def _decision_words(answer: AdmissionOutcome) -> str:
    if not answer.allowed:
        return f"denied: {answer.message}"
    return f"{answer.audit.get('decision')} (rule {answer.audit.get('rule')})"


def _labels(job: Mapping[str, Any]) -> Mapping[str, str]:
    labels: Mapping[str, str] = job["metadata"].get("labels", {})
    return labels


def _run(judged: Sequence[Judged], work_dir: Path, commands: Commands, machine: site.Machine) -> list[Outcome]:
    """Submit the examples that go to HPC and follow them to the end; returns the outcome of every example."""
    click.echo()
    cluster = cluster_id(str(uuid.uuid4()))
    submitted = [
        batch.submit(one.example.name, pod, one.workload, cluster=cluster, work_dir=work_dir, commands=commands)
        for one in judged
        if one.workload is not None and not _lacks_launcher(one.workload, machine)
        for pod in pods_of(_created(one.answer.job), lambda: str(uuid.uuid4()))
    ]
    ended = batch.follow(submitted, commands, deadline=time.monotonic() + PATIENCE, show=_show)
    return [
        _outcome(one, [job for job in submitted if job.example == one.example.name], machine, ended=ended)
        for one in judged
    ]


def _created(job: dict[str, Any]) -> dict[str, Any]:
    """The Job with the uid that the API server would give it."""
    return {**job, "metadata": {**job["metadata"], "uid": str(uuid.uuid4())}}


def _lacks_launcher(workload: Workload, machine: site.Machine) -> bool:
    return bool(workload.mpi) and machine.mpi is None


def _show(job: batch.Submitted, report: JobReport) -> None:
    where = f" on {report.hosts}" if report.hosts else ""
    click.echo(f"{job.pod['metadata']['name']}: {report.state} (job {report.job_id}{where})")


def _outcome(judged: Judged, jobs: Sequence[batch.Submitted], machine: site.Machine, *, ended: bool) -> Outcome:
    pods = [batch.pod_outcome(job) for job in jobs]
    return Outcome(
        name=judged.example.name,
        job=judged.example.job["metadata"]["name"],
        decision=_decided(judged),
        reason=str(judged.answer.audit.get("reason", judged.answer.message)),
        state=_state(judged, [pod.exit_code for pod in pods], machine, ended=ended),
        pods=pods,
        warnings=judged.answer.warnings,
    )


def _state(judged: Judged, codes: Sequence[int | None], machine: site.Machine, *, ended: bool) -> str:
    if not judged.answer.allowed:
        return DENIED
    if judged.workload is None:
        return KEPT
    if _lacks_launcher(judged.workload, machine):
        return NO_LAUNCHER
    if not ended:
        return UNFINISHED
    return SUCCEEDED if codes and all(code == 0 for code in codes) else FAILED


def _decided(judged: Judged) -> dict[str, Any]:
    """The decision in the webhook's answer, in the words of expected.yaml."""
    audit, labels = judged.answer.audit, _labels(judged.answer.job)
    decided: dict[str, Any] = {"target": audit.get("decision"), "rule": audit.get("rule")}
    if judged.workload is not None:
        decided |= {"site": labels[names.KEY_SITE], "queue": labels[names.KEY_QUEUE]}
    said = " ".join([audit.get("reason", ""), *judged.answer.warnings])
    wanted = judged.example.expected.decision
    decided["fields"] = [field for field in wanted.get("fields", ()) if field in said]
    decided["audited"] = [part.partition(":")[0] for part in audit.get("audited", "").split("; ") if part]
    return decided


def _report(found: Sequence[Example], outcomes: Sequence[Outcome], work: Path, machine: site.Machine) -> bool:
    print_outcomes(outcomes)
    click.echo(
        "The Pods' directories: log/CONTAINER.RESTART is what a container wrote, exit/CONTAINER.RESTART how it ended."
    )
    for outcome in outcomes:
        for pod in outcome.pods:
            click.echo(f"  {outcome.job}: {near(Path(pod.directory))}")
    click.echo(f"The log of the webhook: {near(work / 'webhook' / 'webhook.log')}")
    click.echo()
    return print_verdict(found, outcomes, launcher=machine.mpi is not None)
