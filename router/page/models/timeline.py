"""The story of a Job as a line of steps, and its Pods as bars over time.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from router import names
from router.operating.story import PodStory, Story
from router.page.models.times import may_start
from router.pod.layout import NO_INDEX
from router.pod.status import FAILED, PENDING, seconds
from router.reconcile import queuewords

Json = Mapping[str, Any]
MOST_BARS: Final = 40
"""Pods whose bars are drawn."""
MOST_STEPS: Final = 200
_FIRST_STEPS: Final = 20
"""Of more than ``MOST_STEPS``, so many are the first ones: how the Job came and was decided. The others are the last."""
_BEGUN: Final = "Started"
_ORDER: Final = ("Created", "Decided", "Left to", "Pod created", "Queued", _BEGUN, "Container ")
_LAST: Final = ("Complete", "Failed")
_OLD: Final = frozenset({names.REASON_SUBMITTED, "SuccessfulCreate", "Completed"})
"""Events whose step is told by the objects themselves."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step. ``at``: seconds since 1970, None if unknown. ``kind``: ``done``, ``trouble`` or ``ahead``."""

    at: int | None
    kind: str
    title: str
    words: str
    about: str = ""


@dataclass(frozen=True, slots=True)
class Bar:
    """One Pod's time; positions in percent of the plot's width. ``left`` begins its wait, ``start`` its run."""

    name: str
    left: float
    start: float
    end: float
    waited: int
    ran: int | None
    state: str


@dataclass(frozen=True, slots=True)
class Plot:
    """The bars of a Job's first Pods between two times (seconds since 1970)."""

    begin: int
    end: int
    bars: tuple[Bar, ...]


def unscheduled(pods: Iterable[Json]) -> dict[str, tuple[str, str]]:
    """Why Kubernetes' scheduler has not placed a Pod, as reason and message, by the Pod's name."""
    found = {}
    for pod in pods:
        for one in (pod.get("status") or {}).get("conditions") or ():
            if one.get("type") == names.CONDITION_SCHEDULED and one.get("status") == "False":
                found[str(pod["metadata"]["name"])] = (str(one.get("reason") or ""), str(one.get("message") or ""))
    return found


def steps(found: Story, waits: Mapping[str, tuple[str, str]], now: float) -> tuple[Step, ...]:
    """The steps from creation to result, in order; expected ones are last.

    :param waits: as ``unscheduled`` returns it
    :param now: seconds since 1970
    """
    of_pods = [step for pod in found.pods for step in _of_pod(pod, waits.get(pod.name, ("", "")), now)]
    begun = {f"Pod/{pod.name}": _begun(pod) for pod in found.pods}
    events = [_no_later(one, begun.get(one.about)) for one in _of_events(found)]
    starts_told = {one.about for one in events if one.title.startswith(_BEGUN)}
    told = [*_of_job(found), *(one for one in of_pods if one.title != _BEGUN or one.about not in starts_told), *events]
    return tuple(sorted(told, key=lambda one: (one.kind == "ahead", one.at is None, one.at or 0, _rank(one.title))))


def shown_steps(steps: Sequence[Step]) -> tuple[Sequence[Step], int, Sequence[Step]]:
    """Of many steps the first ones, how many are left out after them, and the last ones."""
    if len(steps) <= MOST_STEPS:
        return steps, 0, ()
    return steps[:_FIRST_STEPS], len(steps) - MOST_STEPS, steps[_FIRST_STEPS - MOST_STEPS :]


def _no_later(step: Step, begun: int | None) -> Step:
    """The agent tells of a start when it has noticed it: after a short run, that is after the end."""
    if step.title != _BEGUN or step.at is None or begun is None:
        return step
    return replace(step, at=min(step.at, begun))


def _rank(title: str) -> int:
    """The place of a step among those of the same second, which is as exact as their times are."""
    if title.startswith(_LAST):
        return len(_ORDER) + 1
    return next((place for place, words in enumerate(_ORDER) if title.startswith(words)), len(_ORDER))


