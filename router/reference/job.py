"""The fields of ``JobSpec`` and of the Pod template around the Pod's spec."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from router.reference.rows import Rows, above, harmless, honoured, parts, translated

_CONTROLLER: Final = "by Kubernetes' Job controller, to which a Pod on HPC is a Pod"
_NOT_COPIED: Final = "in every cluster: the Job controller does not copy it to Pods"

_JOB_SPEC: Final[Rows] = {
    "activeDeadlineSeconds": translated(
        "moves to the Pod template: it counts from the start of each run, and time in the queue does not count",
        kept="is 0, which leaves no time to run",
    ),
    "backoffLimit": honoured(_CONTROLLER),
    "backoffLimitPerIndex": honoured(_CONTROLLER),
    "completionMode": honoured("each index is a batch job, which knows its index"),
    "completions": honoured(_CONTROLLER),
    "managedBy": harmless(
        "where it names Kubernetes' own Job controller",
        kept="names …, and only Pods that Kubernetes' own Job controller makes can go there",
        usual="kubernetes.io/job-controller",
    ),
    "manualSelector": honoured(_CONTROLLER),
    "maxFailedIndexes": honoured(_CONTROLLER),
    "parallelism": honoured("so many Pods, each a batch job, wait or run at once"),
    "podFailurePolicy": honoured(
        "with the containers' own exit codes; a Job without one gets rules for batch jobs that were killed",
        "PodFailurePolicy",
    ),
    "podReplacementPolicy": translated("`Failed`: a Pod is replaced only once its batch job has ended", usual="Failed"),
    "selector": honoured(_CONTROLLER, "LabelSelector"),
    "successPolicy": honoured(_CONTROLLER, "SuccessPolicy"),
    "suspend": honoured("its Pods and their batch jobs are ended while it is set"),
    "template": parts("PodTemplateSpec"),
    "ttlSecondsAfterFinished": honoured(_CONTROLLER),
}

_METADATA: Final[Rows] = {
    "annotations": honoured("on the Pods; the hints among them are read"),
    "labels": honoured("on the Pods"),
    "finalizers": honoured("on the Pods, which stay until they are removed"),
    "managedFields": harmless(_NOT_COPIED, "ManagedFieldsEntry"),
    "ownerReferences": harmless(_NOT_COPIED, "OwnerReference"),
    **{
        name: harmless(_NOT_COPIED)
        for name in (
            "creationTimestamp",
            "deletionGracePeriodSeconds",
            "deletionTimestamp",
            "generateName",
            "generation",
            "name",
            "namespace",
            "resourceVersion",
            "selfLink",
            "uid",
        )
    },
}

TYPES: Final[Mapping[str, Rows]] = {
    "JobSpec": _JOB_SPEC,
    "PodFailurePolicy": above(rules="PodFailurePolicyRule"),
    "PodFailurePolicyRule": above(
        "action",
        onExitCodes="PodFailurePolicyOnExitCodesRequirement",
        onPodConditions="PodFailurePolicyOnPodConditionsPattern",
    ),
    "PodFailurePolicyOnExitCodesRequirement": above("containerName", "operator", "values"),
    "PodFailurePolicyOnPodConditionsPattern": above("status", "type"),
    "SuccessPolicy": above(rules="SuccessPolicyRule"),
    "SuccessPolicyRule": above("succeededCount", "succeededIndexes"),
    "LabelSelector": above("matchLabels", matchExpressions="LabelSelectorRequirement"),
    "LabelSelectorRequirement": above("key", "operator", "values"),
    "PodTemplateSpec": {"metadata": parts("ObjectMeta"), "spec": parts("PodSpec")},
    "ObjectMeta": _METADATA,
    "ManagedFieldsEntry": above("apiVersion", "fieldsType", "fieldsV1", "manager", "operation", "subresource", "time"),
    "OwnerReference": above("apiVersion", "blockOwnerDeletion", "controller", "kind", "name", "uid"),
}
"""Rows by type."""
