"""Judges one new Job in steps: strip, size, decide, write the script, place, sign.

Pure. The webhook and the commands ``route``, ``script`` and ``explain`` all call ``judge``. ``router.gate.updating``
handles updates of Jobs that are already in a cluster.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from router import names, placement, policy
from router.errors import JobError
from router.notation import durations
from router.placement import Record, Stripped, signing
from router.pod import template as podtemplate
from router.policy import Policy
from router.policy.decision import Decision, QueueStates, Requester, Route
from router.policy.groups import reads_groups
from router.script import Script, render
from router.site import nodelabels
from router.site.schema import Site
from router.site.volumes import SitePath, place_of
from router.values import unchanging
from router.workload import check_bounds, limits, managed_by, resultpaths, workload_of
from router.workload.cluster import Cluster
from router.workload.fields import LONGEST_WARNING
from router.workload.model import Obstacle, Volume, Workload
from router.workload.quotas import shortage

Job = dict[str, Any]

_NO_ROOM: Final = "but its namespace has no room for its Pods"
"""Kept short, as users see only about 250 bytes of a warning (k8s.io/apiserver, webhook/mutating)."""


_MOST_TOLD: Final = 10
"""Most things in a Job's way that get a warning each, which leaves room for the other warnings."""


@unchanging
class Gate:
    """The basis of judgement at one moment. ``issued_at``: seconds since 1970. Without ``signer`` nothing is signed.

    ``traceparent``: the review's span, for a new Job's annotations; empty without a trace.
    """

    policy: Policy
    cluster: Cluster
    states: QueueStates
    signer: signing.Signer | None
    issued_at: int
    traceparent: str = ""


@unchanging
class Judgement:
    """The result of judging a Job.

    :param job: the Job as it came
    :param routed: the Job as it should be stored: with the record of the decision, and for HPC with all changes
    :param workload: None, like ``decision``, for a Job left unjudged: a controller of the policy's ``controllers``
        manages it, or an update leaves everything that was decided
    :param differences: sentences about differences that every such Job has on HPC; the first warning sums them up
    """

    job: Job
    stripped: Stripped
    routed: Job
    workload: Workload | None = None
    decision: Decision | None = None
    script: Script | None = None
    warnings: tuple[str, ...] = ()
    differences: tuple[str, ...] = ()


def judge(job: Job, *, requester: Requester, gate: Gate, root: str = "", explain: bool = False) -> Judgement:
    """Judge a Job as it is created. Raises JobError, with the field's path, if the Job is invalid.

    :param root: put before field paths (``spec.jobTemplate.`` for the Job inside a CronJob)
    :param explain: also record every rule that was looked at
    """
    check_bounds(job, root)
    stripped = placement.strip(job, root=root)
    if (manager := manager_of(job, gate.policy)) is not None:
        routed = placement.hand_over(stripped.job, manager)
        return Judgement(
            job, stripped, routed, warnings=(*placement.foreign_keys(stripped, routed), *stripped.warnings)
        )
    try:
        workload = sized(stripped.job, requester, gate, root)
        decision = policy.decide(gate.policy, workload, requester.at(gate.issued_at), gate.states, explain=explain)
        return _settled(job, stripped, workload, decision, requester, gate)
    except UnicodeEncodeError as error:
        raise _half_a_character(stripped.job, root) from error


def decided(workload: Workload, requester: Requester, gate: Gate) -> Decision:
    """The decision on a sized Job, as far as it is known before a script is written: that may be too large yet."""
    found = policy.decide(gate.policy, workload, requester.at(gate.issued_at), gate.states)
    return _by_its_deadline(found, workload, requester, gate) if found.target == "cloud" else found


def manager_of(job: Job, known: Policy) -> str | None:
    """The controller that runs this Job in place of Kubernetes' own, if the policy lists it; else None.

    An API server may drop ``spec.managedBy`` after this (1.31, or with the feature gate JobManagedBy off), and then the
    ordinary controller runs the Job. So all of Batchgate's values are removed, and a guard checks for the field.
    """
    manager = managed_by(job)
    return manager if manager in known.controllers else None


def untouched(job: Job) -> Judgement:
    """The judgement that changes nothing."""
    return Judgement(job, Stripped(job), job)


def created(job: Mapping[str, Any]) -> float | None:
    """When a Job was created, in seconds since 1970; None if its creationTimestamp is missing or invalid."""
    metadata = job.get("metadata")
    try:
        return durations.moment(metadata.get("creationTimestamp") if isinstance(metadata, dict) else None)
    except ValueError:
        return None


def sized(job: Job, requester: Requester, gate: Gate, root: str = "") -> Workload:
    """The workload of a stripped Job: all that it asks for."""
    return workload_of(
        job,
        namespace=requester.namespace,
        cluster=gate.cluster,
        gpu_resources=gate.policy.gpu_resources,
        root=root,
    )


