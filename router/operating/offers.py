"""What sites offer the caller: queues with limits and state, where an image would come from, and as whom Jobs would run.

Pure. Reads notices (``router.operating.notices``), which are all that a user without rights on Nodes may see.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from router.notation import durations
from router.operating.notices import Notice, QueueNotice, entries
from router.operating.overview import TOO_OLD
from router.pod.status import seconds
from router.policy.decision import Identity, Requester
from router.policy.identity import identify
from router.site import globs

State = Literal["open", "closed", "unknown"]


@dataclass(frozen=True, slots=True)
class Offer:
    """One queue for the caller. Sizes in bytes, times in seconds; None: unlimited, or unknown.

    :param reason: why the state is unknown; else empty
    :param user: the HPC user; empty without one
    :param refusal: why ``user`` is empty; else empty
    :param age: of the figures
    """

    site: str
    queue: str
    state: State
    reason: str
    free_nodes: int | None
    queued_jobs: int | None
    running_jobs: int | None
    wait_seconds: int | None
    nodes: int
    cpus_per_node: int
    memory_per_node: int | None
    gpus_per_node: int
    gpu_vendor: str | None
    walltime_max: int | None
    walltime_default: int | None
    user: str
    account: str | None
    project: str | None
    refusal: str
    age: int | None


_LATE: Final = 360
"""Seconds after which figures say that their agent may be away: it writes them anew every five minutes at least."""
_UNTOLD: Final = "the site does not tell who runs as whom"
_WITHOUT_CONTROLLERS: Final = "the site does not tell who creates Jobs for others, so it is open who runs as whom"


def offers(notices: Iterable[Notice], requester: Requester, now: float) -> Iterator[Offer]:
    """Every queue that sites tell of.

    :param requester: the caller, in the namespace that is asked about
    :param now: seconds since 1970
    """
    for notice in notices:
        identity = _identity(notice, requester)
        moment = seconds(notice.time)
        age = None if moment is None else max(0, int(now - moment))
        for queue in notice.queues or ():
            yield _offer(notice.site, queue, identity, age)


def _offer(site: str, queue: QueueNotice, identity: Identity | str, age: int | None) -> Offer:
    old = age is None or age > TOO_OLD
    known = queue.up is not None and not old
    who = identity if isinstance(identity, Identity) else None
    return Offer(
        site=site,
        queue=queue.name,
        state=("open" if queue.up else "closed") if known else "unknown",
        reason=_reason(age, known=known),
        free_nodes=queue.free_nodes if known else None,
        queued_jobs=queue.queued_jobs if known else None,
        running_jobs=queue.running_jobs if known else None,
        wait_seconds=queue.wait_seconds if known else None,
        nodes=queue.nodes,
        cpus_per_node=queue.cpus_per_node,
        memory_per_node=queue.memory_per_node,
        gpus_per_node=queue.gpus_per_node,
        gpu_vendor=queue.gpu_vendor,
        walltime_max=queue.walltime_max,
        walltime_default=queue.walltime_default,
        user=who.user if who else "",
        account=who.account if who else None,
        project=who.project if who else None,
        refusal=identity if isinstance(identity, str) else "",
        age=age,
    )


def _reason(age: int | None, *, known: bool) -> str:
    """Why figures are left out, or may be out of date; empty for new ones."""
    if age is None or age > TOO_OLD:
        return "its agent has told nothing new for long"
    if not known:
        return (
            "its agent has told no figures yet: they follow within a minute of its start, if the batch system answers"
        )
    return f"these figures are {durations.show(age)} old: its agent may be away" if age > _LATE else ""


def _identity(notice: Notice, requester: Requester) -> Identity | str:
    if notice.accounts is None:
        return _UNTOLD
    if notice.controllers is None:
        return _WITHOUT_CONTROLLERS
    found = identify(entries(notice), requester, notice.site)
    if isinstance(found, str) and notice.lacks("accounts"):
        return "the site has more accounts than it can tell"
    return found


@dataclass(frozen=True, slots=True)
class ImageSource:
    """Where a site takes images of a name from. ``source``: ``site`` (a file there), or who pulls, as in ``pull``.

    It is ``unknown`` for what may be among the mapped images that had no room in the site's notice.

    :param match: the glob; ``*`` for all others
    """

    site: str
    match: str
    source: Literal["site", "host", "job", "never", "unknown"]


def image_sources(notices: Sequence[Notice], image: str = "") -> Iterator[ImageSource]:
    """The mapped images of each site, and what happens to others; of one image, only what matches it."""
    for notice in notices:
        if notice.images is None or notice.pull is None:
            continue
        found = [one for one in notice.images if not image or globs.matches((one,), image)]
        yield from (ImageSource(notice.site, one, "site") for one in (found[:1] if image else found))
        if not (image and found):
            yield ImageSource(notice.site, image or "*", "unknown" if notice.lacks("images") else notice.pull)
