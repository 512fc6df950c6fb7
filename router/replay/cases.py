"""Jobs that really were, as values to judge again.

Pure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from router.notation import durations
from router.policy.decision import QueueStates, Requester
from router.replay.facts import loaded
from router.replay.record import FORMAT, states_of
from router.values import unchanging
from router.workload.cluster import UNKNOWN_CLUSTER, Cluster
from router.workload.model import Workload

USER: Final = "request.user"
GROUPS: Final = "request.groups"
EARLIER: Final = "before --since"
UNDATED: Final = "the time of their creation is unknown"
UNJUDGED: Final = "of namespaces whose Jobs the webhook does not judge"
DENIED: Final = "denied without a rule, and not judged again"
_PARTLY: Final = "not written down whole"
_MOST_STATES: Final = 64


@unchanging
class Recorded:
    """What was decided then, by the policy with this digest."""

    digest: str
    target: str
    rule: str
    site: str
    queue: str


@unchanging
class Case:
    """One Job that really was.

    :param requester: with the time of its creation in seconds since 1970; None if unknown
    :param states: of the queues at that time, as far as known
    :param place: where it was read: ``file:line``, or its path in a cluster
    :param unknown: facts that its source lacks, as rules name them
    :param resized: as the second of two policies sizes it, if they count other resources as GPUs
    :param manifest: the Job itself, and the root of its field paths, if it is known
    :param cluster: what was known of the cluster as the manifest was sized
    """

    name: str
    requester: Requester
    workload: Workload
    states: QueueStates
    place: str
    unknown: frozenset[str] = frozenset()
    recorded: Recorded | None = None
    resized: Workload | None = None
    manifest: tuple[dict[str, Any], str] | None = None
    cluster: Cluster = UNKNOWN_CLUSTER


@unchanging
class Skipped:
    """A line or object that is no Job to judge: why, as the end of a sentence, and where, with more about it."""

    why: str
    example: str = ""


def count(found: dict[str, tuple[int, str]], why: str, example: str) -> None:
    """Count one more for this reason. The first example stays."""
    times, first = found.get(why, (0, example))
    found[why] = (times + 1, first)


class StatesOfLog:
    """The states of queues that lines repeat, each made once: equal states serve as the key of caches."""

    def __init__(self) -> None:
        self._made: dict[str, QueueStates] = {}
        self._count = 0

    def of(self, queues: Mapping[str, Any]) -> QueueStates:
        """The states in a line. Raises ValueError."""
        key = json.dumps(queues, sort_keys=True)
        if key not in self._made:
            if len(self._made) >= _MOST_STATES:
                self._made.clear()
            self._count += 1
            self._made[key] = states_of(queues, self._count)
        return self._made[key]


def from_line(text: str, place: str, states: StatesOfLog, since: float = 0.0) -> Case | Skipped:
    """The Job of a line of the decision log. Raises ValueError, with the field, if it is none.

    :param place: ``file:line``
    :param since: seconds since 1970; an earlier decision is skipped
    """
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("is no line of JSON") from None
    if not isinstance(line, dict) or "format" not in line:
        raise ValueError("is no line of a decision log; the webhook's option --decision-log writes one")
    if line["format"] != FORMAT:
        raise ValueError(
            f"has format {line['format']!r}, and this release reads {FORMAT}; use the webhook's own release"
        )
    if "\\ud" in text.lower() and not _is_whole(line):
        raise ValueError("has half a character")
    moment = _moment(line)
    if moment < since:
        return Skipped(EARLIER)
    if (why := _skipped(line)) is not None:
        examples = {DENIED: _denied, _PARTLY: _placed}
        return Skipped(why, examples[why](line, place) if why in examples else "")
    requester = _requester(line, moment)
    unknown = frozenset({GROUPS} if line.get("groups_left_out") else ())
    workload = loaded(line.get("workload"))
    name = f"{requester.namespace}/{_text(line, 'name')}"
    queues = line.get("queues")
    found = states.of(queues if isinstance(queues, dict) else {})
    return Case(name, requester, workload, found, place, unknown, _recorded(line))


def _is_whole(line: Mapping[str, Any]) -> bool:
    """Whether all texts can be written again: JSON can spell half a surrogate pair."""
    try:
        json.dumps(line, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _skipped(line: Mapping[str, Any]) -> str | None:
    if line.get("dry_run"):
        return "dry runs"
    if line.get("operation") != "CREATE":
        return "changes of Jobs that were decided before"
    if line.get("target") == "invalid":
        return DENIED
    if "left_out" in line:
        return _PARTLY
    return None


def _denied(line: Mapping[str, Any], place: str) -> str:
    return f"{_placed(line, place)}: {_text(line, 'reason')}"


def _placed(line: Mapping[str, Any], place: str) -> str:
    return f"{_text(line, 'namespace')}/{_text(line, 'name')} ({place})"


def _moment(line: Mapping[str, Any]) -> float:
    try:
        return durations.moment(line.get("time"))
    except ValueError as error:
        raise ValueError(f"time: {error}") from None


def _requester(line: Mapping[str, Any], moment: float) -> Requester:
    groups, labels = line.get("groups"), line.get("namespace_labels")
    if not isinstance(groups, list) or not all(isinstance(one, str) for one in groups):
        raise ValueError("groups: is no list of names")
    if labels is not None and not (isinstance(labels, dict) and all(isinstance(one, str) for one in labels.values())):
        raise ValueError("namespace_labels: is no mapping of labels")
    return Requester(_text(line, "user"), tuple(groups), _text(line, "namespace"), labels, moment)


def _recorded(line: Mapping[str, Any]) -> Recorded:
    return Recorded(*(_text(line, key) for key in ("policy", "target", "rule", "site", "queue")))


def _text(line: Mapping[str, Any], key: str) -> str:
    value = line.get(key)
    if not isinstance(value, str):
        raise ValueError(f"{key}: is no text")
    return value
