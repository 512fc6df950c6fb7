"""The parameters of a request for logs (``v1.PodLogOptions``), read and checked as the kubelet does.

Pure. Where the kubelet refuses with an empty phrase, the error here names the field and its valid values.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from router.errors import RequestError

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_RFC3339 = re.compile(
    r"(?P<day>[0-9]{4}-[0-9]{2}-[0-9]{2})[Tt](?P<time>[0-9]{2}:[0-9]{2}:[0-9]{2})"
    r"(?:[.,](?P<fraction>[0-9]+))?(?P<zone>[Zz]|[+-][0-9]{2}:[0-9]{2})"
)
_LARGEST: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class LogQuery:
    """The part of a log that a request asks for.

    :param tail: this many last lines; None is all
    :param since: milliseconds since 1970; older lines are left out; None is all
    :param limit: the most bytes to send, timestamps included; None is unlimited
    """

    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail: int | None = None
    since: int | None = None
    limit: int | None = None


def log_query(parameters: Iterable[tuple[str, str]], now: int) -> LogQuery:
    """Read the parameters of a request. The first of several with one name counts; unknown ones are ignored.

    :param now: milliseconds since 1970
    :raises RequestError: 400, an invalid value
    """
    given: dict[str, str] = {}
    for name, value in parameters:
        given.setdefault(name, value)
    if given.get("stream") not in {None, "", "All"}:
        raise RequestError(400, "stream: stdout and stderr of a batch job go into one log; ask for All")
    return LogQuery(
        follow=_flag(given, "follow"),
        previous=_flag(given, "previous"),
        timestamps=_flag(given, "timestamps"),
        tail=_tail(given),
        since=_since(given, now),
        limit=_number(given, "limitBytes", 1),
    )


def _flag(given: dict[str, str], name: str) -> bool:
    """A flag by Kubernetes' conversion: any value is true except "false" and "0", also an empty one."""
    return name in given and given[name].lower() not in {"false", "0"}


def _tail(given: dict[str, str]) -> int | None:
    """The number of last lines. ``tail`` is the older name of ``tailLines``, and wins; ``all`` is no limit."""
    if given.get("tail"):
        return None if given["tail"] == "all" else _number(given, "tail", 0)
    return _number(given, "tailLines", 0)


def _since(given: dict[str, str], now: int) -> int | None:
    seconds, moment = _number(given, "sinceSeconds", 1), _moment(given)
    if seconds is not None and "sinceTime" in given:
        raise RequestError(400, "at most one of `sinceTime` or `sinceSeconds` may be specified")
    return moment if seconds is None else max(0, now - seconds * 1000)


def _number(given: dict[str, str], name: str, least: int) -> int | None:
    if name not in given:
        return None
    text = given[name]
    if not _INTEGER.fullmatch(text) or abs(int(text)) > _LARGEST:
        raise RequestError(400, f"{name}: {text[:40]!r} is no whole number")
    number = int(text)
    if number < least:
        raise RequestError(400, f"{name}: {number} must be greater than or equal to {least}")
    return number


def _moment(given: dict[str, str]) -> int | None:
    """``sinceTime`` in milliseconds since 1970. Old clients write ``null`` or an empty text if they want all lines."""
    text = given.get("sinceTime", "")
    if text in {"", "null"}:
        return None
    match = _RFC3339.fullmatch(text)
    if match is not None:
        with suppress(ValueError):  # the 30th of February
            moment = datetime.fromisoformat(f"{match['day']}T{match['time']}{match['zone'].upper()}")
            return max(0, int(moment.timestamp()) * 1000 + int((match["fraction"] or "0").ljust(3, "0")[:3]))
    raise RequestError(400, f"sinceTime: {text[:40]!r} is no RFC 3339 time, as 2006-01-02T15:04:05Z")
