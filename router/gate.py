"""One Job through the gate: stripped, sized, decided, scripted, signed, placed.

Pure. The webhook, ``route``, ``script`` and ``explain`` all come through ``judge``; updates of Jobs that are already
in a cluster come through ``router.updating``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from router import durations, names, placement, policy, signing
from router.errors import JobError
from router.placement import Record, Stripped
from router.policy import Policy
from router.policy.decision import Decision, QueueStates, Requester, Route
from router.script import Script, render
from router.values import unchanging
from router.workload import check_bounds, resultpaths, workload_of
from router.workload.cluster import Cluster
from router.workload.expand import written_argv
from router.workload.model import Container, Obstacle, Workload

Job = dict[str, Any]

OWN_CONTROLLER: Final = "kubernetes.io/job-controller"
"""The value of ``spec.managedBy`` that means Kubernetes' own Job controller, like its absence."""


@unchanging
class Gate:
    """What is known at one moment. ``issued_at``: seconds since 1970; without ``signer`` nothing is signed."""

    policy: Policy
    cluster: Cluster
    states: QueueStates
    signer: Ed25519PrivateKey | None
    issued_at: int


@unchanging
class Judgement:
    """What became of a Job.

    ``job`` is the Job as it came, ``routed`` as it should be stored: with the record of the decision, and for HPC
    with all changes. ``decision`` and ``workload`` are None where the Job is not ours to judge: another controller
    manages it, or an update changes nothing that was decided.
    """

    job: Job
    stripped: Stripped
    routed: Job
    workload: Workload | None = None
    decision: Decision | None = None
    script: Script | None = None
    warnings: tuple[str, ...] = ()


def judge(job: Job, *, requester: Requester, gate: Gate, root: str = "", explain: bool = False) -> Judgement:
    """Judge a Job as it is created. JobError where it cannot be right, with the field's path.

    :param root: put before field paths (``spec.jobTemplate.`` for the Job inside a CronJob)
    :param explain: also tell every rule that was looked at
    """
    if is_managed_elsewhere(job):
        return untouched(job)
    check_bounds(job, root)
    stripped = placement.strip(job, root=root)
    try:
        workload = sized(stripped.job, requester, gate, root)
        decision = policy.decide(gate.policy, workload, requester, gate.states, explain=explain)
        return _settled(job, stripped, workload, decision, requester, gate)
    except UnicodeEncodeError as error:
        raise _half_a_character(stripped.job, root) from error


def is_managed_elsewhere(job: Job) -> bool:
    """Whether another controller than Kubernetes' own runs this Job (``spec.managedBy``, immutable)."""
    spec = job.get("spec")
    return isinstance(spec, dict) and spec.get("managedBy") not in (None, "", OWN_CONTROLLER)


def untouched(job: Job) -> Judgement:
    """The judgement that changes nothing."""
    return Judgement(job, Stripped(job), job)


def sized(job: Job, requester: Requester, gate: Gate, root: str = "") -> Workload:
    """What a stripped Job asks for."""
    return workload_of(
        job,
        namespace=requester.namespace,
        cluster=gate.cluster,
        gpu_resources=gate.policy.gpu_resources,
        root=root,
    )


def recorded(workload: Workload, route: Route, script: Script, user: str, gate: Gate, uid: str = "") -> Record:
    """Who asked and as whom it runs, with the proof that this gate said so.

    :param uid: the Job's, where it is known
    """
    identity = route.identity
    account = signing.identity_text(identity.user, identity.account, identity.project)
    if gate.signer is None:
        return Record(user, account)
    claims = signing.Claims(
        issued_at=gate.issued_at,
        namespace=workload.namespace,
        requester=user,
        site=route.site.name,
        queue=route.queue.name,
        account=account,
        results=workload.results,
        script_sha256=signing.script_digest(script.text),
        job_uid=uid,
    )
    return Record(user, account, signing.sign(claims, gate.signer))


def too_large(routed: Job, own: Job, root: str = "") -> Obstacle | None:
    """Why the API server would not take the routed copy of the user's own Job; None where it would."""
    if (size := placement.oversize(routed)) is not None:
        return _oversized(size, own, root)
    if (size := placement.record_oversize(routed)) is not None:
        return _crowded(size, own, root)
    return None


def text_too_large(workload: Workload, own: Job, root: str = "") -> Obstacle | None:
    """The same without a script, where the texts alone that one would hold are more: quoting them takes long."""
    size = sum([_text_length(container) for container in workload.containers])
    return None if size <= placement.LARGEST_ANNOTATIONS else _oversized(size, own, root)


def _text_length(container: Container) -> int:
    """Characters that a container's words and variables take at least, quoted: lines' ends and quotes take two."""
    texts = (*written_argv(container), *[variable.value for variable in container.env if variable.value])
    return sum([len(text) + text.count("\n") + text.count("'") for text in texts])


