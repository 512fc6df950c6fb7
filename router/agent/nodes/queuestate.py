"""Publishes the state of a site's queues for the webhook's rules, as one document of a ConfigMap.

It also keeps the site's notice, which tells everybody what the policy's ``public`` names (``router.operating.notices``).

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
from router.operating.notices import notice
from router.policy.schema import Account
from router.site.schema import Site
from router.startup.settings import QUEUES_MAX_AGE

log: Final = logging.getLogger("batchgate.agent")

SECONDS: Final = 30.0
RENEWED_SECONDS: Final = QUEUES_MAX_AGE / 2
"""Age at which an unchanged document is written again: half the age at which it would count as unknown."""

Entry = dict[str, Any]
_NEVER: Final = object()
"""Differs from every content."""


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
    return json.dumps({"time": moment_of(asked), "queues": list(queues)})


def moment_of(asked: float) -> str:
    """Seconds since 1970 in RFC 3339."""
    return datetime.fromtimestamp(asked, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


# --- shell -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Board:
    """The namespace of the ConfigMaps, the site, the policy's accounts now, and the times between writes in seconds."""

    namespace: str
    site: Site
    accounts: Callable[[], Sequence[Account]] = tuple
    every: float = SECONDS
    renewed: float = RENEWED_SECONDS


class _Paper:
    """One ConfigMap's document, which is written if its content is new, or before it becomes too old."""

    def __init__(self, api: Api, board: Board, config_map: str) -> None:
        self._api = api
        self._board = board
        self._path = f"/api/v1/namespaces/{board.namespace}/configmaps/{config_map}"
        self._written: object = _NEVER
        self._at = 0.0

    def renew(self, content: object, text: str | None, begun: float) -> bool:
        """Write ``text``, which says ``content`` and a time, if that is due; returns whether it did. Raises ApiError.

        :param text: None takes the document away
        """
        if content == self._written and begun - self._at < self._board.renewed:
            return False
        self._api.patch(self._path, {"data": {names.site_key(self._board.site.name): text}})
        self._written, self._at = content, begun
        return True


class QueueStatePublisher:
    """Publishes the state of one site's queues; ``start`` it while leading, ``stop`` it in the end.

    :param ask: the queues' state from the batch system; may raise BatchError
    :param ready: whether the batch system answers and this agent leads; asked before each question
    """

    def __init__(
        self, api: Api, ask: Callable[[], Mapping[str, QueueReport]], board: Board, *, ready: Callable[[], bool]
    ) -> None:
        self._ask = ask
        self._board = board
        self._ready = ready
        self._state = _Paper(api, board, names.QUEUES_CONFIG_MAP)
        self._notice = _Paper(api, board, names.PUBLIC_CONFIG_MAP)
        self._withdrawn = False
        self._problem = ""
        self._notice_problem = ""
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
        site = self._board.site
        found = entries(site.name, [queue.name for queue in site.queues], self._ask())
        self._tell_everybody(found, asked, begun)
        return bool(found) and self._state.renew(found, document(found, asked), begun)

    def _tell_everybody(self, found: Sequence[Entry], asked: float, begun: float) -> None:
        """Keep the site's notice, or take it away. It is not for rules, so a failure is only told."""
        site, told = self._board.site, bool(self._board.site.public)
        if not told and self._withdrawn:
            return
        self._withdrawn = not told
        content, text = (self._notice_of(found, moment) if told else None for moment in ("", moment_of(asked)))
        problem, place = "", f"{self._board.namespace}/{names.PUBLIC_CONFIG_MAP}"
        try:
            self._notice.renew(content, text, begun)
        except NotFound:
            problem = f"there is no ConfigMap {place}; manifests/public and the chart's public.enabled have it"
        except ApiError as error:
            problem = str(error)
        if told and problem and problem != self._notice_problem:
            fields = {"error": problem, "public": list(site.public)}
            log.warning("what the site tells everybody is not published", extra={"fields": fields})
        self._notice_problem = problem

    def _notice_of(self, found: Sequence[Entry], moment: str) -> str:
        return notice(self._board.site, self._board.accounts(), found, moment)

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
