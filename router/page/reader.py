"""One reader's view of the cluster, kept up to date with that reader's own rights.

Shell (the API, threads). Jobs and Pods are watched, of each only a projection is kept. Nodes, queue figures and Leases
are few and are read every ten seconds, but only while somebody looks at the page. No request reaches a batch system.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, Generic, TypeVar

from router import names
from router.background.loop import Loop
from router.cli.cluster import LEASES, Cluster
from router.errors import ApiError
from router.kube.client import Json
from router.kube.clock import ask_who
from router.kube.watching import Watch
from router.operating import creations
from router.page import streams
from router.page.jobobjects import Looks
from router.page.models.looking import Sight
from router.page.models.rows import JobRow, row_of
from router.pod.view import PodView, view

T = TypeVar("T")
POLL_SECONDS: Final = 10.0
UNWATCHED_SECONDS: Final = 60.0
"""After this time without a reader nodes and queues are read no more, until the next one comes."""
_REST: Final = 4
"""So many times as long as such a look took, none follows: whoever may write Events decides how long it takes."""
STALE_SECONDS: Final = 20.0
"""From this age on, what was read is no answer to somebody who looks: twice the time after which it is read again."""
FRESH_SECONDS: Final = 3.0
"""For so long a look waits at most for what is read anew."""
RIGHTS_SECONDS: Final = 60.0
"""Seconds after which rights that were lacking are asked for again."""
_ENDED: Final = "what is here is read no longer, by a fault of this page; start it again"
_FORBIDDEN: Final = 403
_UNAUTHORIZED: Final = 401


class Kept(Generic[T]):
    """The projections of a watched list, by uid.

    :param keep: makes the projection
    :param changed: called after each change
    """

    def __init__(self, keep: Callable[[Json], T], changed: Callable[[], None]) -> None:
        self._keep = keep
        self._changed = changed
        self._lock = threading.Lock()
        self._known: dict[str, T] = {}

    def values(self) -> tuple[T, ...]:
        """All of them at this moment."""
        with self._lock:
            return tuple(self._known.values())

    def empty(self) -> None:
        """Forget all of them."""
        with self._lock:
            self._known = {}

    def on_list(self, objects: Iterator[Json]) -> None:
        """Take a whole list. Objects show as they come, and those that are gone leave at its end."""
        listed = set()
        for one in objects:
            uid = one["metadata"]["uid"]
            listed.add(uid)
            with self._lock:
                self._known[uid] = self._keep(one)
            if len(listed) % 500 == 0:
                self._changed()
        with self._lock:
            self._known = {uid: value for uid, value in self._known.items() if uid in listed}
        self._changed()

    def on_change(self, kind: str, found: Json) -> None:
        """Take one change."""
        uid = found["metadata"]["uid"]
        with self._lock:
            if kind == "DELETED":
                self._known.pop(uid, None)
            else:
                self._known[uid] = self._keep(found)
        self._changed()


@dataclass(frozen=True, slots=True)
class _List:
    """A list to watch: its plural, the path of its group, its selector."""

    kind: str
    group: str
    selector: str


_JOBS: Final = _List("jobs", "/apis/batch/v1", names.KEY_TARGET)
_PODS: Final = _List("pods", "/api/v1", names.KEY_SITE)


@dataclass(frozen=True, slots=True)
class _Refused:
    """A list at a path that the reader may not see or follow, and why."""

    one: _List
    path: str
    why: str

    @property
    def sentence(self) -> str:
        """For the reader."""
        _, inside, rest = self.path.partition("/namespaces/")
        where = f"namespace {rest.partition('/')[0]}" if inside else "all namespaces"
        return f"{self.one.kind} of {where} could not be looked at: {self.why}"


@dataclass(slots=True)
class _Read:
    """What the last look at few and small objects gave. ``offset``: the API server's clock less this machine's."""

    sight: Sight = field(default_factory=lambda: Sight(now=0))
    offset: float = 0.0
    at: float = 0.0


class Reader:
    """One reader's view; ``start`` it once, ``stop`` it in the end. All methods may be called by any thread.

    :param cluster: with the reader's own credentials
    :param room: what the viewer may have at once, if other views of the same person share it
    :param on_refusal: called once the API server takes the credentials no longer, by the thread that has noticed it
    """

    def __init__(
        self,
        cluster: Cluster,
        room: streams.Room | None = None,
        on_refusal: Callable[[], None] = lambda: None,
    ) -> None:
        self.cluster = cluster
        self.room = room or streams.Room()
        self.looks = Looks(cluster, self.room.readings)
        self._on_refusal = on_refusal
        self._jobs: Kept[JobRow] = Kept(row_of, self._bump)
        self._pods: Kept[PodView] = Kept(_without_notes, self._bump)
        self._watches: list[Watch] = []
        self._lacking: tuple[_Refused, ...] = ()
        self._asked = 0.0
        self._opened = False
        self._lists = threading.Lock()
        """Of what is followed: ``_jobs`` to ``_opened``."""
        self._problem = ""
        self.refused = False
        """Whether the API server takes the credentials no longer."""
        self._read = _Read()
        self._looked = self._turned = time.monotonic()
        self._rest = 0.0
        self._turns, self._awaited, self._patience = 0, -1, 0.0
        """Reads that have ended, after how many of them the next one is waited for, and until when. As ``_turned``, by
        ``_news``."""
        self._news = threading.Condition()
        self._version = 0
        self._begun = False
        self._loop = Loop("page", self._turn)

    def start(self) -> None:
        """Begin to read."""
        self._loop.start()
        self._begun = True

    def stop(self) -> None:
        """Read no more."""
        self._loop.stop()
        for one in self._watches:
            one.stop()
        self._bump()

    @property
    def idle_seconds(self) -> float:
        """Seconds since somebody last looked."""
        return time.monotonic() - self._looked

    @property
    def broken(self) -> bool:
        """Whether a fault has ended what reads: the view gets old."""
        with self._lists:
            ended = [one for one in self._watches if not one.alive]
        return not self._loop.stopping and (bool(ended) or (self._begun and not self._loop.alive))

    def sight(self) -> Sight:
        """The view at this moment. The first look after a pause waits a little for what is read anew."""
        self._looked = time.monotonic()
        self._await_fresh()
        read = self._read
        with self._lists:
            watches, opened, unseen = tuple(self._watches), self._opened, [one.sentence for one in self._lacking]
            jobs, pods = self._jobs.values(), self._pods.values()
        problems = [_ENDED if self.broken else "", self._problem, *(one.problem for one in watches)]
        return replace(
            read.sight,
            now=time.time() + read.offset,
            jobs=jobs,
            pods=pods,
            complete=opened and all(one.synced.is_set() for one in watches),
            missed=tuple(dict.fromkeys((*unseen, *read.sight.missed))),
            problem=next((one for one in problems if one), ""),
            read=read.at,
        )

    def await_news(self, version: int, seconds: float) -> int:
        """Wait at most so long for a view newer than ``version``; returns the version of the present one.

        It is below 0 once the view was stopped: nothing newer comes.
        """
        self._looked = time.monotonic()
        with self._news:
            self._news.wait_for(lambda: self._version != version, seconds)
            return -1 if self._loop.stopping else self._version

    def _await_fresh(self) -> None:
        with self._news:
            now = time.monotonic()
            if now - self._turned > max(STALE_SECONDS, 2 * self._rest) and self._awaited != self._turns:
                self._awaited, self._patience = self._turns, now + FRESH_SECONDS
                self._loop.wake()
            self._news.wait_for(lambda: self._awaited != self._turns or self._loop.stopping, self._patience - now)

    def _bump(self, *, read: bool = False) -> None:
        with self._news:
            self._version += 1
            if read:
                self._turns, self._turned = self._turns + 1, time.monotonic()
            self._news.notify_all()

    def _turn(self) -> float:
        if self._opened and self.idle_seconds > UNWATCHED_SECONDS:
            return POLL_SECONDS
        rest = 0.0
        try:
            if not self._opened or self._may_see_more():
                self._open()
            with self.room.readings:
                begun = time.monotonic()
                self._read = _look(self.cluster)
            rest = _REST * (time.monotonic() - begun)
            self._problem, self.refused = "", False
        except ApiError as error:
            self._problem = str(error)
            self.refused = error.status == _UNAUTHORIZED
        if self.refused:
            self._on_refusal()
        self._rest = rest
        self._bump(read=True)
        return max(POLL_SECONDS, rest)

    def _may_see_more(self) -> bool:
        """Whether a list that was refused may be followed by now. Raises ApiError without an answer."""
        if time.monotonic() < self._asked + RIGHTS_SECONDS:
            return False
        self._asked = time.monotonic()
        return any(not _refusal(self.cluster, one.one, one.path) for one in self._lacking)

    def _open(self) -> None:
        """Find out which lists the reader may see, and follow those from their beginning, in place of any before.

        Raises ApiError if the server does not answer.
        """
        refused: list[_Refused] = []
        paths = [(one, _readable(self.cluster, one, refused)) for one in (_JOBS, _PODS)]
        with self._lists:
            for watch in self._watches:
                watch.stop()
            self._watches, self._lacking, self._asked = [], tuple(refused), time.monotonic()
            # A watch that was stopped may pass a last change on, so what it fills is used no longer.
            self._jobs, self._pods = Kept(row_of, self._bump), Kept(_without_notes, self._bump)
            for one, path in paths:
                if path:
                    self._follow(one, path, self._jobs if one is _JOBS else self._pods)
            self._opened = True
        if self._loop.stopping:  # since a moment when these lists were not followed yet
            self.stop()

    def _follow(self, one: _List, path: str, kept: Kept[Any]) -> None:
        def lose(error: ApiError) -> None:
            """Nobody may see by this page what the API server refuses by now. The next turn finds out what is left."""
            watch.stop()
            kept.empty()
            with self._lists:
                self._lacking = (*self._lacking, _Refused(one, path, error.message))
                self._watches = [other for other in self._watches if other is not watch]
                self._opened = False
            self._bump()

        query = {"labelSelector": one.selector}
        watch = Watch(self.cluster.api, path, kept.on_list, kept.on_change, query, lose)
        watch.start()
        self._watches.append(watch)


def _readable(cluster: Cluster, one: _List, refused: list[_Refused], *, to_follow: bool = True) -> str:
    """The path of the list in all namespaces, or in the reader's own; empty if neither may be seen, or followed."""
    narrow = f"{one.group}/namespaces/{cluster.namespace}/{one.kind}"
    for path in (narrow,) if cluster.named else (f"{one.group}/{one.kind}", narrow):
        why = _refusal(cluster, one, path, to_follow=to_follow)
        if not why:
            return path
        refused.append(_Refused(one, path, why))
    return ""


