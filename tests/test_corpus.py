"""Every Job and CronJob that other people published is routed, kept or denied with a reason, and changed no further.

The corpus is not part of the repository: without it there is nothing to test.
"""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from router import policy
from router.errors import JobError
from router.gate.judging import Gate, Judgement, judge
from router.notation import documents
from router.placement import signing, strip
from router.policy.decision import NO_QUEUE_STATES, Requester
from router.startup.policyfiles import read_directory
from router.workload import job_of
from router.workload.cluster import UNKNOWN_CLUSTER
from router.workload.launches import find_launches
from router.workload.model import Container, ContainerKind
from router.workload.shellbudget import ShellBudget
from tests.allowed import surplus, surplus_kept
from tests.gates import ISSUED_AT, KEY

ROOT = Path(__file__).parent.parent
CORPUS = ROOT.parent / "shared" / "corpus"
FILES = sorted(CORPUS.glob("*/*.y*ml")) if CORPUS.is_dir() else []
PERMISSIVE = """
sites:
  - name: big
    system: openpbs
    host: ssh://login
    access: own-keys
    knownHosts: /etc/batchgate/known_hosts
    keys: /etc/batchgate/keys
    workDir: /scratch/{user}
    secrets: stage
    tokens: stage
    apiServer: https://kubernetes.example.org:6443
    volumes:
      - {hostPath: /, path: /mirror}
      - {claim: "*", path: "/claims/{namespace}/{claim}"}
      - {csi: gcsfuse.csi.storage.gke.io, path: "/buckets/{attributes.bucketName}"}
      - {image: "*", path: /models}
    ignorePrivileged: ["*"]
    ignoreSchedulers: ["*"]
    resources:
      - {match: "*", ignore: true}
    gpuResources: {nvidia.com/gpu.shared: nvidia}
    ignoreNodeLabels:
      - cloud.google.com/gke-nodepool
      - cloud.google.com/gke-spot
      - cloud.google.com/machine-family
      - topology.kubernetes.io/*
      - node.kubernetes.io/instance-type
      - kubernetes.io/role
      - workloadType
    queues:
      - name: any
        nodes: 1000
        cpusPerNode: 512
        memoryPerNode: 16Ti
        gpusPerNode: 64
        walltimeMax: 1000h
        nodeLabels:
          accelerator: nvidia
          cloud.google.com/gke-accelerator:
            nvidia-tesla-t4: {chunk.gpu_model: t4}
            nvidia-l4: {chunk.gpu_model: l4}
            nvidia-tesla-a100: {chunk.gpu_model: a100}
            nvidia-h100-80gb: {chunk.gpu_model: h100}
accounts:
  - {users: [ada], as: ada}
rules:
  - {name: all, kueue: true, hpc: [{queue: any}]}
"""

BARE = {"name", "system", "host", "access", "knownHosts", "keys", "workDir", "queues"}

pytestmark = pytest.mark.skipif(not FILES, reason="no ../shared/corpus beside the project")


def opened(checked: policy.Policy) -> Gate:
    return Gate(checked, UNKNOWN_CLUSTER, NO_QUEUE_STATES, signing.Signer(KEY, {}), ISSUED_AT)


def jobs() -> list[tuple[str, dict[str, Any], str]]:
    """Each Job of the corpus: its file, itself, the root of its field paths."""
    documents_ = ((file.name, one) for file in FILES for one in documents.parse(file.read_text(), file.name))
    return [(name, *job) for name, one in documents_ if (job := job_of(one.value)) is not None]


def judged(job: dict[str, Any], root: str, gate: Gate) -> Judgement | JobError:
    try:
        return judge(job, requester=Requester("ada", (), "default"), gate=gate, root=root)
    except JobError as error:
        return error


@pytest.mark.parametrize("policies", ["permissive", "default"])
def test_every_job_is_decided_with_a_reason_and_changed_as_the_table_allows(policies: str) -> None:
    files = {"all.yaml": PERMISSIVE} if policies == "permissive" else read_directory(ROOT / "policies")
    gate = opened(policy.load(files))
    targets: Counter[str] = Counter()
    for name, job, root in jobs():
        result = judged(job, root, gate)
        if isinstance(result, JobError):
            # Placeholders of templates stand where numbers and names belong: named by field, never a crash.
            assert result.path.startswith(root), name
            targets["invalid"] += 1
            continue
        assert result.decision is not None, name
        assert result.decision.reason, name
        targets[result.decision.target] += 1
        check = {"hpc": surplus, "cloud": surplus_kept, "deny": lambda old, new: [] if old is new else ["changed"]}
        assert check[result.decision.target](job, result.routed) == [], name
        assert strip(result.routed).job == strip(job).job, name
    assert targets.total() >= 150
    # The others name what no site has: nodes, gangs, TPUs, privileges.
    assert targets["hpc"] > (110 if policies == "permissive" else 0), targets
    assert targets["invalid"] <= 15, targets


