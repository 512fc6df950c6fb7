"""One trace a Job, from its review to its result: webhook and agent send to a fake of a collector, by the real protocol.

The agent is killed meanwhile. Each span is told once, with the ids that the containers were given.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from router import names
from router.controlplane import installing
from router.notation import traces
from tests.agent.whole.jobs import unique
from tests.agent.whole.site import SITE, WIDE
from tests.agent.whole.stack import (
    NAMESPACE,
    Agent,
    Stack,
    agent_argv,
    await_webhook,
    component,
    webhook_argv,
)
from tests.agent.whole.waiting import until
from tests.collector import Collector, Received, collector

pytestmark = pytest.mark.timeout(600)
OWN = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"
WEBHOOK, AGENT = "batchgate-webhook", "batchgate-agent"
RAN = ["pod", "submit", "queue", "run", "finish"]


@dataclass
class Traced:
    stack: Stack
    agent: Agent
    received: Collector


@pytest.fixture
def traced(stack: Stack) -> Iterator[Traced]:
    """A webhook and an agent with traces on, in place of the others."""
    certificates = stack.signing_key.parent
    plane, ca_file = stack.plane, certificates / "ca.crt"
    with collector() as received:
        variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": received.endpoint, "OTEL_BSP_SCHEDULE_DELAY": "50"}
        words = webhook_argv(stack.site, certificates, installing.webhook(plane))
        webhook = component(plane, "traced-webhook", words, stack.site, **variables)
        # The identity of the other agent, so that it has the other's certificate.
        words = agent_argv(stack.site, installing.agent(plane), certificates / "signing.pub", stack.agent.name)
        agent = Agent(component(plane, "traced-agent", words, stack.site, **variables))
        webhook.start()
        installing.register(plane, await_webhook(webhook, ca_file), ca_file, [NAMESPACE])
        stack.agent.terminate()
        agent.start()
        stack.kept.append(agent)
        stack.await_nodes()
        yield Traced(stack, agent, received)
        stack.kept.remove(agent)
        agent.terminate()
        installing.register(plane, await_webhook(stack.webhook, ca_file), ca_file, [NAMESPACE])
        webhook.end()


def place(stack: Stack, job: str) -> traces.Place:
    """Where the Job says that its review is."""
    found = traces.read(stack.job(job)["metadata"]["annotations"].get(names.KEY_TRACEPARENT))
    assert found is not None
    return found


def spans(traced: Traced, job: str, count: int) -> list[Received]:
    """The spans of a Job's trace, once there are so many, in the order of a Pod's life."""
    trace_id = place(traced.stack, job).trace_id
    found = until(
        lambda: traced.received.of(trace_id), lambda some: len(some) >= count, what=f"for {count} spans of {job}"
    )
    # By name: Kubernetes cuts a Pod's time of creation to seconds, which may put it before the review.
    return sorted(found, key=lambda one: (["review", *RAN].index(one.name), one.began))


def check_tree(stack: Stack, job: str, found: list[Received]) -> None:
    """The tree of a Job that ran once and well, whole."""
    review, pod = place(stack, job), stack.pod(job)
    uid = pod["metadata"]["uid"]
    ids = {name: traces.of_pod(review.trace_id, uid, name).span_id for name in RAN}
    told = {
        "k8s.namespace.name": NAMESPACE,
        "k8s.pod.uid": uid,
        "k8s.job.uid": stack.job(job)["metadata"]["uid"],
        "batchgate.site": SITE,
        "batchgate.queue": WIDE,
        "batchgate.rule": pod["metadata"]["annotations"][names.KEY_RULE],
        "batchgate.job_id": pod["metadata"]["annotations"][names.KEY_JOB_ID],
    }
    decided = {
        name: told[name] for name in ("k8s.namespace.name", "batchgate.site", "batchgate.queue", "batchgate.rule")
    }
    assert [(one.service, one.name, one.span_id, one.parent_id, one.attributes, one.error) for one in found] == [
        (WEBHOOK, "review", review.span_id, "", decided | {"batchgate.target": "hpc", "batchgate.dry_run": False}, ""),
        (AGENT, "pod", ids["pod"], review.span_id, told, ""),
        (AGENT, "submit", ids["submit"], ids["pod"], {}, ""),
        (AGENT, "queue", ids["queue"], ids["pod"], {}, ""),
        (AGENT, "run", ids["run"], ids["pod"], {"batchgate.exit_code": 0, "batchgate.restarts": 0}, ""),
        (AGENT, "finish", ids["finish"], ids["pod"], {}, ""),
    ]
    assert len(found[0].links) == 1, "the API server's own span"
    parts = found[2:]
    assert [one.began for one in parts[1:]] == [one.ended for one in parts[:-1]]
    assert (parts[0].began, parts[-1].ended) == (found[1].began, found[1].ended)
    assert all(one.began <= one.ended for one in found)


def test_each_job_is_one_trace_from_its_review_to_its_result(traced: Traced) -> None:
    stack = traced.stack
    killed, fails, own, cloud = (unique(name) for name in ("killed", "fails", "own", "cloud"))
    stack.user.apply(stack.runs.job(killed, stack.waiting(killed, then="echo $TRACEPARENT")))
    stack.user.apply(stack.runs.job(fails, "exit 3", backoffLimit=1))
    theirs = stack.runs.job(own, "echo $TRACEPARENT$OTEL_EXPORTER_OTLP_ENDPOINT")  # the agent's own stays with it
    theirs["spec"]["template"]["spec"]["containers"][0]["env"].append({"name": "TRACEPARENT", "value": OWN})
    theirs["metadata"]["annotations"] = {names.KEY_TRACEPARENT: OWN}
    stack.user.apply(theirs)
    stack.user.apply(stack.runs.job(cloud, cpus=1))
    stack.await_running(killed)
    assert stack.await_end(fails, own) == ["Failed", "Complete"]
    # What waits to be sent is lost with a process that is killed (docs/tracing.md), so it is awaited.
    tries = spans(traced, fails, 11)
    spans(traced, own, 6)

    traced.agent.kill()
    traced.agent.start()
    stack.let_go(killed)
    assert stack.await_end(killed) == ["Complete"]

    check_tree(stack, killed, spans(traced, killed, 6))
    run = traces.of_pod(place(stack, killed).trace_id, stack.pod(killed)["metadata"]["uid"], "run")
    stack.await_logs({killed: f"{run}\n", own: f"{OWN}\n"})
    check_tree(stack, own, spans(traced, own, 6))
    assert place(stack, own).trace_id != OWN[3:35]

    first, second = (pod["metadata"]["uid"] for pod in stack.pods(fails))
    at = place(stack, fails).trace_id
    assert [(one.name, one.error) for one in tries if one.service == AGENT and one.error] == [
        ("pod", "Failed"), ("pod", "Failed"), ("run", "Failed"), ("run", "Failed"),
    ]  # fmt: skip
    assert {one.span_id: one.links for one in tries if one.name == "pod"} == {
        traces.of_pod(at, first, "pod").span_id: (),
        traces.of_pod(at, second, "pod").span_id: (traces.of_pod(at, first, "pod").span_id,),
    }
    assert [one.attributes["batchgate.exit_code"] for one in tries if one.name == "run"] == [3, 3]

    assert [one.name for one in spans(traced, cloud, 1)] == ["review"]
    assert names.KEY_TRACEPARENT not in stack.job(cloud)["spec"]["template"]["metadata"].get("annotations", {})
    counted = Counter((one.trace_id, one.span_id) for one in traced.received.spans)
    assert [one for one, count in counted.items() if count > 1] == []
    assert traced.received.strange == []
