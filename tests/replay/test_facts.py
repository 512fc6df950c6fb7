"""What the decision log keeps of a Job: enough for the same decision by any policy, and no value of its user."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any, get_args, get_origin, get_type_hints

import pytest
import yaml

from router import policy
from router.errors import JobError
from router.gate import review as admission
from router.gate.judging import Gate, decided
from router.policy.decision import QueueState, QueueStates, Requester
from router.replay import record
from router.replay.cases import Case, Skipped, StatesOfLog, from_line
from router.replay.facts import dumped, loaded, without_values
from router.workload import check_bounds, workload_of
from router.workload.cluster import UNKNOWN_CLUSTER
from router.workload.model import Workload
from tests import gates
from tests.hostile import jobs as hostile
from tests.hostile.reviews import review_of
from tests.test_corpus import FILES, PERMISSIVE, jobs

STRICT = """
sites:
  - name: bare
    system: slurm
    host: ssh://login
    access: own-keys
    knownHosts: /etc/batchgate/known_hosts
    keys: /etc/batchgate/keys
    workDir: /scratch/{user}
    pull: never
    images: [{match: "busybox*", path: /images/busybox.sif}]
    mpi: [{name: any, launcher: srun, impliesMpi: true}]
    queues: [{name: any, nodes: 4, cpusPerNode: 64, memoryPerNode: 1Ti, gpusPerNode: 8, walltimeMax: 24h}]
accounts: [{users: [ada], as: ada}]
rules: [{name: all, hpc: [{queue: any}]}]
"""
HOST = """
sites:
  - name: here
    system: local
    workDir: /scratch/{user}
    runtime: host
    queues: [{name: any, nodes: 4, cpusPerNode: 64, memoryPerNode: 1Ti, walltimeMax: 24h}]
accounts: [{users: [ada], as: ada}]
rules: [{name: all, ifNotRoutable: deny, hpc: [{queue: any}]}]
"""
POLICIES = {"permissive": PERMISSIVE, "strict": STRICT, "host": HOST, "tests": gates.PLACES + gates.RULES}

KEPT = {
    "Workload": "namespace name labels containers volumes parallelism completions indexed suspended restart_policy grace "
    "account cpu memory requests limits ephemeral_storage gpus gpu_vendor walltime_asked deadline mpi mpi_hinted ranks "
    "ranks_per_node nodes results results_field route hints kueue_queue managed_by cores_per_rank nodes_at_least "
    "node_demand extended naming shared privileged scheduler obstacles",
    "Container": "name kind path image env env_from mounts read_only_root cpu memory gpus launcher starts_ranks secrets "
    "message_from_log restarts lifecycle",
    "EnvVar": "name source",
    "Launcher": "source",
    "Lifecycle": "post_start pre_stop probes",
    "Probe": "role handler delay period timeout successes failures grace",
    "Handler": "kind port",
    "Volume": "name kind path claim",
    "Naming": "alone",
}
PARTLY = {
    "Container": "command args",  # references to variables
    "EnvVar": "value",  # the same
    "Volume": "source",  # where the data lie
    "Naming": "hosts servers",  # whether there are any
}
LEFT_OUT = {
    "Workload": "warnings",
    "Container": "working_dir started message_path",
    "Launcher": "program argv ranks ranks_per_node environment working_dir mapping binding dropped nodes cores_per_rank time_limit",
    "Handler": "command host secure target headers seconds",
    "Naming": "searches options",
}
WHOLE = {
    "Figure", "Sizes", "Mount", "SecretRef", "PodAccount", "Claim", "NodeDemand", "NodeRequirement", "Extended",
    "Restarts", "RestartRule", "Obstacle",
}  # fmt: skip
GONE = {"Started", "Launch", "Unseen"}
"""Classes of fields that are left out."""


def test_each_field_of_a_sized_job_is_kept_or_left_out_on_purpose() -> None:
    found = {kind.__name__: {field.name for field in dataclasses.fields(kind)} for kind in _classes(Workload)}
    known = {
        name: {word for table in (KEPT, PARTLY, LEFT_OUT) for word in table.get(name, "").split()} for name in KEPT
    }

    assert found == known | {name: found[name] for name in WHOLE | GONE}


def _classes(kind: Any, seen: set[Any] | None = None) -> set[Any]:
    seen = set() if seen is None else seen
    if get_origin(kind) is not None:
        for one in get_args(kind):
            _classes(one, seen)
    elif dataclasses.is_dataclass(kind) and kind not in seen:
        seen.add(kind)
        for one in get_type_hints(kind).values():
            _classes(one, seen)
    return seen


def _sized(job: dict[str, Any], root: str, checked: policy.Policy) -> Workload | None:
    try:
        check_bounds(job, root)
        return workload_of(
            job, namespace="default", cluster=UNKNOWN_CLUSTER, gpu_resources=checked.gpu_resources, root=root
        )
    except JobError:
        return None


def _hostile() -> Iterator[tuple[str, dict[str, Any], str]]:
    yield from ((f"hostile {number}", hostile.job(number), "") for number in range(150))


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize(
    "source", [pytest.param(jobs, marks=pytest.mark.skipif(not FILES, reason="no corpus")), _hostile]
)
def test_what_is_kept_of_a_job_gives_the_same_decision(name: str, source: Any) -> None:
    checked = policy.load({"all.yaml": POLICIES[name]})
    asked = Gate(checked, UNKNOWN_CLUSTER, QueueStates(), None, gates.ISSUED_AT)
    requester = Requester("ada", ("physics",), "default")
    judged = 0
    for place, job, root in source():
        workload = _sized(job, root, checked)
        if workload is None:
            continue
        kept = loaded(json.loads(dumped(without_values(workload))))
        before, after = (decided(one, requester, asked) for one in (workload, kept))
        assert (place, before) == (place, after)
        judged += 1
    assert judged > 40


MARKED = """
apiVersion: batch/v1
kind: Job
metadata:
  name: j
  annotations: {note: tattle-annotation, batchgate.dev/walltime: 1h}