def _of_job(found: Story) -> Iterator[Step]:
    created, one = seconds(found.created), found.decision
    yield Step(created, "done", "Created", f"by {one.requester}" if one.requester else "", f"Job/{found.name}")
    if one.target:
        place = f"{one.site}/{one.queue}" if one.site else "the cloud"
        yield Step(created, "done", f"Decided: {place}, by rule {one.rule}", one.reason)
    elif one.manager:
        yield Step(created, "done", f"Left to the controller {one.manager}", "the policy lists it")
    if found.ended:
        failed = found.state == "failed"
        words = ": ".join(text for text in (found.reason, found.message) if text)
        yield Step(seconds(found.ended), "trouble" if failed else "done", "Failed" if failed else "Complete", words)


def _of_pod(pod: PodStory, unplaced: tuple[str, str], now: float) -> Iterator[Step]:
    about = f"Pod/{pod.name}"
    yield Step(
        seconds(pod.created), "done", "Pod created", "" if pod.index == NO_INDEX else f"index {pod.index}", about
    )
    if pod.queued or pod.batch_job:
        moved = f"; now in queue {pod.queue_now}" if pod.queue_now else ""
        yield Step(seconds(pod.queued), "done", "Queued", f"batch job {pod.batch_job}{moved}", about)
    if pod.phase == PENDING:
        reason, words = (pod.reason, pod.message) if pod.reason else unplaced
        message, start, _ = queuewords.told(reason, words)
        ahead = None if start is None else start.earliest or start.latest
        parts = (message, may_start(start, now) if start is not None else "")
        told = "; ".join(part for part in parts if part)
        yield Step(ahead, "ahead", f"Waits: {reason or 'not taken up yet'}", told, about)
    begun = _begun(pod)
    if begun is not None:
        yield Step(begun, "done", _BEGUN, f"on node {pod.node}" if pod.node else "", about)
    for one in pod.containers:
        if one.ended:
            bad = bool(one.exit_code)
            signal = f", by signal {one.signal}" if one.signal else ""
            words = ": ".join(text for text in (one.reason, one.message) if text)
            title = f"Container {one.name} ended with {one.exit_code}{signal}"
            yield Step(seconds(one.ended), "trouble" if bad else "done", title, words, about)
    if pod.phase == FAILED and pod.reason and begun is None:
        yield Step(seconds(pod.ended), "trouble", f"Failed: {pod.reason}", pod.message, about)
    if pod.deleted:
        yield Step(seconds(pod.deleted), "trouble", "To be deleted", "the end of its grace period", about)


def _begun(pod: PodStory) -> int | None:
    return min((moment for one in pod.containers if (moment := seconds(one.started)) is not None), default=None)


def _of_events(found: Story) -> Iterator[Step]:
    for one in found.events:
        if one.reason not in _OLD:
            times = f" ({one.count} times)" if one.count > 1 else ""
            kind = "trouble" if one.type == "Warning" else "done"
            yield Step(seconds(one.time), kind, f"{one.reason}{times}", one.message, one.about)


def plot(found: Story, now: float) -> Plot | None:
    """The Pods' waits and runs; None without Pods."""
    moments = [(pod, begin) for pod in found.pods if (begin := seconds(pod.created)) is not None]
    if not moments:
        return None
    drawn = moments[:MOST_BARS]
    begin = min(moment for _, moment in drawn)
    ends = [seconds(pod.ended) or (int(now) if not pod.ended else begin) for pod, _ in drawn]
    end = max(*ends, begin + 1)
    bars = tuple(_bar(pod, created, begin, end, int(now)) for pod, created in drawn)
    return Plot(begin, end, bars)


def _bar(pod: PodStory, created: int, begin: int, end: int, now: int) -> Bar:
    start = _begun(pod)
    ended = seconds(pod.ended) or now
    turn = ended if start is None else start

    def at(moment: int) -> float:
        return round(100 * max(0, min(1, (moment - begin) / (end - begin))), 2)

    return Bar(
        name=pod.name,
        left=at(created),
        start=at(turn),
        end=at(ended),
        waited=max(0, turn - created),
        ran=None if start is None else max(0, ended - start),
        state=pod.phase,
    )
