"""``batchgate explain``: the whole text for one Job, and what it says of Jobs that stay or cannot be right."""

from __future__ import annotations

import getpass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from router.cli import commands

ROOT = Path(__file__).parent.parent.parent
POLICY = ["--policy", str(ROOT / "examples" / "policies"), "--user", "ada"]

MPI = """\
mpi  (JOB:1)
  asks for
    CPUs per Pod    8                  spec.template.spec.containers[0].resources.requests.cpu
    memory per Pod  1Gi                spec.template.spec.containers[0].resources.requests.memory
    GPUs per Pod    nothing asked for
    Pods at once    1                  default
    completions     1                  default
    walltime        10m                spec.activeDeadlineSeconds
    MPI container   ranks
    ranks           8                  mpirun -np 8 in spec.template.spec.containers[0].command
"""
CHUNKS = """\
    chunks              2 x (4 cores, 4 ranks, 512Mi)
    deadline            the containers end after 10m
    walltime            11m30s
    grace period        30s, kept by the script at the deadline and at a deletion; none where the batch system itself kills \
the job, which takes an image away that a process of the job has mounted (FUSE)
"""
RULES_BEHIND = """\
    not looked at: large, batch-without-figures, small
  decision
"""
PROFILES = """\
  MPI profiles of site demo, in order
    open-mpi (openmpi): used, as '*' matches registry.example.org/mpi4py:4
"""