def _bare() -> str:
    """The permissive policy, with a site that states nothing beyond its queue."""
    document = yaml.safe_load(PERMISSIVE)
    (site,) = document["sites"]
    (queue,) = site["queues"]
    del queue["nodeLabels"]
    document["sites"] = [{key: site[key] for key in site if key in BARE}]
    return yaml.safe_dump(document)


def _share(text: str) -> tuple[int, Counter[str]]:
    """How many Jobs go to HPC, and those that stay by the first field that is in the way."""
    gate = opened(policy.load({"all.yaml": text}))
    going, staying = 0, Counter[str]()
    for _, job, root in jobs():
        result = judged(job, root, gate)
        if isinstance(result, JobError) or result.decision is None:
            continue
        going += result.decision.target == "hpc"
        for first in result.decision.in_the_way[:1]:
            path = re.sub(r"\[[^]]*\]", "", first.split(": ")[0]).removeprefix(root.rstrip(".")).split(".")
            staying["nodeSelector" if "nodeSelector" in path else path[-1]] += 1
    return going, staying


def test_the_page_tells_how_many_can_go_and_what_keeps_the_others() -> None:
    page = (ROOT / "docs" / "judging.md").read_text().split("## How many Jobs can go")[1]
    if f"judges {len(jobs())} Jobs" not in page:
        pytest.skip(f"the page tells of another corpus than this one of {len(jobs())} Jobs")
    bare, _ = _share(_bare())
    going, staying = _share(PERMISSIVE)
    told = {field: int(count) for count, field in re.findall(r"^\| (\d+) \| `(\w+)` \|", page, re.MULTILINE)}

    assert [int(one) for one in re.findall(r"(\d+) can\sgo", page)] == [bare, going]
    assert told == dict(staying)


def test_the_scripts_of_the_corpus_are_shell(tmp_path: Path) -> None:
    gate = opened(policy.load({"all.yaml": PERMISSIVE}))
    results = [(name, judged(job, root, gate)) for name, job, root in jobs()]
    scripts = [
        (name, one.script.text) for name, one in results if isinstance(one, Judgement) and one.script is not None
    ]
    written = [tmp_path / f"{number}-{name}.sh" for number, (name, _) in enumerate(scripts)]
    for path, (_, text) in zip(written, scripts, strict=True):
        path.write_text(text)
    assert written
    for path in written:
        run = subprocess.run(["bash", "-n", path], capture_output=True, text=True, check=False)
        assert (run.returncode, run.stderr) == (0, ""), path.name


def containers(document: object) -> Iterator[dict[str, Any]]:
    """Whatever looks like a container in a document of any kind."""
    if isinstance(document, dict):
        if "command" in document or "args" in document:
            yield document
        for value in document.values():
            yield from containers(value)
    elif isinstance(document, list):
        for value in document:
            yield from containers(value)


def strings(words: object) -> tuple[str, ...]:
    return tuple([str(word) for word in words]) if isinstance(words, list) else ()


LAUNCHES = {
    # file: launcher, line and column in its word, ranks; each looked at by eye
    "deployments__examples__mpioperator__Pi__pi.yaml": [("mpirun", 1, 1, 2)],
    "example__MindSpore-example__mindspore_gpu__mindspore-gpu.yaml": [("mpiexec", 4, 1, 2)],
    "example__integrations__mpi__mpi-example.yaml": [("mpiexec", 3, 1, 2)],
    "examples__v2beta1__tensorflow-benchmarks__tensorflow-benchmarks.yaml": [("mpirun", 1, 1, 2)],
    "hpc__mpi__hpl-demo-pv.tpl.yaml": [("mpirun", 19, 51, None)],  # of a template: $NUM_WORKERS is filled in before
    "micro-benchmarks__nccl-tests__kubernetes__nccl-tests.yaml": [("mpirun", 1, 1, 16)],
    "site__static__examples__jobs__sample-mpijob.yaml": [("mpirun", 1, 1, 2)],
}


def test_every_launcher_of_the_corpus_is_found() -> None:
    found: dict[str, list[tuple[str, int, int, int | None]]] = {}
    for path in FILES:
        for document in documents.parse(path.read_text(), path.name):
            for one in containers(document.value):
                words = strings(one.get("command")), strings(one.get("args"))
                launches = find_launches(
                    Container("main", ContainerKind.MAIN, "c", "image", *words), ShellBudget()
                ).launches
                if launches:
                    places = [(a.name, a.line, a.column, a.ranks.value if a.ranks else None) for a in launches]
                    found.setdefault(path.name, []).extend(places)

    assert found == LAUNCHES


def test_the_parser_knows_every_shell_text_of_the_corpus() -> None:
    unread = {
        path.name: found.unread
        for path in FILES
        for document in documents.parse(path.read_text(), path.name)
        for one in containers(document.value)
        if (found := find_launches(Container("main", ContainerKind.MAIN, "c", "image", strings(one.get("command")), strings(one.get("args"))), ShellBudget())).unread
    }  # fmt: skip

    assert unread == {}
