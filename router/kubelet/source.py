"""What the kubelet API needs of the agent: its Pods, and the files of the site.

Interfaces only. ``LogSource.pod`` is asked in the thread that serves everybody: it answers at once, from memory. All
else may take its time; it is called in worker threads, several at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any, Protocol

from router.host import Status
from router.kubelet.figures import NodeUsage
from router.kubelet.runs import LoggedPod


class Files(Protocol):
    """Of ``router.host.Host``, what logs need. Errors are OSError, or BatchError where the site is far away."""

    def status(self, path: PurePath | str) -> Status | None:
        """What a name is; None where there is none."""

    def read(self, path: PurePath | str, offset: int = 0, limit: int = ...) -> bytes:
        """Bytes of an ordinary file, fewer than ``limit`` only at its end. FileNotFoundError; OSError for a link."""

    def put(self, path: PurePath | str, content: bytes) -> None:
        """Write a file, whole or not at all."""


class LogSource(Protocol):
    """The agent's Pods, also those whose queue has left the policy since."""

    def pod(self, namespace: str, name: str) -> LoggedPod | None:
        """A Pod of ours; None where there is none."""

    def files(self, pod: LoggedPod) -> Files:
        """Where the logs of this Pod lie."""

    def pods(self, node: str) -> Sequence[Mapping[str, Any]]:
        """The Pods of a Node as ``v1`` objects; of all our Nodes where the name is empty. ApiError."""

    def usage(self, node: str) -> NodeUsage:
        """What the Pods of a Node use, as far as the batch system has told; of all our Nodes where it is empty."""