def explain(path: Path | str, *arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(commands, ["explain", "-f", str(path), *POLICY, *arguments], input=stdin)


def test_figures_rules_decision_and_chunks() -> None:
    job = ROOT / "examples" / "03-mpi-over-two-nodes" / "job.yaml"

    result = explain(job, "--no-script")

    assert result.exit_code == 0
    assert result.stdout.startswith(MPI.replace("JOB", str(job)))
    assert "gpus: does not hold: job.gpus > 0, with job.gpus = unset\n" in result.stdout
    assert CHUNKS in result.stdout
    assert RULES_BEHIND in result.stdout
    assert PROFILES in result.stdout


BURST = """\
apiVersion: batch/v1
kind: Job
metadata: {name: burst}
spec:
  parallelism: 10
  completions: 2000
  template:
    spec:
      restartPolicy: Never
      containers:
        - name: main
          image: a:1
          command: [a]
          resources: {requests: {cpu: 2, memory: 1Gi}, limits: {cpu: 4, memory: 2Gi}}
"""
WHERE = "spec.template.spec.containers[0].resources"


def test_requests_and_limits_are_shown_with_their_fields_and_for_each_pod() -> None:
    result = explain("-", "--no-script", stdin=BURST)

    assert f"    CPUs per Pod    2                  {WHERE}.requests.cpu (the limit is 4)\n" in result.stdout
    assert f"    memory per Pod  2Gi                {WHERE}.limits.memory (the request is 1Gi)\n" in result.stdout
    assert (
        "each of 2,000 Pods (10 at once): 1 node, 2 cores (the limit is 4), 2Gi (the request is 1Gi) for"
        in result.stdout
    )
    assert "  asked of the batch system for each of 2,000 Pods (10 at once)\n" in result.stdout
    assert f"    why memory      {WHERE}.limits.memory (the request is 1Gi)\n" in result.stdout


def test_the_script_ends_it() -> None:
    result = explain(ROOT / "examples" / "02-large-goes-to-hpc" / "job.yaml")

    own = (ROOT / "examples" / "02-large-goes-to-hpc" / "script.sh").read_text()
    assert result.stdout.endswith(f"  script, the Job's own part (batchgate script prints it complete)\n\n{own}\n")


def test_what_keeps_a_job_in_the_cloud_is_a_list_of_fields() -> None:
    result = explain(ROOT / "examples" / "07-cannot-go" / "job.yaml")

    assert "  keeps it in the cloud\n    spec.template.spec.volumes[0].persistentVolumeClaim: " in result.stdout


CLAIMED = """
apiVersion: batch/v1
kind: Job
metadata: {name: claimed, namespace: lab}
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
        - name: c
          image: busybox
          command: ["true"]
          resources: {limits: {example.com/fpga: 2}}
          volumeMounts: [{name: d, mountPath: /d}]
      volumes:
        - {name: d, persistentVolumeClaim: {claimName: data, readOnly: true}}
"""
MAPS = """
sites:
  - name: hpc1
    system: slurm
    workDir: /scratch/{user}
    volumes:
      - {storageClass: nfs-client, path: "/mnt/filer/{namespace}-{claim}-{volume}"}
    resources:
      - {match: example.com/fpga, directive: gres, value: "fpga:{amount}"}
    queues:
      - {name: q, nodes: 2, cpusPerNode: 8}
accounts:
  - {users: [ada], as: ada}
rules:
  - {name: all, hpc: [{queue: q}]}
"""
CLUSTER = """
kind: PersistentVolumeClaim
metadata: {name: data, namespace: lab, uid: u}
spec: {storageClassName: nfs-client, volumeName: pvc-7}
status: {phase: Bound}
---
kind: PersistentVolume
metadata: {name: pvc-7}
spec: {csi: {driver: d}, claimRef: {namespace: lab, name: data, uid: u}}
"""


def test_what_a_site_maps_is_shown(tmp_path: Path) -> None:
    (tmp_path / "policy").mkdir()
    (tmp_path / "policy" / "all.yaml").write_text(MAPS)
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    options = ("--policy", str(tmp_path / "policy"), "--cluster", str(tmp_path / "cluster.yaml"))

    lines = [" ".join(line.split()) for line in explain("-", *options, stdin=CLAIMED).stdout.splitlines()]

    field = "spec.template.spec.containers[0].resources.limits[example.com/fpga]"
    assert f"example.com/fpga per Pod 2 {field}" in lines
    assert "volume d /mnt/filer/lab-data-pvc-7, read-only" in lines
    assert "why example.com/fpga by the directive gres, as resources of the policy say" in lines
    assert "#SBATCH --gres=fpga:2" in lines


def test_what_a_site_brings_of_a_jobs_credentials_is_shown(tmp_path: Path) -> None:
    brings = "secrets: stage\n    tokens: stage\n    apiServer: https://kubernetes.example.org:6443"
    policy = MAPS.replace("    queues:", f"    {brings}\n    queues:", 1)
    (tmp_path / "policy").mkdir()
    (tmp_path / "policy" / "all.yaml").write_text(policy)
    variable = "env: [{name: P, valueFrom: {secretKeyRef: {name: db, key: p}}}]"
    job = CLAIMED.replace("          image: busybox\n", f"          image: busybox\n          {variable}\n", 1)
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    options = ("--policy", str(tmp_path / "policy"), "--cluster", str(tmp_path / "cluster.yaml"))

    lines = [" ".join(line.split()) for line in explain("-", *options, stdin=job).stdout.splitlines()]

    assert "Secret db brought to the site; the agent needs the right to read it in lab" in lines
    assert "token of service account default, bound to the Pod and renewed" in lines


def test_where_no_profile_is_for_its_image_each_is_told_with_the_reason(tmp_path: Path) -> None:
    for file in (ROOT / "examples" / "policies").glob("*.yaml"):
        (tmp_path / file.name).write_text(
            file.read_text().replace("name: open-mpi", "name: lab\n        images: [lab/*]")
        )

    result = explain(ROOT / "examples" / "03-mpi-over-two-nodes" / "job.yaml", "--policy", str(tmp_path), "--no-script")

    assert (
        "  MPI profiles of site demo, in order\n    lab (openmpi): registry.example.org/mpi4py:4 matches none"
        in result.stdout
    )
    assert (
        "  keeps it in the cloud\n    spec.template.spec.containers[0].command: starts an MPI program" in result.stdout
    )


ONCE = "spec.template.spec.containers[0]: runs once; what it launches starts ranks in the container, on one node"
TEXT = """set -e
. /opt/env.sh
for n in 1 2 4; do
  mpirun -np $n ./a | tee log
done
srun -n $RANKS ./b
"""


@pytest.mark.parametrize(
    ("command", "lines"),
    [
        (
            ["bash", "-c", TEXT],
            [
                ONCE,
                "COMMAND[2], line 4, column 3: mpirun, 4 ranks (from values that are set before)",
                "COMMAND[2], line 6, column 1: srun; it has -n with a value that is known only when it runs",
                "together 4 ranks: mpirun -np 4 in COMMAND[2], line 4",
            ],
        ),
        (["mpirun", "-np", "2", "./a"], ["COMMAND: mpirun, 2 ranks; the site's own takes its place"]),
        (
            ["timeout", "90", "mpirun", "-np", "2", "./a"],
            ["COMMAND: mpirun, 2 ranks, at most 1m30s; the site's own takes its place"],
        ),
        (
            ["sh", "-c", "cd /w; mpirun ./a"],
            [
                ONCE,
                "COMMAND[2], line 1, column 8: mpirun",
                "together 3 ranks: one for each share of the CPUs asked for, as mpirun in COMMAND[2], line 1, gives no number",
            ],
        ),
        (["mpirun", "-np", "1", "./a"], ["COMMAND: mpirun, 1 rank; the site's own takes its place"]),
        (
            ["sh", "-c", "cd /w; mpirun -np 1 ./a"],
            [
                ONCE,
                "COMMAND[2], line 1, column 8: mpirun, 1 rank",
                "together 1 rank: mpirun -np 1 in COMMAND[2], line 1",
            ],
        ),
        (["sh", "-c", "echo mpirun"], []),
        (
            ["sh", "-c", "bash /cfg/run\nssh n mpirun ./a"],
            [
                "COMMAND[2], line 2, column 7: not read, as the text names mpirun where it is open whether it runs",
                "COMMAND[2], line 1, column 1: bash /cfg/run: its text is not looked into",
            ],
        ),
    ],
)
def test_launchers_are_shown_with_their_places(command: list[str], lines: list[str]) -> None:
    job = yaml.safe_load((ROOT / "examples" / "02-large-goes-to-hpc" / "job.yaml").read_text())
    (main,) = job["spec"]["template"]["spec"]["containers"]
    main |= {"command": command, "resources": {"requests": {"cpu": "3"}}}
    main.pop("args", None)

    shown = explain("-", stdin=yaml.safe_dump(job)).stdout.splitlines()

    where = "spec.template.spec.containers[0].command"
    start = shown.index("  MPI launchers found") + 1 if lines else 0
    assert shown[start : start + len(lines)] == [f"    {line.replace('COMMAND', where)}" for line in lines]
    assert ("  MPI launchers found" in shown) is bool(lines)


def test_where_a_profile_implies_mpi_a_script_is_shown(tmp_path: Path) -> None:
    for file in (ROOT / "examples" / "policies").glob("*.yaml"):
        text = file.read_text().replace("name: open-mpi", "name: lab\n        impliesMpi: true")
        (tmp_path / file.name).write_text(text)
    job = yaml.safe_load((ROOT / "examples" / "02-large-goes-to-hpc" / "job.yaml").read_text())
    (main,) = job["spec"]["template"]["spec"]["containers"]
    main |= {"command": ["bash", "/cfg/run.sh"]}
    main.pop("args", None)

    shown = explain("-", "--policy", str(tmp_path), "--no-script", stdin=yaml.safe_dump(job)).stdout

    place = "spec.template.spec.containers[0].command[0], line 1, column 1"
    assert f"  MPI launchers found\n    {ONCE}\n    {place}: bash /cfg/run.sh: its text is not looked into\n" in shown


def test_no_warnings_are_no_section() -> None:
    result = explain(ROOT / "examples" / "07-cannot-go" / "job.yaml")

    assert "  warnings\n" not in result.stdout


def test_fields_of_a_cronjob_are_named_as_they_stand_in_it() -> None:
    job = yaml.safe_load((ROOT / "examples" / "07-cannot-go" / "job.yaml").read_text())
    cron = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "nightly", "namespace": "research"},
        "spec": {"schedule": "0 3 * * *", "jobTemplate": {"spec": job["spec"]}},
    }

    result = explain("-", stdin=yaml.safe_dump(cron))

    assert result.stdout.startswith("research/nightly  (standard input:1)\n")
    assert "spec.jobTemplate.spec.template.spec.volumes[0].persistentVolumeClaim" in result.stdout


