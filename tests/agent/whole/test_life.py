"""An ordinary Job from ``kubectl apply`` to its logs, exit code and results, and all the ways in which it may end."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from router import names
from router.controlplane import realnode
from tests.agent.whole.jobs import IMAGE, finished, job_of, unique
from tests.agent.whole.kubectl import Kubectl
from tests.agent.whole.site import NARROW, ROUTE_NARROW, SITE, WIDE
from tests.agent.whole.stack import Stack
from tests.agent.whole.surroundings import CLOUD
from tests.agent.whole.waiting import stays, until

pytestmark = pytest.mark.timeout(600)
NARROW_LABEL = {"queue": ROUTE_NARROW}


def narrow(job: dict[str, Any]) -> dict[str, Any]:
    """The same Job for the queue with one place."""
    job["metadata"]["labels"] |= NARROW_LABEL
    return job


def terminated(pod: dict[str, Any], name: str = "main", kind: str = "containerStatuses") -> dict[str, Any]:
    """The terminated state of a container."""
    (status,) = [one for one in pod["status"][kind] if one["name"] == name]
    found: dict[str, Any] = status["state"]["terminated"]
    return found


def shown(stack: Stack, job: str) -> str:
    """The STATUS column of ``kubectl get pods`` for the one Pod of a Job."""
    words = stack.user.ok("get", "pods", "-l", f"whole-test={job}", "--no-headers").split()
    return words[2] if words else ""


def condition(job: dict[str, Any], kind: str) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in job["status"]["conditions"] if one["type"] == kind)
    return found


def test_a_job_goes_to_hpc_and_comes_back(stack: Stack) -> None:
    name = unique("plain")

    applied = stack.user.apply(stack.runs.job(name, "echo hello from the batch system"))
    assert "Warning: This Job goes to HPC" in applied.err
    assert stack.await_end(name) == ["Complete"]

    pod = stack.pod(name)
    (batch,) = stack.site.of(name)
    assert pod["spec"]["nodeName"] == names.node_name(SITE, WIDE)
    assert pod["metadata"]["annotations"][names.KEY_JOB_ID] == batch.job_id
    assert pod["status"]["phase"] == "Succeeded"
    ended = terminated(pod)
    assert (ended["exitCode"], ended["reason"]) == (0, "Completed")
    assert ended["startedAt"] <= ended["finishedAt"]
    assert stack.user.ok("logs", f"job/{name}") == "hello from the batch system\n"
    wide = stack.user.ok("get", "pods", "-o", "wide", "-l", f"whole-test={name}")
    assert "Completed" in wide
    assert names.node_name(SITE, WIDE) in wide
    until(
        lambda: stack.user.ok("describe", "pod", pod["metadata"]["name"]).partition("Events:")[2],
        lambda events: batch.job_id in events,
        what="for the event of its submission",
    )
    assert (stack.runs.started(name), stack.runs.ended(name)) == (1, 1)


def test_logs_are_followed_while_they_are_written(stack: Stack) -> None:
    name = unique("follow")
    stack.user.apply(stack.runs.job(name, f"echo first\n{stack.waiting(name, then='echo last')}"))
    stack.await_running(name)
    pod = stack.pod(name)["metadata"]["name"]

    with stack.user.start("logs", "-f", pod) as follower:
        assert follower.stdout is not None
        assert follower.stdout.readline() == "first\n"
        assert stack.runs.ended(name) == 0
        stack.let_go(name)
        assert follower.stdout.read() == "last\n"
        assert follower.wait(60) == 0
    assert stack.await_end(name) == ["Complete"]


def test_a_program_that_fails_is_tried_again_as_often_as_its_job_says(stack: Stack) -> None:
    name = unique("fails")

    stack.user.apply(stack.runs.job(name, "echo cannot open input.dat; exit 3", backoffLimit=1))
    assert stack.await_end(name) == ["Failed"]

    pods = stack.pods(name)
    assert [terminated(pod)["exitCode"] for pod in pods] == [3, 3]
    assert [terminated(pod)["reason"] for pod in pods] == ["Error", "Error"]
    assert condition(stack.job(name), "Failed")["reason"] == "BackoffLimitExceeded"
    assert stack.user.ok("logs", pods[-1]["metadata"]["name"]) == "cannot open input.dat\n"
    assert (stack.runs.started(name), stack.runs.twice(name)) == (2, [])


def test_on_failure_restarts_within_the_batch_job(stack: Stack) -> None:
    name = unique("again")
    once = stack.runs.directory / f"{name}.once"
    body = f"if [ -e {once} ]; then echo second; else touch {once}; echo first; exit 1; fi"

    stack.user.apply(stack.runs.job(name, body, pod={"restartPolicy": "OnFailure"}, backoffLimit=3))
    assert stack.await_end(name) == ["Complete"]

    pod = stack.pod(name)
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 1
    assert stack.user.ok("logs", pod["metadata"]["name"]) == "second\n"
    assert stack.user.ok("logs", "--previous", pod["metadata"]["name"]) == "first\n"
    assert len(stack.site.of(name)) == 1


def test_a_walltime_kill_ends_the_job_though_tries_are_left(stack: Stack) -> None:
    name = unique("walltime")

    # Long enough for the container to start on a busy machine.
    stack.user.apply(stack.runs.job(name, "sleep 300", activeDeadlineSeconds=10, backoffLimit=6))
    assert stack.await_end(name) == ["Failed"]

    pod = stack.pod(name)
    assert (pod["status"]["phase"], pod["status"]["reason"]) == ("Failed", "DeadlineExceeded")
    assert condition(stack.job(name), "Failed")["reason"] == "PodFailurePolicy"
    assert (stack.runs.started(name), stack.runs.ended(name)) == (1, 0)


def test_a_memory_kill_is_told_as_one(stack: Stack) -> None:
    name = unique("memory")
    # Twice of what is asked for, in the container's own shell, held until somebody ends it.
    body = "x=$(head -c 300000000 /dev/zero | tr '\\0' x); sleep 300"

    stack.user.apply(stack.runs.job(name, body, backoffLimit=6))
    assert stack.await_end(name) == ["Failed"]

    pod = stack.pod(name)
    assert pod["status"]["phase"] == "Failed"
    assert terminated(pod)["reason"] == "OOMKilled"
    assert condition(stack.job(name), "Failed")["reason"] == "PodFailurePolicy"
    assert stack.runs.started(name) == 1


def test_init_container_and_sidecar(stack: Stack) -> None:
    name = unique("sidecar")
    init = stack.runs.container(name, "echo prepared", name="prepare", cpus=1)
    watch = f"trap 'echo bye; exit 0' TERM; touch {stack.runs.directory / name}.go; while :; do sleep 0.1; done"
    sidecar = stack.runs.container(name, watch, name="watch", cpus=1, restartPolicy="Always")
    main = stack.runs.container(name, stack.waiting(name, then="echo worked"))

    pod_spec = {"initContainers": [init, sidecar], "terminationGracePeriodSeconds": 60}  # it ends as soon as it can
    stack.user.apply(job_of(name, [main], pod=pod_spec, annotations={}))
    assert stack.await_end(name) == ["Complete"]

    pod = stack.pod(name)["metadata"]["name"]
    started = [line.container for line in stack.runs.lines(name) if line.event == "start"]
    # A sidecar has started when its process is there, not when that has said something.
    assert (started[0], sorted(started)) == ("prepare", ["main", "prepare", "watch"])
    assert stack.user.ok("logs", pod, "-c", "prepare") == "prepared\n"
    assert stack.user.ok("logs", pod, "-c", "main") == "worked\n"
    assert stack.user.ok("logs", pod, "-c", "watch") == "bye\n"


def test_an_indexed_job_runs_each_index_once(stack: Stack) -> None:
    name = unique("indexed")
    spec: dict[str, Any] = {"completions": 3, "parallelism": 2, "completionMode": "Indexed"}

    stack.user.apply(stack.runs.job(name, 'echo "part $JOB_COMPLETION_INDEX of $HOSTNAME"', **spec))
    assert stack.await_end(name) == ["Complete"]

    logs = [stack.user.ok("logs", pod["metadata"]["name"]) for pod in stack.pods(name)]
    assert sorted(logs) == [f"part {index} of {name}-{index}\n" for index in range(3)]
    assert (stack.runs.started(name), stack.runs.twice(name)) == (3, [])
    assert stack.job(name)["status"]["completedIndexes"] == "0-2"


def test_a_config_map_that_comes_late_is_waited_for(stack: Stack) -> None:
    name = unique("settings")
    container = stack.runs.container(name, 'echo "$GREETING"')
    source = {"configMapKeyRef": {"name": name, "key": "greeting"}}
    container["env"].append({"name": "GREETING", "valueFrom": source})

    stack.user.apply(job_of(name, [container], pod={}, annotations={}))
    until(lambda: shown(stack, name), lambda status: status == "CreateContainerConfigError")
    assert stack.site.of(name) == []
    stack.user.ok("create", "configmap", name, "--from-literal=greeting=good day")

    assert stack.await_end(name) == ["Complete"]
    assert stack.user.ok("logs", f"job/{name}") == "good day\n"
    stack.user.ok("delete", "configmap", name)


def test_results_are_brought_whole(stack: Stack) -> None:
    """Of the runtime ``host`` these are the logs: a container's files outlive it in an emptyDir only."""
    name = unique("results")

    stack.user.apply(stack.runs.job(name, "echo 42; exit 1"))
    assert stack.await_end(name) == ["Failed"]

    pod = stack.pod(name)["metadata"]
    directory = stack.site.results / stack.user.namespace / name / f"{pod['name']}.{pod['uid'][:8]}"
    until(directory.exists, what=f"for {directory}")
    manifest = json.loads((directory / "manifest.json").read_text())
    listed = {entry["path"]: entry for entry in manifest["files"]}
    content = (directory / "log/main.0").read_bytes()
    assert content == b"42\n"
    assert (listed["log/main.0"]["size"], listed["log/main.0"]["sha256"]) == (3, hashlib.sha256(content).hexdigest())
    assert (manifest["containers"]["main"]["code"], manifest["complete"]) == (1, True)


