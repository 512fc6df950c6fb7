"""What keeps a Job in the cloud because of the site it would go to."""

from __future__ import annotations

from typing import Any

import pytest

from router import script
from router.site.profiles import profile_of
from router.workload.model import Workload
from tests.script.builders import container, site, workload

OPENMPI = [{"name": "om", "launcher": "openmpi"}]
C0 = "spec.template.spec.containers[0]"
POD = "spec.template.spec"
V0 = "spec.template.spec.volumes[0]"
SECRET_ENV = {"name": "S", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}


def reasons(job: Workload, **fields: Any) -> dict[str, str]:
    where = site(fields.pop("system", "openpbs"), **fields)
    return {obstacle.path: obstacle.reason for obstacle in script.unsupported(job, where, profile_of(job, where))}


def with_volume(**source: Any) -> Workload:
    mounts = [{"name": "v", "mountPath": "/v"}]
    return workload(container("true", volumeMounts=mounts), volumes=[{"name": "v", **source}])


@pytest.mark.parametrize(
    ("job", "fields"),
    [
        (workload(container("true")), {}),
        (workload(container()), {}),
        (workload(container("true")), {"system": "local", "runtime": "host"}),
        (with_volume(emptyDir={}), {}),
        (with_volume(ephemeral={"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"]}}}), {}),
        (with_volume(configMap={"name": "c"}), {}),
        (with_volume(downwardAPI={"items": []}), {}),
        (with_volume(projected={"sources": [{"configMap": {"name": "c"}}]}), {}),
        (with_volume(secret={"secretName": "s"}), {"secrets": "stage"}),
        (workload(container("true"), imagePullSecrets=[{"name": "s"}]), {"secrets": "pull"}),
        (workload(container("true"), imagePullSecrets=[{"name": "s"}]), {"secrets": "stage"}),
        (workload(container("true", "$(T)", env=[SECRET_ENV])), {"secrets": "stage"}),
        (workload(container("true"), automountServiceAccountToken=True), {"tokens": "stage"}),
        (workload(container("true"), automountServiceAccountToken=False), {"needTokens": ["*"]}),
        (with_volume(projected={"sources": [{"serviceAccountToken": {"path": "t"}}]}), {"tokens": "stage"}),
        (with_volume(hostPath={"path": "/data/x"}), {"volumes": [{"hostPath": "/data", "path": "/lustre"}]}),
        (workload(container("mpirun", "-np", "2", "a")), {"mpi": OPENMPI}),
        (workload(container("true"), hostNetwork=True, hostIPC=True), {"runtimeOptions": ["--nv"]}),
        (workload(container("true", securityContext={"privileged": True})), {"ignorePrivileged": ["phys*"]}),
        (workload(container("true"), schedulerName="volcano"), {"ignoreSchedulers": ["other", "vol*"]}),
        (workload(container("true", livenessProbe={"exec": {"command": ["true"]}})), {"runtimeOptions": ["--net"]}),
        (workload(container("true")), {"pull": "never", "images": [{"match": "*", "path": "/x"}]}),
        (workload(container("true"), imagePullSecrets=[{"name": "s"}]), {"images": [{"match": "*", "path": "/x"}]}),
    ],
)
def test_nothing_is_in_the_way(job: Workload, fields: dict[str, Any]) -> None:
    assert reasons(job, **fields) == {}


