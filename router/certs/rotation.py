"""Decides the next write to the Secrets, the ConfigMap and the registrations that hold certificates and keys.

Pure, except that new keys are random (``router.certs.issuing``): takes what the cluster has and the clock, returns writes. Each write is
safe by itself, whatever was written before or comes after, so a crash or a second process at work does no harm:

* **A value is trusted before it is used, and used by nobody before it is distrusted.** A new CA first joins the bundle
  in each registration. After ``Bounds.bundle`` the server certificate is issued by it, and after ``Bounds.served`` the
  old CA leaves. The signing key likewise, with ``Bounds.published`` and ``Bounds.served``.
* **A time counts from when a value was seen in force**, not from when it was written: a process may stall between its
  decision and its write. Annotations hold that time.
* **Each write is held against the version that was read** (resourceVersion). What depends on another object is read
  before that object: registrations, server certificate, CA; public keys, signing key. So a stale decision meets a
  changed version, and is lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from router.certs import issuing
from router.certs.objects import Write

RENEWED_AT: Final = 2 / 3
"""Share of a life after which its successor is made."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How long a change surely needs to be in force everywhere. Each is far above what is usual, as the clocks of those
    who write and compare may differ by a minute.

    :param bundle: until all API servers use a changed registration; they watch it, and take about a second
    :param served: until all replicas use a changed Secret: the kubelet needs up to two minutes, the webhook two seconds
    :param published: until all agents use a changed ConfigMap: the kubelet needs up to two minutes, the agent seconds
    """

    bundle: timedelta = timedelta(minutes=2)
    served: timedelta = timedelta(minutes=10)
    published: timedelta = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Lives:
    """How long what is made is valid.

    :param signing: a signing key is replaced two thirds of this after it was made; None stands for "on demand", as an
        agent outside the cluster may have a copy of the public keys that somebody must renew
    """

    authority: timedelta = timedelta(days=issuing.CA_DAYS)
    server: timedelta = timedelta(days=issuing.SERVER_DAYS)
    signing: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Rules:
    """What is kept for which webhook.

    :param host_names: the names of the server certificate
    """

    namespace: str
    host_names: tuple[str, ...]
    bounds: Bounds = Bounds()
    lives: Lives = Lives()


@dataclass(frozen=True, slots=True)
class Clock:
    """The time before the objects were read, and after. What has lasted is counted to ``began``, what is seen from
    ``ended``: so a process that stalls while it reads errs on the safe side.
    """

    began: datetime
    ended: datetime


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to write until then; ``words`` says what for."""

    until: datetime
    words: str


Outcome = Write | Wait


def lasted(since: datetime, bound: timedelta, clock: Clock, words: str) -> Wait | None:
    """None once a value was in force for so long; else how long to wait."""
    until = since + bound
    return None if until <= clock.began else Wait(until, words)


def due(start: datetime, end: datetime) -> datetime:
    """When a successor is made. The start of our certificates lies ``issuing.BACKDATED`` in the past."""
    start += issuing.BACKDATED
    return start + (end - start) * RENEWED_AT
