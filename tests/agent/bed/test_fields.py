"""Fields of a Job that a real Slurm and Apptainer have a part in: Secrets, tokens, probes, hooks, resources, claims."""

from __future__ import annotations

import base64
import contextlib
import json
import secrets
import ssl
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bed.layout import GPU_NODES, GPUS
from bed.standing import variant
from router import names
from router.controlplane import installing
from tests.agent.bed.conftest import Cluster, Stack, reached
from tests.agent.bed.jobs import SECONDS, apply, end_of, job, job_id, pod_of, printed
from tests.agent.bed.site import ADA, LAYOUT, SUDO, TALLY, BedSite, files_of, slurm
from tests.agent.whole.waiting import until

pytestmark = [pytest.mark.bed, pytest.mark.slurm, pytest.mark.apptainer, pytest.mark.timeout(1200)]

SERVER = "https://kubernetes.example.org:6443"
PRODUCT = "nvidia.com/gpu.product"
FIGURES = ("cpu_usage_seconds_total", "memory_working_set_bytes")
FPGA, SOLVER = "example.com/fpga", "licences.example.com/solver"
ACCOUNT = f"{names.SYSTEM_NAMESPACE}:{names.AGENT_ACCOUNT}"


@dataclass(frozen=True)
class FullSite(BedSite):
    """The bed as an admin would set it up who wants as many Jobs as can be had. The queue has the nodes with GPUs."""

    queue = "gpu"

    def documents(self) -> dict[str, Any]:
        found = super().documents()
        (site,) = found["sites.yaml"]["sites"]
        site |= {
            "secrets": "stage",
            "tokens": "stage",
            "apiServer": SERVER,
            "exec": True,
            "mpi": [{"name": "open-mpi", "launcher": "openmpi", "env": {"OMPI_MCA_btl_tcp_if_include": "lo"}}],
            "resources": [
                {"match": FPGA, "directive": "gres", "value": "fpga:{amount}"},
                {"match": SOLVER, "directive": "licenses", "value": "solver:{amount}"},
            ],
        }
        site["volumes"].append({"claim": "*/*", "path": f"{TALLY}/{{namespace}}-{{claim}}"})
        (queue,) = site["queues"]
        types = {"Tesla-V100": {"gpu-type": "v100"}, "NVIDIA-A100-*": {"gpu-type": "a100"}}
        queue |= {"name": self.queue, "nodes": len(GPU_NODES), "gpusPerNode": GPUS, "nodeLabels": {PRODUCT: types}}
        (busy, _) = found["rules.yaml"]["rules"]
        busy["hpc"] = [{"queue": self.queue}]
        return found


@pytest.fixture(scope="module")
def stack(cluster: Cluster) -> Iterator[Stack]:
    if "fpga" not in slurm("sinfo", "--noheader", "--format=%G"):
        pytest.skip("this bed was made before it had boards and licences; `make bed-down` and `make bed` make it anew")
    with reached(cluster, SUDO, kind=FullSite) as found:
        for kind, role in (("secrets", names.SECRETS_ROLE), ("tokens", names.TOKENS_ROLE)):
            found.plane.kubectl("apply", "-k", str(installing.MANIFESTS / kind))
            words = ("--clusterrole", role, "--serviceaccount", ACCOUNT)
            found.admin.ok("create", "rolebinding", f"{names.AGENT_ACCOUNT}-{kind}", *words)
        yield found
        for kind in ("secrets", "tokens"):
            found.admin.ok("delete", "rolebinding", f"{names.AGENT_ACCOUNT}-{kind}")


