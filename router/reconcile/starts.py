"""When a waiting job may start: a range of time with what it rests on, in words that are read back.

Pure. Times are seconds since 1970. Two things may be known: the starts that the scheduler planned within the last hour,
and how long other Pods waited in the same queue. What was said stands while it is nearly right, so that thousands of Pod
statuses are not rewritten for a minute's difference.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from router.notation.quantiles import quantile
from router.pod.status import rfc3339, seconds

HOUR: Final = 3600.0
NEARLY: Final = 300.0
"""Seconds by which a bound that was said may be wrong before it is said anew; or a tenth of the time left, if more."""
MOST_PLANS: Final = 64
"""Enough for an hour of a scheduler that plans another start every minute."""
FEWEST_WAITS: Final = 10
"""With fewer waits than these, nothing is said."""
_MOVED: Final = 900.0
"""Seconds between two ranges from which on the start has moved; or a quarter of the time left, if more."""
PLANS: Final = "the batch system's plans of the last hour"
_WAITS: Final = "the waits of {} Pods in this queue within a day"
_INTRO: Final = "expected to start "
_TIME: Final = r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z)"
_SAID: Final = re.compile(
    rf"(?:^|; ){_INTRO}(?:about {_TIME}|between {_TIME} and {_TIME}|before {_TIME})(?:, by (the [^;]+))?$"
)


@dataclass(frozen=True, slots=True)
class Plans:
    """The starts that the scheduler has planned for a job.

    :param since: when the first plan was heard
    :param starts: each planned start with the time when it was last heard; at most ``MOST_PLANS``
    """

    since: float
    starts: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Start:
    """A range in which a job may start. ``earliest``: None if it may start at any time from now on.

    :param basis: what it rests on, in words; empty in words of releases that said none
    """

    earliest: int | None
    latest: int
    basis: str = ""

    @property
    def kind(self) -> str:
        """The basis without its figures."""
        return re.sub("[0-9]+", "#", self.basis)


# --- what is known ------------------------------------------------------------------------------------------------


def heard(plans: Plans | None, planned: datetime | None, now: float) -> Plans | None:
    """The plans with one more; a start that is nearly that of an earlier plan is the same plan."""
    if planned is None:
        return plans
    start = planned.timestamp()
    known = plans.starts if plans else ()
    same = next((one for one, _ in known if abs(one - start) < NEARLY), start)
    fresh = [(one, at) for one, at in known if one != same and now - at < HOUR]
    return Plans(plans.since if plans else now, (*fresh, (same, now))[-MOST_PLANS:])


def by_plans(plans: Plans | None, now: float) -> Start | None:
    """From the earliest to the latest start that was planned within the last hour; None if all of them are past."""
    found = [int(start) for start, at in plans.starts if now - at < HOUR] if plans else []
    return _ahead(Start(min(found), max(found), PLANS), now) if found else None


def by_waits(waits: Sequence[float], created: float, now: float) -> Start | None:
    """From the tenth to the ninetieth percentile of the waits that are longer than this job has waited already.

    :param waits: of other Pods in the same queue, in seconds, in ascending order
    :return: None if fewer than ``FEWEST_WAITS`` waited longer
    """
    longer = waits[bisect_right(waits, now - created) :]
    few, many = quantile(longer, 0.1), quantile(longer, 0.9)
    if len(longer) < FEWEST_WAITS or few is None or many is None:
        return None
    return _ahead(Start(int(created + few), int(created + many), _WAITS.format(len(longer))), now)


def _ahead(found: Start, now: float) -> Start | None:
    """The range without what is past: a range that begins within minutes begins now."""
    if found.latest <= now:
        return None
    low = _low(found, now) - now
    return replace(found, earliest=None) if low <= 0 or low < NEARLY <= found.latest - now else found


def kept(said: Start | None, found: Start | None, plans: Plans | None, now: float) -> Start | None:
    """What to say now: what was said before while it is nearly right, else what was found.

    An agent that has just begun knows no plans of the last hour, so a wider range that was said stands for that time.
    """
    said = _ahead(said, now) if said is not None else None
    if said is None or found is None or (said.kind and said.kind != found.kind):
        return found
    begun = found.kind == PLANS and (plans is None or now - plans.since < HOUR)
    if begun and said.kind and _low(said, now) <= _low(found, now) and found.latest <= said.latest:
        return said
    near = _near(_low(said, now), _low(found, now), now) and _near(said.latest, found.latest, now)
    return said if near and said.kind else found


def _low(start: Start, now: float) -> float:
    return now if start.earliest is None else start.earliest


def _near(said: float, found: float, now: float) -> bool:
    return abs(found - said) < max(NEARLY, (said - now) / 10)


def moved(told: Start, found: Start, now: float) -> bool:
    """Whether the start has moved for good: the ranges lie apart, by a quarter of an hour or of the time left.

    As a range covers all plans of an hour, it lies apart only when the scheduler has planned otherwise for an hour.
    """
    apart = max(_low(found, now) - told.latest, _low(told, now) - found.latest)
    return apart > max(_MOVED, (told.latest - now) / 4)


# --- words --------------------------------------------------------------------------------------------------------


def words(start: Start) -> str:
    """One clause for a Pod's message, with times in RFC 3339."""
    latest = rfc3339(start.latest)
    if start.earliest is None:
        when = f"before {latest}"
    elif start.earliest == start.latest:
        when = f"about {latest}"
    else:
        when = f"between {rfc3339(start.earliest)} and {latest}"
    return f"{_INTRO}{when}" + (f", by {start.basis}" if start.basis else "")


def read(message: str) -> tuple[str, Start | None]:
    """A message without the clause at its end, and the range that the clause says."""
    found = _SAID.search(message)
    if found is None:
        return message, None
    about, low, high, before, basis = found.groups()
    latest, earliest = seconds(about or high or before), None if before else seconds(about or low)
    if latest is None or (earliest is None and not before) or (earliest is not None and earliest > latest):
        return message, None
    return message[: found.start()], Start(earliest, latest, basis or "")


def people(start: Start, now: float) -> str:
    """The range as people say it: ``between 14:10 and 15:30 UTC``, with the day where it is another one than today."""
    latest = _clock(start.latest, now)
    if start.earliest is None or start.earliest <= now:
        return f"before {latest} UTC"
    if start.earliest == start.latest:
        return f"about {latest} UTC"
    return f"between {_clock(start.earliest, now)} and {latest} UTC"


def _clock(moment: int, now: float) -> str:
    then, today = (datetime.fromtimestamp(one, UTC) for one in (moment, now))
    return then.strftime("%H:%M" if then.date() == today.date() else "%Y-%m-%d %H:%M")
