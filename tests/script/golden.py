"""The golden scripts: the own part of one for each dialect and feature. ``python -m tests.script.golden`` writes them anew.

Read the difference (``git diff tests/script/golden``) before you keep it: it is what users' Jobs will run. The runtime
behind an own part is in files already, ``router/script/runtime``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from router import script
from router.script import launchoptions, pairs
from router.script.completing import FORMAT, runtime_line
from tests.script.builders import container, site, text_of, workload

FOLDER = Path(__file__).parent / "golden"
PAIRS = Path(script.__file__).parent / "runtime" / str(FORMAT) / "pairs.sh"
"""The part of the runtime that is made, of ``router.script.pairs``."""
OPTIONS = PAIRS.with_name("launcheroptions.sh")
"""The same of ``router.script.launchoptions``."""
RUNTIME = "/opt/apptainer/bin/apptainer"
LAUNCHER = "/opt/mpi/bin/launcher"

LATER = {"name": "INDEX", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
SCRATCH = [{"name": "scratch", "mountPath": "/scratch"}]


@dataclass(frozen=True)
class Case:
    """A script, and what the agent would stage for it."""

    text: Callable[[], str]
    argv: dict[str, list[bytes]] = field(default_factory=dict)
    env: dict[str, list[bytes]] = field(default_factory=dict)


def own_part(text: str) -> str:
    """A complete script up to the line that names its runtime, with it."""
    own, mark, behind = text.rpartition(f"\n{runtime_line(())}")
    return f"{own}{mark}{behind.partition(chr(10))[0]}\n"


def _on(system: str, **fields: Any) -> Any:
    return site(system, runtimePath=RUNTIME, images=[{"match": "*", "path": "/sif/image.sif"}], **fields)


def _mpi(system: str, launcher: str, **profile: Any) -> Any:
    return _on(
        system,
        mpi=[{"name": "mpi", "launcher": launcher, "path": LAUNCHER, **profile}],
        queue={"cpusPerNode": 4},
    )


def _single(system: str) -> Callable[[], str]:
    main = container(
        "sh", "-c", 'echo "$GREETING"', env=[{"name": "GREETING", "value": "it's $$5"}], workingDir="/data dir"
    )
    main["resources"] = {"requests": {"cpu": "2", "memory": "3Gi"}}
    return lambda: text_of(workload(main), _on(system), account="physics", project="simulation")


def _ranks(system: str, launcher: str, count: int = 8, **profile: Any) -> Callable[[], str]:
    main = container("mpirun", "-np", str(count), "-x", "MODE=fast", "./solver", "--steps", "10", volumeMounts=SCRATCH)
    main["resources"] = {"requests": {"memory": "8Gi"}}
    job = workload(main, volumes=[{"name": "scratch", "emptyDir": {}}])
    return lambda: text_of(job, _mpi(system, launcher, **profile))


def _inside(system: str, launcher: str, **profile: Any) -> Callable[[], str]:
    main = container("bash", "-c", "source /opt/env.sh && mpirun -np 8 ./solver | tee log", volumeMounts=SCRATCH)
    main["resources"] = {"requests": {"cpu": "8", "memory": "8Gi"}}
    hints = {"batchgate.dev/ranks": "8", "batchgate.dev/nodes": "2"}
    job = workload(main, annotations=hints, volumes=[{"name": "scratch", "emptyDir": {}}])
    return lambda: text_of(job, _mpi(system, launcher, **profile))


def _secret(system: str, **fields: Any) -> Callable[[], str]:
    password = {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "database", "key": "password"}}}
    return lambda: text_of(
        workload(container("/bin/echo", "hello", env=[password])), _on(system, secrets="stage", **fields)
    )


def _gpu(system: str, **fields: Any) -> Callable[[], str]:
    job = workload(container("train", resources={"limits": {"nvidia.com/gpu": "2"}}))
    return lambda: text_of(job, _on(system, **fields))


def _gpu_ranks(system: str, launcher: str, **profile: Any) -> Callable[[], str]:
    main = container("mpirun", "-np", "8", "train", resources={"limits": {"nvidia.com/gpu": "4"}})
    return lambda: text_of(workload(main), _mpi(system, launcher, **profile))


def _order() -> str:
    return text_of(
        workload(
            container("work", volumeMounts=SCRATCH),
            initContainers=[
                container("fetch", name="fetch", volumeMounts=SCRATCH),
                container("watch", name="watch", restartPolicy="Always", volumeMounts=SCRATCH),
            ],
            volumes=[{"name": "scratch", "emptyDir": {}}],
            restartPolicy="OnFailure",
        ),
        _on("openpbs"),
    )


def _lifecycle() -> str:
    get = {"httpGet": {"path": "/healthz", "port": "web", "httpHeaders": [{"name": "X-A", "value": "it's"}]}}
    main = container(
        "serve",
        ports=[{"name": "web", "containerPort": 8080}],
        lifecycle={
            "postStart": {"exec": {"command": ["sh", "-c", "echo it's up"]}},
            "preStop": {"sleep": {"seconds": 5}},
        },
        startupProbe={"tcpSocket": {"port": 8080}, "failureThreshold": 30},
        livenessProbe={**get, "terminationGracePeriodSeconds": 5},
        readinessProbe={"httpGet": {"port": 8443, "scheme": "HTTPS"}},
        restartPolicy="Never",
        restartPolicyRules=[{"action": "Restart", "exitCodes": {"operator": "In", "values": [42, 43]}}],
    )
    config = {"nameservers": ["192.0.2.53"], "options": [{"name": "ndots", "value": "2"}]}
    aliases = [{"ip": "192.0.2.7", "hostnames": ["db", "db.lab"]}]
    return text_of(workload(main, hostAliases=aliases, dnsConfig=config), _on("openpbs"))


PROBED = container("/bin/echo", "hello", livenessProbe={"exec": {"command": ["true"]}})


def _inside_lifecycle() -> str:
    main = container("bash", "-c", "mpirun -np 8 ./solver | tee log", livenessProbe={"exec": {"command": ["true"]}})
    main["resources"] = {"requests": {"cpu": "8", "memory": "8Gi"}}
    hints = {"batchgate.dev/ranks": "8", "batchgate.dev/nodes": "2"}
    return text_of(workload(main, annotations=hints), _mpi("openpbs", "openmpi"))


def _volumes() -> str:
    mounts = [
        {"name": "scratch", "mountPath": "/a/deep", "subPath": "one"},
        {"name": "conf", "mountPath": "/etc/app"},
        {"name": "data", "mountPath": "/data", "readOnly": True},
        {"name": "claim", "mountPath": "/a"},
    ]
    volumes = [
        {"name": "scratch", "emptyDir": {}},
        {"name": "conf", "configMap": {"name": "conf"}},
        {"name": "data", "hostPath": {"path": "/mnt/data/set 1"}},
        {"name": "claim", "persistentVolumeClaim": {"claimName": "results"}},
    ]
    maps = [
        {"hostPath": "/mnt/data", "path": "/lustre/data"},
        {"claim": "physics/*", "path": "/project/{namespace}/{claim}"},
    ]
    return text_of(workload(container("work", volumeMounts=mounts), volumes=volumes), _on("openpbs", volumes=maps))


def _later() -> str:
    return text_of(workload(container("work", "$(INDEX)", env=[LATER])), _on("openpbs"))


def _site_s_lines() -> str:
    where = _on(
        "openpbs",
        pre=["ulimit -c 0"],
        post=["echo finished"],
        directives={"filesystems": "home:eagle", "group_list": "phys", "chunk.model": "a100"},
        runtimeOptions=["--ipc"],
        writable="none",
        logLimit="1Mi",
    )
    return text_of(workload(container("work")), where)


def _modules() -> str:
    return text_of(workload(container("work")), _on("slurm", modules=["apptainer/1.4"], directives={"qos": "high"}))


def _old_runtime() -> str:
    where = _on("openpbs", runtime="singularity", runtimeVersion="3.8.7", writable="overlay")
    return text_of(
        workload(container(args=["--help"], env=[{"name": "HOME", "value": "/root"}, {"name": "A", "value": "$$x"}])),
        where,
    )


def _time_limit() -> str:
    return text_of(workload(container("timeout", "10m", "mpirun", "-np", "8", "./solver")), _mpi("openpbs", "openmpi"))


CASES: dict[str, Case] = {
    "openpbs-time-limit": Case(_time_limit),
    "openpbs-single": Case(_single("openpbs")),
    "openpbs-init-sidecar-restart": Case(_order),
    "openpbs-lifecycle": Case(_lifecycle),
    "openpbs-lifecycle-inside": Case(_inside_lifecycle),
    "openpbs-volumes": Case(_volumes),
    "openpbs-later-values": Case(_later, argv={"main": [b"work", b"pod-1"]}, env={"main": [b"INDEX=pod-1"]}),
    "openpbs-secret": Case(_secret("openpbs"), env={"main": [b"PASSWORD=x"]}),
    "openpbs-site-lines": Case(_site_s_lines),
    "openpbs-old-singularity": Case(_old_runtime),
    "openpbs-openmpi": Case(
        _ranks("openpbs", "openmpi", env={"UCX_TLS": "rc,self"}, binds=["/opt/fabric:/opt/fabric:ro"])
    ),
    "openpbs-hydra-uneven": Case(_ranks("openpbs", "hydra", 10)),
    "openpbs-openmpi-inside": Case(_inside("openpbs", "openmpi")),
    "openpbs-hydra-inside": Case(_inside("openpbs", "hydra")),
    "openpbs-gpu-exclusive": Case(_gpu("openpbs", gpus="exclusive")),
    "openpbs-gpu-ranks": Case(_gpu_ranks("openpbs", "hydra")),
    "torque-single": Case(_single("torque")),
    "torque-openmpi": Case(_ranks("torque", "openmpi")),
    "torque-gpu": Case(_gpu("torque")),
    "slurm-single": Case(_single("slurm")),
    "slurm-srun": Case(_ranks("slurm", "srun", options=["--mpi=pmix"])),
    "slurm-srun-inside": Case(_inside("slurm", "srun", options=["--mpi=pmix"])),
    "slurm-openmpi": Case(_ranks("slurm", "openmpi")),
    "slurm-gpu": Case(_gpu("slurm")),
    "slurm-gpu-ranks": Case(_gpu_ranks("slurm", "srun", gpus="rank")),
    "slurm-modules": Case(_modules),
    "slurm-pull": Case(lambda: text_of(workload(container("work")), _on("slurm", pull="job"))),
    "local-host-secret": Case(_secret("local", runtime="host"), env={"main": [b"PASSWORD=x"]}),
    "local-host-probe": Case(lambda: text_of(workload(PROBED), site("local", runtime="host"))),
    "local-host": Case(lambda: text_of(workload(container("/bin/echo", "hello")), site("local", runtime="host"))),
}


def main() -> None:
    PAIRS.write_text(pairs.shell())
    OPTIONS.write_text(launchoptions.shell())
    FOLDER.mkdir(exist_ok=True)
    for path in FOLDER.glob("*.sh"):
        path.unlink()
    for name, case in CASES.items():
        (FOLDER / f"{name}.sh").write_text(own_part(case.text()))


if __name__ == "__main__":
    main()
