"""Reads the single files that a Pod's script leaves: its notes of changes of state, and its exit files.

Pure. For an invalid file the functions return a message. Users can write all these files, so nothing in them is believed
that has another form.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from sys import intern
from typing import Any, Final

from router.names import REASON_CREATE_CONTAINER, REASON_ERR_IMAGE_PULL
from router.pod.life import Event, Exit, Note, is_job

_NOTE_NAME: Final = re.compile(r"([A-Za-z0-9-]{1,64})\.([1-9][0-9]{0,8})\.(started|running|probed|exited|ended)")
_EXIT_NAME: Final = re.compile(r"([a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)\.(0|[1-9][0-9]{0,8})")
_LAST_TIME: Final = 1 << 38
_LARGEST_LOG: Final = 1 << 62
_NEVER_STARTED: Final = (REASON_CREATE_CONTAINER, REASON_ERR_IMAGE_PULL)
_LONGEST_SENTENCE: Final = 1000
_LONGEST_SAID: Final = 4096  # bytes; the kubelet's MaxContainerTerminationMessageLength


def read_note(name: str, content: bytes) -> Note | str:
    """The note in a file of the spool, or a message that says what is wrong with the file."""
    found = _NOTE_NAME.fullmatch(name)
    if not found:
        return f"{name!r} is not a script's note: the name is not of the form <pod uid>.<number>.<event>"
    fields = _json(content)
    if fields is None or fields.get("event") != found[3]:
        return f"note {name}: truncated, or not written by a script"
    note = Note(
        uid=found[1],
        number=int(found[2]),
        event=Event(found[3]),
        job=_word(fields.get("job")),
        host=_word(fields.get("host")),
        time=_number(fields.get("time"), _LAST_TIME),
        container=_word(fields.get("container", "")),
        restart=_number(fields.get("restart", 0), 1 << 30),
        code=_number(fields.get("code", 0), 255),
        reason=_word(fields.get("reason", "")),
        ready=fields.get("ready") is True,
        up=fields.get("started") is True,
        said=_said(fields),
    )
    wrong = not is_job(note.job) or -1 in {note.time, note.restart, note.code}
    wrong |= note.event in {Event.RUNNING, Event.EXITED, Event.PROBED} and not note.container
    return f"note {name}: has invalid values" if wrong else note


def read_exit(name: str, content: bytes) -> tuple[str, Exit] | str:
    """An exit file's container and content, or a message that says what is wrong with the file."""
    found = _EXIT_NAME.fullmatch(name)
    if not found:
        return f"{name!r} is not an exit file: the name is not of the form <container>.<restart>"
    fields = _json(content)
    if fields is None:
        return f"exit file {name}: truncated, or not written by a script"
    numbers = {key: _number(fields.get(key), most) for key, most in _EXIT_FIELDS.items()}
    numbers["log"] = _number(fields.get("log", 0), _LARGEST_LOG)
    deadline = fields.get("deadline")
    if -1 in numbers.values() or not isinstance(deadline, bool):
        return f"exit file {name}: has invalid values"
    reason = fields.get("reason")
    reason = reason if reason in _NEVER_STARTED else ""
    words = _sentence(fields.get("message")) if reason else ""
    run, again = int(found[2]), fields.get("again")
    again = again if again in ("yes", "no") else ""
    said = _said(fields)
    return found[1], Exit(run, deadline=deadline, reason=reason, message=words, said=said, again=again, **numbers)


_EXIT_FIELDS: Final = {"code": 255, "signal": 64, "started": _LAST_TIME, "finished": _LAST_TIME}


def _json(content: bytes) -> dict[str, Any] | None:
    """The JSON object of a file; None if the file is invalid or truncated (a complete one ends with a newline)."""
    if not content.endswith(b"\n"):
        return None
    try:
        value = json.loads(_text(content))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _text(content: bytes) -> str:
    return content.decode(errors="replace")


def _word(value: object) -> str:
    """A short text of one line; empty if the value is anything else."""
    return intern(value) if isinstance(value, str) and len(value) <= 255 and value.isprintable() else ""


def _sentence(value: object) -> str:
    """A text as one printable line of at most ``_LONGEST_SENTENCE`` characters; empty if the value is no text."""
    text = value if isinstance(value, str) else ""
    return "".join([one if one.isprintable() else " " for one in text[:_LONGEST_SENTENCE]]).strip()


def _said(fields: Mapping[str, Any]) -> str:
    """A program's termination message, from base64; empty if missing or invalid. Invalid UTF-8 becomes U+FFFD."""
    try:
        said = base64.b64decode(fields["said"], validate=True)
    except (KeyError, TypeError, ValueError):
        return ""
    return said[:_LONGEST_SAID].decode(errors="replace")


def _number(value: object, most: int) -> int:
    """A number from 0 to ``most``; -1 if the value is anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most else -1