def test_waiting_in_the_queue_and_being_held_are_shown(stack: Stack) -> None:
    first, second = unique("first"), unique("second")
    stack.user.apply(narrow(stack.runs.job(first, stack.waiting(first))))
    stack.await_started(first)

    stack.user.apply(narrow(stack.runs.job(second)))
    until(lambda: shown(stack, second), lambda status: status == "Queued")
    assert stack.pod(second)["status"]["phase"] == "Pending"
    (batch,) = stack.site.of(second)
    stack.site.local("qhold", batch.job_id)
    until(lambda: shown(stack, second), lambda status: status == "Held")
    stack.let_go(first)
    assert stack.await_end(first) == ["Complete"]
    stays(lambda: stack.runs.started(second), lambda count: count == 0, seconds=2, what="held")
    stack.site.local("qrls", batch.job_id)

    assert stack.await_end(second) == ["Complete"]


def test_a_deadline_does_not_count_the_time_in_the_queue(stack: Stack) -> None:
    first, second = unique("first"), unique("second")
    stack.user.apply(narrow(stack.runs.job(first, stack.waiting(first))))
    stack.await_started(first)

    stack.user.apply(narrow(stack.runs.job(second, activeDeadlineSeconds=16)))
    stays(lambda: finished(stack.job(second)), lambda ended: not ended, seconds=20, what="waiting")
    stack.let_go(first)

    assert stack.await_end(first, second) == ["Complete", "Complete"]


