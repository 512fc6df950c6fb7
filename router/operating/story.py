"""The story of one Job, from the decision to its result, by its Kubernetes objects.

Pure. The caller looks at the files on the site; the story says where they are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from router import names, placement
from router.notation import traces
from router.operating.jobs import JobPhase, condition_of_end, facts, state
from router.operating.stuck import DELETION, waiting
from router.pod.status import ContainerStatus, Running, Terminated, rfc3339, seconds
from router.pod.view import PodView, view

Json = Mapping[str, Any]
_DIRECTIVE: Final = re.compile(r"#(?:PBS|SBATCH) (.+)")
_NOT_ENDED: Final = "its batch job is not known to have ended"
_NOT_INDEXED: Final = "NonIndexed"
_SUFFIX: Final = r"-[a-z0-9]{5}"


@dataclass(frozen=True, slots=True)
class Decision:
    """The webhook's decision, and for whom; a field is empty if the Job lacks it. ``user`` is the HPC user.

    ``manager``: the controller of the policy's ``controllers`` that handles the Job instead. ``trace``: the id of the
    trace with the decision's span.
    """

    target: str
    rule: str
    reason: str
    requester: str
    user: str
    account: str
    project: str
    site: str
    queue: str
    manager: str = ""
    trace: str = ""


@dataclass(frozen=True, slots=True)
class Request:
    """One container's requests and limits: Kubernetes' quantities, by resource name."""

    name: str
    image: str
    requests: Mapping[str, str]
    limits: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Sizes:
    """The Job's requests, and the batch system's directives made from them; ``hints`` by key."""

    completions: int | None
    parallelism: int | None
    retries: int | None
    deadline: int | None
    containers: tuple[Request, ...]
    hints: Mapping[str, str]
    directives: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Container:
    """A container's state. ``exit_code`` and ``signal`` are those of its last ended run, or None."""

    name: str
    state: str
    reason: str
    message: str
    exit_code: int | None
    signal: int | None
    started: str
    ended: str
    restarts: int


@dataclass(frozen=True, slots=True)
class PodStory:
    """One Pod of the Job. Times are RFC 3339 or empty. ``queued``: when its job was submitted to the batch system.

    ``exit``: the batch job's exit status, from the Pod's annotation. ``used``: its usage by the batch system.
    """

    name: str
    uid: str
    index: str
    node: str
    batch_job: str
    queue_now: str
    phase: str
    reason: str
    message: str
    created: str
    queued: str
    started: str
    ended: str
    deleted: str
    exit: str
    used: Mapping[str, Any]
    containers: tuple[Container, ...]
    conditions: tuple[str, ...]
    logs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ToldEvent:
    """One Event, with the time when it was last reported."""

    time: str
    type: str
    about: str
    reason: str
    message: str
    count: int


@dataclass(frozen=True, slots=True)
class Story:
    """The whole story. ``results``: the messages of Events about results; ``failed`` and ``succeeded`` count Pods.

    ``different``: one sentence for each way in which HPC differs from what the Job says.
    """

    namespace: str
    name: str
    uid: str
    state: JobPhase
    reason: str
    message: str
    created: str
    started: str
    ended: str
    succeeded: int
    failed: int
    decision: Decision
    sizes: Sizes
    different: tuple[str, ...]
    pods: tuple[PodStory, ...]
    events: tuple[ToldEvent, ...]
    results: tuple[str, ...]


def story(job: Json, pods: Iterable[Json], events: Iterable[Json]) -> Story:
    """The story of a Job.

    :param pods: its current Pods
    :param events: those of its namespace; Events about other objects are left out
    """
    metadata, status = job["metadata"], job.get("status") or {}
    views = sorted((view(pod) for pod in pods), key=lambda pod: (pod.created, pod.name))
    uids = {pod.uid for pod in views}
    about = [one for one in events if is_about(one, job, uids)]
    by_uid: dict[str, list[Json]] = {}
    for one in about:
        by_uid.setdefault(_uid(one), []).append(one)
    told = tuple(map(_told, sorted(about, key=_order)))
    over = condition_of_end(status)
    return Story(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        state=state(facts(job), tuple(views)),
        reason=str(over.get("reason") or ""),
        message=str(over.get("message") or ""),
        created=str(metadata.get("creationTimestamp") or ""),
        started=str(status.get("startTime") or ""),
        ended=str(status.get("completionTime") or over.get("lastTransitionTime") or ""),
        succeeded=int(status.get("succeeded") or 0),
        failed=int(status.get("failed") or 0),
        decision=decision(job),
        sizes=_sizes(job),
        different=_different(job),
        pods=tuple(_pod(pod, by_uid.get(pod.uid, ())) for pod in views),
        events=told,
        results=tuple(
            one.message for one in told if one.reason in (names.REASON_RESULTS, names.REASON_RESULTS_INCOMPLETE)
        ),
    )


