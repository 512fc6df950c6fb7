"""Simulated faults of a batch system, as switches: for tests, and to see how Batchgate handles them.

Pure. The switches change commands' answers and the history; jobs still start and end as usual.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from router.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Faults:
    """The faults that are switched on.

    ``unreachable``: commands cannot reach the server. ``answers_lost``: commands do their work, but their answers do
    not arrive. ``delay``: seconds that answers are late. ``history_lost``: finished jobs are forgotten for ever.
    ``others_hidden``: query_other_jobs is False, so that users see only their own jobs. ``list_empty``: lists without
    ids are empty, with exit code 0. ``jobs_unknown``: queries by id fail with "Unknown Job Id".
    """

    unreachable: bool = False
    answers_lost: bool = False
    history_lost: bool = False
    others_hidden: bool = False
    list_empty: bool = False
    jobs_unknown: bool = False
    delay: float = 0


NO_FAULTS: Final = Faults()
NAMES: Final = {field.name.replace("_", "-"): field.name for field in dataclasses.fields(Faults)}
_WORDS: Final = {"on": True, "off": False}


def changed(faults: Faults, words: tuple[str, ...]) -> Faults:
    """The faults after words like ``unreachable=on delay=2``; ``none`` ends all. ConfigError for an invalid word."""
    for word in words:
        name, equals, value = word.partition("=")
        if word == "none":
            faults = NO_FAULTS
            continue
        if name not in NAMES or not equals:
            raise ConfigError(f"{word!r} is no fault; write NAME=on, NAME=off, or none; there are {', '.join(NAMES)}")
        change: dict[str, Any] = {NAMES[name]: _value(name, value)}
        faults = dataclasses.replace(faults, **change)
    return faults


def _value(name: str, text: str) -> bool | float:
    if name == "delay":
        try:
            seconds = float(text)
        except ValueError:
            seconds = -1
        if not 0 <= seconds <= 3600:
            raise ConfigError(f"delay={text}: is no number of seconds from 0 to 3600")
        return seconds
    if text not in _WORDS:
        raise ConfigError(f"{name}={text}: is neither on nor off")
    return _WORDS[text]


def document_of(faults: Faults) -> dict[str, Any]:
    """Faults as a document for their file, by the command line's names."""
    return {name: getattr(faults, attribute) for name, attribute in NAMES.items()}


def faults_of(document: object) -> Faults:
    """Faults from their file's contents. Raises ConfigError for an invalid document."""
    if not isinstance(document, Mapping) or not set(document) <= set(NAMES):
        raise ConfigError("is no list of faults")
    values = {NAMES[name]: value for name, value in document.items()}
    if not all(isinstance(value, bool | int | float) for value in values.values()):
        raise ConfigError("is no list of faults")
    return Faults(**values)
