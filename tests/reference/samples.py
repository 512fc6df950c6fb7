"""For each row with a sentence that keeps a Job in the cloud: a Job that has the field, and is kept by it."""

from __future__ import annotations

from typing import Any, Final

from router.reference.rows import Outcome
from router.reference.table import TYPES
from tests.workload.manifests import Manifest, container, job

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_ELSEWHERE: Final = [kind for kind, row in TYPES["Volume"].items() if row.outcome is Outcome.CLOUD]


def _pod(**fields: Any) -> Manifest:
    return job(pod=fields)


def _main(**fields: Any) -> Manifest:
    return job(container(**fields))


def _env(**source: Any) -> Manifest:
    return _main(env=[{"name": "A", "valueFrom": source}])


def _mount(**fields: Any) -> Manifest:
    mount = {"name": "v", "mountPath": "/v", **fields}
    return job(container(volumeMounts=[mount]), pod={"volumes": [{"name": "v", "emptyDir": {}}]})


def _volume(kind: str, **fields: Any) -> Manifest:
    first = next(iter(TYPES[TYPES["Volume"][kind].holds]))
    return _pod(volumes=[{"name": "v", kind: fields or {first: "a"}}])


def _claimed(**spec: Any) -> Manifest:
    return _volume("ephemeral", volumeClaimTemplate={"spec": spec})


def _projected(**source: Any) -> Manifest:
    return _volume("projected", sources=[source])


def _security(**fields: Any) -> Manifest:
    return _main(securityContext=fields)


