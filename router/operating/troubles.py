"""What of an installation needs somebody: one sentence for each thing, the widest first.

Pure. Reads what ``batchgate status`` has looked at. What was out of sight is left out; the caller names it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from router.operating import releases
from router.operating.overview import Overview
from router.operating.policies import ConditionState
from router.operating.replicas import PendingRequest, Webhook
from router.site.rights import Right

SHORT_DAYS: Final = 14
"""Days that a certificate must last: ``certs ensure`` and cert-manager renew with 30 left, so that this is late."""
NO_LEADER: Final = "no agent of the site leads"
NOT_OPEN: Final = frozenset({"agent-away", "no-node", "unknown"})
"""States of a queue that no condition of its Node tells; those are among the stuck."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """One thing. ``about``: its kind (``webhook``, ``policy``, ``agent``, …); ``name``: which one, or empty."""

    about: str
    name: str
    says: str


@dataclass(frozen=True, slots=True)
class PolicyFiles:
    """The policy in the cluster's ConfigMap. ``problems``: each with its place and caret; empty if it checks.

    ``digest`` is empty if it does not.
    """

    place: str
    problems: tuple[str, ...]
    digest: str = ""


@dataclass(frozen=True, slots=True)
class SiteCheck:
    """What the last ``batchgate site check`` of a site has left. ``problem`` is empty for a good one.

    ``time``: of the latest check, RFC 3339; empty if the site was never checked.
    """

    site: str
    time: str
    problem: str


@dataclass(frozen=True, slots=True)
class Looked:
    """All that was looked at. None: it is missing, or out of sight."""

    overview: Overview
    webhook: Webhook | None
    requests: Sequence[PendingRequest]
    conditions: Sequence[ConditionState]
    policy: PolicyFiles | None
    checks: Sequence[SiteCheck]
    rights: Sequence[Right] = ()


def troubles(seen: Looked) -> tuple[Trouble, ...]:
    """Everything that needs somebody, each once."""
    found = [
        *_of_policy(seen),
        *_of_webhook(seen),
        *(Trouble("match condition", one.name, one.reason) for one in seen.conditions if one.fits is False),
        *(Trouble("release", "", words) for words in releases.too_far(seen.overview.releases)),
        *_of_sites(seen.overview, seen.checks),
        *(
            Trouble("right", f"{one.site} in {one.namespace}", f"its agent may not {one.right}: {one.change}")
            for one in seen.rights
            if one.allowed is False
        ),
        *(Trouble("certificate request", one.name, f"waits for approval, of {one.requester}") for one in seen.requests),
        *(Trouble("document", "", words) for words in seen.overview.problems),
        *_stuck(seen.overview),
    ]
    return tuple(dict.fromkeys(found))


def _of_policy(seen: Looked) -> Iterator[Trouble]:
    if seen.policy is not None:
        yield from (Trouble("policy", seen.policy.place, problem) for problem in seen.policy.problems)
    for one in seen.overview.policies:
        if one.error:
            yield Trouble("policy", one.name, f"newer files are not in force: {one.error}")
        elif not one.digest:
            yield Trouble("policy", one.name, "it has no policy in force")
    digests = {one.digest for one in seen.overview.policies}
    if len(digests) > 1:
        yield Trouble("policy", "", "webhook and agents do not all have the same one in force")
    elif seen.policy is not None and seen.policy.digest and digests - {seen.policy.digest, ""}:
        words = "is not the policy in force yet: webhook and agents read it within two minutes, unless they read other files"
        yield Trouble("policy", seen.policy.place, words)


def _of_webhook(seen: Looked) -> Iterator[Trouble]:
    webhook = seen.webhook
    if webhook is None:
        return
    if webhook.wanted is None:
        if not any(one.program == "webhook" for one in seen.overview.policies):
            yield Trouble("webhook", "", "none is to be seen, and no replica says what it has in force")
    elif not webhook.wanted:
        yield Trouble("webhook", "", "it is scaled to 0 replicas: Jobs that it should judge are refused")
    elif webhook.ready < webhook.wanted:
        yield Trouble("webhook", "", f"{webhook.ready} of {webhook.wanted} replicas are ready")
    for one in webhook.replicas:
        yield from (Trouble("webhook", one.name, f"{what}: {words}") for what, words in (one.trouble or {}).items())
        for days, what in ((one.certificate_days, "certificate"), (one.ca_days, "CA of its certificate")):
            if days is not None and days < SHORT_DAYS:
                yield Trouble("certificate", one.name, _ends(what, days))


def _ends(what: str, days: int) -> str:
    return f"the {what} has ended" if days < 0 else f"the {what} ends in {days} days"


def _of_sites(found: Overview, checks: Iterable[SiteCheck]) -> Iterator[Trouble]:
    for leader in found.leaders:
        if not leader.in_force:
            yield Trouble("agent", leader.site, NO_LEADER)
    for queue in found.queues:
        if queue.state in NOT_OPEN:
            yield Trouble("queue", f"{queue.site}/{queue.queue}", f"{queue.state}: {queue.reason}")
    for check in checks:
        if check.problem:
            yield Trouble("site check", check.site, check.problem)


def _stuck(found: Overview) -> Iterator[Trouble]:
    for one in found.stuck:
        name = f"{one.namespace}/{one.name}".lstrip("/")
        of_job = f" of Job {one.job}" if one.job and one.kind != "Job" else ""
        yield Trouble(one.kind, name, f"{one.reason}{of_job} since {one.since}: {one.message}")
