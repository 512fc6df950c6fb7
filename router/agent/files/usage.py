"""Reads what scripts note of their jobs' usage, for the Pods of which the batch system tells nothing.

Shell: one small file a Pod, read when somebody asks for figures, and never on the batch system. A question takes a short
time however many Pods there are: those asked about longest ago are read first, and the others keep what is known.
"""

from __future__ import annotations

import math
import re
import threading
import time
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from typing import Final

from router.agent.records import Record
from router.host import Host, HostUnavailable
from router.kubelet.figures import Usage
from router.pod import layout

AGAIN_SECONDS: Final = 30.0
"""Between two looks at one file; scripts write it every minute, and more often at first."""
MOST_SECONDS: Final = 2.0
"""For one question: metrics-server waits 10 s for an answer."""
OLD_SECONDS: Final = 600.0
"""Older figures are left out: the script has ended, or its file server hangs."""
_NOTED: Final = re.compile(rb"([0-9]{1,11}) ([0-9]{1,18}|-) ([0-9]{1,18}|-)\n")
"""Below 10**18: readers of metrics have 64 bits with a sign, and one bad figure may cost them a whole answer."""
_LONGEST: Final = 64


@dataclass(frozen=True, slots=True)
class _Look:
    at: float
    usage: Usage | None


class NotedUsage:
    """The figures of scripts by Pod.

    :param host_of: takes a Pod's uid; returns the host with the Pod's files
    """

    def __init__(self, host_of: Callable[[str], Host], clock: Callable[[], float] = time.monotonic) -> None:
        self._host_of = host_of
        self._clock = clock
        self._looks: dict[str, _Look] = {}
        self._reading = threading.Lock()

    def of(self, records: Sequence[Record], living: Container[str]) -> dict[str, Usage]:
        """The known figures of these Pods, by uid.

        :param living: uids of all Pods; what is known of others is forgotten
        """
        if self._reading.acquire(blocking=False):  # else another Node is asked about, and this answer need not wait
            try:
                self._looks = {uid: look for uid, look in self._looks.items() if uid in living}
                self._look(records)
            finally:
                self._reading.release()
        oldest = time.time() - OLD_SECONDS
        known = {one.uid: look.usage for one in records if (look := self._looks.get(one.uid)) is not None}
        return {uid: usage for uid, usage in known.items() if usage is not None and usage.at > oldest}

    def _look(self, records: Sequence[Record]) -> None:
        begun = self._clock()
        due = [one for one in records if begun - self._looked(one) >= AGAIN_SECONDS]
        silent: set[int] = set()
        for record in sorted(due, key=self._looked):
            if self._clock() - begun > MOST_SECONDS:
                return
            host = self._host_of(record.uid)
            if id(host) in silent:
                continue
            try:
                usage = noted(host.read(record.directory.path / layout.USAGE, limit=_LONGEST), time.time())
            except HostUnavailable:
                silent.add(id(host))
                continue
            except OSError:  # missing, or exchanged by its user for a link or pipe, which costs other Pods nothing
                usage = None
            before = self._looks.get(record.uid)
            self._looks[record.uid] = _Look(self._clock(), usage or (before.usage if before else None))

    def _looked(self, record: Record) -> float:
        look = self._looks.get(record.uid)
        return look.at if look else -math.inf


def noted(content: bytes, now: float) -> Usage | None:
    """The figures in a script's file; None for anything else, such as a file that is being written.

    :param now: seconds since 1970: a node's clock may be ahead, and figures of the future would never be renewed
    """
    found = _NOTED.fullmatch(content)
    if found is None or found[2] == found[3] == b"-":
        return None
    cpu, memory = (None if word == b"-" else int(word) for word in (found[2], found[3]))
    return Usage(min(float(found[1]), now), None if cpu is None else cpu / 1e9, memory)