def test_a_small_job_stays_in_the_cloud(stack: Stack) -> None:
    name = unique("small")

    stack.user.apply(stack.runs.job(name, cpus=1))

    pod = until(lambda: stack.pod(name), lambda pod: "nodeName" in pod["spec"], what="for a binding")
    assert stack.job(name)["metadata"]["labels"][names.KEY_TARGET] == names.TARGET_CLOUD
    assert pod["spec"]["nodeName"] == CLOUD
    assert stack.site.of(name) == []


@pytest.mark.skipif(bool(realnode.obstacle()), reason=f"no real node of the cloud: {realnode.obstacle()}")
def test_a_job_of_the_cloud_runs_there(stack: Stack) -> None:
    name = unique("cloud")
    container = {"name": "main", "image": IMAGE, "command": ["echo", "hello from a container"]}

    stack.user.apply(job_of(name, [container], pod={}, annotations={}))

    assert stack.await_end(name) == ["Complete"]
    assert stack.user.ok("logs", f"job/{name}") == "hello from a container\n"
    assert stack.pod(name)["spec"]["nodeName"] == CLOUD


def test_who_has_no_account_stays_in_the_cloud(stack: Stack, stranger: Kubectl) -> None:
    name = unique("stranger")

    said = stranger.apply(stack.runs.job(name)).err

    assert "stays in the cloud" in said
    assert stack.job(name)["metadata"]["labels"][names.KEY_TARGET] == names.TARGET_CLOUD
    assert stack.site.of(name) == []