def _refusal(cluster: Cluster, one: _List, path: str, *, to_follow: bool = True) -> str:
    """Why the reader may not list at a path, or watch; empty with these rights. Raises ApiError without an answer."""
    try:
        found = cluster.api.get(path, limit=1, labelSelector=one.selector)
        version = str(found["metadata"]["resourceVersion"])
        if to_follow:
            cluster.api.watch(path, version, seconds=1, labelSelector=one.selector).close()
    except ApiError as error:
        if error.status != _FORBIDDEN:
            raise
        return error.message
    return ""


def namespace_of_jobs(cluster: Cluster) -> str | None:
    """The namespace whose Jobs the reader may list now; empty stands for all. Without such a right it is None.

    Raises ApiError without an answer.
    """
    path = _readable(cluster, _JOBS, [], to_follow=False)
    return None if not path else cluster.namespace if "/namespaces/" in path else ""


def _look(cluster: Cluster) -> _Read:
    """Read who the reader is, nodes, queues, policies, Leases and failed creations. Raises ApiError without an answer."""
    asked = Cluster(cluster.api, cluster.namespace, cluster.named, cluster.system)
    who = ask_who(cluster.api)
    offset = 0.0 if who.time is None else round(who.time - time.time())
    below = f"/api/v1/namespaces/{cluster.system}/configmaps"
    queues = asked.one("the state of queues", f"{below}/{names.QUEUES_CONFIG_MAP}") or {}
    policies = asked.one("which policy is in force", f"{below}/{names.POLICY_STATE_CONFIG_MAP}") or {}
    nodes = asked.every("the Nodes of queues", "/api/v1/nodes", _without_images, labelSelector=names.NODE_KIND) or ()
    leases = asked.every("the agents' Leases", f"{LEASES}/{cluster.system}/leases", dict)
    at = time.time() + offset  # Events, of which anybody may write many, take as long as they take
    failed: dict[tuple[str, str], creations.FailedCreation] = {}
    keep = partial(creations.keep_latest, failed)
    asked.everywhere("events", "/api/v1", keep, fieldSelector=creations.SELECTOR)
    sight = Sight(
        now=0,
        user=who.user,
        groups=who.groups,
        queues=queues.get("data") or {},
        policies=policies.get("data") or {},
        nodes=nodes,
        leases=None if leases is None else {one["metadata"]["name"]: one for one in leases},
        failed_creations=tuple(failed.values()),
        missed=tuple(asked.missed),
    )
    return _Read(sight, offset, at)


def _without_notes(pod: Json) -> PodView:
    """The view of a Pod less its annotations: lists need none of them, and a user may write 256 KiB there."""
    return replace(view(pod), rule="", account="", job_id="", queue_now="", exit="", used="")


def _without_images(node: Json) -> Json:
    (node.get("status") or {}).pop("images", None)
    node["metadata"].pop("managedFields", None)
    return node