def living(**changes: object) -> dict[str, object]:
    """An example's Job as the cluster has it after ada has applied it."""
    example = ROOT / "examples" / "02-large-goes-to-hpc" / "job.yaml"
    routed = CliRunner().invoke(commands, ["route", "-f", str(example), *POLICY])
    job = yaml.safe_load(routed.stdout)
    job["metadata"] |= {"uid": "6c0b35f9-0dc8-4d3d-b113-f1848beb72fe"} | changes
    found: dict[str, object] = job
    return found


MAKER = "  for ada, who made it (annotation batchgate.dev/requester); --user and --group name others\n"


@pytest.mark.parametrize(
    ("changes", "arguments", "goes", "told"),
    [
        ({}, [], True, True),
        ({}, ["--user", "mallory"], False, False),
        # A file that somebody writes goes to the API server for whoever applies it.
        ({"uid": None}, [], False, False),
    ],
    ids=["as it lives", "for somebody named", "a file"],
)
def test_a_living_job_is_explained_for_whom_it_was_made(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, object], arguments: list[str], goes: bool, told: bool
) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: "nobody-in-the-accounts")

    result = CliRunner().invoke(
        commands,
        ["explain", "-f", "-", *POLICY[:2], "--no-script", *arguments],
        input=yaml.safe_dump(living(**changes)),
    )

    assert result.exit_code == 0, result.output
    assert (MAKER in result.stdout) is told
    assert ("  asked of the batch system\n" in result.stdout) is goes