def in_the_cloud(workload: Workload) -> Workload:
    """The workload in the cloud, where the walltime hint has no effect: Kubernetes ends a Job only by its deadline."""
    return (
        workload
        if workload.walltime_asked == workload.deadline
        else replace(workload, walltime_asked=workload.deadline)
    )


def recorded(route: Route, requester: Requester, known: Policy) -> Record:
    """The record of who asked for a Job, and as which HPC user it runs.

    :raises JobError: groups count, and one of the requester's cannot be recorded
    """
    identity = route.identity
    account = signing.identity_text(identity.user, identity.account, identity.project)
    if not reads_groups(known):
        return Record(requester.user, account)
    try:
        return Record(requester.user, account, signing.groups_text(requester.groups))
    except ValueError as error:
        raise JobError("metadata", f"{error}; the identity provider of the cluster must not give such names") from None


def signed(routed: Job, workload: Workload, route: Route, record: Record, gate: Gate, uid: str = "") -> Job:
    """A routed Job with the signature that proves the decision; unsigned if the gate has no key.

    :param uid: the Job's, if known
    """
    if gate.signer is None:
        return routed
    template = routed["spec"]["template"]
    claims = signing.Claims(
        issued_at=gate.issued_at,
        namespace=workload.namespace,
        requester=record.requester,
        site=route.site.name,
        queue=route.queue.name,
        account=record.account,
        results=workload.results,
        script_sha256=signing.script_digest(template["metadata"]["annotations"][names.KEY_SCRIPT]),
        template_sha256=podtemplate.digest(template["spec"]),
        job_uid=uid,
        groups_sha256=signing.groups_digest(template["metadata"]["annotations"]),
        surroundings_sha256=podtemplate.surroundings(template["spec"], readiness=True),
    )
    return placement.with_signature(routed, signing.sign(claims, gate.signer.key))


def too_large(routed: Job, own: Job, root: str = "") -> Obstacle | None:
    """Why the API server would refuse the routed copy of the user's Job as too large; None if it would accept it."""
    if (size := placement.oversize(routed)) is not None:
        return _oversized(size, own, root)
    if (size := placement.record_oversize(routed)) is not None:
        return _crowded(size, own, root)
    return None


def text_too_large(workload: Workload, site: Site, own: Job, root: str = "") -> Obstacle | None:
    """``too_large`` before a script is written, from the texts that it would hold: writing large ones takes long."""
    paths = {volume.name: _path_length(workload, volume, site) for volume in workload.volumes}
    size = sum([limits.least_text(container) for container in workload.containers])
    size += sum(
        [
            paths[mount.volume] + len(mount.sub_path) + len(mount.path)
            for container in workload.containers
            for mount in container.mounts
        ]
    )
    return None if size <= placement.LARGEST_ANNOTATIONS else _oversized(size, own, root)


def _path_length(workload: Workload, volume: Volume, site: Site) -> int:
    """Characters that a volume's path takes in a script for each mount; 0 for volumes in the Pod's own directory."""
    place = place_of(workload, volume, site)
    return len(place.path) + len(place.below) if isinstance(place, SitePath) else 0


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
    missing: tuple[str, ...] = ()
    decision = _also_too_large(decision, workload, stripped.job, stripped.root, gate)
    if (route := decision.route) is not None and (
        large := text_too_large(workload, route.site, stripped.job, stripped.root)
    ):
        decision, route = _kept_back(decision, route, large), None
    if route is not None:
        plan = resultpaths.plan(workload)
        missing = resultpaths.warnings(plan.problems) if route.site.results_dir is not None else ()
        script = render(workload, route)
        record = recorded(route, requester, gate.policy)
        routed = placement.place(stripped.job, decision, script.own, record, gate.traceparent)
        if lack := shortage(
            gate.cluster.quotas.get(workload.namespace, ()), workload, routed["spec"]["template"]["spec"]
        ):
            decision = replace(decision, reason=f"{decision.reason.rstrip('.')}; {_NO_ROOM}: {lack}")
            routed = placement.place(stripped.job, decision, script.own, record, gate.traceparent)
        routed = signed(routed, workload, route, record, gate)
        if (obstacle := too_large(routed, stripped.job, stripped.root)) is not None:
            decision, script, routed = _kept_back(decision, route, obstacle), None, None
    if decision.target == "cloud":
        decision = _by_its_deadline(decision, workload, requester, gate)
    if decision.target == "deny":
        return Judgement(job, stripped, job, workload, decision, None, _told(stripped, job, workload, decision))
    if routed is None:
        routed = placement.place(stripped.job, decision, traceparent=gate.traceparent, requester=requester.user)
    if script is None:
        return Judgement(job, stripped, routed, workload, decision, None, _told(stripped, routed, workload, decision))
    found = placement.differences(stripped.job, routed)
    told = (
        *placement.goes_to_hpc(decision.reason, found),
        *_told(stripped, routed, workload, decision, (*script.warnings, *missing)),
    )
    special, usual = (tuple(one.sentence for one in found if bool(one.brief) is brief) for brief in (False, True))
    return Judgement(job, stripped, routed, workload, decision, script, (*told, *special), usual)


