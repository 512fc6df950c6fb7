"""The fields of ``PodSpec``, and of the small objects in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from router.reference.rows import Rows, above, cloud, harmless, honoured, parts, translated

_PRIORITY: Final = "the batch system's own priorities hold"
_NAME: Final = "of the containers, by the kubelet's rules; docs/script.md names three cases that differ"
_CLAIMS: Final = "claims devices from the cluster's scheduler"

_POD_SPEC: Final[Rows] = {
    "activeDeadlineSeconds": translated(
        "the time of the containers, from their start; with grace period and margin it is the batch job's walltime",
        kept="is 0, which leaves no time to run",
    ),
    "affinity": parts("Affinity"),
    "automountServiceAccountToken": honoured(
        "where the site has `tokens: stage`; elsewhere it becomes `false`, and a Job that says `true` stays",
        kept="asks for a token of service account …, and tokens of site … is cloud; its admin could set stage",
    ),
    "containers": parts("Container"),
    "dnsConfig": honoured("in the container's `/etc/resolv.conf`, behind what the node's says", "PodDNSConfig"),
    "dnsPolicy": translated(
        "the node's resolver, as HPC has no cluster DNS; `None`: the Pod's own settings alone", usual="ClusterFirst"
    ),
    "enableServiceLinks": harmless("no variables of Services are set, as the network of Services ends at the cluster"),
    "ephemeralContainers": cloud("has ephemeral containers, which only a kubelet can attach", "EphemeralContainer"),
    "hostAliases": honoured("in the container's `/etc/hosts`", "HostAlias"),
    "hostIPC": harmless(
        "a batch job has its node's shared memory anyway",
        kept="asks for the shared memory of its node, and runtimeOptions of site … have …",
    ),
    "hostNetwork": harmless(
        "a batch job has its node's network anyway",
        kept="asks for the network of its node, and runtimeOptions of site … have …",
    ),
    "hostPID": cloud("sees the processes of the node"),
    "hostUsers": harmless("the process has no privileges on HPC in any case"),
    "hostname": honoured(_NAME),
    "hostnameOverride": honoured(_NAME, since=34),
    "imagePullSecrets": honoured(
        "where the site has `pull: host`, and `secrets: pull` or `stage`",
        "LocalObjectReference",
        kept="is pulled with the Secret …, which is not brought to site … (it would need …)",
    ),
    "initContainers": parts("Container"),
    "nodeName": cloud("is bound to a node of the user's choice"),
    "nodeSelector": translated(
        "answered by `nodeLabels` of each queue, which may add directives, and by the site's `ignoreNodeLabels`",
        kept="asks for …, which nodeLabels of queue … or ignoreNodeLabels of site … would have to answer",
    ),
    "os": harmless("HPC nodes have Linux", "PodOS", kept="asks for an operating system other than Linux"),
    "overhead": honoured("added to what is asked of the batch system"),
    "preemptionPolicy": harmless(_PRIORITY, usual="PreemptLowerPriority"),
    "priority": harmless(_PRIORITY),
    "priorityClassName": harmless(_PRIORITY, warned="has no effect on HPC, where the queue orders the jobs"),
    "readinessGates": harmless("a Job does not wait for Ready", "PodReadinessGate"),
    "resourceClaims": cloud(_CLAIMS, "PodResourceClaim"),
    "resources": parts("ResourceRequirements", since=32),
    "restartPolicy": honoured("within the batch job, with the kubelet's pauses"),
    "runtimeClassName": harmless(
        "the site's runtime runs the containers; the class's overhead is added",
        warned="where the site's runtime runs containers",
    ),
    "schedulerName": harmless(
        "where it names Kubernetes' own, or one of the site's `ignoreSchedulers`: the batch system places the Job",
        kept="asks for the scheduler …, which has no part in HPC; ignoreSchedulers of site … lists those that a Job can do without",
        usual="default-scheduler",
    ),
    "schedulingGates": cloud("waits for a gate of the cluster's scheduler", "PodSchedulingGate"),
    "schedulingGroup": cloud(
        "belongs to a group that the cluster's scheduler places together", "PodSchedulingGroup", since=36
    ),
    "securityContext": parts("PodSecurityContext"),
    "serviceAccount": honoured("as `serviceAccountName`, whose old name it is"),
    "serviceAccountName": honoured(
        "the Pod belongs to it, with its pull secrets; the row of `automountServiceAccountToken` says what becomes of its token",
        kept="… needs its token by needTokens of site …, and tokens of site … is cloud; its admin could set stage",
    ),
    "setHostnameAsFQDN": honoured(_NAME),
    "shareProcessNamespace": cloud("lets its containers see each other's processes"),
    "subdomain": honoured(
        "in the full host name",
        kept="is found by its peers through the cluster's DNS, which HPC nodes do not have; …",
    ),
    "terminationGracePeriodSeconds": honoured(
        "by the script at the deadline and at a deletion; where the batch system kills the job, its own pause holds"
    ),
    "tolerations": harmless(
        "they never keep a Pod off a node; those of not-ready and unreachable nodes are replaced, as batch jobs outlast their agent",
        "Toleration",
    ),
    "topologySpreadConstraints": harmless(
        "the policy chooses the queue",
        "TopologySpreadConstraint",
        kept="must spread Pods by … of nodes, which the batch system does not know",
        warned="preferences about nodes have no effect on HPC",
    ),
    "volumes": parts("Volume"),
}

TYPES: Final[Mapping[str, Rows]] = {
    "PodSpec": _POD_SPEC,
    "PodDNSConfig": above("nameservers", "searches", options="PodDNSConfigOption"),
    "PodDNSConfigOption": above("name", "value"),
    "HostAlias": above("hostnames", "ip"),
    "LocalObjectReference": above("name"),
    "PodOS": above("name"),
    "PodReadinessGate": above("conditionType"),
    "PodResourceClaim": above("name", "resourceClaimName", "resourceClaimTemplateName"),
    "PodSchedulingGate": above("name"),
    "PodSchedulingGroup": above("podGroupName", since=36),
}
"""Rows by type."""