def test_a_living_job_is_explained_by_the_time_at_which_it_was_made(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(
        "rules:\n  - {name: early, when: request.time.getFullYear() < 2026, cloud: true}\n  - {name: rest, deny: too late}\n"
    )
    job = living(creationTimestamp="2025-12-31T23:59:59Z")

    result = CliRunner().invoke(commands, ["explain", "-f", "-", "--policy", str(tmp_path)], input=yaml.safe_dump(job))

    assert "rule early keeps it in the cloud" in result.stdout, result.output


def test_a_living_job_is_explained_for_the_groups_that_it_records(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(
        "rules:\n  - {name: ours, when: \"'physics' in request.groups\", cloud: true}\n  - {name: rest, deny: not ours}\n"
    )
    job = living()
    job["spec"]["template"]["metadata"]["annotations"]["batchgate.dev/groups"] = "a\nphysics"  # type: ignore[index]

    result = CliRunner().invoke(commands, ["explain", "-f", "-", "--policy", str(tmp_path)], input=yaml.safe_dump(job))

    assert "rule ours keeps it in the cloud" in result.stdout, result.output


@pytest.mark.parametrize("metadata", ["text", ["list"], None, {"uid": 7}])
def test_what_is_no_living_job_is_explained_for_the_caller(metadata: object) -> None:
    job = living()
    job["metadata"] = metadata

    result = CliRunner().invoke(commands, ["explain", "-f", "-", *POLICY[:2]], input=yaml.safe_dump(job))

    assert not isinstance(result.exception, AttributeError)
    assert "who made it" not in result.stdout


def test_a_job_of_a_listed_controller_is_not_judged(tmp_path: Path) -> None:
    job = yaml.safe_load((ROOT / "examples" / "02-large-goes-to-hpc" / "job.yaml").read_text())
    job["spec"]["managedBy"] = "kueue.x-k8s.io/multikueue"
    listed = "controllers: [{managedBy: kueue.x-k8s.io/multikueue}]\nrules: [{name: rest, cloud: true}]\n"
    (tmp_path / "policy.yaml").write_text(listed)

    result = explain("-", "--policy", str(tmp_path), stdin=yaml.safe_dump(job))

    assert "is left to the controller that spec.managedBy names: it is not judged" in result.stdout


@pytest.mark.parametrize(
    ("written", "arguments", "known"),
    [
        (timedelta(minutes=1), [], True),
        (timedelta(minutes=11), [], False),
        (timedelta(minutes=11), ["--queues-max-age", "1h"], True),
        (None, [], True),  # a file that does not say when is taken as it is: somebody wrote it to try something
    ],
)
def test_queue_state_counts_as_unknown_when_the_webhook_would_say_so(
    tmp_path: Path, written: timedelta | None, arguments: list[str], known: bool
) -> None:
    time = f"time: {(datetime.now(UTC) - written).isoformat()}\n" if written else ""
    queues = tmp_path / "queues.yaml"
    queues.write_text(f"{time}queues: [{{site: demo, queue: batch, up: false}}]\n")

    result = explain(
        ROOT / "examples" / "02-large-goes-to-hpc" / "job.yaml", "--no-script", "--queues", str(queues), *arguments
    )

    assert ("the queue is closed, down, or not in the batch system" in result.stdout) is known
    assert (f"Warning: {queues} is of " in result.stderr) is not known
    assert ("more than 10m ago" in result.stderr) is not known


CRON = """\
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly, namespace: NAMESPACE}
spec:
  schedule: "0 3 * * *"
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
          containers: [{name: c, image: "busybox:1.36", command: ["true"], resources: {requests: {cpu: "4"}}}]
"""
CONTROLLER = "system:serviceaccount:kube-system:cronjob-controller"
OWNED = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: nightly-1
  namespace: NAMESPACE
  ownerReferences: [{apiVersion: batch/v1, kind: CronJob, name: nightly, uid: u, controller: true}]
  annotations: {NOTE}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: c, image: "busybox:1.36", command: ["true"], resources: {requests: {cpu: "4"}}}]
