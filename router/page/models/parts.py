"""What is kept of a Job's Pods and Events for its page: the fields that are shown, of a bounded number of them.

Pure. A Job may have thousands of Pods, each with a copy of the script, in a namespace of thousands of Events.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from sys import intern
from typing import Any, Final

from router import names
from router.operating.story import is_about, moment_of
from router.page.models.looking import Sight
from router.pod.status import FAILED, PENDING, RUNNING, SUCCEEDED

Json = dict[str, Any]
MOST_PODS: Final = 100
MOST_EVENTS: Final = 500
_LONGEST: Final = 2000
"""Most characters that are kept of a text."""
_PHASES: Final = (FAILED, RUNNING, PENDING, SUCCEEDED)
"""Which Pods come first: those by which somebody finds out what happens."""
_NOTES: Final = (
    names.COMPLETION_INDEX,
    names.KEY_JOB_ID,
    names.KEY_QUEUE_NOW,
    names.KEY_EXIT,
    names.KEY_RESOURCES_USED,
)
_OF_METADATA: Final = ("namespace", "name", "uid", "creationTimestamp", "deletionTimestamp")
_OF_STATUS: Final = (
    *("phase", "reason", "message", "startTime", "conditions"),
    *("initContainerStatuses", "containerStatuses"),
)
_OF_EVENT: Final = ("type", "reason", "message", "count", "series", "firstTimestamp", "lastTimestamp", "eventTime")


def urgency(phase: str) -> int:
    """The place of a phase in the order in which Pods are shown: failed, running, waiting, succeeded."""
    return _PHASES.index(phase) if phase in _PHASES else len(_PHASES)


class Pods:
    """Chooses among a Job's Pods, which it takes one after another, and counts them by phase.

    :param most: keeps at most so many, and while it takes them twice as many
    """

    def __init__(self, most: int = MOST_PODS) -> None:
        self._most = most
        self._phases: dict[str, str] = {}
        self._kept: dict[str, Json] = {}

    def take(self, pod: Json) -> None:
        """Take a Pod as the API has it; one that is taken again counts once."""
        uid = pod["metadata"]["uid"]
        self._phases[uid] = intern(str((pod.get("status") or {}).get("phase") or PENDING))
        self._kept[uid] = _pod(pod)
        if len(self._kept) >= 2 * self._most:
            self._kept = {one["metadata"]["uid"]: one for one in self.chosen}

    @property
    def chosen(self) -> tuple[Json, ...]:
        """The first ones: by phase, then by age. Failed ones take half of the room, or more where others leave it."""
        ranked = sorted(self._kept.values(), key=_order)
        failed = [one["metadata"]["uid"] for one in ranked if one["status"].get("phase") == FAILED]
        late = set(failed[self._most // 2 :])
        return tuple(sorted(ranked, key=lambda one: one["metadata"]["uid"] in late)[: self._most])

    @property
    def phases(self) -> dict[str, int]:
        """How many of all Pods are in each phase, in the order in which they are shown."""
        return dict(sorted(Counter(self._phases.values()).items(), key=lambda one: urgency(one[0])))


class Events:
    """Chooses a Job's latest Events among those of its namespace, which it takes one after another.

    :param uids: of the Job's Pods
    :param most: keeps at most so many, and while it takes them twice as many
    """

    def __init__(self, job: Json, uids: Iterable[str], most: int = MOST_EVENTS) -> None:
        self._job = job
        self._uids = set(uids)
        self._most = most
        self._kept: dict[str, Json] = {}

    def take(self, event: Json) -> None:
        """Take an Event as the API has it, if it is the Job's; one that is taken again counts once."""
        if not is_about(event, self._job, self._uids):
            return
        self._kept[event["metadata"]["uid"]] = _event(event)
        if len(self._kept) >= 2 * self._most:
            self._kept = {one["metadata"]["uid"]: one for one in self.chosen}

    @property
    def chosen(self) -> tuple[Json, ...]:
        """The latest ones, the last one at the end."""
        return tuple(sorted(self._kept.values(), key=moment_of)[-self._most :])


def mark(sight: Sight, namespace: str, name: str) -> int:
    """A number that is another one as soon as the view shows a change of this Job or of a Pod of it."""
    rows = [one for one in sight.jobs if one.facts.name == name and one.facts.namespace == namespace]
    pods = sorted(
        (one.uid, one.resource_version) for one in sight.pods if one.job == name and one.namespace == namespace
    )
    return hash((*rows, *pods))


def _order(pod: Json) -> tuple[int, str, str]:
    metadata, phase = pod["metadata"], str(pod["status"].get("phase") or PENDING)
    return urgency(phase), str(metadata.get("creationTimestamp") or ""), metadata["name"]


def _pod(pod: Json) -> Json:
    metadata, spec = pod["metadata"], pod.get("spec") or {}
    owners = [one for one in metadata.get("ownerReferences") or () if one.get("controller")]
    containers = {
        kind: [_of(one, ("name", "image", "restartPolicy")) for one in spec.get(kind) or ()]
        for kind in ("initContainers", "containers")
    }
    return _bounded(
        {
            "metadata": {
                **_of(metadata, _OF_METADATA),
                "annotations": _of(metadata.get("annotations") or {}, _NOTES),
                "ownerReferences": owners,
            },
            "spec": {**_of(spec, ("nodeName", "restartPolicy")), **containers},
            "status": _of(pod.get("status") or {}, _OF_STATUS),
        }
    )


def _event(event: Json) -> Json:
    about = _of(event.get("involvedObject") or {}, ("kind", "name", "uid"))
    metadata = _of(event["metadata"], ("uid", "resourceVersion"))
    return _bounded({**_of(event, _OF_EVENT), "metadata": metadata, "involvedObject": about})


def _of(found: Mapping[str, Any], keys: Iterable[str]) -> Json:
    return {key: found[key] for key in keys if key in found}


def _bounded(found: Json) -> Json:
    """The same with long texts cut, as whoever writes an annotation may write 256 KiB of it."""
    return {key: _cut(one) for key, one in found.items()}


def _cut(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= _LONGEST else value[:_LONGEST] + " …"
    if isinstance(value, dict):
        return _bounded(value)
    return [_cut(one) for one in value] if isinstance(value, list) else value
