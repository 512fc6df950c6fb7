"""Interfaces to the agent that the kubelet API needs: the agent's Pods, and the site's files.

``LogSource.pod`` is called in the server's only thread, so it must answer at once, from memory. All other methods may
block; they are called in worker threads, several at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Protocol

from router.host import Piped, Status
from router.kubelet.figures import NodeUsage
from router.kubelet.runs import LoggedPod


class Files(Protocol):
    """The part of ``router.host.Host`` that logs need. Raises OSError, or BatchError for a remote site."""

    def status(self, path: PurePath | str) -> Status | None:
        """The status of a path; None if it is missing."""

    def read(self, path: PurePath | str, offset: int = 0, limit: int = ...) -> bytes:
        """Bytes of an ordinary file; fewer than ``limit`` only at its end. FileNotFoundError; OSError for a link."""

    def put(self, path: PurePath | str, content: bytes) -> None:
        """Write a file, whole or not at all."""


@dataclass(frozen=True, slots=True)
class Entered:
    """``router.host.inside`` on the container's node.

    :param contained: whether a container runtime started the container
    """

    piped: Piped
    contained: bool


class LogSource(Protocol):
    """The agent's Pods, also Pods whose queue was removed from the policy."""

    def pod(self, namespace: str, name: str) -> LoggedPod | None:
        """One of the agent's Pods; None if it is unknown."""

    def files(self, pod: LoggedPod) -> Files:
        """The files among which this Pod's logs are."""

    def pods(self, node: str) -> Sequence[Mapping[str, Any]]:
        """The Pods of a Node (empty: of all our Nodes) as ``v1`` objects. Raises ApiError."""

    def allow(self, what: str) -> None:
        """Check that the site lets users into containers. Raises RequestError.

        :param what: ``exec`` or ``attach``, for the sentence
        """

    def enter(self, pod: LoggedPod, container: str, program: str) -> Entered:
        """Start the program that runs a command in a running container, and note who asked for what in an Event.

        :param program: the command's first word
        :raises RequestError: the site does not allow it, or lacks a way for it
        """

    def usage(self, node: str) -> NodeUsage:
        """The usage of a Node's Pods (empty: of all our Nodes), as far as the batch system reports it."""
