"""Looks at the logs of running containers every few seconds, so that ``kubectl logs --since`` knows their times.

Shell: one thread of its own, as a hanging file server would block it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Final

from router.agent.files.log_source import logged
from router.agent.records import Record, Records
from router.background.loop import Loop
from router.errors import BatchError
from router.host import Host
from router.kubelet.indexes import Indexes, Run
from router.kubelet.runs import RunState

log: Final = logging.getLogger("batchgate.agent")

SECONDS: Final = 10.0


class Indexing:
    """Feeds the indexes with one user's logs; ``start`` it, ``stop`` it in the end."""

    def __init__(self, host: Host, records: Records, indexes: Indexes) -> None:
        self._host = host
        self._records = records
        self._indexes = indexes
        self._growing: set[Run] = set()
        self._loop = Loop("indexing", self._turn)

    def await_end(self) -> None:
        """Wait, after ``stop``, until the thread has ended; returns at once if it never started."""
        self._loop.await_end()

    @property
    def alive(self) -> bool:
        """Whether its thread runs."""
        return self._loop.alive

    def start(self) -> None:
        """Start the thread."""
        self._loop.start(SECONDS)

    def stop(self) -> None:
        """Stop the thread."""
        self._loop.stop()

    def _turn(self) -> float:
        self.look()
        return SECONDS

    def look(self) -> None:
        """Look at each running log once, and one last time at each log that has ended.

        A failed last look is tried again for as long as the Pod is known.
        """
        running = {run for record in self._records.all() for run in self._runs(record)}
        for run in running:
            self._try(run, ended=False)
        left = {run for run in self._growing - running if not self._try(run, ended=True)}
        self._growing = running | {run for run in left if self._records.get(run.directory.pod_uid) is not None}

    def _runs(self, record: Record) -> Iterator[Run]:
        if record.facts.pod.status.started is None or record.facts.pod.status.terminal:
            return
        for one in logged(record).containers:
            if one.run is not None and one.state is RunState.RUNNING:
                yield Run(self._host, record.directory, one.name, one.run)

    def _try(self, run: Run, *, ended: bool) -> bool:
        try:
            if ended:
                self._indexes.end(run)
            else:
                self._indexes.look(run)
        except (OSError, BatchError) as error:
            fields = {"log": str(run.log), "error": str(error)}
            log.info("the times of a log are not noted", extra={"fields": fields})
            return False
        return True
