"""Holds which credentials of the cluster a Pod uses: Secrets of its variables, its service account and pull secrets.

Pure data. Of a Secret only its name and key are known here, never its content.
"""

from __future__ import annotations

from router.values import unchanging


@unchanging
class SecretRef:
    """A field that takes a variable from a Secret, or all its keys if ``key`` is empty."""

    path: str
    name: str
    key: str = ""


@unchanging
class PodAccount:
    """The service account of a Pod.

    :param name: as written; empty for the namespace's ``default``
    :param mounts_token: the Pod's own word on the automatic mount of a token; None if it leaves that to the account
    :param pull_secrets: names of the Pod's own
    """

    name: str = ""
    mounts_token: bool | None = None
    pull_secrets: tuple[str, ...] = ()