def with_main(made: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """The same Job with further fields of its container."""
    made["spec"]["template"]["spec"]["containers"][0] |= fields
    return made


def holding(value: str) -> list[str]:
    """ADA's files and the command lines of all processes that hold a value."""
    found = []
    for path in [*files_of(ADA), *Path("/proc").glob("[0-9]*/cmdline")]:
        with contextlib.suppress(OSError):
            if path.is_file() and not path.is_symlink() and value.encode() in path.read_bytes():
                found.append(str(path))
    return found


RANK = (
    'n=$OMPI_COMM_WORLD_RANK; p=$(cat /var/run/secrets/kubernetes.io/serviceaccount/token); s=$(cat /login/password); '
    'p=${p#*.}; printf "rank=%s %s %s %s %s %s\\n" $n $KUBERNETES_SERVICE_HOST ${PASSWORD%-*} ${s%-*} '
    '$(cat /proc/sys/kernel/hostname) ${p%.*}'
)  # fmt: skip


@pytest.mark.mpi
def test_ranks_on_two_nodes_have_secrets_and_a_token(stack: Stack) -> None:
    value = f"horse-{secrets.token_hex(6)}"
    name = f"login-{secrets.token_hex(3)}"
    stack.admin.ok("create", "secret", "generic", name, f"--from-literal=password={value}")
    made = job("", pod={"volumes": [{"name": "login", "secret": {"secretName": name}}]})
    made["metadata"]["annotations"]["batchgate.dev/nodes"] = "2"
    with_main(
        made,
        command=["mpirun", "-np", "8", "/bin/sh", "-c", RANK],
        resources={"requests": {"cpu": "8", "memory": "1280Mi"}},
        env=[{"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": name, "key": "password"}}}],
        volumeMounts=[{"name": "login", "mountPath": "/login"}],
    )

    apply(stack.ada, made)

    job_name = made["metadata"]["name"]
    assert end_of(stack.ada, job_name) == "Complete", stack.ada.ok("logs", f"job/{job_name}")
    lines = [line.split() for line in printed(stack.ada, job_name) if line.startswith("rank=")]
    assert sorted(line[0] for line in lines) == [f"rank={rank}" for rank in range(8)]
    assert {tuple(line[1:4]) for line in lines} == {("kubernetes.example.org", "horse", "horse")}
    assert len({line[4] for line in lines}) == 2
    (payload,) = {line[5] for line in lines}
    claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    assert claims["kubernetes.io"]["pod"]["name"] == pod_of(stack.ada, job_name)["metadata"]["name"]
    until(lambda: holding(value), lambda found: not found, seconds=60, what="for the end of what was staged")
    assert holding(payload) == [
        str(path) for path in files_of(ADA) if path.name == "main.0" and payload in path.read_text()
    ]


def execs(text: str, **fields: Any) -> dict[str, Any]:
    return {"exec": {"command": ["/bin/sh", "-c", text]}, **fields}


def probes(text: str, **fields: Any) -> dict[str, Any]:
    """Every second; the one second that Kubernetes gives a probe is too short on a busy machine."""
    return execs(text, periodSeconds=1, timeoutSeconds=20, **fields)


def shown(stack: Stack, name: str) -> tuple[Any, Any, Any, int]:
    """Whether its running container has started and is ready, the Pod's condition Ready, and its restarts."""
    found = pod_of(stack.ada, name)["status"]
    (one,) = found.get("containerStatuses") or [{}]
    ready = {each["type"]: each["status"] for each in found.get("conditions", ())}.get("Ready")
    return (
        one.get("started") if "running" in one.get("state", {}) else None,
        one.get("ready"),
        ready,
        one.get("restartCount", 0),
    )


def test_probes_hooks_rules_and_exec_work_together(stack: Stack) -> None:
    """A person steers one container by files: it starts up, gets ready, falls ill, is ended, and runs again."""
    place = "/state"
    body = f"echo run; trap 'exit 3' TERM; while [ ! -e {place}/end ]; do sleep 0.2; done; rm {place}/end; exit 42"
    made = job(body, pod={"volumes": [{"name": "state", "emptyDir": {}}]})
    with_main(
        made,
        volumeMounts=[{"name": "state", "mountPath": place}],
        lifecycle={
            "postStart": execs(f"echo post >>{place}/hooks"),
            "preStop": execs(f"echo stop >>{place}/hooks; rm -f {place}/ill"),
        },
        startupProbe=probes(f"test -e {place}/up", failureThreshold=600),
        readinessProbe=probes(f"test -e {place}/good", failureThreshold=1),
        livenessProbe=probes(f"test ! -e {place}/ill", failureThreshold=1),
        restartPolicy="Never",
        restartPolicyRules=[{"action": "Restart", "exitCodes": {"operator": "In", "values": [42, 3]}}],
    )
    name = apply(stack.ada, made)

    def see(expected: tuple[Any, ...]) -> None:
        until(lambda: shown(stack, name), lambda found: found == expected, seconds=SECONDS, what=f"for {expected}")

    def do(text: str) -> str:
        pod = pod_of(stack.ada, name)["metadata"]["name"]
        return stack.ada.ok("exec", pod, "--", "/bin/sh", "-c", text)

    see((False, False, "False", 0))
    do(f"touch {place}/up")
    see((True, False, "False", 0))
    do(f"touch {place}/good")
    see((True, True, "True", 0))
    do(f"touch {place}/ill")
    see((True, True, "True", 1))
    do(f"touch {place}/end")
    see((True, True, "True", 2))
    assert do(f"cat {place}/hooks").split() == ["post", "stop", "post", "post"]
    stack.ada.ok("delete", "job", name)


