"""What was played as a table, as sentences and as JSON.

Pure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from router.notation import durations
from router.replay.reports import listed
from router.replay.rows import jobs as count_of
from router.replay.rows import left_out
from router.replay.tally import day
from router.simulate import words
from router.simulate.figures import ALL, Spread, confidence
from router.simulate.play import CLOUD, Played
from router.simulate.series import HPC, Series
from router.values import unchanging

HEAD: Final = (
    "POLICY", "TO", "JOBS", "PODS", "CORE-HOURS", "SHARE", "WAIT", "WAIT P95", "SLOWDOWN", "SLOWDOWN P95",
    "UTILISATION", "PEAK CORES",
)  # fmt: skip


@unchanging
class Side:
    """One policy: the figures over seeds by destination, and what was played with each seed."""

    name: str
    digest: str
    figures: Mapping[str, Mapping[str, Spread]]
    seeds: tuple[Played, ...]
    series: Series


@unchanging
class Report:
    """All that was played.

    :param jobs: how many, with the first and the last arrival in seconds since 1970
    :param seeds: the seeds; one alone if nothing was drawn
    :param drawn: whether running times were drawn
    :param setting: sentences on what was assumed
    :param skipped: what was no Job to play, by reason, with its number and an example
    """

    sides: tuple[Side, ...]
    jobs: int
    first: float
    last: float
    seeds: tuple[int, ...]
    drawn: bool
    setting: tuple[str, ...]
    skipped: Mapping[str, tuple[int, str]]


# --- for people -------------------------------------------------------------------------------------------------


def head_line(report: Report) -> str:
    """One sentence about the whole."""
    return f"{count_of(report.jobs)}, {day(report.first)} to {day(report.last)}, in a model of the queues"


def rows(report: Report) -> list[tuple[str, ...]]:
    """A row under ``HEAD`` for each destination of each policy."""
    return [(side.name, where, *_cells(found)) for side in report.sides for where, found in side.figures.items()]


def _cells(found: Mapping[str, Spread]) -> Iterator[str]:
    yield from (told(found[name], _whole) for name in ("jobs", "pods", "core_hours"))
    yield told(found["share"], percent)
    yield from (told(found[name], time) for name in ("wait", "wait_p95"))
    yield from (told(found[name], ratio) for name in ("slowdown", "slowdown_p95"))
    yield told(found["utilisation"], percent)
    yield told(found["peak"], _whole)


def told(spread: Spread, show: Callable[[float], str]) -> str:
    """The median, with the lowest and the highest unless they look the same."""
    if math.isnan(spread.median):
        return "-"
    median, low, high = (show(value) for value in (spread.median, spread.low, spread.high))
    return median if low == high else f"{median} ({low} to {high})"


def _whole(value: float) -> str:
    return f"{value:,.0f}"


def percent(value: float) -> str:
    """Of a share."""
    return f"{value:.0%}"


def ratio(value: float) -> str:
    """With hundredths below 100."""
    return f"{value:.2f}" if value < 100 else f"{value:,.0f}"


def time(seconds: float) -> str:
    """To a minute from an hour on."""
    whole = round(seconds)
    return durations.show(whole if whole < 3600 else 60 * round(whole / 60))


def notes(report: Report) -> list[str]:
    """What was assumed, what is missing, what the model leaves out."""
    model = [words.MODEL, words.MEMORY, *(f"left out of the model: {one}" for one in words.LEAVES_OUT)]
    return [*_confidence(report), *report.setting, *_sides(report), *left_out(report.skipped), *model]


def _confidence(report: Report) -> Iterator[str]:
    count = len(report.seeds)
    if not report.drawn:
        yield "nothing is drawn by chance, so the Jobs are played once"
    elif count == 1:
        yield "one seed tells nothing of how far chance goes: take --seeds 5 or more"
    else:
        yield (
            f"figures are medians of {count} seeds, with the lowest and the highest in brackets; "
            f"with {confidence(count):.0%} confidence the median of all seeds is between these"
        )


def _sides(report: Report) -> Iterator[str]:
    many = len(report.sides) > 1
    for side in report.sides:
        of = f"{side.name}: " if many else ""
        yield f"{of}from the first arrival to the last end: {told(side.figures[ALL]['makespan'], time)}"
        if side.figures[ALL]["cut"].high:
            yield f"{of}Pods that their walltime or deadline ended: {told(side.figures[ALL]['cut'], _whole)}"
        yield from (f"{of}{line}" for line in _of_first(side.seeds[0]))


def _of_first(played: Played) -> Iterator[str]:
    """Of the first seed: others differ at most in numbers."""
    for rule, (count, example) in played.kept.items():
        yield f"stay though rule {rule} wants them on HPC: {count_of(count)}, such as {example}"
    for where, (count, example) in played.stuck.items():
        yield f"never start, as no node of the model holds them ({where}): {count_of(count)}, such as {example}"
    if played.missing:
        facts = ", ".join(f"{fact} ({count_of(count)})" for fact, count in played.missing.items())
        yield f"facts that rules or accounts read and that are unknown: {facts}"


# --- JSON -------------------------------------------------------------------------------------------------------

_KEYS: Final = {
    "jobs": "jobs", "pods": "pods", "core_hours": "coreHours", "share": "share", "wait": "waitSeconds",
    "wait_p95": "waitSecondsP95", "slowdown": "slowdown", "slowdown_p95": "slowdownP95", "utilisation": "utilisation",
    "peak": "peakCores", "makespan": "makespanSeconds", "cut": "podsEndedByLimit",
}  # fmt: skip


def document(report: Report) -> dict[str, Any]:
    """The whole report as JSON values. A figure that does not exist is null."""
    return {
        "model": {"statement": words.MODEL, "nodes": words.MEMORY, "leavesOut": list(words.LEAVES_OUT)},
        "jobs": report.jobs,
        "first": durations.show_moment(report.first),
        "last": durations.show_moment(report.last),
        "seeds": list(report.seeds),
        "drawn": report.drawn,
        "confidence": round(confidence(len(report.seeds)), 4) if report.drawn else None,
        "assumed": list(report.setting),
        "policies": [_side(side) for side in report.sides],
        "leftOut": listed("what", "count", report.skipped),
    }


def _side(side: Side) -> dict[str, Any]:
    first = side.seeds[0]
    return {
        "policy": side.name,
        "digest": side.digest,
        "destinations": [
            {"to": where, **{key: _spread(found[name]) for name, key in _KEYS.items()}}
            for where, found in side.figures.items()
        ],
        "rules": dict(first.rules),
        "kept": listed("rule", "jobs", first.kept),
        "neverStart": listed("to", "jobs", first.stuck),
        "missing": dict(first.missing),
        "overTime": _over_time(side.series),
    }


def _spread(spread: Spread) -> dict[str, float | None]:
    return {name: _number(getattr(spread, name)) for name in ("median", "low", "high")}


def _over_time(series: Series) -> dict[str, Any]:
    return {
        "begin": durations.show_moment(series.begin),
        "sliceSeconds": _number((series.end - series.begin) / len(series.share)),
        "coresOnHpc": _lists(series.cores[HPC]),
        "coresInCloud": _lists(series.cores[CLOUD]),
        "cloudShare": _lists(series.share),
        "waitingPods": _lists(series.waiting),
        "waitSeconds": _lists(series.wait),
    }


def _lists(spreads: Sequence[Spread]) -> dict[str, list[float | None]]:
    return {name: [_number(getattr(spread, name)) for spread in spreads] for name in ("median", "low", "high")}


def _number(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 4)
