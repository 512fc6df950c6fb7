"""Reads traces in the Standard Workload Format 2.2.

Pure. The format: https://www.cs.huji.ac.il/labs/parallel/workload/swf.html. A line is a job with 18 fields, -1 where
one is unknown; lines that begin with ``;`` are comments, the first of them ``; Key: value`` of a header.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from router.errors import InputError
from router.values import unchanging

_FIELDS: Final = (
    "job number", "submit time", "wait time", "run time", "allocated processors", "average CPU time", "used memory",
    "requested processors", "requested time", "requested memory", "status", "user", "group", "executable", "queue",
    "partition", "preceding job", "think time",
)  # fmt: skip
_HEADER: Final = re.compile(r";\s*([A-Za-z]\w*):\s*(.*)")
_LARGEST: Final = 2**53
LAST_MOMENT: Final = 253402214400
"""9999-12-31 at 00:00 UTC, in seconds since 1970: no later moment has a date of four digits in every time zone."""


@unchanging
class Record:
    """A job of a trace.

    :param submitted: seconds since 1970, or since the trace's beginning if that is unknown
    :param runtime: seconds, None if unknown, like the following
    :param processors: requested, or else allocated
    :param walltime: requested
    :param memory: requested, KiB of each processor
    :param status: 0 failed, 1 completed, 2 to 4 a part of a job, 5 cancelled
    """

    number: int
    submitted: float
    runtime: float | None
    processors: int | None
    walltime: float | None
    memory: int | None
    status: int | None
    user: int | None
    group: int | None
    place: str


@unchanging
class Header:
    """What the header comments say; None for what they leave out.

    :param begins: UnixStartTime, seconds since 1970
    """

    nodes: int | None = None
    processors: int | None = None
    begins: int | None = None


def header(lines: Iterable[str]) -> Header:
    """The header of a trace. A value that is no whole number above 0 counts as missing."""
    found: dict[str, str] = {}
    for line in lines:
        if not line.lstrip().startswith(";"):
            if line.strip():
                break
            continue
        if match := _HEADER.match(line.strip()):
            found.setdefault(match[1], match[2])
    return Header(*(_positive(found, key) for key in ("MaxNodes", "MaxProcs", "UnixStartTime")))


def _positive(found: Mapping[str, str], key: str) -> int | None:
    text = found.get(key, "").split(maxsplit=1)
    return int(text[0]) if text and re.fullmatch(r"0*[1-9][0-9]{0,14}", text[0], re.ASCII) else None


def records(lines: Iterable[str], file: str, begins: int = 0) -> Iterator[Record]:
    """The jobs of a trace, in its order. Raises InputError with file, line and field.

    :param begins: the moment of its beginning, seconds since 1970
    """
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if text and not text.startswith(";"):
            yield _record(text.split(), f"{file}:{number}", begins)


def _record(words: list[str], place: str, begins: int) -> Record:
    if len(words) != len(_FIELDS):
        raise InputError(
            f"{place}: has {len(words)} fields, and a job of the Standard Workload Format has {len(_FIELDS)}; "
            "give a trace of the Parallel Workloads Archive, unpacked or as .gz"
        )
    values = [_number(word, position, place) for position, word in enumerate(words)]
    submitted = values[1]
    if submitted is None:
        raise InputError(f"{place}: field 2 ({_FIELDS[1]}) is {words[1]}, and each job needs one of 0 or more")
    if submitted + begins >= LAST_MOMENT:
        added = f", which with UnixStartTime {begins} is" if begins else ", which is"
        raise InputError(f"{place}: field 2 ({_FIELDS[1]}) is {words[1][:40]}{added} after 9999-12-30")
    whole = [None if value is None else int(value) for value in values]
    processors = whole[7] or whole[4]
    return Record(
        number=whole[0] or 0,
        submitted=submitted + begins,
        runtime=values[3],
        processors=processors or None,
        walltime=values[8] or None,
        memory=whole[9] or None,
        status=whole[10],
        user=whole[11],
        group=whole[12],
        place=place,
    )


def _number(word: str, position: int, place: str) -> float | None:
    """A field's value; None for unknown. The archive has fractions in some fields, and other negative numbers for -1."""
    try:
        value = float(word)
    except ValueError:
        value = math.nan
    if math.isnan(value) or abs(value) > _LARGEST:
        why = "no number" if math.isnan(value) else "larger than a trace's numbers are"
        raise InputError(f"{place}: field {position + 1} ({_FIELDS[position]}) is {word[:40]!r}, which is {why}")
    return None if value < 0 else value
