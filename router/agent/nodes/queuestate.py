"""Publishes the state of a site's queues for the webhook's rules, as one document of a ConfigMap.

Pure: ``entries``, ``document``. Shell: one thread. It asks the batch system every half minute, but only while the batch
system answers. It writes an answer if it differs from the last written one, or before that becomes too old. Without an
answer it writes nothing: for its reader, a document that is too old counts as unknown.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from router import names
from router.background.loop import Loop
from router.errors import ApiError, BatchError, NotFound
from router.hpc import QueueReport
from router.kube.client import Api
from router.startup.settings import QUEUES_MAX_AGE

log: Final = logging.getLogger("batchgate.agent")

SECONDS: Final = 30.0
RENEWED_SECONDS: Final = QUEUES_MAX_AGE / 2
"""Age at which an unchanged document is written again: half the age at which it would count as unknown."""

Entry = dict[str, Any]


# --- pure --------------------------------------------------------------------------------------------------------


def entries(site: str, queues: Sequence[str], found: Mapping[str, QueueReport]) -> list[Entry]:
    """The figures of a site's declared queues, as ``router.policy.states`` reads them; unknown figures are left out.

    A declared queue that is missing in the batch system's answer counts as down. An empty answer gives no entries.
    """
    return [_entry(site, name, found.get(name)) for name in queues] if found else []


def _entry(site: str, name: str, state: QueueReport | None) -> Entry:
    if state is None:
        return {"site": site, "queue": name, "up": False}
    figures = {
        "freeNodes": state.free_nodes,
        "queuedJobs": state.queued,
        "runningJobs": state.running,
        # Rounded down to minutes, as each change is written.
        "waitSeconds": None if state.waited is None else state.waited // 60 * 60,
    }
    known = {key: figure for key, figure in figures.items() if figure is not None}
    return {"site": site, "queue": name, "up": state.enabled and state.started, **known}


def document(queues: Sequence[Entry], asked: float) -> str:
    """The document as JSON. ``asked``: when its figures were asked for, in seconds since 1970."""
    moment = datetime.fromtimestamp(asked, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return json.dumps({"time": moment, "queues": list(queues)})


# --- shell -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Board:
    """The site's declared queues, the namespace of the ConfigMap, and the times between writes in seconds."""

    namespace: str
    site: str
    queues: tuple[str, ...]
    every: float = SECONDS
    renewed: float = RENEWED_SECONDS


class QueueStatePublisher:
    """Publishes the state of one site's queues; ``start`` it while leading, ``stop`` it in the end.

    :param ask: the queues' state from the batch system; may raise BatchError
    :param ready: whether the batch system answers and this agent leads; asked before each question
    """

    def __init__(
        self, api: Api, ask: Callable[[], Mapping[str, QueueReport]], board: Board, *, ready: Callable[[], bool]
    ) -> None:
        self._api = api
        self._ask = ask
        self._board = board
        self._ready = ready
        self._written: list[Entry] = []
        self._at = 0.0
        self._problem = ""
        self._loop = Loop("queue state", self._turn)

    def start(self) -> None:
        """Start the thread, which publishes at once."""
        self._loop.start()

    def stop(self) -> None:
        """Stop the thread. The published document stays, and grows old."""
        self._loop.stop()

    @property
    def alive(self) -> bool:
        """Whether its thread runs."""
        return self._loop.alive

    @property
    def problem(self) -> str:
        """Why the last turn failed to publish; empty if it succeeded or had no news."""
        return self._problem

    def look(self) -> bool:
        """Take one turn; returns whether it wrote. Raises BatchError, ApiError."""
        if not self._ready():
            return False
        asked, begun = time.time(), time.monotonic()
        board = self._board
        found = entries(board.site, board.queues, self._ask())
        if not found or (found == self._written and begun - self._at < board.renewed):
            return False
        path = f"/api/v1/namespaces/{board.namespace}/configmaps/{names.QUEUES_CONFIG_MAP}"
        self._api.patch(path, {"data": {names.site_key(board.site): document(found, asked)}})
        self._written, self._at = found, begun
        return True

    def _turn(self) -> float:
        try:
            self.look()
        except NotFound as error:
            place = f"{self._board.namespace}/{names.QUEUES_CONFIG_MAP}"
            self._tell(f"there is no ConfigMap {place}; manifests/base has it ({error})")
        except (BatchError, ApiError) as error:
            self._tell(str(error))
        else:
            self._tell("")
        return self._board.every

    def _tell(self, problem: str) -> None:
        if problem == self._problem:
            return
        self._problem = problem
        if problem:
            log.warning("the state of queues is not published", extra={"fields": {"error": problem}})
        else:
            log.info("the state of queues is published again")
