"""Reads the state of queues from a file or a test.

Pure: takes text. The form is that of ``batchgate local queues -o json``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field, ValidationError

from router.errors import InputError
from router.notation import documents, durations
from router.notation.documents import Document
from router.policy.decision import QueueState, QueueStates
from router.site.schema import Entry

Figure = Annotated[int, Field(ge=0, strict=True)]


class QueueEntry(Entry):
    """The current state of a queue; each figure may be left out."""

    up: Annotated[bool, Field(strict=True)] | None = None
    free_nodes: Figure | None = None
    queued_jobs: Figure | None = None
    running_jobs: Figure | None = None
    wait_seconds: Figure | None = None


FIGURES: Final = [info.alias or name for name, info in QueueEntry.model_fields.items()]


class _NamedFigures(QueueEntry):
    site: str
    queue: str


class _StateFile(Entry):
    time: Annotated[float, BeforeValidator(durations.moment)] | None = None
    queues: tuple[_NamedFigures, ...]


def queue_states(text: str, source: str) -> QueueStates:
    """Read a queue state file (YAML or JSON). InputError names file, line and field. An empty file has no states.

    Queues that a policy does not declare are kept, as they are harmless. The caller checks the age of the file.
    """
    found = documents.parse(text, source)
    if not found:
        return QueueStates()
    if len(found) > 1:
        line, column = found[1].position()
        raise InputError(f"{source}:{line}:{column}: a queue state file must be one document")
    if not isinstance(found[0].value, dict):
        line, column = found[0].position()
        raise InputError(f"{source}:{line}:{column}: is not a queue state: write a mapping with the key queues")
    try:
        read = _StateFile.model_validate(found[0].value, by_alias=True, by_name=False)
    except ValidationError as error:
        raise InputError("\n".join(_wrong(found[0], detail) for detail in error.errors(include_url=False))) from None
    states: dict[tuple[str, str], QueueState] = {}
    for index, queue in enumerate(read.queues):
        key = (queue.site, queue.queue)
        if key in states:
            line, column = found[0].position(("queues", index))
            raise InputError(f"{source}:{line}:{column}: queue {queue.queue} of site {queue.site} is listed twice")
        states[key] = state_of(queue, *key)
    return QueueStates(states, time=read.time)


def age_problem(states: QueueStates, *, now: float, most: int, written: float | None = None) -> str:
    """Why a state is too old to be used, as the rest of a sentence; empty if it is new enough or its age is unknown.

    :param now: seconds since 1970
    :param most: the age in seconds up to which it is used
    :param written: when it was written, used if the state itself does not say
    """
    moment = states.time if states.time is not None else written
    if moment is None or now - moment <= most:
        return ""
    return f"is of {durations.show_moment(moment)}, more than {durations.show(most)} ago"


def _wrong(document: Document, detail: Any) -> str:
    location = tuple(detail["loc"])
    line, column = document.position(location)
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location).lstrip(".")
    message = "is not a key of a queue state" if detail["type"] == "extra_forbidden" else detail["msg"]
    message = message.removeprefix("Value error, ")
    return f"{document.source}:{line}:{column}: {path or 'the document'}: {message}"


def state_of(figures: QueueEntry, site: str, queue: str) -> QueueState:
    """The state of one queue."""
    return QueueState(
        site=site,
        queue=queue,
        up=figures.up,
        free_nodes=figures.free_nodes,
        queued_jobs=figures.queued_jobs,
        running_jobs=figures.running_jobs,
        wait_seconds=figures.wait_seconds,
    )


def figures(value: Mapping[str, object]) -> QueueEntry:
    """The figures of one queue in a test. Raises ValidationError if they are invalid."""
    return QueueEntry.model_validate(value, by_alias=True, by_name=False)