@pytest.mark.parametrize(
    ("job", "fields", "path", "words"),
    [
        (workload(container("true")), {"runtime": "host"}, C0, "without a container"),
        (workload(container()), {"system": "local", "runtime": "host"}, f"{C0}.command", "no image to take an entrypoint"),
        (with_volume(emptyDir={}), {"system": "local", "runtime": "host"}, f"{C0}.volumeMounts[0]", "runtime host"),
        (with_volume(secret={"secretName": "s"}), {}, f"{V0}.secret", "needs Secret s, and secrets of site hpc1 is cloud; its admin could set stage"),
        (with_volume(projected={"sources": [{"configMap": {}}, {"secret": {"name": "p"}}]}), {}, f"{V0}.projected.sources[1].secret", "needs Secret p, and secrets of site hpc1 is cloud; its admin could set stage"),
        (with_volume(projected={"sources": [{"serviceAccountToken": {}}]}), {}, f"{V0}.projected.sources[0].serviceAccountToken", "is a token of a service account, and tokens of site hpc1 is cloud; its admin could set stage"),
        (workload(container("true"), serviceAccountName="robot", automountServiceAccountToken=True), {"needTokens": ["*"]}, f"{POD}.automountServiceAccountToken", "asks for a token of service account robot, and tokens of site hpc1 is cloud; its admin could set stage"),
        (workload(container("true"), serviceAccountName="robot"), {"needTokens": ["lab/*", "physics/rob*"]}, f"{POD}.serviceAccountName", "is robot, which needs its token by needTokens of site hpc1, and tokens of site hpc1 is cloud; its admin could set stage"),
        (workload(container("true")), {"needTokens": ["physics/default"]}, f"{POD}.serviceAccountName", "is default, which needs"),
        (with_volume(projected={"sources": [{"clusterTrustBundle": {}}]}), {}, f"{V0}.projected.sources[0].clusterTrustBundle", "do not have"),
        (with_volume(hostPath={"path": "/etc"}), {}, f"{V0}.hostPath", "offers"),
        (with_volume(persistentVolumeClaim={"claimName": "c"}), {}, f"{V0}.persistentVolumeClaim", "physics/c"),
        (with_volume(csi={"driver": "d"}), {}, f"{V0}.csi", "of CSI driver d, whose data are not at site hpc1; its admins can add an entry with csi to volumes of hpc1"),
        (workload(container("true", env=[SECRET_ENV])), {}, f"{C0}.env[0].valueFrom.secretKeyRef", "needs Secret s (key k), and secrets of site hpc1 is cloud; its admin could set stage"),
        (workload(container("true", envFrom=[{"secretRef": {"name": "s"}}])), {"secrets": "pull"}, f"{C0}.envFrom[0].secretRef", "needs Secret s, and secrets of site hpc1 is pull; its admin could set stage"),
        (workload(container("curl", "-u$(S)", env=[SECRET_ENV])), {"secrets": "stage"}, f"{C0}.command[1]", "would put S, a value of a Secret, into a command line that others on the node can read; have the program read a variable or a file"),
        (workload(container("true", env=[SECRET_ENV | {"name": "HOME"}])), {"secrets": "stage"}, f"{C0}.env[0].name", "would put HOME, a value of a Secret, into a command line"),
        (workload(container("true"), hostNetwork=True), {"runtimeOptions": ["--net=x"]}, f"{POD}.hostNetwork", "asks for the network of its node, and runtimeOptions of site hpc1 have --net"),
        (workload(container("true"), hostIPC=True), {"runtimeOptions": ["-C"]}, f"{POD}.hostIPC", "asks for the shared memory of its node, and runtimeOptions of site hpc1 have -C"),
        (workload(container("true"), schedulerName="volcano"), {"ignoreSchedulers": ["other"]}, f"{POD}.schedulerName", "asks for the scheduler volcano, which has no part in HPC; ignoreSchedulers of site hpc1 lists those that a Job can do without"),
        (workload(container("true", securityContext={"privileged": True})), {"ignorePrivileged": ["lab"]}, f"{C0}.securityContext.privileged", "needs privileges that an ordinary HPC user cannot have; ignorePrivileged of site hpc1 lists namespaces whose Jobs run without"),
        (workload(container("true", livenessProbe={"tcpSocket": {"port": 80}})), {"runtimeOptions": ["--net"]}, C0, "is asked over the network of its node by a hook or probe, and runtimeOptions of site hpc1 have --net"),
        (workload(container("true")), {"pull": "never"}, f"{C0}.image", "pulls none"),
        (workload(container("true"), imagePullSecrets=[{"name": "s"}]), {}, f"{C0}.image", "pulled with the Secret s, which is not brought to site hpc1 (it would need pull: host, and secrets: pull or stage)"),
        (workload(container("true"), imagePullSecrets=[{"name": "s"}]), {"secrets": "stage", "pull": "job"}, f"{C0}.image", "pulled with the Secret s, which is not brought to site hpc1 (it would need pull: host, and secrets: pull or stage)"),
        (workload(container("true"), imagePullSecrets=[{"name": "s"}]), {"secrets": "pull", "pull": "job"}, f"{C0}.image", "pulled with the Secret s, which is not brought to site hpc1 (it would need pull: host, and secrets: pull or stage)"),
        (with_volume(secret={"secretName": "s"}), {"secrets": "pull"}, f"{V0}.secret", "needs Secret s, and secrets of site hpc1 is pull"),
        (workload(container("mpirun", "-np", "2", "a")), {}, f"{C0}.command", "no MPI profile"),
        (workload(container("mpirun", "-np", "2", "a")), {"mpi": [{"name": "s", "launcher": "srun"}]}, f"{C0}.command", "no Slurm"),
    ],
)  # fmt: skip
def test_a_reason_to_stay(job: Workload, fields: dict[str, Any], path: str, words: str) -> None:
    found = reasons(job, **fields)

    assert list(found) == [path]
    assert words in found[path]


@pytest.mark.parametrize(
    ("mount", "field"),
    [
        ({"mountPath": "/v", "subPath": "../x"}, "subPath"),
        ({"mountPath": "/v", "subPath": "a\nb"}, "subPath"),
        ({"mountPath": "v"}, "mountPath"),
        ({"mountPath": "/v\n"}, "mountPath"),
    ],
)
def test_a_mount_that_cannot_be(mount: dict[str, str], field: str) -> None:
    job = workload(container("true", volumeMounts=[{"name": "v", **mount}]), volumes=[{"name": "v", "emptyDir": {}}])

    assert list(reasons(job)) == [f"{C0}.volumeMounts[0].{field}"]


def test_all_reasons_at_once() -> None:
    job = workload(
        container("true", env=[SECRET_ENV]),
        volumes=[{"name": "a", "secret": {"secretName": "s"}}, {"name": "b", "iscsi": {}}],
    )

    assert len(reasons(job, pull="never")) == 4
