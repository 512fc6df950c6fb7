"""Reads the fields of a Pod that name credentials of the cluster.

Pure. Each raises JobError for a value of another kind.
"""

from __future__ import annotations

from typing import Final

from router.workload.credentials import PodAccount, SecretRef
from router.workload.fields import Fields, flag, mapping, mappings, text

_AUTOMOUNT: Final = "automountServiceAccountToken"


def read_account(pod: Fields, path: str) -> PodAccount:
    """The service account of a Pod's spec."""
    return PodAccount(
        text(pod, "serviceAccountName", path) or text(pod, "serviceAccount", path),
        None if pod.get(_AUTOMOUNT) is None else flag(pod, _AUTOMOUNT, path),
        tuple([text(reference, "name", here) for here, reference in mappings(pod, "imagePullSecrets", path)]),
    )


def of_variable(source: Fields, path: str) -> SecretRef:
    """The ``secretKeyRef`` of a ``valueFrom``.

    :param path: of the ``valueFrom``
    """
    here = f"{path}.secretKeyRef"
    reference = mapping(source, "secretKeyRef", path)
    return SecretRef(here, text(reference, "name", here), text(reference, "key", here))


def of_all_keys(source: Fields, path: str) -> SecretRef:
    """The ``secretRef`` of an entry of ``envFrom``.

    :param path: of the entry
    """
    here = f"{path}.secretRef"
    return SecretRef(here, text(mapping(source, "secretRef", path), "name", here))
