"""``batchgate describe`` over an API server: what it prints of a Pod that waits, and of what it could not look at."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from router import names
from router.cli import commands
from tests.operating.objects import SITE, at, event, job, node, pod
from tests.page.apiserver import Answers, answering
from tests.page.objects import judged, pending

WHEN = "expected to start between 2026-01-01T11:00:00Z and 2026-01-01T12:30:00Z"
Describe = Callable[..., Result]


@pytest.fixture
def server() -> Iterator[Answers]:
    with answering() as found:
        yield found


@pytest.fixture
def describe(server: Answers, tmp_path: Path) -> Describe:
    """Run it with these words; ``policy`` is the variable's value."""
    file = tmp_path / "kubeconfig"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server.host}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
    }
    file.write_text(yaml.safe_dump(config))

    def run(*words: str, policy: Path | None = None) -> Result:
        variables = {"BATCHGATE_POLICY": None if policy is None else str(policy)}
        return CliRunner().invoke(commands, ["describe", *words, "--kubeconfig", str(file)], env=variables)

    return run


@pytest.mark.parametrize(
    "basis", ["the batch system's plans of the last hour", "the waits of 12 Pods in this queue within a day"]
)
def test_an_expected_start_is_told_with_what_it_rests_on(server: Answers, describe: Describe, basis: str) -> None:
    server.jobs = [judged("waits")]
    server.pods = [pending("waits-1", "waits", "Queued", f"Priority; {WHEN}, by {basis}")]

    done = describe("waits")

    assert done.exit_code == 0, done.output
    (line,) = [one for one in done.output.splitlines() if one.startswith("waits-1")][:1]
    assert line.endswith(f"Queued: Priority; {WHEN}, by {basis}")


NO_DIRECTORY = "DIR: there is no such policy directory; batchgate policy check DIR tells all of it"
BROKEN = (
    "all.yaml:1:22: rule rest: unknown key 'clod'; did you mean 'cloud'?; batchgate policy check DIR tells all of it"
)


@pytest.mark.parametrize("text", [None, "rules: [{name: rest, clod: true}]\n"])
@pytest.mark.parametrize("by_option", [False, True])
def test_a_policy_that_cannot_be_used_keeps_only_the_files_from_being_looked_at(
    server: Answers, describe: Describe, tmp_path: Path, text: str | None, *, by_option: bool
) -> None:
    directory = tmp_path / "policies"
    if text is not None:
        directory.mkdir()
        (directory / "all.yaml").write_text(text)
    server.jobs = [judged("waits"), job("gone", status={"failed": 1})]
    server.pods = [pending("waits-1", "waits", "Queued", "Priority")]
    given = ["--policy", str(directory)] if by_option else []
    why = (NO_DIRECTORY if text is None else BROKEN).replace("DIR", str(directory))

    for name, pods in (("waits", ["waits-1"]), ("gone", [])):
        done = describe(name, "-o", "json", *given, policy=None if by_option else directory)

        assert done.exit_code == 0, done.output
        found = json.loads(done.stdout)
        sentence = f"the files on the site could not be looked at: {why}"
        assert [one["name"] for one in found["pods"]] == pods
        assert sentence in found["notLookedAt"]
        assert f"Warning: {sentence}\n" in done.stderr
        assert [(one["pod"], one["problem"]) for one in found["onSite"]] == [(pod, sentence) for pod in pods]
        assert f"{name}\n" in describe(name, *given, policy=None if by_option else directory).stdout


def test_a_policy_that_cannot_be_used_leaves_out_the_forecast_of_a_cronjob_alone(
    server: Answers, describe: Describe, tmp_path: Path
) -> None:
    spec = {"schedule": "@daily", "jobTemplate": {"spec": {}}}
    server.cronjobs = [{"metadata": {"name": "nightly", "namespace": "default", "uid": "c"}, "spec": spec}]
    directory = tmp_path / "policies"

    done = describe("cronjob/nightly", policy=directory)

    why = NO_DIRECTORY.replace("DIR", str(directory))
    assert (done.exit_code, done.stdout) == (
        0,
        "default/nightly  (CronJob, @daily; has made no Job yet)\n\nNo Job of it is kept\n",
    )
    assert done.stderr == f"Warning: the next run could not be looked at: {why}\n"


