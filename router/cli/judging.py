"""What ``route``, ``script`` and ``explain`` share: their options, and judging each Job of the files named.

Shell: reads files and the clock, then calls the same ``gate.judge`` as the webhook.
"""

from __future__ import annotations

import functools
import getpass
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from router import durations, gate, policy, signing
from router.cli.manifests import Manifest, read_manifests, read_text
from router.clusterfile import read_cluster
from router.errors import ConfigError, InputError, JobError
from router.options import Duration
from router.policy.decision import NO_QUEUE_STATES, QueueStates, Requester
from router.policyfiles import read_directory
from router.settings import QUEUES_MAX_AGE
from router.workload import job_of
from router.workload.cluster import UNKNOWN_CLUSTER

JOB_VERSION: Final = "batch/v1"
JOB_KINDS: Final = frozenset({"Job", "CronJob"})


@dataclass(frozen=True, slots=True)
class Asked:
    """What the options of a command say."""

    files: tuple[str, ...]
    recursive: bool
    policy: str
    user: str
    groups: tuple[str, ...]
    namespace: str
    queues: str | None
    queues_max_age: int
    cluster: str | None
    signing_key: str | None


@dataclass(frozen=True, slots=True)
class Judged:
    """One object of the files: with its judgement, its error, or neither where it is no Job."""

    manifest: Manifest
    judgement: gate.Judgement | None = None
    error: JobError | None = None
    root: str = ""

    @property
    def name(self) -> str:
        """``namespace/name`` of the object, as far as it has them."""
        return _full_name(self.manifest)


_OPTIONS = (
    click.option(
        "-f",
        "--filename",
        "files",
        multiple=True,
        required=True,
        type=click.Path(allow_dash=True),
        metavar="FILE|DIR|-",
        help="Manifests; repeatable.",
    ),
    click.option("-R", "--recursive", is_flag=True, help="Also the directories below those of -f."),
    click.option(
        "--policy",
        default="policies",
        show_default=True,
        envvar="BATCHGATE_POLICY",
        type=click.Path(),
        metavar="DIR",
        help="Policy directory.",
    ),
    click.option("--user", help="Who asks. [default: your login name]"),
    click.option("--group", "groups", multiple=True, help="A group of that user; repeatable."),
    click.option("-n", "--namespace", default="default", show_default=True, help="For Jobs that name none."),
    click.option(
        "--queues",
        envvar="BATCHGATE_QUEUES",
        type=click.Path(),
        metavar="FILE",
        help="Queue state; without it none is known.",
    ),
    click.option(
        "--queues-max-age",
        envvar="BATCHGATE_QUEUES_MAX_AGE",
        default=durations.show(QUEUES_MAX_AGE),
        show_default=True,
        type=Duration(),
        help="Queue state whose `time` is older counts as unknown, as in the webhook.",
    ),
    click.option(
        "--cluster",
        envvar="BATCHGATE_CLUSTER",
        type=click.Path(),
        metavar="FILE",
        help="LimitRanges, RuntimeClasses and Namespaces, as kubectl get -o yaml prints them.",
    ),
    click.option(
        "--signing-key",
        envvar="BATCHGATE_SIGNING_KEY",
        type=click.Path(),
        metavar="FILE",
        help="Without it nothing is signed.",
    ),
)