def test_a_user_makes_no_pod_for_a_virtual_node(stack: Stack) -> None:
    name = unique("forged")
    template = stack.runs.job(name)["spec"]["template"]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": template["spec"]}
    pod["spec"] |= {"nodeName": names.node_name(SITE, WIDE)}

    said = stack.user.refused(pod)

    assert "ValidatingAdmissionPolicy" in said
    assert stack.site.of(name) == []


CONTROLLER = "--as=system:serviceaccount:kube-system:job-controller"


def made_by_the_controller(stack: Stack, job: dict[str, Any], template: dict[str, Any]) -> str:
    """A Pod as the Job controller would make it, of a template that may be another; its name."""
    metadata = template["metadata"]
    owner = {
        "apiVersion": "batch/v1", "kind": "Job", "name": job["metadata"]["name"], "uid": job["metadata"]["uid"],
        "controller": True, "blockOwnerDeletion": True,
    }  # fmt: skip
    name = unique(job["metadata"]["name"])
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": metadata["labels"], "annotations": metadata["annotations"]},
        "spec": template["spec"],
    }
    pod["metadata"] |= {"ownerReferences": [owner], "namespace": stack.user.namespace}
    done = stack.admin.run("create", "-f", "-", CONTROLLER, stdin=json.dumps(pod))
    assert done.rc == 0, done
    return name


@pytest.mark.parametrize("forged", ["script", "no signature", "sidecar", "command", "env"])
def test_a_pod_that_is_not_what_was_signed_never_runs(stack: Stack, forged: str) -> None:
    """As an intruder would make it who has the Job controller's rights, or a webhook that injects containers."""
    name = unique("altered")
    stack.user.apply(stack.runs.job(name, suspend=True))
    job = stack.job(name)
    template = json.loads(json.dumps(job["spec"]["template"]))
    if forged == "script":
        template["metadata"]["annotations"][names.KEY_SCRIPT] += "\necho taken\n"
    elif forged == "no signature":
        del template["metadata"]["annotations"][names.KEY_SIGNATURE]
    elif forged == "command":
        template["spec"]["containers"][0]["command"] = ["/bin/sh", "-c", f"echo taken >{stack.runs.directory / name}"]
    elif forged == "env":
        template["spec"]["containers"][0]["env"].append({"name": "LD_PRELOAD", "value": "/tmp/taken.so"})
    else:
        template["spec"]["containers"].append(stack.runs.container(name, "true", name="injected", cpus=1))

    pod = made_by_the_controller(stack, job, template)

    def told() -> str:
        return stack.user.ok("get", "events", "--field-selector", f"involvedObject.name={pod},type=Warning")

    wanted = {"sidecar": "injected", "command": "command of container main", "env": "env of container main"}.get(
        forged, pod
    )
    until(told, lambda text: wanted in text, what="for a Warning")
    stays(lambda: stack.site.of(name), lambda jobs: not jobs, seconds=3, what="never submitted")
    assert stack.runs.lines(name) == []


def test_queue_full_is_waited_out(stack: Stack) -> None:
    name, blocker = unique("full"), unique("blocker")
    stack.user.apply(narrow(stack.runs.job(blocker, stack.waiting(blocker))))
    stack.await_started(blocker)

    with stack.site.limited(NARROW, 1):
        stack.user.apply(narrow(stack.runs.job(name)))
        until(lambda: shown(stack, name), lambda status: status == "QueueFull")
        assert stack.pod(name)["status"]["phase"] == "Pending"
    stack.let_go(blocker)

    assert stack.await_end(blocker, name) == ["Complete", "Complete"]
