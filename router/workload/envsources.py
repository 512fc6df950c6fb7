"""Judges whether HPC has the source of a variable's value.

Pure.
"""

from __future__ import annotations

from typing import Final

from router.workload.fields import Findings, as_mapping, step, text

_ADDRESSES: Final = frozenset(["status.podIP", "status.podIPs", "status.hostIP", "status.hostIPs"])
_SOURCES: Final = frozenset(["configMapKeyRef", "secretKeyRef", "fieldRef", "resourceFieldRef"])


def judge_source(kind: str, reference: object, path: str, findings: Findings) -> None:
    """Note an obstacle for an unknown source, and for a Pod's address, which is set only after submission."""
    if kind not in _SOURCES:
        findings.block(step(path, kind), "is not known to Batchgate")
    elif kind == "fieldRef" and reference:
        field = text(as_mapping(reference, f"{path}.fieldRef"), "fieldPath", f"{path}.fieldRef")
        if field in _ADDRESSES:
            findings.block(
                f"{path}.fieldRef.fieldPath", f"needs {field}, which a Pod on HPC does not have when it is submitted"
            )