def judging_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options above; it is called with one ``Asked`` in their place."""

    @functools.wraps(command)
    def wrapped(**values: Any) -> None:
        own = {key: values.pop(key) for key in list(values) if key not in Asked.__dataclass_fields__}
        values["user"] = values["user"] or getpass.getuser()
        command(Asked(**values), **own)

    decorated: Callable[..., None] = wrapped
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


def open_gate(asked: Asked) -> gate.Gate:
    """Everything that judging needs, from files. PolicyError, ConfigError and InputError say what is wrong."""
    checked = policy.load(read_directory(Path(asked.policy)))
    return gate.Gate(
        policy=checked,
        cluster=read_cluster(read_text(asked.cluster), asked.cluster) if asked.cluster else UNKNOWN_CLUSTER,
        states=_states(asked.queues, asked.queues_max_age) if asked.queues else NO_QUEUE_STATES,
        signer=_signer(asked.signing_key) if asked.signing_key else None,
        issued_at=int(datetime.now(tz=UTC).timestamp()),
    )


def _states(path: str, most: int) -> QueueStates:
    """The queue state of a file. One that does not say when it was written is taken as it is."""
    states = policy.queue_states(read_text(path), path)
    if problem := policy.age_problem(states, now=datetime.now(tz=UTC).timestamp(), most=most):
        click.echo(f"Warning: {path} {problem}: the queues' state counts as unknown (--queues-max-age)", err=True)
        return NO_QUEUE_STATES
    return states


def _signer(path: str) -> Ed25519PrivateKey:
    try:
        return signing.load_private(Path(path).read_bytes())
    except OSError as error:
        raise ConfigError(f"{path}: the signing key cannot be read: {error.strerror}") from error
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def judge_all(asked: Asked, opened: gate.Gate, *, explain: bool = False) -> Iterator[Judged]:
    """Judge each object of the files, in order."""
    for manifest in read_manifests(asked.files, recursive=asked.recursive):
        _demand_object(manifest)
        found = job_of(manifest.value)
        if found is None:
            yield Judged(manifest)
            continue
        job, root = found
        requester = _requester(asked, manifest.value, opened)
        try:
            judgement = gate.judge(job, requester=requester, gate=opened, root=root, explain=explain)
        except JobError as error:
            yield Judged(manifest, error=error, root=root)
        else:
            yield Judged(manifest, judgement, root=root)


def _demand_object(manifest: Manifest) -> None:
    """InputError where the API server would not know what it is given, or where a Job is one that we do not know."""
    value = manifest.value
    if not isinstance(value, dict):
        raise InputError(f"{manifest.place}: is no Kubernetes object: a mapping with apiVersion and kind was expected")
    version, kind = value.get("apiVersion"), value.get("kind")
    for key in ("apiVersion", "kind"):
        if not isinstance(value.get(key), str):
            raise InputError(f"{manifest.place}: is no Kubernetes object: {key} is missing or no text")
    if kind in JOB_KINDS and version != JOB_VERSION and str(version).startswith("batch/"):
        raise InputError(
            f"{manifest.place}: {kind} of {version} is not served any more; write apiVersion: {JOB_VERSION}"
        )


def _requester(asked: Asked, value: object, opened: gate.Gate) -> Requester:
    """Who asks; the namespace is that of the Job or CronJob itself (a Job template has none)."""
    metadata = value.get("metadata") if isinstance(value, dict) else None
    given = metadata.get("namespace") if isinstance(metadata, dict) else None
    namespace = given if isinstance(given, str) and given else asked.namespace
    return Requester(asked.user, asked.groups, namespace, opened.cluster.namespaces.get(namespace))


def _full_name(manifest: Manifest) -> str:
    metadata = manifest.value.get("metadata") if isinstance(manifest.value, dict) else None
    if not isinstance(metadata, dict):
        return manifest.place
    name = metadata.get("name") or f"{metadata.get('generateName', manifest.place)}*"
    return f"{metadata['namespace']}/{name}" if metadata.get("namespace") else str(name)


def complain(judged: Judged, *, warnings: bool = True) -> bool:
    """Print the warnings and the error of one Job to standard error; whether it was denied or invalid."""
    if judged.error is not None:
        click.echo(f"Error: {judged.manifest.place}: {judged.name}: {judged.error}", err=True)
        return True
    if judged.judgement is None:
        return False
    for warning in judged.judgement.warnings if warnings else ():
        click.echo(f"Warning: {judged.name}: {warning}", err=True)
    decision = judged.judgement.decision
    if decision is not None and decision.target == "deny":
        click.echo(
            f"Error: {judged.manifest.place}: {judged.name}: denied by rule {decision.rule}: {decision.reason}",
            err=True,
        )
        return True
    return False


def say_if_none(jobs: int) -> None:
    """Say that there was nothing to judge, where silence could be taken for an answer."""
    if not jobs:
        click.echo(f"Warning: no Job or CronJob of {JOB_VERSION} was found.", err=True)
