"""Keeps one seat for each HPC user whose jobs an agent submits, with that user's files and commands.

Shell (a lock). A seat is made when it is first needed, and kept. Making it opens no connection: seats are made even
while a login node is down, and one user's trouble affects only that user.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from router.agent.batch.commands import BatchCommands
from router.agent.submission.submitting import WrongUser
from router.host import Host


@dataclass(frozen=True, slots=True)
class Seat:
    """One HPC user on the site: files below ``root`` and commands, both as that user."""

    user: str
    root: str
    host: Host
    commands: BatchCommands


class Seats:
    """The seats of one site.

    :param users: the users whom accounts of the policy name; those whom this deployment may act as are attended to from
        the start
    :param make: makes a user's seat, without a connection
    :param refusal: why this deployment may not act as a user; empty if it may
    """

    def __init__(self, users: Iterable[str], *, make: Callable[[str], Seat], refusal: Callable[[str], str]) -> None:
        self.users = tuple(sorted({user for user in users if not refusal(user)}))
        self._make = make
        self._refusal = refusal
        self._lock = threading.Lock()
        self._kept: dict[str, Seat] = {}

    def of(self, user: str) -> Seat:
        """The seat of a user. Raises WrongUser if this deployment may not act as that user."""
        if words := self._refusal(user):
            raise WrongUser(words)
        with self._lock:
            if user not in self._kept:
                self._kept[user] = self._make(user)
            return self._kept[user]
