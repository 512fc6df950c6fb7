"""Whether the batch system answers, as it is told."""

from __future__ import annotations

from router.agent.batch.reachability import Reachability
from router.background.backoff import BackOff


def test_what_is_told_is_why_it_cannot_be_reached_now() -> None:
    """A login node that comes up again with another host key is no login node that is down."""
    told: list[str] = []
    reach = Reachability(told.append, BackOff(first=0, longest=0))

    for words in ("nothing listens", "nothing listens", "shows another host key"):
        reach.failed(words)
    reach.answered()
    reach.answered()

    assert told == ["nothing listens", "shows another host key", ""]
