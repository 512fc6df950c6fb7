"""The form of a row: the outcome of a field on HPC, and one clause about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Outcome(StrEnum):
    """What becomes of a field of a Job that a rule sends to HPC."""

    HONOURED = "honoured"
    TRANSLATED = "translated"
    HARMLESS = "harmless"
    CLOUD = "keeps the Job in the cloud"
    PARTS = "by its fields"
    ABOVE = "as the field above"


OLDEST: Final = 31
"""The minor version of the oldest Kubernetes that is supported: fields without ``since`` are in its API."""


@dataclass(frozen=True, slots=True)
class Row:
    """One field.

    :param says: how it is honoured, what it is translated to, or why it is harmless. For CLOUD the sentence, as it
        follows the field's path, with … for what differs. Empty for PARTS and ABOVE
    :param holds: the type of its value, or of the value's entries, by its name in Kubernetes' API; empty for plain values
    :param kept: the sentence by which some of its values keep the Job in the cloud
    :param warned: a part of the warning that a user gets
    :param usual: the value that says nothing: what the API server fills in, or what the field becomes anyway
    :param since: minor version of the first Kubernetes that has the field
    """

    outcome: Outcome
    says: str = ""
    holds: str = ""
    kept: str = ""
    warned: str = ""
    usual: str = ""
    since: int = OLDEST

    @property
    def covers(self) -> bool:
        """Whether it also holds for all fields beneath, whatever their own rows say."""
        return self.outcome in (Outcome.HARMLESS, Outcome.CLOUD)


Rows = Mapping[str, Row]
"""The rows of one type, by the names of its fields."""


def honoured(how: str, holds: str = "", *, kept: str = "", warned: str = "", since: int = OLDEST) -> Row:
    """A field that means what it means in the cloud."""
    return Row(Outcome.HONOURED, how, holds, kept, warned, since=since)


def translated(
    to: str, holds: str = "", *, kept: str = "", warned: str = "", usual: str = "", since: int = OLDEST
) -> Row:
    """A field that becomes something else on HPC."""
    return Row(Outcome.TRANSLATED, to, holds, kept, warned, usual, since)


def harmless(
    why: str, holds: str = "", *, kept: str = "", warned: str = "", usual: str = "", since: int = OLDEST
) -> Row:
    """A field without effect on HPC that no program misses, or whose user is warned."""
    return Row(Outcome.HARMLESS, why, holds, kept, warned, usual, since)


def cloud(sentence: str, holds: str = "", *, since: int = OLDEST) -> Row:
    """A field that keeps the Job in the cloud."""
    return Row(Outcome.CLOUD, sentence, holds, since=since)


def parts(holds: str, *, kept: str = "", since: int = OLDEST) -> Row:
    """A field whose own fields have the rows."""
    return Row(Outcome.PARTS, "", holds, kept, since=since)


def above(*names: str, since: int = OLDEST, **holding: str) -> dict[str, Row]:
    """Fields that share the outcome of the field that holds them: plain ones by name, others with their types."""
    plain = dict.fromkeys(names, Row(Outcome.ABOVE, since=since))
    return {**plain, **{name: Row(Outcome.ABOVE, holds=kind, since=since) for name, kind in holding.items()}}
