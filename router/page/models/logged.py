"""The decisions of the last day out of the webhook's decision log, by rule and target, and what audit rules would do.

Pure. Unlike Jobs in the cluster, the log has denied and deleted Jobs too.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from sys import intern
from typing import Any, Final

from router.notation import durations
from router.page.models.decisions import DAY, Decided, Group, groups_of
from router.replay.record import FORMAT

_LONGEST: Final = 500
"""Most characters that are kept of a text."""
_BEFORE_SIZED: Final = ',"workload":{'
_MOST_AUDITED: Final = 50
_INVALID: Final = "invalid"
"""The target of a denial that no rule has decided."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the log. ``counts``: whether it is about a new Job, and no dry run.

    :param audited: rule and outcome of each audit rule that matched
    """

    decided: Decided
    counts: bool
    audited: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Tail:
    """The end of a decision log as it was read.

    :param file: its path
    :param entries: in the order of the log
    :param unreadable: how many of the lines that were read are no decisions of this release's format
    :param left_out: why earlier decisions of the last day may be missing, as a sentence; empty if none is
    :param problem: why the log cannot be read; empty if it can
    """

    file: str
    entries: tuple[Entry, ...] = ()
    unreadable: int = 0
    left_out: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class AuditLine:
    """What an audit rule would have done with Jobs of the last day. ``last``: seconds since 1970."""

    rule: str
    outcome: str
    count: int
    last: int


@dataclass(frozen=True, slots=True)
class Logged:
    """The log's part of the page. ``others``: decisions about changed Jobs and dry runs, which are not counted."""

    file: str
    total: int
    groups: tuple[Group, ...]
    audits: tuple[AuditLine, ...]
    others: int
    unreadable: int
    left_out: str
    problem: str
    namespace: str


def entry_of(text: str) -> Entry | None:
    """The entry of a line; None for any other text.

    The sized Job at the end of a line is most of it and is not read, where it can be cut off.
    """
    line = _parsed(text.partition(_BEFORE_SIZED)[0] + "}") or _parsed(text)
    if line is None:
        return None
    try:
        moment = int(durations.moment(line.get("time")))
    except ValueError:
        return None
    site, queue, target = (_text(line.get(key)) for key in ("site", "queue", "target"))
    target = "deny" if target == _INVALID else target
    audited = line.get("audited")
    rules = [one for one in audited if isinstance(one, dict)] if isinstance(audited, list) else []
    return Entry(
        decided=Decided(
            created=moment,
            rule=_text(line.get("rule")),
            place=f"{site}/{queue}" if site else target,
            requester=_text(line.get("user")),
            reason=_text(line.get("reason")),
            namespace=_text(line.get("namespace")),
            name=_text(line.get("name") or line.get("generate_name")),
        ),
        counts=line.get("operation") == "CREATE" and not line.get("dry_run"),
        audited=tuple((_text(one.get("rule")), _text(one.get("outcome"))) for one in rules[:_MOST_AUDITED]),
    )


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return line if isinstance(line, dict) and line.get("format") == FORMAT else None


def _text(value: object) -> str:
    if not isinstance(value, str):
        return ""
    text = value[:_LONGEST]
    return intern(text if text.isascii() else text.encode(errors="replace").decode())


def logged(tail: Tail, namespace: str | None, now: float) -> Logged:
    """The log's decisions of the 24 hours before now.

    :param namespace: the only one whose decisions the reader may see; empty stands for all. None hides all of them
    """
    since = int(now) - DAY
    seen = [
        one
        for one in tail.entries
        if one.decided.created > since and namespace is not None and namespace in ("", one.decided.namespace)
    ]
    counted = [one for one in seen if one.counts]
    return Logged(
        file=tail.file,
        total=len(counted),
        groups=groups_of([one.decided for one in counted]),
        audits=_audits(counted),
        others=len(seen) - len(counted),
        unreadable=tail.unreadable,
        left_out=tail.left_out,
        problem="you may not list Jobs" if namespace is None else tail.problem,
        namespace=namespace or "",
    )


def _audits(entries: Iterable[Entry]) -> tuple[AuditLine, ...]:
    counts: Counter[tuple[str, str]] = Counter()
    last: dict[tuple[str, str], int] = {}
    for one in entries:
        for key in one.audited:
            counts[key] += 1
            last[key] = max(last.get(key, 0), one.decided.created)
    ordered = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    return tuple(AuditLine(rule, outcome, count, last[rule, outcome]) for (rule, outcome), count in ordered)
