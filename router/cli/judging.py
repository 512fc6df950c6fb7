"""The common part of ``route``, ``script`` and ``explain``: their options, and judging each Job of the given files.

Shell: reads files and the clock, then calls the same ``gate.judge`` as the webhook.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click

from router import names, policy
from router.cli.manifests import Manifest, read_manifests, read_text
from router.errors import ConfigError, InputError, JobError
from router.gate import judging as gate
from router.notation import durations
from router.placement import signing
from router.policy.decision import NO_QUEUE_STATES, QueueStates, Requester
from router.policy.identity import CRONJOB_CONTROLLERS, cronjob_controller
from router.startup.account import caller
from router.startup.options import Duration
from router.startup.policyfiles import read_directory
from router.startup.settings import QUEUES_MAX_AGE
from router.workload import job_of
from router.workload.cluster import UNKNOWN_CLUSTER
from router.workload.clusterfile import read_cluster

JOB_VERSION: Final = "batch/v1"
JOB_KINDS: Final = frozenset({"Job", "CronJob"})
LEFT_ALONE: Final = "is left to the controller that spec.managedBy names"
"""The text for a Job that is not judged."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The values of a command's options. ``named``: whether --user was given; if not, ``user`` is the caller."""

    files: tuple[str, ...]
    recursive: bool
    policy: str
    user: str
    named: bool
    groups: tuple[str, ...]
    namespace: str
    queues: str | None
    queues_max_age: int
    cluster: str | None
    signing_key: str | None


@dataclass(frozen=True, slots=True)
class Judged:
    """One object of the files, with its judgement or its error; an object other than a Job lacks both.

    ``asker``: the user for whom it was judged and why, if this is not the options' user; else empty.
    ``maker``: the user who made this Job of a cluster, if it was judged for that user; else empty.
    ``requester``: for whom it was judged.
    """

    manifest: Manifest
    judgement: gate.Judgement | None = None
    error: JobError | None = None
    root: str = ""
    asker: str = ""
    maker: str = ""
    requester: Requester | None = None

    @property
    def name(self) -> str:
        """``namespace/name`` of the object, or the parts that it has."""
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
    click.option("-R", "--recursive", is_flag=True, help="Also read subdirectories of -f."),
    click.option(
        "--policy",
        default="policies",
        show_default=True,
        envvar="BATCHGATE_POLICY",
        type=click.Path(),
        metavar="DIR",
        help="Policy directory.",
    ),
    click.option("--user", help="Who asks; for CronJobs their controller does. [default: your login name]"),
    click.option("--group", "groups", multiple=True, help="A group of that user; repeatable."),
    click.option("-n", "--namespace", default="default", show_default=True, help="For Jobs that name none."),
    click.option(
        "--queues",
        envvar="BATCHGATE_QUEUES",
        type=click.Path(),
        metavar="FILE",
        help="Queue state; without it the state is unknown.",
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
        help="LimitRanges, RuntimeClasses, Namespaces and ResourceQuotas, as kubectl get -o yaml prints them.",
    ),
    click.option(
        "--signing-key",
        envvar="BATCHGATE_SIGNING_KEY",
        type=click.Path(),
        metavar="FILE",
        help="Sign, to show a signature; agents accept only the webhook's. Without it nothing is signed.",
    ),
)