def is_about(event: Json, job: Json, uids: set[str]) -> bool:
    """Whether an Event is about a Job, one of its Pods (``uids``), or a former Pod of it.

    A deleted Pod is recognized only by its name. For an Indexed Job this is not done, as its Pods' names could belong
    to another Job's Pods too.
    """
    about = event.get("involvedObject") or {}
    if about.get("uid") in uids or about.get("uid") == job["metadata"]["uid"]:
        return True
    spec = job.get("spec") or {}
    if about.get("kind") != "Pod" or spec.get("completionMode", _NOT_INDEXED) != _NOT_INDEXED:
        return False
    since, moment = seconds(job["metadata"].get("creationTimestamp")), seconds(moment_of(event))
    if since is not None and moment is not None and moment < since:  # of an earlier Job of the same name
        return False
    return re.fullmatch(re.escape(job["metadata"]["name"]) + _SUFFIX, str(about.get("name"))) is not None


def _order(event: Json) -> tuple[str, int, str]:
    """The sort key of an Event: time, then the order in which the API server stored it."""
    version = str((event.get("metadata") or {}).get("resourceVersion") or "")
    return moment_of(event), int(version) if version.isdecimal() else 0, str(event.get("reason"))


def _told(event: Json) -> ToldEvent:
    about = event.get("involvedObject") or {}
    return ToldEvent(
        time=moment_of(event),
        type=str(event.get("type") or ""),
        about=f"{about.get('kind', '')}/{about.get('name', '')}",
        reason=str(event.get("reason") or ""),
        message=str(event.get("message") or ""),
        count=int(event.get("count") or (event.get("series") or {}).get("count") or 1),
    )


def moment_of(event: Json) -> str:
    """When an Event was last told (RFC 3339); empty if it does not say."""
    found = event.get("lastTimestamp") or event.get("eventTime") or event.get("firstTimestamp") or ""
    moment = seconds(found)
    return "" if moment is None else rfc3339(moment)


def first_moment_of(event: Json) -> str:
    """When an Event was told first (RFC 3339); empty if it does not say."""
    found = event.get("firstTimestamp") or event.get("eventTime") or event.get("lastTimestamp") or ""
    moment = seconds(found)
    return "" if moment is None else rfc3339(moment)


def notes_of(job: Json) -> Mapping[str, Any]:
    """The annotations of a Job and of its Pod template, where the webhook writes; the Job's own come first."""
    return {**_proof(job), **(job["metadata"].get("annotations") or {})}


def _proof(job: Json) -> Mapping[str, Any]:
    """The annotations of a Job's Pod template."""
    template = ((job.get("spec") or {}).get("template") or {}).get("metadata") or {}
    return template.get("annotations") or {}


def decision(job: Json) -> Decision:
    """The decision that the webhook has written to a Job and its Pod template."""
    labels, notes = job["metadata"].get("labels") or {}, notes_of(job)
    maker = _proof(job).get(names.KEY_REQUESTER)  # signed; a Job in the cloud has its own alone
    identity = _object(notes.get(names.KEY_ACCOUNT))
    return Decision(
        target=labels.get(names.KEY_TARGET) or "",
        rule=notes.get(names.KEY_RULE) or "",
        reason=notes.get(names.KEY_REASON) or "",
        requester=maker or notes.get(names.KEY_REQUESTER) or "",
        user=str(identity.get("user") or ""),
        account=str(identity.get("account") or ""),
        project=str(identity.get("project") or ""),
        site=labels.get(names.KEY_SITE) or "",
        queue=labels.get(names.KEY_QUEUE) or "",
        manager=notes.get(names.KEY_MANAGED_BY) or "",
        trace=place.trace_id if (place := traces.read(notes.get(names.KEY_TRACEPARENT))) is not None else "",
    )