spec:
  template:
    metadata: {annotations: {own: tattle-own}}
    spec:
      restartPolicy: Never
      hostAliases: [{ip: 10.0.0.1, hostnames: [tattle-host]}]
      dnsPolicy: None
      dnsConfig: {nameservers: [10.9.9.9], searches: [tattle-search], options: [{name: tattle-option}]}
      initContainers:
        - {name: i, image: busybox, command: [sh, -c, "tattle-init $(cat tattle-file)"]}
      containers:
        - name: c
          image: busybox
          command: [mpirun, -np, "2", -x, "A=tattle-launched", ./tattle-program, "$(TOKEN)"]
          args: [tattle-arg, "--key=$(KEY)tattle-behind"]
          workingDir: /tattle-directory
          env:
            - {name: KEY, value: tattle-value}
            - {name: TOKEN, valueFrom: {secretKeyRef: {name: credentials, key: token}}}
            - {name: BOTH, value: "tattle-before$(TOKEN)tattle-after"}
          terminationMessagePath: /tattle-message
          lifecycle: {postStart: {exec: {command: [tattle-hook]}}}
          livenessProbe: {httpGet: {port: 80, path: /tattle-path, httpHeaders: [{name: A, value: tattle-header}]}}
          resources: {requests: {cpu: 4}}
      volumes:
        - {name: a, configMap: {name: settings, items: [{key: a, path: tattle-item}]}}
        - {name: b, flexVolume: {driver: x/y, options: {a: tattle-flex}}}
        - {name: d, projected: {sources: [{secret: {name: one, items: [{key: k, path: tattle-projected}]}}]}}
        - {name: e, gitRepo: {repository: "https://tattle-git@example.org"}}
        - {name: f, csi: {driver: d.example.org, volumeAttributes: {fs: scratch}, nodePublishSecretRef: {name: tattle-ref}}}
