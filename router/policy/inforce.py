"""Which policy each replica of the webhook has in force, and its release, as they publish it and others compare it.

Pure. A document of a ConfigMap for each replica, key ``<replica>.json``. A replica that has ended leaves its document,
which then is too old.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

RENEWED_SECONDS: Final = 60.0
"""Age at which an unchanged document is written again."""
MOST_SECONDS: Final = 150.0
"""Age from which a document counts no more: its replica has missed two renewals."""
KEPT_SECONDS: Final = 3600.0
"""Age from which replicas remove a document."""
LONGEST_ERROR: Final = 2000
"""Characters of an error that are published: all replicas share one object of at most 1 MiB."""
DIGITS: Final = 12
"""Hexadecimal digits of a digest that are shown."""
_ENDING: Final = ".json"


@dataclass(frozen=True, slots=True)
class InForce:
    """The policy of one program. ``time``: when it was told, in seconds since 1970.

    ``digest`` is empty without a policy; ``error`` says why the present files are not in force. ``release``: the
    program's own version, empty where it does not say it.
    """

    time: float
    digest: str
    error: str = ""
    release: str = ""


def key_of(replica: str) -> str:
    """The key of a replica's document."""
    return f"{replica}{_ENDING}"


def document(told: InForce) -> str:
    """A replica's document, as JSON; of a long error its beginning."""
    moment = datetime.fromtimestamp(told.time, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    shown = {"digest": told.digest, "error": told.error[:LONGEST_ERROR], "release": told.release}
    return json.dumps({"time": moment, **shown})


def replicas(data: Mapping[str, str], now: float, most: float = MOST_SECONDS) -> dict[str, InForce]:
    """The policy of each replica that lives, by its name; documents that are unreadable or too old are left out.

    :param now: seconds since 1970
    """
    read = {key.removesuffix(_ENDING): _read(text) for key, text in sorted(data.items()) if key.endswith(_ENDING)}
    return {name: told for name, told in read.items() if told is not None and now - told.time <= most}


def ended(data: Mapping[str, str], now: float) -> tuple[str, ...]:
    """The keys that a replica may remove, as nothing was heard of them for an hour."""
    living = replicas(data, now, KEPT_SECONDS)
    return tuple(key for key in sorted(data) if key.removesuffix(_ENDING) not in living)


def _read(text: str) -> InForce | None:
    try:
        found = json.loads(text)
        time = datetime.fromisoformat(found["time"]).timestamp()
        return InForce(time, str(found["digest"]), str(found["error"]), str(found.get("release", "")))
    except (ValueError, KeyError, TypeError):  # of another release, or written by hand
        return None


def difference(own: str, told: Mapping[str, InForce]) -> str:
    """How the webhook's policy differs from one's own, as a sentence; empty if all replicas have the same.

    :param own: the digest of one's own policy
    """
    others = {name: one for name, one in told.items() if one.digest != own}
    if not others:
        return ""
    name, other = next(iter(others.items()))
    more = f", and {len(others) - 1} more differ" if len(others) > 1 else ""
    refused = f" (it refuses newer files: {_first_line(other.error)})" if other.error else ""
    return f"the agent has policy {shown(own)} in force, the webhook's replica {name} has {shown(other.digest)}{refused}{more}"


def shown(digest: str) -> str:
    """A digest in messages."""
    return digest[:DIGITS] or "none"


def _first_line(text: str) -> str:
    return text.partition("\n")[0]