def _object(text: object) -> Mapping[str, Any]:
    """A JSON object; empty for any other text."""
    try:
        value = json.loads(text) if isinstance(text, str) else {}
    except (ValueError, RecursionError):  # whoever may change a Job may write a long run of brackets there
        return {}
    return value if isinstance(value, dict) else {}


def _sizes(job: Json) -> Sizes:
    spec = job.get("spec") or {}
    pod = (spec.get("template") or {}).get("spec") or {}
    notes = notes_of(job)
    script = str(notes.get(names.KEY_SCRIPT) or "")
    return Sizes(
        completions=spec.get("completions"),
        parallelism=spec.get("parallelism"),
        retries=spec.get("backoffLimit"),
        deadline=pod.get("activeDeadlineSeconds") or spec.get("activeDeadlineSeconds"),
        containers=tuple(_request(one) for one in (*(pod.get("initContainers") or ()), *(pod.get("containers") or ()))),
        hints={key: notes[key] for key in sorted(names.HINTS) if key in notes},
        directives=tuple(found[1] for line in script.splitlines() if (found := _DIRECTIVE.fullmatch(line))),
    )


def _different(job: Json) -> tuple[str, ...]:
    """The differences between the user's Job and the routed one; the routed Job holds both."""
    routed = dict(job)
    if not placement.is_routed(routed):
        return ()
    return tuple(one.sentence for one in placement.differences(placement.strip(routed).job, routed))


def _request(container: Json) -> Request:
    resources = container.get("resources") or {}
    asked = {kind: {k: str(v) for k, v in (resources.get(kind) or {}).items()} for kind in ("requests", "limits")}
    return Request(str(container.get("name")), str(container.get("image") or ""), asked["requests"], asked["limits"])


def _pod(pod: PodView, events: Sequence[Json]) -> PodStory:
    """One Pod by its own Events."""
    submitted = [one for one in events if one.get("reason") == names.REASON_SUBMITTED]
    status = pod.status
    containers = tuple(map(_container, (*status.init_containers, *status.containers)))
    reason, message = (status.reason, status.message) if status.terminal else waiting(status)
    if pod.deleting and not reason:
        reason, message = DELETION, message or _NOT_ENDED * (bool(pod.site) and not status.terminal)
    ends = [one.ended for one in containers if one.ended]
    return PodStory(
        name=pod.name,
        uid=pod.uid,
        index=pod.index,
        node=pod.node,
        batch_job=pod.job_id,
        queue_now=pod.queue_now,
        phase=status.phase,
        reason=reason,
        message=message,
        created=rfc3339(pod.created),
        queued=min(filter(None, map(first_moment_of, submitted)), default=""),
        started="" if status.started is None else rfc3339(status.started),
        ended=max(ends) if ends and status.terminal else "",
        deleted="" if pod.deleted_at is None else rfc3339(pod.deleted_at),
        exit=pod.exit,
        used=_object(pod.used),
        containers=containers,
        conditions=tuple(one.kind for one in status.conditions if one.holds),
        logs=tuple(f"kubectl logs -n {pod.namespace} {pod.name} -c {one.name}" for one in pod.containers),
    )


def _uid(event: Json) -> str:
    return str((event.get("involvedObject") or {}).get("uid"))


def _container(one: ContainerStatus) -> Container:
    now = one.state
    ended = now if isinstance(now, Terminated) else one.last
    begun = now.started if isinstance(now, Running | Terminated) else None
    said = now if not isinstance(now, Running) else None
    return Container(
        name=one.name,
        state=type(now).__name__.lower(),
        reason=said.reason if said else "",
        message=said.message if said else "",
        exit_code=ended.code if ended else None,
        signal=ended.signal if ended else None,
        started="" if begun is None else rfc3339(begun),
        ended="" if ended is None or ended.finished is None else rfc3339(ended.finished),
        restarts=one.restarts,
    )