NODE = "batch.demo.batchgate"
SINCE = "since 2026-01-01T09:00:00Z"
AWAY = {"Ready": ("Unknown", "Kubelet stopped posting node status."), "HPCUnavailable": ("True", "no server")}
SILENT = {"HPCUnavailable": ("True", "no server"), "QueueClosed": ("True", "drained")}
OLD = "what is told of these Pods may be old; jobs that run go on"


@pytest.mark.parametrize(
    ("conditions", "shown"),
    [
        (AWAY, [f"  {NODE} (1 Pod): NotReady {SINCE}: Kubelet stopped posting node status.",
                f"    the agent of its site is away, and finds everything again when it is back; {OLD}"]),
        (SILENT, [f"  {NODE} (1 Pod): HPCUnavailable {SINCE}: no server",
                  f"    the batch system does not answer the agent, which goes on asking; {OLD}"]),
        ({"SiteRefused": ("True", "no right")}, [f"  {NODE} (1 Pod): SiteRefused {SINCE}: no right",
                                                 "    Pods are submitted when the site is mended"]),
        ({"QueueClosed": ("True", "drained")}, [f"  {NODE} (1 Pod): QueueClosed {SINCE}: drained",
                                                "    the queue takes or starts no jobs now"]),
        ({}, [f"  {NODE} (1 Pod): Ready {SINCE}", "    its agent has said nothing of these Pods yet"]),
        (None, [f"  {NODE} (1 Pod): NotFound", f"    an agent of its site makes this Node; does one run? {OLD}"]),
    ],
)  # fmt: skip
def test_of_a_pod_that_waits_without_a_reason_its_node_is_told(
    server: Answers, describe: Describe, conditions: dict[str, tuple[str, str]] | None, shown: list[str]
) -> None:
    server.jobs, server.pods = [judged("waits")], [pod("waits-1", of="waits"), pod("other-1", of="other")]
    server.nodes = [] if conditions is None else [node("batch", SITE, **conditions)]

    lines = describe("waits").stdout.splitlines()

    begin = lines.index("Nodes")
    assert lines[begin + 1 : begin + 4] == [*shown, ""]


@pytest.mark.parametrize(
    ("conditions", "told"),
    [(AWAY, ["NotReady"]), (SILENT, ["HPCUnavailable"]), ({"QueueClosed": ("True", "drained")}, []), ({}, [])],
)
def test_of_pods_that_have_a_reason_or_run_a_node_is_told_that_cannot_know_of_them(
    server: Answers, describe: Describe, conditions: dict[str, tuple[str, str]], told: list[str]
) -> None:
    server.jobs, server.nodes = [judged("waits")], [node("batch", SITE, **conditions)]
    ended = pod("ended", of="waits", phase="Failed")
    runs = pod("runs", of="waits", phase="Running")
    server.pods = [pending("queued", "waits", "Queued", "Priority"), runs, ended]

    found = json.loads(describe("waits", "-o", "json").stdout)["nodes"]

    assert [(one["node"], one["condition"], one["pods"]) for one in found] == [
        (NODE, kind, ["queued", "runs"]) for kind in told
    ]


def test_who_may_not_read_nodes_is_told_what_to_ask_for_if_a_pod_waits_without_a_reason(
    server: Answers, describe: Describe
) -> None:
    server.jobs = [judged("silent"), judged("queued"), judged("cloud", site="")]
    elsewhere = pod("cloud-1", of="cloud")
    elsewhere["spec"]["nodeName"] = "worker-1"
    server.pods = [pod("silent-1", of="silent"), pending("queued-1", "queued", "Queued", "Priority"), elsewhere]
    server.forbids = frozenset({f"list /api/v1/nodes/{NODE}"})

    silent, queued, cloud = (describe(name) for name in ("silent", "queued", "cloud"))

    sentence = (
        f"Node {NODE} of Pod silent-1 could not be looked at: ben cannot list /api/v1/nodes/{NODE}; "
        "ask for the right to get nodes, or ask the admin of the platform whether the agent of this Node runs"
    )
    assert [f"Warning: {sentence}" in done.stderr.splitlines() for done in (silent, queued, cloud)] == [
        True,
        False,
        False,
    ]
    assert ["Node " in done.stderr for done in (silent, queued, cloud)] == [True, False, False]
    assert ["Nodes" in done.stdout.splitlines() for done in (silent, queued, cloud)] == [False] * 3


