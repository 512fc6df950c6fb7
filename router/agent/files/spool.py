"""Reads the spool: small files (notes) in which scripts report each change of state. Lists its directory every second.

Shell: one thread, without load on the batch system. A note's content goes into its Pod's facts, and details of its job
are asked for at once. A Pod's notes are removed when its state is final.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import PurePosixPath
from typing import Final

from router.agent.records import Record, Records
from router.background.backoff import BackOff
from router.background.loop import Loop
from router.host import Host
from router.pod import layout
from router.pod.leftovers import read_note
from router.pod.life import Note
from router.reconcile import outcomes

log: Final = logging.getLogger("batchgate.agent")

SECONDS: Final = 1.0
_LONGEST_NOTE: Final = 4096
_BACK_OFF: Final = BackOff(first=2 * SECONDS, longest=30.0)


class Spool:
    """One user's notes; ``start`` it when the Pods are known, ``stop`` it in the end.

    :param root: this cluster's directory on the site
    :param news: called with a Pod's record and its new notes, after they went into its facts
    :param trouble: called with the error when the directory cannot be listed for a new reason
    """

    def __init__(
        self,
        host: Host,
        root: str,
        records: Records,
        news: Callable[[Record, list[Note]], None],
        trouble: Callable[[OSError], None],
    ) -> None:
        self._host = host
        self._path = PurePosixPath(root, layout.SPOOL)
        self._records = records
        self._news = news
        self._trouble = trouble
        self._names: dict[str, set[str]] = {}
        self._failures = 0
        self._told = ""
        self._loop = Loop("spool", self._turn)

    def start(self) -> None:
        """Make the directory and start the thread. Raises OSError if the directory cannot be made."""
        self._host.make_directory(self._path)
        self._loop.start(SECONDS)

    def stop(self) -> None:
        """Stop the thread."""
        self._loop.stop()

    def await_end(self) -> None:
        """Wait, after ``stop``, until the thread has ended; returns at once if it never started."""
        self._loop.await_end()

    @property
    def alive(self) -> bool:
        """Whether its thread runs."""
        return self._loop.alive

    def uids(self) -> set[str]:
        """The uids of Pods that have notes."""
        return set(self._names)

    def clear(self, uid: str) -> None:
        """Remove the notes of a Pod. Raises OSError."""
        for name in self._names.get(uid, ()):
            self._host.remove(self._path / name)
        self._names.pop(uid, None)

    def look(self) -> None:
        """List the directory once and read the new notes of known Pods. Raises OSError."""
        by_uid: dict[str, set[str]] = {}
        for name in self._host.names(self._path):
            if not name.startswith("."):  # else the note is being written
                by_uid.setdefault(name.partition(".")[0], set()).add(name)
        self._names = by_uid
        for uid, names in list(by_uid.items()):  # a copy, as ``clear`` removes entries meanwhile
            record = self._records.get(uid) if uid in by_uid else None
            if record is not None and (fresh := names - record.seen):
                self._read(record, sorted(fresh))

    def _turn(self) -> float:
        try:
            self.look()
        except OSError as error:
            self._failures += 1
            if str(error) != self._told:
                self._told = str(error)
                fields = {"path": str(self._path), "error": self._told}
                log.warning("the spool cannot be read", extra={"fields": fields})
                self._trouble(error)
            return _BACK_OFF.after(self._failures)
        self._failures, self._told = 0, ""
        return SECONDS

    def _read(self, record: Record, names: Iterable[str]) -> None:
        notes = []
        for name in names:
            note = self._note(name)
            if isinstance(note, Note):
                notes.append(note)
            elif note:
                log.warning("a note is not believed", extra={"fields": {"pod": record.key, "note": note}})
            record.seen.add(name)
        if notes:
            record.change(partial(outcomes.noticed, notes=notes, now=time.time()))
            self._news(record, notes)

    def _note(self, name: str) -> Note | str:
        """A note; a text about an invalid one; an empty text if it has just gone."""
        path = self._path / name
        status = self._host.status(path)
        if status is None:
            return ""
        if status.kind != "file":
            return f"{name}: no ordinary file"
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            return read_note(name, self._host.read(path, 0, _LONGEST_NOTE))
        return ""
