"""What is different on HPC for a Job that can go there: each kind of thing, in one sentence."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.workload import cautions, workload_of
from tests.workload.manifests import Manifest, asking, container, job

POD = "spec.template.spec"
MAIN = f"{POD}.containers[0]"


def warned(manifest: Manifest) -> list[str]:
    found = workload_of(manifest, namespace="lab")
    assert found.obstacles == ()
    return list(found.warnings)


def of(*containers: Manifest, volumes: list[Any] | None = None, parallelism: int = 1, **pod: Any) -> Manifest:
    return job(*containers, pod={"volumes": volumes or [], **pod}, parallelism=parallelism, completions=parallelism)


def ports(*numbers: int) -> Manifest:
    return container(ports=[{"containerPort": number} for number in numbers])


def sh(line: str) -> Manifest:
    return container(command=["sh", "-c", line])


def env(name: str, value: str) -> Manifest:
    return container(env=[{"name": name, "value": value}])


def root(named: str, field: str = "command[2]") -> str:
    return f"{MAIN}.{field}: runs {named}, for which it must be root; on HPC it runs as the HPC user: put it into the image"


def service(named: str, field: str, verb: str = "looks") -> str:
    return f"{MAIN}.{field}: {named} {verb} like a Service of the cluster, and HPC nodes have no cluster DNS: see docs/judging.md"


EMPTY = {"name": "v", "emptyDir": {"sizeLimit": "1Gi"}}
MEMORY = {"name": "m", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}
ON_DISK = f"{POD}.volumes[0].emptyDir.medium: lies on disk on HPC, in the Pod's directory; only a mount at /dev/shm is memory there"
SIZE = f"{POD}.volumes[0].emptyDir.sizeLimit: not enforced on HPC"


def mounting(name: str, *paths: str) -> Manifest:
    return container(volumeMounts=[{"name": name, "mountPath": path} for path in paths])


TABLE = [
    (of(), []),
    (
        of(priorityClassName="high"),
        [f"{POD}.priorityClassName: PriorityClass high has no effect on HPC, where the queue orders the jobs"],
    ),
    (
        of(asking(requests={"ephemeral-storage": "2Gi"}, limits={"ephemeral-storage": "4Gi"})),
        [f"{MAIN}.resources.requests.ephemeral-storage: 2Gi of disk are not asked of the batch system; the site's quotas hold"],
    ),
    (
        of(asking(limits={"ephemeral-storage": "4Gi"})),
        [f"{MAIN}.resources.limits.ephemeral-storage: 4Gi of disk are not asked of the batch system; the site's quotas hold"],
    ),
    (of(asking(requests={"ephemeral-storage": "0"})), []),
    (of(mounting("v", "/x"), volumes=[EMPTY]), [SIZE]),
    (of(mounting("m", "/x"), volumes=[MEMORY]), [SIZE, ON_DISK]),
    (of(mounting("m", "/dev/shm", "/x"), volumes=[MEMORY]), [SIZE, ON_DISK]),
    (of(mounting("m", "/dev/shm/"), volumes=[MEMORY]), [SIZE]),
    (
        of(ports(80, 443, 8080)),
        [
            (f"{MAIN}.ports[0].containerPort 80, {MAIN}.ports[1].containerPort 443: below 1024, which only root may open; "
            "on HPC the process runs as the HPC user")
        ],
    ),
    (of(ports(8080)), []),
    (
        of(ports(8080), parallelism=4000),
        [
            (f"{MAIN}.ports[0].containerPort 8080: on HPC all jobs of a node share its network, so two of the 4,000 Pods may "
            "want one port")
        ],
    ),
    (
        of(ports(1, 2, 3, 4, 5, 6)),
        [
            (f"{', '.join(f'{MAIN}.ports[{n}].containerPort {n + 1}' for n in range(4))} and 2 more: below 1024, which only "
            "root may open; on HPC the process runs as the HPC user")
        ],
    ),
    (of(sh("apt-get update && apt-get install -y jq")), [root("apt-get")]),
    (of(sh("set -e\nFOO=1 DEBIAN_FRONTEND=noninteractive apt-get update")), [root("apt-get")]),
    (of(sh("if true; then /usr/bin/apt-get update; fi; (apk --no-cache add jq); apt -y install a")), [root("apt-get, apk, apt")]),
    (of(sh("./a || sudo mount -t tmpfs none /x")), [root("sudo")]),
    (of(container(command=["apt-get", "update"])), [root("apt-get", "command[0]")]),
    (of(container(args=["apt-get"])), []),
    (of(sh("echo 'use apt-get'; ls /sbin/mount; my-apt-get; apt-get.sh; mount; grep sudo /etc/x")), []),
    (of(sh("curl http://api:8080/x https://user:pass@db/y")), [service("api, db", "command[2]", "look")]),
    (of(sh("curl http://localhost:80/ https://example.org http://10.0.0.1 http://$HOST/ file:///x s3://bucket docker://busybox")), []),
    (of(sh("ping redis.lab.svc.cluster.local; nc web.svc 80")), [service("redis.lab.svc, web.svc", "command[2]", "look")]),
    (of(sh("ls a.svc-x b.svcs /etc/.svc")), []),
    (of(sh("echo $REDIS_MASTER_SERVICE_HOST")), [service("redis-master", "command[2]")]),
    (of(env("DB_HOST", "postgres:5432")), [service("postgres", "env[0]")]),
    (of(env("REDIS_URL", "redis://cache/0")), [service("cache", "env[0]")]),
    (of(sh("psql --host db -U x; mongo --server=mongo:27017")), [service("db, mongo", "command[2]", "look")]),
    (of(container(args=["wait", "rabbit:5672"])), [service("rabbit", "args[1]")]),
    (of(container(args=["--redis-host=redis"])), [service("redis", "args[0]")]),
    (of(sh("chown-x user:1000 a; x --host=$HOST --host localhost --hosts a.example.org --server=a/b; --addr 1.2.3.4")), []),
    (of(env("DB_HOST", "db.example.org")), []),
    (of(env("HOST", "localhost")), []),
    (of(env("MODE", "postgres")), []),
]  # fmt: skip


@pytest.mark.parametrize(("manifest", "warnings"), TABLE)
def test_what_is_different_is_told_once(manifest: Manifest, warnings: list[str]) -> None:
    assert warned(manifest) == warnings


def test_only_the_beginning_of_long_texts_is_searched() -> None:
    pad = "x" * 20_000
    assert warned(of(sh(f"apt-get update; {pad}"))) == [root("apt-get")]
    assert warned(of(sh(f"{pad}; apt-get update"))) == []


PIECES = ["http://", "db", "api", ":80", "/x", " ", "=", "--host", "--server", "-addr", ".svc", "_SERVICE_HOST", "A", "name",
          "sudo", "apt-get", "apt update", "mount /x", "chown", "useradd", "microdnf", "sysctl -w", ";", "\n", "x", "@", "é"]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=8).map("".join))
def test_the_quick_looks_pass_over_no_text_that_tells_something(words: str) -> None:
    if cautions._ROOT.search(words):
        assert any(name in words for name in cautions._PROGRAMS)
    if [*cautions._hosts(cautions._Text("args[0]", words))]:
        assert cautions._TELLING.search(words)