def _by_its_deadline(decision: Decision, workload: Workload, requester: Requester, gate: Gate) -> Decision:
    """The decision on a Job that stays in the cloud; a denial if a rule denies the Job without its walltime hint."""
    staying = in_the_cloud(workload)
    if staying is workload:
        return decision
    found = policy.decide(gate.policy, staying, requester.at(gate.issued_at), gate.states)
    if found.target != "deny":
        return decision
    told = f"in the cloud the hint {names.HINT_WALLTIME} has no effect; only activeDeadlineSeconds limits the time"
    return replace(decision, target="deny", rule=found.rule, reason=f"{found.reason.rstrip('.')}; {told}")


def _kept_back(decision: Decision, route: Route, obstacle: Obstacle) -> Decision:
    """The decision on a Job that a rule sends to HPC but that cannot go there: cloud or deny, as the rule says."""
    target = route.rule.if_not_routable
    verb = "allows it only on HPC, but" if target == "deny" else "would send it to HPC, but"
    reason = f"rule {decision.rule} {verb} it cannot go there: {obstacle}"
    found = (str(obstacle),)
    return replace(
        decision,
        target=target,
        route=None,
        wanted=True,
        obstacles=(obstacle,),
        in_the_way=found,
        least=1,
        reason=reason,
    )


def _also_too_large(decision: Decision, workload: Workload, own: Job, root: str, gate: Gate) -> Decision:
    """The decision on a Job that cannot go to HPC, with the text that would be too large for a script as well."""
    if not decision.in_the_way:
        return decision
    sites = [one.site for rule in gate.policy.rules if rule.name == decision.rule for one in rule.candidates]
    found = [text_too_large(workload, site, own, root) for site in sites]
    if not found or any(one is None for one in found):
        return decision
    large = next(one for one in found if one is not None)
    if any(one.path.startswith(large.path) for one in decision.obstacles):
        return decision
    return replace(
        decision,
        obstacles=(*decision.obstacles, large),
        in_the_way=(*decision.in_the_way, str(large)),
        least=decision.least + 1,
        reason=f"{decision.reason.rstrip('.')}; {large}",
    )


def _told(
    stripped: Stripped, routed: Job, workload: Workload, decision: Decision, of_script: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """The warnings about this Job alone, most important first, without duplicates."""
    return tuple(dict.fromkeys(_warnings(stripped, routed, workload, decision, of_script)))


def _warnings(
    stripped: Stripped, routed: Job, workload: Workload, decision: Decision, of_script: tuple[str, ...]
) -> Iterator[str]:
    route = decision.route
    if route is not None:
        for hint in decision.refused_hints:
            yield f"Rule {decision.rule} does not allow the hint {names.PREFIX}{hint}; it has no effect."
    elif decision.target == "cloud" and decision.wanted:
        yield from _stays(decision)
    yield from decision.warnings
    if route is not None:
        if told := nodelabels.warning(route.nodes, route.site):
            yield told
        yield from route.allocation.warnings
        yield from of_script
    if decision.wanted:
        # Also if the Job cannot go to HPC: a feature that HPC lacks is often the reason.
        yield from workload.warnings
    yield from placement.foreign_keys(stripped, routed)
    yield from stripped.warnings


def _stays(decision: Decision) -> Iterator[str]:
    """Why a Job stays that a rule would send: one sentence, or if that would be cut, one for each thing in the way."""
    head, count = "This Job stays in the cloud", len(decision.in_the_way)
    whole = f"{head}: {decision.reason.rstrip('.')}."
    if count < 2 or len(whole) <= LONGEST_WARNING:
        yield whole
        return
    things = f"{count} things are" if decision.least == count else _of_alternatives(decision.least)
    yield f"{head}: rule {decision.rule} would send it to HPC, but {things} in the way:"
    for number, one in enumerate(decision.in_the_way[:_MOST_TOLD], start=1):
        yield f"{number}. {one}"
    if count > _MOST_TOLD:
        yield f"And {count - _MOST_TOLD} more: batchgate explain names them."


def _of_alternatives(least: int) -> str:
    return f"on each of its queues at least {least} thing{' is' if least == 1 else 's are'}"


def _kib(size: int) -> str:
    return f"{-(-size // 1024)} KiB"


def _half_a_character(job: Job, root: str) -> JobError:
    """The error for a text that cannot be encoded, with the path of its field."""
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
