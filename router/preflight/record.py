"""What the last checks of a site found, as it is kept for its agents: a document of a ConfigMap.

Pure. Kept are the lines marked ``must``; those of MPI profiles refuse the MPI Jobs of these alone. What a check found of a user holds until another looks at that user; a check of
all users begins anew. Where a probe did not start, nothing was seen of what only a probe can see: it is as it was before.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from router.errors import InputError
from router.preflight import LAUNCHER, Line, Mark

MOST_LINES: Final = 20
"""Lines that are kept whole; of the others their names. A ConfigMap holds 1 MiB, and a site may have many users."""
LONGEST: Final = 300
"""Characters of each text of a line that is kept."""
_TEXTS: Final = ("name", "user", "seen", "expected", "change")


@dataclass(frozen=True, slots=True)
class Kept:
    """What is known of a site by its last checks.

    :param times: when each user was last checked, RFC 3339; empty where nobody was
    :param broken: by user, the names of the lines that must be mended; only users who have such lines
    :param lines: the first of these lines
    """

    times: Mapping[str, str] = field(default_factory=dict)
    broken: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    lines: tuple[Line, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all lines for which the site is refused, each once; none: it is not."""
        return tuple(name for name in self._all if not name.startswith(LAUNCHER))

    @property
    def profiles(self) -> tuple[str, ...]:
        """The MPI profiles that must be mended: MPI Jobs of these are refused, and no others."""
        return tuple(name.removeprefix(LAUNCHER) for name in self._all if name.startswith(LAUNCHER))

    @property
    def _all(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for names in self.broken.values() for name in names))


def after(before: Kept, lines: Iterable[Line], users: Sequence[str], time: str, *, whole: bool) -> Kept:
    """What is known after a check.

    :param users: who was checked
    :param time: when, RFC 3339
    :param whole: all users whom accounts name were: what was known of others is known no more
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
    """One line of text that JSON can hold, of what a batch system may have printed in any encoding."""
    return " ".join(text.encode(errors="replace").decode().split())[:LONGEST]


def sentence(kept: Kept) -> str:
    """Why a site is refused, for whoever looks after it; empty where it is not."""
    return _found(kept, kept.names) if kept.names else ""


def sentence_on_profiles(kept: Kept) -> str:
    """Why MPI Jobs of some profiles are refused, in the same way; empty where none are."""
    if not kept.profiles:
        return ""
    words = _found(kept, [LAUNCHER + name for name in kept.profiles])
    return f"MPI Jobs of profile {', '.join(kept.profiles)} are not submitted, all others are: {words}"


def _found(kept: Kept, about: Collection[str]) -> str:
    """What a check found, by the lines of these names: the first of them whole, the others counted."""
    lines = [line for line in kept.lines if line.name in about][:1]
    told = [f"{line.name}{f' ({line.user})' * bool(line.user)}: {line.seen}; {line.change}" for line in lines]
    rest = sum(name in about for names in kept.broken.values() for name in names) - len(told)
    more = [f"{rest} more such lines" if rest > 1 else "one more such line"] * bool(rest)
    words = ". ".join([*told, *more])
    return f"batchgate site check, {_latest(kept)}, found what must be mended: {words}. Mend it and check again"


def praise(kept: Kept) -> str:
    """The same for a site that is not refused."""
    return f"checked at {_latest(kept)}: nothing must be mended" if kept.times else "no check of the site is known"


def brief(kept: Kept, site: str, profile: str) -> str:
    """Why Jobs of an MPI profile, or (empty) those without one, are refused, for users; empty where they are not."""
    if not kept.names and profile and profile in kept.profiles:
        return (
            f"the last check of site {site} failed for MPI profile {profile}; no MPI Job of that profile is submitted until "
            "it is mended"
        )
    if not kept.names:
        return ""
    return f"the last check of site {site} failed ({', '.join(kept.names)}); nothing is submitted until it is mended"


def _latest(kept: Kept) -> str:
    return max(kept.times.values(), default="")


def document(kept: Kept) -> str:
    """The document, JSON."""
    users = {user: {"time": time, "must": list(kept.broken.get(user, ()))} for user, time in kept.times.items()}
    lines = [{name: getattr(line, name) for name in _TEXTS} for line in kept.lines]
    return json.dumps({"users": users, "lines": lines})


def kept_of(text: str) -> Kept:
    """What a document says; nothing for an empty one. InputError where it is none."""
    if not text:
        return Kept()
    try:
        found = json.loads(text)
        times = {str(user): _text(one["time"]) for user, one in found["users"].items()}
        broken = {str(user): tuple(_text(name) for name in one["must"]) for user, one in found["users"].items()}
        lines = tuple(_line(one) for one in found["lines"])
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(f"is no record of a check of a site ({type(error).__name__}: {error})") from error
    return Kept(times, {user: names for user, names in broken.items() if names}, lines)


def _line(found: Mapping[str, Any]) -> Line:
    name, user, seen, expected, change = (_text(found[key]) for key in _TEXTS)
    return Line(name, user, Mark.MUST, seen, expected, change)


def _text(found: object) -> str:
    if not isinstance(found, str):
        raise TypeError(f"a text was expected, not {found!r}")
    return found
