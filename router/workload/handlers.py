"""Reads the probes and hooks of a container.

Pure. The rules and defaults are Kubernetes': of a probe's words ``$(NAME)`` is replaced by the variable's written value,
of a hook's it is not (pkg/kubelet/prober, pkg/kubelet/lifecycle).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from router.errors import JobError
from router.workload.expand import expand_within
from router.workload.fields import INT32, Fields, Findings, integer, mapping, mappings, text, texts
from router.workload.lifecycle import Handler, HandlerKind, Lifecycle, Probe, ProbeRole
from router.workload.model import EnvVar

_FIELDS: Final = {role: f"{role.value}Probe" for role in ProbeRole}
_ASKED: Final = frozenset({*_FIELDS.values(), "lifecycle"})
_HOOKS: Final = ("postStart", "preStop")
_LOOPBACK: Final = "127.0.0.1"
_HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,256}")
_HOST: Final = re.compile(r"[A-Za-z0-9_.:-]{1,253}|\[[0-9A-Fa-f:.]+\]")
_UNSAFE: Final = re.compile(r"[\x00-\x1f\x7f]")
_ENCODED: Final = re.compile(r"[^A-Za-z0-9/%:?\[\]@!$&'()*+,;=._~-]")
"""Characters of a path and query that are not sent as they are written."""
_NO_GRPC: Final = "asks by gRPC, for which HPC nodes have no client"


def read_lifecycle(container: Fields, path: str, env: Sequence[EnvVar], findings: Findings) -> Lifecycle | None:
    """What a kubelet would do around a container, or None. What HPC cannot do becomes an obstacle.

    :raises JobError: the API server refuses the field
    """
    if _ASKED.isdisjoint(container) or not any(container.get(field) for field in _ASKED):
        return None
    values = {variable.name: variable.value or "" for variable in env}
    probes = [
        probe
        for role, field in _FIELDS.items()
        if (probe := _probe(container, field, path, role, values, findings)) is not None
    ]
    hooks, here = mapping(container, "lifecycle", path), f"{path}.lifecycle"
    found = [_hook(hooks, name, here, container, path, findings) for name in _HOOKS]
    for name, value in hooks.items():
        if value and name not in _HOOKS and (name, value) != ("stopSignal", "SIGTERM"):
            reason = (
                "is a signal that a batch job does not send" if name == "stopSignal" else "is not known to Batchgate"
            )
            findings.block(f"{here}.{name}", reason)
    return Lifecycle(found[0], found[1], tuple(probes)) or None


def _probe(
    container: Fields, field: str, path: str, role: ProbeRole, values: Mapping[str, str], findings: Findings
) -> Probe | None:
    fields, here = mapping(container, field, path), f"{path}.{field}"
    if not fields:
        return None
    if fields.get("grpc") and role is ProbeRole.READINESS:
        findings.warnings.append(f"{here}.grpc: {_NO_GRPC}, so the container is Ready as long as it runs")
        return None
    handler = _handler(fields, here, container, path, findings)
    if handler is None:
        return None
    if handler.kind is HandlerKind.EXEC:
        words = [
            expand_within(word, values, f"{here}.exec.command[{index}]") for index, word in enumerate(handler.command)
        ]
        handler = Handler(HandlerKind.EXEC, tuple(words))
    return Probe(
        role,
        handler,
        delay=integer(fields, "initialDelaySeconds", here) or 0,
        period=integer(fields, "periodSeconds", here) or 10,
        timeout=integer(fields, "timeoutSeconds", here) or 1,
        successes=integer(fields, "successThreshold", here) or 1,
        failures=integer(fields, "failureThreshold", here) or 3,
        grace=integer(fields, "terminationGracePeriodSeconds", here),
    )


def _hook(hooks: Fields, name: str, here: str, container: Fields, path: str, findings: Findings) -> Handler | None:
    fields = mapping(hooks, name, here)
    if not fields:
        return None
    if fields.get("tcpSocket"):
        findings.block(f"{here}.{name}.tcpSocket", "is a hook that no kubelet runs")
        return None
    return _handler(fields, f"{here}.{name}", container, path, findings)


def _handler(fields: Fields, here: str, container: Fields, path: str, findings: Findings) -> Handler | None:
    known = {one.value for one in HandlerKind}
    if fields.get("grpc"):
        findings.block(f"{here}.grpc", _NO_GRPC)
        return None
    kinds = [key for key in fields if key in known and fields[key] is not None]
    if len(kinds) != 1:
        raise JobError(here, f"must say one of {', '.join(sorted(known))}, and says {', '.join(kinds) or 'none'}")
    kind, source, where = HandlerKind(kinds[0]), mapping(fields, kinds[0], here), f"{here}.{kinds[0]}"
    match kind:
        case HandlerKind.EXEC:
            if not (command := texts(source, "command", where)):
                raise JobError(f"{where}.command", "is empty; it must name a program")
            return Handler(kind, command)
        case HandlerKind.SLEEP:
            return Handler(kind, seconds=integer(source, "seconds", where) or 0)
        case HandlerKind.TCP | HandlerKind.HTTP:
            port = _port(source, where, container, path, findings)
            if port is None:
                return None
            host = text(source, "host", where) or _LOOPBACK
            if not _HOST.fullmatch(host):
                raise JobError(f"{where}.host", f"{host[:80]!r} is no host")
            return Handler(kind, host=host, port=port) if kind is HandlerKind.TCP else _http(source, where, host, port)


def _http(source: Fields, where: str, host: str, port: int) -> Handler:
    headers = []
    for here, header in mappings(source, "httpHeaders", where):
        name, value = text(header, "name", here), text(header, "value", here)
        if not _HEADER.fullmatch(name):
            raise JobError(f"{here}.name", f"{name[:80]!r} is no name of a header")
        if _UNSAFE.search(value):
            raise JobError(f"{here}.value", "has a control character, which no header can hold")
        headers.append((name, value))
    scheme = text(source, "scheme", where) or "HTTP"
    if scheme.upper() not in ("HTTP", "HTTPS"):
        raise JobError(f"{where}.scheme", f"{scheme[:80]!r} is neither HTTP nor HTTPS")
    target = _ENCODED.sub(_percent, text(source, "path", where).partition("#")[0])
    return Handler(
        HandlerKind.HTTP,
        host=host,
        port=port,
        secure=scheme.upper() == "HTTPS",
        target=target if target.startswith("/") else f"/{target}",
        headers=tuple(headers),
    )


def _percent(match: re.Match[str]) -> str:
    return "".join([f"%{byte:02X}" for byte in match.group().encode(errors="replace")])


def _port(source: Fields, where: str, container: Fields, path: str, findings: Findings) -> int | None:
    """A port by its number, or by its name among the container's; None, with an obstacle, for an unknown name."""
    written = source.get("port")
    if isinstance(written, str) and not written.isdecimal():
        for here, port in mappings(container, "ports", path):
            if text(port, "name", here) == written:
                return integer(port, "containerPort", here)
        findings.block(f"{where}.port", f"is {written[:40]!r}, which no port of its container is called")
        return None
    number = (
        int(written) if isinstance(written, str) and len(written) < 6 else integer(source, "port", where, most=INT32)
    )
    if not number or number > 65535:
        raise JobError(f"{where}.port", "is no port; give a number from 1 to 65535, or a port's name")
    return number