"""
NOT_IN_DEFAULT = f"no account at site demo is for namespace default ({CONTROLLER} asks for others, so only an account by namespace counts)"


@pytest.mark.parametrize(
    ("text", "namespace", "asker", "said"),
    [
        (CRON, "research", f"its Jobs are created by the CronJob controller, so this is decided for {CONTROLLER}, not for ada", "as research:"),
        (CRON, "default", f"its Jobs are created by the CronJob controller, so this is decided for {CONTROLLER}, not for ada", NOT_IN_DEFAULT),
        (OWNED, "default", f"it was created by the CronJob controller, so this is decided for {CONTROLLER}, not for ada", NOT_IN_DEFAULT),
        (OWNED.replace("{NOTE}", "{cronjob.kubernetes.io/instantiate: manual}"), "default", "", "as ada:"),
    ],
)  # fmt: skip
def test_the_jobs_of_a_cronjob_are_decided_for_who_creates_them(
    text: str, namespace: str, asker: str, said: str
) -> None:
    stdin = text.replace("NAMESPACE", namespace).replace("{NOTE}", "{}")

    explained = explain("-", "--no-script", stdin=stdin).stdout
    routed = CliRunner().invoke(commands, ["route", "-o", "table", "-f", "-", *POLICY], input=stdin)

    assert ("asked by" in explained, asker in explained, said in explained) == (bool(asker), True, True), explained
    assert (f": {asker} (kubectl create job --from: for the user who runs it).\n" in routed.stderr) is bool(asker)
    assert said in routed.stdout


def test_the_controller_has_another_name_where_that_is_said() -> None:
    named = explain(
        "-", "--no-script", "--user", "system:kube-controller-manager", stdin=CRON.replace("NAMESPACE", "default")
    )

    assert "system:kube-controller-manager asks for others" in named.stdout
    assert "asked by" not in named.stdout


FIELDS = """
apiVersion: batch/v1
kind: Job
metadata: {name: fields}
spec:
  podReplacementPolicy: TerminatingOrFailed
  template:
    spec:
      restartPolicy: Never
      dnsPolicy: ClusterFirst
      hostPID: true
      securityContext: {fsGroup: 5}
      containers:
        - {name: a, image: "a:1", command: [a], resources: {requests: {cpu: 2}}, resizePolicy: [{resourceName: cpu}]}
        - {name: b, image: "a:1", command: [a], resources: {requests: {cpu: 2}}}
"""
TEMPLATE = "spec.template.spec"
AS_USER = f"{TEMPLATE}.securityContext.fsGroup (harmless): the process runs as the HPC user, with that user's groups"
CORES = "the cores of the batch job, unless a rule's `figures` say otherwise; no container is held to its own share"
SIZE = f"{TEMPLATE}.containers[0].resizePolicy (harmless): a batch job keeps its size"
ONE_BY_ONE = "spec.podReplacementPolicy (translated): `Failed`: a Pod is replaced only once its batch job has ended"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            [],
            [
                ONE_BY_ONE,
                AS_USER,
                f"{TEMPLATE}.containers[0].resources.requests and 1 more (translated): {CORES}",
                SIZE,
            ],
        ),
        (
            ["--fields"],
            [
                ONE_BY_ONE,
                f"{TEMPLATE}.dnsPolicy (translated): the node's resolver, as HPC has no cluster DNS; `None`: the Pod's own settings alone",
                AS_USER,
                f"{TEMPLATE}.containers[0].resources.requests (translated): {CORES}",
                SIZE,
                f"{TEMPLATE}.containers[1].resources.requests (translated): {CORES}",
            ],
        ),
    ],
    ids=["alike fields together", "each"],
)
def test_fields_that_are_not_what_they_are_in_the_cloud(options: list[str], expected: list[str]) -> None:
    """``hostPID`` keeps the Job in the cloud, and is named there; ``dnsPolicy`` is what the API server fills in."""
    result = explain("-", "--no-script", *options, stdin=FIELDS)

    shown = result.stdout.partition("  fields that are translated or have no effect there\n")[2].splitlines()
    assert [line.strip() for line in shown if line.startswith("    ")][: len(expected)] == expected
    assert "keeps it in the cloud\n    spec.template.spec.hostPID: sees the processes of the node" in result.stdout