def described(batch_job: str) -> dict[str, str]:
    """Fields of a batch job by ``scontrol``."""
    words = slurm("scontrol", "show", "job", batch_job).split()
    return dict(word.partition("=")[::2] for word in words if "=" in word)


def test_resources_become_what_slurm_counts(stack: Stack) -> None:
    if not variant(LAYOUT).gpus:
        pytest.skip("this bed has no GPUs")
    made = job("true", pod={"nodeSelector": {PRODUCT: "NVIDIA-A100-SXM4-40GB"}})
    asked = {FPGA: "2", SOLVER: "3", "nvidia.com/gpu": "1"}
    with_main(made, resources={"requests": {"cpu": "2", "memory": "64Mi"}, "limits": asked})

    name = apply(stack.ada, made)

    assert end_of(stack.ada, name) == "Complete", stack.ada.ok("describe", "pods", "-l", f"job-name={name}")
    found = described(job_id(stack.ada, name))
    assert {key: found[key] for key in ("TresPerNode", "Licenses", "NodeList")} == {
        "TresPerNode": "gres:gpu:a100:1,gres:fpga:2",
        "Licenses": "solver:3",
        "NodeList": "node4",
    }


def test_more_than_the_nodes_have_is_told_in_slurms_words(stack: Stack) -> None:
    made = with_main(job("true"), resources={"requests": {"cpu": "2", "memory": "64Mi"}, "limits": {FPGA: "3"}})

    name = apply(stack.ada, made)

    until(lambda: pod_of(stack.ada, name)["status"], lambda found: "Requested node" in str(found), seconds=SECONDS)
    stack.ada.ok("delete", "job", name)


def test_a_claim_is_a_directory_of_the_site(stack: Stack) -> None:
    claim = f"data-{secrets.token_hex(3)}"
    place = TALLY / f"default-{claim}"
    place.mkdir()
    place.chmod(0o777)
    (place / "in").write_text("from the site\n")
    made = job("cat /data/in; echo to the site >/data/out")
    made["spec"]["template"]["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    with_main(made, volumeMounts=[{"name": "data", "mountPath": "/data"}])

    name = apply(stack.ada, made)

    assert end_of(stack.ada, name) == "Complete"
    assert printed(stack.ada, name) == ["from the site"]
    assert ((place / "out").read_text(), (place / "out").owner()) == ("to the site\n", ADA)


def scraped(stack: Stack) -> list[str]:
    """The lines that metrics-server would read of the queue's Node."""
    node = stack.admin.get("node", names.node_name(stack.site.name, stack.site.queue))
    assert node is not None
    status = node["status"]
    (address,) = [one["address"] for one in status["addresses"] if one["type"] == "InternalIP"]
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    tls.load_cert_chain(stack.plane.place.pki("admin.crt"), stack.plane.place.pki("admin.key"))
    url = f"https://{address}:{status['daemonEndpoints']['kubeletEndpoint']['Port']}/metrics/resource"
    with urllib.request.urlopen(url, context=tls, timeout=60) as answer:
        return list(answer.read().decode().splitlines())


def test_top_shows_what_a_job_uses(stack: Stack) -> None:
    """The cores and bytes of the container and of the Pod, by the cgroup of the batch job."""
    if not variant(LAYOUT).cgroups:
        pytest.skip("this bed's jobs have no cgroups")
    name = apply(stack.ada, job("x=0; while [ $x -lt 3000000 ]; do x=$((x + 1)); done; sleep 600"))
    kinds = [f"{kind}_{what}" for kind in ("pod", "container") for what in FIGURES]

    def figures() -> dict[str, float]:
        pod = f'pod="{pod_of(stack.ada, name)["metadata"]["name"]}"'
        rows = [line.split() for line in scraped(stack) if pod in line]
        return {kind: float(row[1]) for row in rows for kind in kinds if row[0].startswith(f"{kind}{{")}

    found = until(figures, lambda found: found.get(kinds[0], 0) >= 0.5 and len(found) == len(kinds), seconds=SECONDS)

    assert [found[kind] for kind in kinds[:2]] == [found[kind] for kind in kinds[2:]]
    assert 0 < found[kinds[1]] < 64 << 20
    stack.ada.ok("delete", "job", name)
