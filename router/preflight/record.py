"""Keeps the findings of the last checks of a site for its agents, as a document in a ConfigMap.

Pure. It keeps the lines marked ``must``; a line of an MPI profile refuses only the MPI Jobs of this profile. The
findings about a user hold until the next check of that user; a check of all users begins anew. If a probe did not
start, earlier findings that only a probe can make still hold.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from router.errors import InputError
from router.preflight import LAUNCHER, Line, Mark

MOST_LINES: Final = 20
"""Most lines that are kept whole; of the others only the names. A ConfigMap holds 1 MiB for all users of a site."""
LONGEST: Final = 300
"""Most characters of each text of a kept line."""
_TEXTS: Final = ("name", "user", "seen", "expected", "change")


@dataclass(frozen=True, slots=True)
class Kept:
    """What is known of a site by its last checks.

    :param times: when each user was last checked, RFC 3339; empty before the first check
    :param broken: by user, the names of the lines marked ``must``; only users who have such lines
    :param lines: the first of these lines
    """

    times: Mapping[str, str] = field(default_factory=dict)
    broken: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    lines: tuple[Line, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all lines for which the site is refused, each once; empty if it is not refused."""
        return tuple(name for name in self._all if not name.startswith(LAUNCHER))

    @property
    def profiles(self) -> tuple[str, ...]:
        """The MPI profiles with a problem: only MPI Jobs of these are refused."""
        return tuple(name.removeprefix(LAUNCHER) for name in self._all if name.startswith(LAUNCHER))

    @property
    def _all(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for names in self.broken.values() for name in names))


def after(before: Kept, lines: Iterable[Line], users: Sequence[str], time: str, *, whole: bool) -> Kept:
    """What is known after a check.

    :param users: the users that were checked
    :param time: of the check, RFC 3339
    :param whole: whether all users in accounts were checked: then findings about other users are dropped
    """
    lines = tuple(lines)
    looked = dict.fromkeys((*users, *(line.user for line in lines)))
    undecided = {line.user for line in lines if line.undecided}
    found = [_cut(line) for line in lines if line.mark is Mark.MUST]
    now = {(line.user, line.name) for line in found}

    def holds(user: str, name: str) -> bool:
        return (user, name) not in now and (user in undecided or not (whole or user in looked))

    still = {user: tuple(one for one in names if holds(user, one)) for user, names in before.broken.items()}
    users_now = dict.fromkeys((*still, *(line.user for line in found)))
    broken = {
        user: (*dict.fromkeys(line.name for line in found if line.user == user), *still.get(user, ()))
        for user in users_now
    }
    times = {} if whole else dict(before.times)
    return Kept(
        times={**times, **dict.fromkeys(looked, time)},
        broken={user: names for user, names in broken.items() if names},
        lines=(*found, *(line for line in before.lines if holds(line.user, line.name)))[:MOST_LINES],
    )


def _cut(line: Line) -> Line:
    return replace(
        line, seen=_plain(line.seen), expected=_plain(line.expected), change=_plain(line.change), undecided=False
    )


def _plain(text: str) -> str:
    """A batch system's text in any encoding, as one line that JSON can hold."""
    return " ".join(text.encode(errors="replace").decode().split())[:LONGEST]


def sentence(kept: Kept) -> str:
    """Why a site is refused, for its admins; empty if it is not."""
    return _found(kept, kept.names) if kept.names else ""


def sentence_on_profiles(kept: Kept) -> str:
    """Why MPI Jobs of some profiles are refused, for the site's admins; empty if none are."""
    if not kept.profiles:
        return ""
    words = _found(kept, [LAUNCHER + name for name in kept.profiles])
    return f"MPI Jobs of profile {', '.join(kept.profiles)} are not submitted, all others are: {words}"


def _found(kept: Kept, about: Collection[str]) -> str:
    """The findings of a check in the lines of these names: the first line whole, and the number of the others."""
    lines = [line for line in kept.lines if line.name in about][:1]
    told = [f"{line.name}{f' ({line.user})' * bool(line.user)}: {line.seen}; {line.change}" for line in lines]
    rest = sum(name in about for names in kept.broken.values() for name in names) - len(told)
    more = [f"{rest} more such lines" if rest > 1 else "one more such line"] * bool(rest)
    words = ". ".join([*told, *more])
    return f"batchgate site check, {_latest(kept)}, found problems: {words}. Fix them and check again"


def praise(kept: Kept) -> str:
    """The result of the last check of a site that is not refused."""
    return f"checked at {_latest(kept)}: no problems" if kept.times else "no check of the site is known"


def brief(kept: Kept, site: str, profile: str) -> str:
    """Why Jobs of an MPI profile, or without one (empty), are refused, for users; empty if they are not."""
    if not kept.names and profile and profile in kept.profiles:
        return (
            f"the last check of site {site} failed for MPI profile {profile}; no MPI Job of that profile is submitted until "
            "this is fixed"
        )
    if not kept.names:
        return ""
    return f"the last check of site {site} failed ({', '.join(kept.names)}); nothing is submitted until this is fixed"


def _latest(kept: Kept) -> str:
    return max(kept.times.values(), default="")


def document(kept: Kept) -> str:
    """The document as JSON."""
    users = {user: {"time": time, "must": list(kept.broken.get(user, ()))} for user, time in kept.times.items()}
    lines = [{name: getattr(line, name) for name in _TEXTS} for line in kept.lines]
    return json.dumps({"users": users, "lines": lines})


def kept_of(text: str) -> Kept:
    """The content of a document, which may be empty. Raises InputError for any other text."""
    if not text:
        return Kept()
    try:
        found = json.loads(text)
        times = {str(user): _text(one["time"]) for user, one in found["users"].items()}
        broken = {str(user): tuple(_text(name) for name in one["must"]) for user, one in found["users"].items()}
        lines = tuple(_line(one) for one in found["lines"])
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(f"is not the record of a site check ({type(error).__name__}: {error})") from error
    return Kept(times, {user: names for user, names in broken.items() if names}, lines)


def _line(found: Mapping[str, Any]) -> Line:
    name, user, seen, expected, change = (_text(found[key]) for key in _TEXTS)
    return Line(name, user, Mark.MUST, seen, expected, change)


def _text(found: object) -> str:
    if not isinstance(found, str):
        raise TypeError(f"a text was expected, not {found!r}")
    return found
