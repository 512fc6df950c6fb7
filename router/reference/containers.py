"""The fields of containers of all kinds: their words, variables, ports, resources, mounts, probes and hooks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from router.reference.rows import Outcome, Row, Rows, above, cloud, harmless, honoured, parts, translated

_UNKNOWN: Final = "is not known to Batchgate"
_HOOK: Final = "is a hook that no kubelet runs"
_GRPC: Final = "asks by gRPC, for which HPC nodes have no client"
_PROBED: Final = (
    "run on the node: commands in the container's namespaces, HTTP and TCP to the loopback; Events as a kubelet's"
)
_SECRET: Final = "needs Secret …"  # noqa: S105 - a sentence
_FIGURES: Final = "unless a rule's `figures` say otherwise; no container is held to its own share"
_EXTENDED: Final = "asks for … (…), which no entry in resources of site … or its queue … matches"
_MESSAGE: Final = "as by a kubelet, where a file can be bound (docs/script.md)"

_CONTAINER: Final[Rows] = {
    "args": honoured("word for word, with `$(NAME)` expanded"),
    "command": honoured("word for word; an MPI launcher in it is replaced by the site's"),
    "env": parts("EnvVar"),
    "envFrom": parts("EnvFromSource"),
    "image": honoured(
        "run by the site's runtime: pulled, or the site's own file for it",
        kept="… is not among the images of site …",
    ),
    "imagePullPolicy": honoured("of an image that is pulled: `Always` asks the registry which one a tag is"),
    "lifecycle": parts("Lifecycle"),
    "livenessProbe": honoured(_PROBED, "Probe", kept=_GRPC),
    "name": honoured("in logs and status"),
    "ports": parts("ContainerPort"),
    "readinessProbe": honoured(f"{_PROBED}; by gRPC it is not run, with a warning", "Probe"),
    "resizePolicy": harmless("a batch job keeps its size", "ContainerResizePolicy"),
    "resources": parts("ResourceRequirements"),
    "restartPolicy": honoured("within the batch job; `Always` of an init container makes it a sidecar"),
    "restartPolicyRules": honoured(
        "within the batch job",
        "ContainerRestartRule",
        kept="is '…', and on HPC each container runs again by itself alone",
        since=34,
    ),
    "securityContext": parts("SecurityContext"),
    "startupProbe": honoured(_PROBED, "Probe", kept=_GRPC),
    "stdin": harmless("what reads its input comes to the end at once", warned="nobody attaches to a batch job"),
    "stdinOnce": harmless("it says only when `stdin` ends"),
    "terminationMessagePath": honoured(_MESSAGE),
    "terminationMessagePolicy": honoured(_MESSAGE),
    "tty": harmless("programs print as they do into a file", warned="a batch job has no terminal"),
    "volumeDevices": cloud("needs a block device of the cluster", "VolumeDevice"),
    "volumeMounts": parts("VolumeMount"),
    "workingDir": honoured("else the image's own, where the agent knows the image; else `/`"),
}
_RESOURCES: Final[Rows] = {
    "claims": cloud("claims devices from the cluster's scheduler", "ResourceClaim"),
    "limits": translated(f"the memory of the batch job, {_FIGURES}", kept=_EXTENDED),
    "requests": translated(
        f"the cores of the batch job, {_FIGURES}", kept=_EXTENDED, warned="of disk are not asked of the batch system"
    ),
}

TYPES: Final[Mapping[str, Rows]] = {
    "Container": _CONTAINER,
    # Of a container that is no part of any template; its Pod's row keeps the Job in the cloud.
    "EphemeralContainer": {
        **{name: Row(Outcome.ABOVE, holds=row.holds, since=row.since) for name, row in _CONTAINER.items()},
        **above("targetContainerName"),
    },
    "EnvVar": {
        "name": honoured("of any form that Kubernetes takes"),
        "value": honoured("with `$(NAME)` expanded"),
        "valueFrom": parts("EnvVarSource"),
    },
    "EnvVarSource": {
        "configMapKeyRef": honoured("read by the agent when the Pod is submitted", "ConfigMapKeySelector"),
        "fieldRef": honoured(
            "of the Pod", "ObjectFieldSelector", kept="needs …, which a Pod on HPC does not have when it is submitted"
        ),
        "fileKeyRef": cloud(_UNKNOWN, "FileKeySelector", since=34),
        "resourceFieldRef": honoured("of the container; a missing limit is the node's amount", "ResourceFieldSelector"),
        "secretKeyRef": honoured(
            "where the site has `secrets: stage`; a Job that puts such a value into a command line stays",
            "SecretKeySelector",
            kept=_SECRET,
        ),
    },
    "EnvFromSource": {
        "configMapRef": honoured("read by the agent when the Pod is submitted", "ConfigMapEnvSource"),
        "prefix": honoured("before each name"),
        "secretRef": honoured("where the site has `secrets: stage`", "SecretEnvSource", kept=_SECRET),
    },
    "ConfigMapKeySelector": above("key", "name", "optional"),
    "SecretKeySelector": above("key", "name", "optional"),
    "FileKeySelector": above("key", "optional", "path", "volumeName", since=34),
    "ObjectFieldSelector": above("apiVersion", "fieldPath"),
    "ResourceFieldSelector": above("containerName", "divisor", "resource"),
    "ConfigMapEnvSource": above("name", "optional"),
    "SecretEnvSource": above("name", "optional"),
    "ContainerPort": {
        "containerPort": harmless(
            "it documents what the program opens, on the node's network", warned="which only root may open"
        ),
        "hostIP": harmless("without `hostPort` it says nothing"),
        "hostPort": cloud("takes a port of the node, and HPC nodes take no connections from outside"),
        "name": harmless("probes find the port by it; Services do too, and HPC has none"),
        "protocol": harmless("it documents what the program opens", usual="TCP"),
    },
    "ContainerResizePolicy": above("resourceName", "restartPolicy"),
    "ContainerRestartRule": above("action", exitCodes="ContainerRestartRuleOnExitCodes", since=34),
    "ContainerRestartRuleOnExitCodes": above("operator", "values", since=34),
    "ResourceRequirements": _RESOURCES,
    "ResourceClaim": above("name", "request"),
    "VolumeDevice": above("devicePath", "name"),
    "VolumeMount": {
        "mountPath": honoured("in the container"),
        "mountPropagation": harmless(
            "`None` is what a mount has",
            kept="passes mounts between node and container, which needs privileges",
            usual="None",
        ),
        "name": honoured("of the volume"),
        "readOnly": honoured("by the mount"),
        "recursiveReadOnly": harmless(
            "it may be left out", kept="demands recursive read-only mounts", usual="Disabled"
        ),
        "subPath": honoured("looked up without leaving the volume", kept="leaves its volume by '..'"),
        "subPathExpr": cloud("makes a path from variables, which HPC does not support"),
    },
    "Lifecycle": {
        "postStart": honoured("run in the container", "LifecycleHandler", kept=_HOOK),
        "preStop": honoured("run in the container before TERM", "LifecycleHandler", kept=_HOOK),
        "stopSignal": harmless(
            "`SIGTERM` is what containers get",
            kept="is a signal that a batch job does not send",
            usual="SIGTERM",
            since=33,
        ),
    },
    "LifecycleHandler": above(
        exec="ExecAction", httpGet="HTTPGetAction", sleep="SleepAction", tcpSocket="TCPSocketAction"
    ),
    "Probe": above(
        "failureThreshold",
        "initialDelaySeconds",
        "periodSeconds",
        "successThreshold",
        "terminationGracePeriodSeconds",
        "timeoutSeconds",
        exec="ExecAction",
        grpc="GRPCAction",
        httpGet="HTTPGetAction",
        tcpSocket="TCPSocketAction",
    ),
    "ExecAction": above("command"),
    "GRPCAction": above("port", "service"),
    "HTTPGetAction": above("host", "path", "port", "scheme", httpHeaders="HTTPHeader"),
    "HTTPHeader": above("name", "value"),
    "SleepAction": above("seconds"),
    "TCPSocketAction": above("host", "port"),
}
"""Rows by type."""
