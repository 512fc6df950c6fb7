"""Hooks, probes and restart rules as they are read: values, obstacles, and what the API server would refuse."""

from __future__ import annotations

from typing import Any

import pytest

from router.errors import JobError
from router.workload.lifecycle import Handler, HandlerKind, Lifecycle, Probe, ProbeRole, RestartRule, Restarts
from router.workload.model import Workload
from tests.script.builders import container, workload

MAIN = "spec.template.spec.containers[0]"
TRUE = {"exec": {"command": ["true"]}}
EXEC = Handler(HandlerKind.EXEC, ("true",))


def read(*, side: bool = False, **fields: Any) -> Workload:
    given = container(
        "run", env=[{"name": "A", "value": "1"}], ports=[{"name": "web", "containerPort": 8080}], **fields
    )
    if side:
        return workload(container("true"), initContainers=[{**given, "name": "side", "restartPolicy": "Always"}])
    return workload(given)


def http(**fields: Any) -> Handler:
    return Handler(HandlerKind.HTTP, **{"host": "127.0.0.1", "port": 8080, "target": "/", **fields})


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, None),
        ({"lifecycle": {"stopSignal": "SIGTERM"}}, None),
        ({"livenessProbe": TRUE}, Lifecycle(probes=(Probe(ProbeRole.LIVENESS, EXEC),))),
        (
            {"livenessProbe": TRUE, "startupProbe": TRUE},
            Lifecycle(probes=(Probe(ProbeRole.STARTUP, EXEC), Probe(ProbeRole.LIVENESS, EXEC))),
        ),
        (
            {
                "livenessProbe": {
                    **TRUE,
                    "initialDelaySeconds": 1,
                    "periodSeconds": 2,
                    "timeoutSeconds": 3,
                    "successThreshold": 1,
                    "failureThreshold": 5,
                    "terminationGracePeriodSeconds": 6,
                }
            },
            Lifecycle(probes=(Probe(ProbeRole.LIVENESS, EXEC, 1, 2, 3, 1, 5, 6),)),
        ),
        (
            {
                "readinessProbe": {"exec": {"command": ["$(A)", "$(B)", "$$(A)"]}},
                "lifecycle": {"preStop": {"exec": {"command": ["$(A)"]}}},
            },
            Lifecycle(
                pre_stop=Handler(HandlerKind.EXEC, ("$(A)",)),
                probes=(Probe(ProbeRole.READINESS, Handler(HandlerKind.EXEC, ("1", "$(B)", "$(A)"))),),
            ),
        ),
        ({"lifecycle": {"postStart": {"sleep": {"seconds": 0}}}}, Lifecycle(Handler(HandlerKind.SLEEP))),
        ({"readinessProbe": {"httpGet": {"port": "web"}}}, Lifecycle(probes=(Probe(ProbeRole.READINESS, http()),))),
        (
            {"readinessProbe": {"httpGet": {"port": 9, "path": "a b?c=%20#d", "scheme": "HTTPS", "host": "localhost"}}},
            Lifecycle(
                probes=(Probe(ProbeRole.READINESS, http(port=9, target="/a%20b?c=%20", secure=True, host="localhost")),)
            ),
        ),
        (
            {"readinessProbe": {"tcpSocket": {"port": "81"}}},
            Lifecycle(probes=(Probe(ProbeRole.READINESS, Handler(HandlerKind.TCP, host="127.0.0.1", port=81)),)),
        ),
    ],
)
@pytest.mark.parametrize("side", [False, True])
def test_what_is_read(fields: dict[str, Any], expected: Lifecycle | None, side: bool) -> None:
    job = read(side=side, **fields)

    assert (job.containers[0].lifecycle, job.obstacles) == (expected, ())