"""


def _line(job: dict[str, Any], asked: Gate) -> str:
    answer = admission.review(review_of(job, 1), asked)
    assert answer.evidence is not None
    return record.line(answer.record, answer.evidence)


@pytest.mark.parametrize("rules", [PERMISSIVE, STRICT])
def test_no_value_that_a_user_wrote_is_in_a_line(rules: str) -> None:
    asked = gates.gate(policy=policy.load({"all.yaml": rules}))

    line = _line(yaml.safe_load(MARKED), asked)

    assert "tattle" not in line
    assert "$(TOKEN)" in line


def test_a_line_says_what_the_decision_was_and_rests_on() -> None:
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "generateName": "train-",
            "labels": {"team": "a"},
            "ownerReferences": [{"kind": "CronJob", "name": "nightly", "controller": True}],
        },
        "spec": {
            "activeDeadlineSeconds": 3600,
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [
                        {"name": "c", "image": "i", "command": ["x"], "resources": {"requests": {"cpu": "4"}}}
                    ],
                }
            },
        },
    }
    states = QueueStates({("hpc1", "workq"): QueueState("hpc1", "workq", up=True, free_nodes=2)})
    known = dataclasses.replace(UNKNOWN_CLUSTER, namespaces={"default": {"tier": "hpc"}})

    line = json.loads(_line_of(job, gates.gate(states=states, cluster=known)))

    digest, workload, reason = line.pop("policy"), line.pop("workload"), line.pop("reason")
    assert (len(digest), workload["labels"], reason.startswith("rule large sends it")) == (64, {"team": "a"}, True)
    assert line == {
        "format": 1,
        "time": "2027-01-15T08:00:00Z",
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "operation": "CREATE",
        "namespace": "default",
        "name": "train-*",
        "user": "ada",
        "groups": ["system:authenticated"],
        "groups_left_out": 0,
        "dry_run": False,
        "allowed": True,
        "target": "hpc",
        "rule": "large",
        "site": "hpc1",
        "queue": "small",
        "audited": [
            {
                "rule": "seen",
                "place": "rules.yaml:4",
                "outcome": "hpc: rule seen sends it to queue workq of site hpc1, as ada: 1 node, 4 cores for 1h5m30s",
            }
        ],
        "kind": "Job",
        "generate_name": "train-",
        "owner": "CronJob/nightly",
        "place": "rules.yaml:6",
        "hpc_user": "ada",
        "namespace_labels": {"tier": "hpc"},
        "job": {
            "name": "train-",
            "labels": {"team": "a"},
            "cpus": 4,
            "totalCpus": 4,
            "walltime": 3600,
            "mpi": False,
            "parallelism": 1,
            "completions": 1,
            "pods": 1,
            "indexed": False,
            "suspended": False,
            "restartPolicy": "Never",
            "images": ["i"],
            "containers": ["c"],
        },
        "queues": {"hpc1/workq": {"up": True, "freeNodes": 2}},
    }


def _line_of(job: dict[str, Any], asked: Gate) -> str:
    answer = admission.review(gates.review_of(job), asked)
    assert answer.evidence is not None
    return record.line(answer.record, answer.evidence)


def test_a_line_is_read_as_the_job_that_it_was() -> None:
    states = QueueStates({("hpc1", "workq"): QueueState("hpc1", "workq", up=False, queued_jobs=3)})
    asked = gates.gate(states=states)
    answer = admission.review(gates.review_of(yaml.safe_load(MARKED)), asked)
    assert answer.evidence is not None

    case = from_line(record.line(answer.record, answer.evidence), "log:1", StatesOfLog())

    assert isinstance(case, Case)
    assert case.workload == without_values(answer.evidence.workload)
    assert case.requester == Requester("ada", ("system:authenticated",), "default", None, float(gates.ISSUED_AT))
    assert case.states.states == states.states
    assert case.name == "default/j"


ODD = [
    {"a": "\ud800"},
    {"\ud800": "a"},
    {"a": 10**400},
    {"a": 1e308},
    {"a": [None, {"b": {}}]},
]


@pytest.mark.parametrize("attributes", ODD)
def test_values_that_are_no_text_do_not_end_the_log(attributes: dict[str, Any]) -> None:
    job = yaml.safe_load(MARKED)
    job["spec"]["template"]["spec"]["volumes"] = [{"name": "v", "csi": {"driver": "d", "volumeAttributes": attributes}}]

    line = _line(job, gates.gate()).encode().decode()

    assert isinstance(from_line(line, "log:1", StatesOfLog()), Case | Skipped)


def test_lines_of_hostile_jobs_can_all_be_read() -> None:
    asked = gates.gate(policy=policy.load({"all.yaml": PERMISSIVE}))
    for number in range(100):
        answer = admission.review(review_of(hostile.job(number), number), asked)
        if answer.evidence is not None:
            found = from_line(record.line(answer.record, answer.evidence).encode().decode(), "log:1", StatesOfLog())
            assert isinstance(found, Case | Skipped)


def test_a_line_that_would_be_too_long_is_written_without_the_job() -> None:
    job = yaml.safe_load(MARKED)
    job["metadata"]["labels"] = {f"{'a' * 60}.example.org/label-{number}": "x" * 63 for number in range(1000)}

    line = _line(job, gates.gate())

    assert len(line) < 20_000
    assert json.loads(line)["left_out"] == "longer than 262144"
    assert "workload" not in json.loads(line)