NO_JOB = "there is no Job 'longrun' in namespace default"


def left_over(name: str, uid: str = "job-longrun", **fields: Any) -> dict[str, Any]:
    """A Pod of the Job ``longrun``, with the labels that the Job controller gives it."""
    found = pod(
        name, of="longrun", annotations={names.KEY_RULE: "large", names.KEY_ACCOUNT: '{"user": "u17"}'}, **fields
    )
    found["metadata"]["labels"] |= {
        names.KEY_TARGET: names.TARGET_HPC,
        names.CONTROLLER_UID: uid,
        "batch.kubernetes.io/job-name": "longrun",
    }
    return found


def test_of_a_deleted_job_whose_pods_are_still_there_their_story_is_told(server: Answers, describe: Describe) -> None:
    ends, done = (
        left_over("longrun-bbbbb", phase="Running", deleted="09:40:00"),
        left_over("longrun-ccccc", phase="Failed"),
    )
    earlier = left_over("longrun-aaaaa", "job-earlier", created="08:00:00", phase="Running", deleted="08:30:00")
    server.pods, server.nodes = [earlier, ends, done, pod("other", of="other")], [node("batch")]
    server.events = [
        event(ends, "Submitted", "Batch job 7.pbs", "09:05:00"),
        event(pod("longrun-zzzzz"), "Submitted", "of nobody knows which Job", "09:05:00"),
    ]
    for one in server.events:
        one["metadata"] = {"namespace": "default"}

    told, text = describe("longrun", "-o", "json"), describe("longrun")

    assert (told.exit_code, text.exit_code) == (0, 0), told.output
    found = json.loads(told.stdout)
    assert (found["uid"], found["state"], found["succeeded"], found["failed"]) == ("job-longrun", "deleting", 0, 1)
    assert {key: found["decision"][key] for key in ("target", "rule", "user", "site", "queue")} == {
        "target": "hpc",
        "rule": "large",
        "user": "u17",
        "site": SITE,
        "queue": "batch",
    }
    assert [(one["name"], one["phase"], one["reason"], one["message"], one["deleted"]) for one in found["pods"]] == [
        ("longrun-bbbbb", "Running", "Terminating", "its batch job is not known to have ended", at("09:40:00")),
        ("longrun-ccccc", "Failed", "", "", ""),
    ]
    assert [one["message"] for one in found["events"]] == ["Batch job 7.pbs"]
    assert [one["directory"].rpartition("/pods/")[2] for one in found["onSite"]] == [
        "job-longrun/noindex/pod-longrun-bbbbb",
        "job-longrun/noindex/pod-longrun-ccccc",
    ]
    sentences = [
        f"{NO_JOB} any more: this is told by its Pods that are still there",
        "Pods of an earlier Job of this name are left out: longrun-aaaaa",
    ]
    assert [one for one in found["notLookedAt"] if "longrun" in one] == sentences
    assert [one for one in text.stderr.splitlines() if "longrun" in one] == [f"Warning: {one}" for one in sentences]
    assert "  kubectl logs -n default longrun-bbbbb -c main" in text.stdout.splitlines()


def test_of_a_deleted_job_without_pods_that_alone_is_said(server: Answers, describe: Describe) -> None:
    server.pods = [pod("other", of="other")]

    seen = describe("longrun")
    server.forbids = frozenset({"list /api/v1/namespaces/default/pods"})
    unseen = describe("longrun")

    sentence = f"Error: {NO_JOB}; name its namespace with -n\n"
    assert [(done.exit_code, done.output) for done in (seen, unseen)] == [(2, sentence)] * 2


def test_a_name_that_no_job_can_have_is_asked_for_once(server: Answers, describe: Describe) -> None:
    """An API server refuses a selector with such a value."""
    done = describe("Long,run")

    assert (done.exit_code, done.output) == (
        2,
        "Error: there is no Job 'Long,run' in namespace default; name its namespace with -n\n",
    )
    assert server.lists("pods") == []
