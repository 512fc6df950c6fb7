"""Judges the probe jobs by how the batch system shows and ends them.

Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from router.policy.schema import Account
from router.preflight import LAUNCHER, Line, Mark
from router.preflight.seen import Report, complaint, first
from router.site.systems import SYSTEMS

SHORTEST_KILL_DELAY: Final = 2.0
"""Least seconds between TERM and KILL that a script needs to write down how it ended."""

_TIMED_OUT: Final = "124"
"""The exit code of ``timeout`` if it had to end the command."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A probe as the batch system shows it: the name that was searched for, whether it was found, and its values."""

    wanted: str
    found: bool
    name: str
    account: str
    project: str


@dataclass(frozen=True, slots=True)
class Killed:
    """The end of a deleted probe: when TERM came, and when it wrote after that (seconds since 1970)."""

    ended: bool
    term: Sequence[float]
    beats: Sequence[float]


def name_line(user: str, shown: Shown) -> Line:
    """Whether the probe is found by its name, as the agent searches for jobs by name."""
    mark = Mark.OK if shown.found and shown.name in {"", shown.wanted} else Mark.MUST
    change = "" if mark is Mark.OK else "keep hooks and submit filters from changing job names"
    return Line("job-name", user, mark, shown.name or "found by its name", shown.wanted, change)


def account_lines(user: str, shown: Shown, account: Account | None, system: str) -> tuple[Line, ...]:
    """Whether account and project are what the policy says."""
    wanted = (account.account, account.project) if account else (None, None)
    lines = [_given("account", user, shown.account, wanted[0])]
    if SYSTEMS[system].TRAITS.shows_projects:
        lines.append(_given("project", user, shown.project.removeprefix("_pbs_project_default"), wanted[1]))
    return tuple(lines)


def _given(name: str, user: str, seen: str, wanted: str | None) -> Line:
    words = seen or "none shown"
    if wanted is None:
        return Line(name, user, Mark.OK, words, "any: the policy names none")
    if seen == wanted or (not seen and name == "project"):
        return Line(name, user, Mark.OK if seen else Mark.WARNING, words, wanted, "" if seen else _by_hand(name))
    if not seen:
        return Line(name, user, Mark.WARNING, words, wanted, _by_hand(name))
    change = f"keep hooks from changing it, or write {name}: {seen} in the policy's accounts"
    return Line(name, user, Mark.MUST, words, wanted, change)


def _by_hand(name: str) -> str:
    return f"the batch system does not show the {name}; look at a job's {name} in its records"


def history_line(user: str, system: str, *, kept: bool, known: bool) -> Line:
    """Whether the batch system answers questions about ended jobs.

    :param kept: whether it keeps records, as far as it says
    :param known: whether it knew the probe after its end
    """
    expected = "records of ended jobs"
    if kept and known:
        return Line("history", user, Mark.OK, "the ended probe is known", expected)
    seen = "the ended probe is unknown" if kept else "no records are kept"
    change = f"{SYSTEMS[system].ADVICE.history}; until then the files of a Job alone say how it ended"
    return Line("history", user, Mark.WARNING, seen, expected, change)


def visible_lines(user: str, *, own: bool, others: Sequence[str], hidden: Sequence[str]) -> tuple[Line, ...]:
    """Whose jobs the user sees; the user's own must be among them.

    :param others: users whose probes were seen
    :param hidden: users whose probes were not
    """
    change = "" if own else "show users their own jobs: the agent cannot tell what becomes of them"
    mine = Line("own-jobs", user, Mark.OK if own else Mark.MUST, "seen" if own else "not seen", "seen", change)
    parts = [f"seen: {', '.join(others)}"] * bool(others) + [f"hidden: {', '.join(hidden)}"] * bool(hidden)
    rest = "; ".join(parts) or "nobody else's probe was there"
    return mine, Line("others-jobs", user, Mark.OK, rest, "seen or hidden: each user is asked about")


def observer_line(user: str, observer: str, system: str, *, seen: bool) -> Line:
    """Whether the site's observer sees the user's probe. If it does not, the agent asks as the user instead."""
    change = SYSTEMS[system].ADVICE.observer.format(observer=observer)
    words = f"{observer} {'sees' if seen else 'does not see'} the probe"
    mark = Mark.OK if seen else Mark.WARNING
    return Line("observer", user, mark, words, f"{observer} sees it", "" if seen else f"{change}, or remove observer")


def kill_line(user: str, killed: Killed, system: str) -> Line:
    """Whether a deleted job ends, and how long after TERM."""
    name, expected = "kill-delay", f"TERM, then KILL after {SHORTEST_KILL_DELAY:.0f} s or more"
    if not killed.ended:
        words = "the deleted probe did not end"
        return Line(name, user, Mark.MUST, words, expected, "find why the batch system cannot end a job; see its log")
    change = f"{SYSTEMS[system].ADVICE.kill_delay}; else jobs that are deleted cannot say how they ended"
    if not killed.term:
        return Line(name, user, Mark.WARNING, "KILL without a TERM before", expected, change)
    delay = max(0.0, max((*killed.beats, killed.term[0])) - killed.term[0])
    short = delay < SHORTEST_KILL_DELAY - 0.5
    mark = Mark.WARNING if short else Mark.OK
    return Line(name, user, mark, f"KILL {delay:.1f} s after TERM", expected, change if short else "")


def two_nodes_lines(user: str, profile: str, report: Report, left: Sequence[str], nodes: int) -> tuple[Line, ...]:
    """Whether a profile's launcher started a shell on each node, and each left a file that the submitter sees.

    :param left: the hosts whose files were seen
    :param nodes: how many different hosts there should be: one if the batch system only pretends to have nodes
    """
    path, ranks = first(report, "launcher-path"), report.get("rank", ())
    if not path:
        change = f"fix path or modules of MPI profile {profile}, or install the launcher on the nodes"
        words = f"no launcher on {first(report, 'host')}"
        return (Line(LAUNCHER + profile, user, Mark.MUST, words, "a launcher", change),)
    code, words = first(report, "launched"), complaint(report.get("said", ()))
    hosts = sorted(set(ranks))
    good = code == "0" and len(ranks) == 2 and len(hosts) == nodes
    program = f"{path} ({version})" if (version := first(report, "launcher-version")) else path
    seen = f"{program}: exit code {code}, {len(ranks)} ranks on {', '.join(hosts) or 'no host'}"
    if code == _TIMED_OUT:
        words = f"it was ended after 120 s{': ' * bool(words)}{words}"
    change = f"fix MPI profile {profile} (options, env): {words or 'it started too few'}"
    expected = f"2 ranks on {nodes} {'hosts' if nodes > 1 else 'host'}"
    launcher = Line(LAUNCHER + profile, user, Mark.OK if good else Mark.MUST, seen, expected, "" if good else change)
    missing = sorted(set(hosts).difference(left))
    change = "mount workDir on all nodes, writable for the user" if missing else ""
    files = f"written on {', '.join(left) or 'none'}"
    shared = Line("work-directory-on-nodes", user, Mark.MUST if missing else Mark.OK, files, "on each host", change)
    return launcher, shared
