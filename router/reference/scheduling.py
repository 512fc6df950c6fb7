"""The fields by which a Pod chooses its node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from router.reference.rows import Rows, above, cloud, harmless, parts, translated

_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_WISH: Final = "the queue's node is chosen by the policy"
_WARNED: Final = "preferences about nodes have no effect on HPC"
_PODS: Final[Rows] = {
    _PREFERRED: harmless(_WISH, "WeightedPodAffinityTerm", warned=_WARNED),
    _REQUIRED: cloud("places the Pod relative to other Pods, which the batch system does not know", "PodAffinityTerm"),
}

TYPES: Final[Mapping[str, Rows]] = {
    "Affinity": {
        "nodeAffinity": parts("NodeAffinity"),
        "podAffinity": parts("PodAffinity"),
        "podAntiAffinity": parts("PodAntiAffinity"),
    },
    "NodeAffinity": {
        _PREFERRED: harmless(_WISH, "PreferredSchedulingTerm", warned=_WARNED),
        _REQUIRED: translated(
            "answered like `nodeSelector`; one of the terms is enough",
            "NodeSelector",
            kept="asks for …, which nodeLabels of queue … or ignoreNodeLabels of site … would have to answer",
        ),
    },
    "PodAffinity": _PODS,
    "PodAntiAffinity": _PODS,
    "NodeSelector": above(nodeSelectorTerms="NodeSelectorTerm"),
    "NodeSelectorTerm": above(matchExpressions="NodeSelectorRequirement", matchFields="NodeSelectorRequirement"),
    "NodeSelectorRequirement": above("key", "operator", "values"),
    "PreferredSchedulingTerm": above("weight", preference="NodeSelectorTerm"),
    "WeightedPodAffinityTerm": above("weight", podAffinityTerm="PodAffinityTerm"),
    "PodAffinityTerm": above(
        "matchLabelKeys",
        "mismatchLabelKeys",
        "namespaces",
        "topologyKey",
        labelSelector="LabelSelector",
        namespaceSelector="LabelSelector",
    ),
    "Toleration": above("effect", "key", "operator", "tolerationSeconds", "value"),
    "TopologySpreadConstraint": above(
        "matchLabelKeys",
        "maxSkew",
        "minDomains",
        "nodeAffinityPolicy",
        "nodeTaintsPolicy",
        "topologyKey",
        "whenUnsatisfiable",
        labelSelector="LabelSelector",
    ),
}
"""Rows by type."""