KEPT: Final[dict[str, Manifest]] = {
    "JobSpec.activeDeadlineSeconds": job(activeDeadlineSeconds=0),
    "JobSpec.managedBy": job(managedBy="example.com/other"),
    "PodSpec.activeDeadlineSeconds": _pod(activeDeadlineSeconds=0),
    "PodSpec.ephemeralContainers": _pod(ephemeralContainers=[{"name": "a"}]),
    "PodSpec.hostIPC": _pod(hostIPC=True),
    "PodSpec.hostNetwork": _pod(hostNetwork=True),
    "PodSpec.hostPID": _pod(hostPID=True),
    "PodSpec.imagePullSecrets": _pod(imagePullSecrets=[{"name": "a"}]),
    "PodSpec.automountServiceAccountToken": _pod(automountServiceAccountToken=True),
    "PodSpec.serviceAccountName": _pod(serviceAccountName="needy"),
    "PodSpec.nodeName": _pod(nodeName="a"),
    "PodSpec.nodeSelector": _pod(nodeSelector={"disk": "ssd"}),
    "PodSpec.os": _pod(os={"name": "windows"}),
    "PodSpec.resourceClaims": _pod(resourceClaims=[{"name": "a"}]),
    "PodSpec.schedulerName": _pod(schedulerName="volcano"),
    "PodSpec.schedulingGates": _pod(schedulingGates=[{"name": "a"}]),
    "PodSpec.schedulingGroup": _pod(schedulingGroup={"podGroupName": "a"}),
    "PodSpec.shareProcessNamespace": _pod(shareProcessNamespace=True),
    "PodSpec.subdomain": job(pod={"subdomain": "peers"}, parallelism=2, completions=2),
    "PodSpec.topologySpreadConstraints": _pod(topologySpreadConstraints=[{"topologyKey": "a"}]),
    "Container.image": _main(),
    "Container.livenessProbe": _main(livenessProbe={"grpc": {"port": 1}}),
    "Container.restartPolicyRules": _main(
        restartPolicy="Never", restartPolicyRules=[{"action": "RestartAllContainers"}]
    ),
    "Container.startupProbe": _main(startupProbe={"grpc": {"port": 1}}),
    "Container.volumeDevices": _main(volumeDevices=[{"name": "a", "devicePath": "/dev/a"}]),
    "EnvVarSource.fieldRef": _env(fieldRef={"fieldPath": "status.podIP"}),
    "EnvVarSource.fileKeyRef": _env(fileKeyRef={"path": "a"}),
    "EnvVarSource.secretKeyRef": _env(secretKeyRef={"name": "a", "key": "b"}),
    "EnvFromSource.secretRef": _main(envFrom=[{"secretRef": {"name": "a"}}]),
    "ContainerPort.hostPort": _main(ports=[{"containerPort": 8080, "hostPort": 8080}]),
    "ResourceRequirements.claims": _main(resources={"claims": [{"name": "a"}]}),
    "ResourceRequirements.limits": _main(resources={"limits": {"example.com/fpga": 1}}),
    "ResourceRequirements.requests": _main(
        resources={"requests": {"example.com/fpga": 1}, "limits": {"example.com/fpga": 1}}
    ),
    "VolumeMount.mountPropagation": _mount(mountPropagation="Bidirectional"),
    "VolumeMount.recursiveReadOnly": _mount(recursiveReadOnly="Enabled"),
    "VolumeMount.subPath": _mount(subPath="../a"),
    "VolumeMount.subPathExpr": _mount(subPathExpr="$(A)"),
    "Lifecycle.postStart": _main(lifecycle={"postStart": {"tcpSocket": {"port": 1}}}),
    "Lifecycle.preStop": _main(lifecycle={"preStop": {"tcpSocket": {"port": 1}}}),
    "Lifecycle.stopSignal": _main(lifecycle={"stopSignal": "SIGUSR1"}),
    "PodSecurityContext.windowsOptions": _pod(securityContext={"windowsOptions": {"hostProcess": True}}),
    "PodSecurityContext.sysctls": _pod(securityContext={"sysctls": [{"name": "a", "value": "1"}]}),
    "SecurityContext.windowsOptions": _security(windowsOptions={"hostProcess": True}),
    "SecurityContext.privileged": _security(privileged=True),
    "SecurityContext.procMount": _security(procMount="Unmasked"),
    "Capabilities.add": _security(capabilities={"add": ["SYS_ADMIN"]}),
    "SeccompProfile.type": _security(seccompProfile={"type": "Localhost", "localhostProfile": "a"}),
    "AppArmorProfile.type": _security(appArmorProfile={"type": "Localhost", "localhostProfile": "a"}),
    f"NodeAffinity.{_REQUIRED}": _pod(
        affinity={
            "nodeAffinity": {
                _REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "Exists"}]}]}
            }
        }
    ),
    f"PodAffinity.{_REQUIRED}": _pod(affinity={"podAffinity": {_REQUIRED: [{"topologyKey": "a"}]}}),
    f"PodAntiAffinity.{_REQUIRED}": _pod(affinity={"podAntiAffinity": {_REQUIRED: [{"topologyKey": "a"}]}}),
    "Volume.csi": _volume("csi", driver="d"),
    "Volume.hostPath": _volume("hostPath", path="/a"),
    "Volume.image": _volume("image", reference="a:1"),
    "Volume.nfs": _volume("nfs", server="a", path="/b"),
    "Volume.persistentVolumeClaim": _volume("persistentVolumeClaim", claimName="a"),
    "Volume.secret": _volume("secret", secretName="a"),
    **{f"Volume.{kind}": _volume(kind) for kind in _ELSEWHERE},
    "EmptyDirVolumeSource.medium": _volume("emptyDir", medium="HugePages"),
    "HostPathVolumeSource.type": _volume("hostPath", path="/a", type="Socket"),
    "VolumeProjection.clusterTrustBundle": _projected(clusterTrustBundle={"path": "a"}),
    "VolumeProjection.podCertificate": _projected(podCertificate={"signerName": "a"}),
    "VolumeProjection.secret": _projected(secret={"name": "a"}),
    "VolumeProjection.serviceAccountToken": _projected(serviceAccountToken={"path": "a"}),
    "PersistentVolumeClaimSpec.dataSource": _claimed(dataSource={"kind": "VolumeSnapshot", "name": "a"}),
    "PersistentVolumeClaimSpec.dataSourceRef": _claimed(dataSourceRef={"kind": "VolumeSnapshot", "name": "a"}),
    "PersistentVolumeClaimSpec.selector": _claimed(selector={"matchLabels": {"a": "b"}}),
    "PersistentVolumeClaimSpec.volumeMode": _claimed(volumeMode="Block"),
    "PersistentVolumeClaimSpec.volumeName": _claimed(volumeName="pv-7"),
}
"""By type and field. The site of ``STRICT`` maps nothing, brings nothing, and takes namespaces of the node away."""

STRICT: Final = """
sites:
  - name: strict
    system: slurm
    workDir: /scratch/{user}
    pull: never
    runtimeOptions: [--net, --ipc]
    needTokens: ["*/needy"]
    queues:
      - {name: q, nodes: 2, cpusPerNode: 8, walltimeDefault: 1h}
accounts:
  - {users: [ada], as: ada}
rules:
  - {name: all, hpc: [{queue: q}]}
"""
GENEROUS: Final = """
sites:
  - name: generous
    system: slurm
    workDir: /scratch/{user}
    images: [{match: "*", path: /images/all.sif}]
    ignorePrivileged: ["*"]
    secrets: stage
    tokens: stage
    apiServer: https://kubernetes.example.org:6443
    volumes:
      - {hostPath: /, path: /mirror}
      - {nfs: "filer:/vol", path: /vol}
      - {claim: "*", path: "/claims/{namespace}/{claim}"}
      - {csi: "*", path: /csi}
      - {image: "*", path: /models}
    queues:
      - {name: q, nodes: 2, cpusPerNode: 8, walltimeDefault: 1h, nodeLabels: {disk: ssd}}
accounts:
  - {users: [ada], as: ada}
rules:
  - {name: all, hpc: [{queue: q}]}
"""