def _oversized(size: int, own: Job, root: str) -> Obstacle:
    path, largest = placement.largest_field(own, root)
    reason = (
        f"is {_kib(largest)} of the {_kib(size)} that script and annotations would take; a Pod template's annotations "
        f"may take {_kib(placement.LARGEST_ANNOTATIONS)} in all, so put it into a ConfigMap or a file"
    )
    return Obstacle(path, reason)


def _crowded(size: int, own: Job, root: str) -> Obstacle:
    path, largest = placement.largest_of_record(own, root)
    reason = (
        f"is {_kib(largest)} of the {_kib(size)} that the Job's annotations would take with what is kept of the values "
        f"that are replaced; they may take {_kib(placement.KUBERNETES_LIMIT)} in all, so shorten it"
    )
    return Obstacle(path, reason)


def _settled(
    job: Job, stripped: Stripped, workload: Workload, decision: Decision, requester: Requester, gate: Gate
) -> Judgement:
    script = routed = None
    if (route := decision.route) is not None and (large := text_too_large(workload, stripped.job, stripped.root)):
        decision, route = _kept_back(decision, route, large), None
    if route is not None:
        script = render(workload, route)
        record = recorded(workload, route, script, requester.user, gate)
        routed = placement.place(stripped.job, decision, script.text, record)
        if (obstacle := too_large(routed, stripped.job, stripped.root)) is not None:
            decision, script, routed = _kept_back(decision, route, obstacle), None, None
    if decision.target == "deny":
        return Judgement(job, stripped, job, workload, decision, None, _told(stripped, job, workload, decision, None))
    if routed is None:
        routed = placement.place(stripped.job, decision)
    told = _told(stripped, routed, workload, decision, script)
    return Judgement(job, stripped, routed, workload, decision, script, told)


def _kept_back(decision: Decision, route: Route, obstacle: Obstacle) -> Decision:
    """The decision on a Job that a rule sends to HPC and that cannot go there, as the rule says."""
    target = route.rule.if_not_routable
    verb = "takes it to HPC only, and" if target == "deny" else "would send it to HPC, but"
    reason = f"rule {decision.rule} {verb} it cannot go there: {obstacle}"
    return replace(decision, target=target, route=None, wanted=True, obstacles=(obstacle,), reason=reason)


def _told(
    stripped: Stripped, routed: Job, workload: Workload, decision: Decision, script: Script | None
) -> tuple[str, ...]:
    """The warnings, most important first, none twice."""
    return tuple(dict.fromkeys(_warnings(stripped, routed, workload, decision, script)))


def _warnings(
    stripped: Stripped, routed: Job, workload: Workload, decision: Decision, script: Script | None
) -> Iterator[str]:
    route = decision.route
    if route is not None and script is not None:
        yield _sentence("This Job goes to HPC", decision.reason)
        for hint in decision.refused_hints:
            yield f"Rule {decision.rule} does not allow the hint {names.PREFIX}{hint}; it has no effect."
    elif decision.target == "cloud" and decision.wanted:
        yield _sentence("This Job stays in the cloud", decision.reason)
    yield from decision.warnings
    if route is not None and script is not None:
        if workload.walltime_asked is None:
            limit = durations.show(route.allocation.deadline)
            yield f"It names no activeDeadlineSeconds, so its containers end after {limit} on queue {route.queue.name}."
        yield from route.allocation.warnings
        yield from script.warnings
        if route.site.results_dir is not None:
            yield from resultpaths.warnings(workload)
    if decision.wanted:
        # Also where the Job cannot go: what would be lost on HPC is often the reason.
        yield from workload.warnings
    if route is not None and script is not None:
        yield from placement.noticed(stripped.job, routed)
    yield from placement.foreign_keys(stripped, routed)
    yield from stripped.warnings


def _sentence(head: str, reason: str) -> str:
    return f"{head}: {reason.rstrip('.')}."


def _kib(size: int) -> str:
    return f"{-(-size // 1024)} KiB"


def _half_a_character(job: Job, root: str) -> JobError:
    """The error for a text that no file can hold, with the field that holds it."""
    waiting: list[tuple[str, object]] = [("spec", job.get("spec")), ("metadata", job.get("metadata"))]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, dict):
            waiting.extend((f"{path}.{key}", below) for key, below in value.items())
        elif isinstance(value, list):
            waiting.extend((f"{path}[{index}]", below) for index, below in enumerate(value))
        elif isinstance(value, str) and value.encode("utf-8", "replace").decode() != value:
            break
    else:
        path = "spec"
    return JobError(root + path, "holds a lone surrogate, which is half a character; write the text as UTF-8")
