"""Holds what a kubelet does around a container: hooks at its start and end, and probes while it runs.

Pure data. ``handlers`` and ``restarts`` read it, and ``router.script.lifecycle`` writes it into a script.
"""

from __future__ import annotations

from enum import StrEnum

from router.values import unchanging


class HandlerKind(StrEnum):
    """How a handler acts; the value is its field's name."""

    EXEC = "exec"
    HTTP = "httpGet"
    TCP = "tcpSocket"
    SLEEP = "sleep"


@unchanging
class Handler:
    """What a probe or hook does.

    :param command: words, of ``exec``
    :param host: of ``httpGet`` and ``tcpSocket``, like ``port``
    :param secure: whether ``httpGet`` is by HTTPS
    :param target: path and query of ``httpGet``, as they are sent
    :param headers: of ``httpGet``: names and values
    :param seconds: of ``sleep``
    """

    kind: HandlerKind
    command: tuple[str, ...] = ()
    host: str = ""
    port: int = 0
    secure: bool = False
    target: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    seconds: int = 0


class ProbeRole(StrEnum):
    """What a probe decides."""

    STARTUP = "startup"
    LIVENESS = "liveness"
    READINESS = "readiness"


@unchanging
class Probe:
    """One probe. Times are in seconds.

    :param grace: between asking the container to end and killing it; None for the Pod's
    """

    role: ProbeRole
    handler: Handler
    delay: int = 0
    period: int = 10
    timeout: int = 1
    successes: int = 1
    failures: int = 3
    grace: int | None = None


@unchanging
class RestartRule:
    """A rule by which a container runs again: its exit code is one of these, or none of them."""

    codes: tuple[int, ...]
    listed: bool = True


@unchanging
class Restarts:
    """When one container runs again.

    :param policy: its own; ``Always``, ``OnFailure`` or ``Never``
    """

    policy: str
    rules: tuple[RestartRule, ...] = ()


@unchanging
class Lifecycle:
    """All of one container, in the order startup, liveness, readiness."""

    post_start: Handler | None = None
    pre_stop: Handler | None = None
    probes: tuple[Probe, ...] = ()

    def __bool__(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.post_start or self.pre_stop or self.probes)

    @property
    def handlers(self) -> tuple[Handler, ...]:
        """Those of hooks and probes."""
        hooks = [one for one in (self.post_start, self.pre_stop) if one]
        return (*hooks, *[probe.handler for probe in self.probes])