def judging_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options above; it gets their values as one ``Asked``."""

    @functools.wraps(command)
    def wrapped(**values: Any) -> None:
        own = {key: values.pop(key) for key in list(values) if key not in Asked.__dataclass_fields__}
        values["named"] = values["user"] is not None
        values["user"] = values["user"] or caller()
        command(Asked(**values), **own)

    decorated: Callable[..., None] = wrapped
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


def open_gate(asked: Asked) -> gate.Gate:
    """Everything that judging needs, from files. Raises PolicyError, ConfigError or InputError."""
    checked = policy.load(read_directory(Path(asked.policy)))
    return gate.Gate(
        policy=checked,
        cluster=read_cluster(read_text(asked.cluster), asked.cluster) if asked.cluster else UNKNOWN_CLUSTER,
        states=_states(asked.queues, asked.queues_max_age) if asked.queues else NO_QUEUE_STATES,
        signer=_signer(asked.signing_key) if asked.signing_key else None,
        issued_at=int(datetime.now(tz=UTC).timestamp()),
    )


def _states(path: str, most: int) -> QueueStates:
    """The queue state of a file. A state without a time is taken as current."""
    states = policy.queue_states(read_text(path), path)
    if problem := policy.age_problem(states, now=datetime.now(tz=UTC).timestamp(), most=most):
        click.echo(f"Warning: {path} {problem}: the queues' state counts as unknown (--queues-max-age)", err=True)
        return NO_QUEUE_STATES
    return states


def _signer(path: str) -> signing.Signer:
    try:
        return signing.load_signer(Path(path).read_bytes())
    except OSError as error:
        raise ConfigError(f"{path}: the signing key cannot be read: {error.strerror}") from error
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def judge_all(asked: Asked, opened: gate.Gate, *, explain: bool = False) -> Iterator[Judged]:
    """Judge each object of the files, in order.

    :param explain: also explain each judgement. A Job from a cluster is judged for its maker and time of creation,
        unless the options give a user. The maker is only read from the file, which anyone may have changed.
    """
    for manifest in read_manifests(asked.files, recursive=asked.recursive):
        _demand_object(manifest)
        try:
            found = job_of(manifest.value, opened.issued_at)
        except JobError as error:
            yield Judged(manifest, None, error)
            continue
        if found is None:
            yield Judged(manifest)
            continue
        job, root = found
        maker = _maker(job) if explain and not asked.named else ""
        requester, asker = _requester(asked, manifest.value, opened)
        if maker:
            groups = signing.groups_in(job["spec"]["template"]["metadata"]["annotations"])
            if groups is None:
                groups = asked.groups if maker == asked.user else ()
            requester, asker = replace(requester, user=maker, groups=groups), ""
        moment = gate.created(job) if maker else None
        known = opened if moment is None else replace(opened, issued_at=int(moment))
        try:
            judgement = gate.judge(job, requester=requester, gate=known, root=root, explain=explain)
        except JobError as error:
            yield Judged(manifest, None, error, root, asker, maker, requester)
        else:
            yield Judged(manifest, judgement, None, root, asker, maker, requester)


def _demand_object(manifest: Manifest) -> None:
    """Raise InputError for an object that the API server would refuse, or for a Job of an unknown version."""
    value = manifest.value
    if not isinstance(value, dict):
        raise InputError(f"{manifest.place}: is no Kubernetes object: a mapping with apiVersion and kind was expected")
    version, kind = value.get("apiVersion"), value.get("kind")
    for key in ("apiVersion", "kind"):
        if not isinstance(value.get(key), str):
            raise InputError(f"{manifest.place}: is no Kubernetes object: {key} is missing or no text")
    if kind in JOB_KINDS and version != JOB_VERSION and str(version).startswith("batch/"):
        raise InputError(f"{manifest.place}: {kind} of {version} is not served; write apiVersion: {JOB_VERSION}")


def _maker(job: Mapping[str, Any]) -> str:
    """The maker of a Job from a cluster, from the webhook's annotation on its template; else empty."""
    uid = _text_at(job, "metadata", "uid")
    return _text_at(job, "spec", "template", "metadata", "annotations", names.KEY_REQUESTER) if uid else ""


def _text_at(value: object, *path: str) -> str:
    """The text at a path in an object; empty unless it is printable text."""
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, str) and value.isprintable() else ""


def _requester(asked: Asked, value: object, opened: gate.Gate) -> tuple[Requester, str]:
    """The requester, and why it is not the options' user: a CronJob's Jobs are created by the CronJob controller.

    The namespace is that of the Job or CronJob itself (a Job template has none).
    """
    metadata = value.get("metadata") if isinstance(value, dict) else None
    given = metadata.get("namespace") if isinstance(metadata, dict) else None
    namespace = given if isinstance(given, str) and given else asked.namespace
    labels = opened.cluster.namespaces.get(namespace)
    maker = _of_cronjob(value)
    if not maker or asked.user in CRONJOB_CONTROLLERS:
        return Requester(asked.user, asked.groups, namespace, labels), ""
    controller = cronjob_controller(opened.policy.accounts, namespace, labels)
    why = f"{maker} by the CronJob controller, so this is decided for {controller.user}, not for {asked.user}"
    return controller, f"{why} (kubectl create job --from: for the user who runs it)"


def _of_cronjob(value: object) -> str:
    """The beginning of a sentence about the maker of a CronJob's Job; else empty.

    A Job that a user made from a CronJob by hand has the same owner, but also an annotation.
    """
    if not isinstance(value, dict):
        return ""
    if value.get("kind") == "CronJob":
        return "its Jobs are created"
    metadata = value.get("metadata")
    if not isinstance(metadata, dict):
        return ""
    owners = metadata.get("ownerReferences")
    kinds = [one.get("kind") for one in owners if isinstance(one, dict)] if isinstance(owners, list) else []
    notes = metadata.get("annotations")
    by_hand = isinstance(notes, dict) and notes.get(names.CRONJOB_INSTANTIATE) == "manual"
    return "it was created" if "CronJob" in kinds and not by_hand else ""


def _full_name(manifest: Manifest) -> str:
    metadata = manifest.value.get("metadata") if isinstance(manifest.value, dict) else None
    metadata = metadata if isinstance(metadata, dict) else {}
    generated = metadata.get("generateName")
    name = metadata.get("name") or (f"{generated}*" if generated else "(without a name)")
    return f"{metadata['namespace']}/{name}" if metadata.get("namespace") else str(name)


def complain(judged: Judged, *, warnings: bool = True) -> bool:
    """Print the warnings and the error of one Job to standard error; returns whether it was denied or invalid."""
    if judged.error is not None:
        click.echo(f"Error: {judged.manifest.place}: {judged.name}: {judged.error}", err=True)
        return True
    if judged.judgement is None:
        return False
    if judged.asker and warnings:
        click.echo(f"Note: {judged.name}: {judged.asker}.", err=True)
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
    """Warn if there were no Jobs to judge, as silence could be taken for an answer."""
    if not jobs:
        click.echo(f"Warning: no Job or CronJob of {JOB_VERSION} was found.", err=True)
