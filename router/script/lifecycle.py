"""Writes what a kubelet does around a container as the lines of a bash function.

Pure. Each line calls a function of ``runtime/1/lifecycle.sh``; every value in it is quoted.
"""

from __future__ import annotations

from collections.abc import Iterator

from router.script.quoting import words
from router.workload.lifecycle import Handler, HandlerKind, Lifecycle, Probe, Restarts
from router.workload.model import Workload

_AGENT = "kube-probe/batchgate"
"""As a kubelet names itself, by which servers leave its requests out of their logs."""


def parts(workload: Workload, *, host: bool, again: bool) -> tuple[str, ...]:
    """The files of the runtime that hooks, probes and rules need; none for a Job without any.

    :param host: whether commands run without a container
    :param again: whether some container may run again
    """
    around = _around(workload, host=host)
    rules = again and (around or any(container.restarts for container in workload.containers))
    found = (*around, *(("restarting",) if rules else ()))
    return ("wrapping", *found) if found else ()


def _around(workload: Workload, *, host: bool) -> tuple[str, ...]:
    handlers = [one for container in workload.containers if container.lifecycle for one in container.lifecycle.handlers]
    if not handlers:
        return ()
    asks = any(one.kind in (HandlerKind.HTTP, HandlerKind.TCP) for one in handlers)
    return ("enteringhost" if host else "entering", *(("asking",) if asks else ()), "lifecycle")


def blocks(workload: Workload) -> list[tuple[str, str, list[str]]]:
    """The name of each function about a container, what it says, and its lines."""
    found = []
    for index, container in enumerate(workload.containers):
        if container.lifecycle:
            found.append((f"lifecycle_{index}", "what a kubelet does around it", list(_lines(container.lifecycle))))
        if container.restarts:
            found.append((f"restarts_{index}", "when it runs again", list(_rules(container.restarts))))
    return found


def _rules(restarts: Restarts) -> Iterator[str]:
    yield f"policy={restarts.policy}"
    for rule in restarts.rules:
        yield f"rule {' '.join(('In' if rule.listed else 'NotIn', *map(str, rule.codes)))}"


def _lines(lifecycle: Lifecycle) -> Iterator[str]:
    if lifecycle.post_start:
        yield f"post_start {_words(lifecycle.post_start, hook=True)}"
    if lifecycle.pre_stop:
        yield f"pre_stop {_words(lifecycle.pre_stop, hook=True)}"
    for probe in lifecycle.probes:
        yield f"probe {probe.role} {_settings(probe)} {_words(probe.handler, hook=False)}"


def _settings(probe: Probe) -> str:
    grace = "''" if probe.grace is None else str(probe.grace)
    return f"{probe.delay} {probe.period} {probe.timeout} {probe.successes} {probe.failures} {grace}"


def _words(handler: Handler, *, hook: bool) -> str:
    """A handler's name in the script, and its words. Of a hook any answer of HTTP is a good one."""
    answer = ("any",) if hook else ()
    match handler.kind:
        case HandlerKind.EXEC:
            return words(("exec", *handler.command))
        case HandlerKind.SLEEP:
            return f"sleep {handler.seconds}"
        case HandlerKind.TCP:
            return words(("tcp", handler.host.strip("[]"), str(handler.port)))
        case HandlerKind.HTTP:
            name = "https" if handler.secure else "http"
            return words((name, handler.host.strip("[]"), str(handler.port), _request(handler), *answer))


def _request(handler: Handler) -> str:
    """What is sent, also by curl, for which the script takes it apart."""
    given = {name.lower() for name, _ in handler.headers}
    own = {"Host": f"{handler.host}:{handler.port}", "User-Agent": _AGENT, "Accept": "*/*"}
    mine = [(name, value) for name, value in own.items() if name.lower() not in given]
    headers = [f"{name}: {value}" for name, value in (*mine, *handler.headers, ("Connection", "close"))]
    return "".join([f"{line}\r\n" for line in (f"GET {handler.target} HTTP/1.1", *headers, "")])