@pytest.mark.parametrize(
    ("fields", "path", "why"),
    [
        ({"livenessProbe": {"grpc": {"port": 1}}}, "livenessProbe.grpc", "asks by gRPC, for which HPC nodes have no client"),
        ({"livenessProbe": {"tcpSocket": {"port": "x"}}}, "livenessProbe.tcpSocket.port", "is 'x', which no port of its container is called"),
        ({"lifecycle": {"preStop": {"tcpSocket": {"port": 1}}}}, "lifecycle.preStop.tcpSocket", "is a hook that no kubelet runs"),
        ({"lifecycle": {"stopSignal": "SIGUSR1"}}, "lifecycle.stopSignal", "is a signal that a batch job does not send"),
        ({"lifecycle": {"later": {"x": 1}}}, "lifecycle.later", "is not known to Batchgate"),
        (
            {"restartPolicy": "Never", "restartPolicyRules": [{"action": "RestartAllContainers"}]},
            "restartPolicyRules[0].action",
            "is 'RestartAllContainers', and on HPC each container runs again by itself alone",
        ),
    ],
)  # fmt: skip
def test_what_keeps_a_job_in_the_cloud(fields: dict[str, Any], path: str, why: str) -> None:
    assert [str(one) for one in read(**fields).obstacles] == [f"{MAIN}.{path}: {why}"]


def test_readiness_that_cannot_be_asked_for_is_told() -> None:
    job = read(readinessProbe={"grpc": {"port": 1}})

    assert (job.containers[0].lifecycle, job.obstacles) == (None, ())
    why = "asks by gRPC, for which HPC nodes have no client, so the container is Ready as long as it runs"
    assert f"{MAIN}.readinessProbe.grpc: {why}" in job.warnings


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"livenessProbe": {"periodSeconds": 3}}, "livenessProbe"),
        ({"livenessProbe": {**TRUE, "tcpSocket": {"port": 1}}}, "livenessProbe"),
        ({"livenessProbe": {"exec": {}}}, "livenessProbe.exec.command"),
        ({"livenessProbe": {"exec": {"command": ["a\0b"]}}}, "livenessProbe.exec.command[0]"),
        ({"livenessProbe": {"tcpSocket": {"port": 70000}}}, "livenessProbe.tcpSocket.port"),
        ({"livenessProbe": {"tcpSocket": {"port": 1, "host": "a b"}}}, "livenessProbe.tcpSocket.host"),
        ({"livenessProbe": {"httpGet": {"port": 1, "scheme": "FTP"}}}, "livenessProbe.httpGet.scheme"),
        (
            {"livenessProbe": {"httpGet": {"port": 1, "httpHeaders": [{"name": "A", "value": "x\r\nB: y"}]}}},
            "livenessProbe.httpGet.httpHeaders[0].value",
        ),
        (
            {"livenessProbe": {"httpGet": {"port": 1, "httpHeaders": [{"name": "A: B"}]}}},
            "livenessProbe.httpGet.httpHeaders[0].name",
        ),
        ({"restartPolicyRules": [{"action": "Restart"}]}, "restartPolicy"),
        ({"restartPolicy": "Sometimes"}, "restartPolicy"),
        (
            {"restartPolicy": "Never", "restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "Is"}}]},
            "restartPolicyRules[0].exitCodes.operator",
        ),
    ],
)
def test_what_the_api_server_would_refuse(fields: dict[str, Any], path: str) -> None:
    with pytest.raises(JobError) as caught:
        read(**fields)

    assert caught.value.path == f"{MAIN}.{path}"


def test_rules_by_which_a_container_runs_again() -> None:
    rules = [
        {"action": "Restart", "exitCodes": {"operator": "In", "values": [1, 42]}},
        {"action": "Restart", "exitCodes": {"operator": "NotIn", "values": []}},
    ]

    job = read(restartPolicy="Never", restartPolicyRules=rules)

    assert job.containers[0].restarts == Restarts("Never", (RestartRule((1, 42)), RestartRule((), listed=False)))
    assert (read().containers[0].restarts, read(side=True).containers[0].restarts) == (None, None)
