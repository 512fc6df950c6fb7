"""Parses the resources of ``qsub -l``: select, place, nodes, walltime, sizes, with OpenPBS' errors.

Pure. Exit codes are PBSE codes modulo 256; texts are those of OpenPBS 23.06.06.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Final


class Rejection(Exception):
    """A command ends with this exit code and this text on stderr."""

    def __init__(self, returncode: int, words: str) -> None:
        super().__init__(words)
        self.returncode = returncode
        self.words = words


@dataclass(frozen=True, slots=True)
class Chunk:
    """``count`` equal shares of a job, each on one node. ``memory`` is in bytes, 0 if not requested."""

    count: int
    ncpus: int
    mpiprocs: int
    ompthreads: int
    memory: int
    gpus: int


@dataclass(frozen=True, slots=True)
class Asked:
    """The resources that a job asks for. ``walltime`` is in seconds, or None. ``listed`` is OpenPBS' Resource_List."""

    chunks: tuple[Chunk, ...]
    place: str
    walltime: int | None
    listed: Mapping[str, str]


ILLEGAL: Final = "Illegal attribute or resource value"
_BAD_VALUE, _UNKNOWN, _MIXED, _NODES_MIXED, _PLACE_ALONE, _DUPLICATE, _NODE_SPEC = 166, 187, 5, 6, 7, 12, 241
_COUNTS: Final = frozenset({"ncpus", "mpiprocs", "ompthreads", "ngpus", "nchunk", "nodect", "mps"})
_SIZES: Final = frozenset({"mem", "vmem", "pmem", "pvmem", "file"})
_TIMES: Final = frozenset({"walltime", "cput", "pcput", "min_walltime", "max_walltime"})
_WORDS: Final = frozenset({"host", "vnode", "arch", "software"})
_WHOLE_JOB_ONLY: Final = _TIMES | {"select", "place", "nodes", "software"}
_UNITS: Final = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40, "p": 50}
_SIZE: Final = re.compile(r"(\d+)([kmgtp]?)([bw]?)", re.IGNORECASE)
_PLACE: Final = re.compile(r"(?:free|pack|scatter|vscatter)?(?::?(?:excl|exclhost|shared))?(?::?group=\S+)?")
_WORD_BYTES: Final = 8
_MOST_RANKS: Final = 100_000  # our own limit, as each is a line of the nodefile
_SECONDS: Final = (1, 60, 3600)


def seconds(text: str) -> int:
    """A time of OpenPBS: seconds, MM:SS or HH:MM:SS, fractions rounded up. Raises ValueError for anything else."""
    parts = text.split(":")
    if not 1 <= len(parts) <= len(_SECONDS) or not re.fullmatch(r"\d+(?::\d+)*(?:\.\d*)?", text):
        raise ValueError(f"{text!r} is not a time")
    return ceil(sum(float(part) * unit for part, unit in zip(reversed(parts), _SECONDS, strict=False)))


def clock(value: float) -> str:
    """Seconds as ``HH:MM:SS``; the hours may exceed 24."""
    whole = int(value)
    return f"{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def size(text: str) -> int:
    """A size of OpenPBS in bytes; a bare number is bytes, ``mw`` counts words of 8. ValueError for other text."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a size")
    number, unit, kind = match.groups()
    return (int(number) << _UNITS[unit.lower()]) * (_WORD_BYTES if kind.lower() == "w" else 1)


def show_size(value: int) -> str:
    """Bytes as OpenPBS shows them: in the largest exact unit up to gb."""
    for unit, shift in (("gb", 30), ("mb", 20), ("kb", 10)):
        if value and value % (1 << shift) == 0:
            return f"{value >> shift}{unit}"
    return f"{value}b"


def split_list(value: str) -> dict[str, str]:
    """The items of one ``-l``: ``name=value`` separated by commas. Raises ValueError for an invalid item."""
    found: dict[str, str] = {}
    for item in value.split(","):
        name, equals, content = item.partition("=")
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]*", name) or content != content.strip() or " " in content:
            raise ValueError(item)
        found[name] = content if equals else ""
    return found


def asked(items: Mapping[str, str]) -> Asked:
    """The resources of all ``-l`` together. Raises Rejection with OpenPBS' error."""
    _check_names(items)
    if "nodes" in items:
        select, place = _nodes(items["nodes"]), items.get("place", "scatter")
    elif "select" in items:
        select, place = items["select"], items.get("place", "free")
    else:
        select, place = _plain(items), "pack"
    chunks = tuple(_chunk(part) for part in select.split("+"))
    walltime = seconds(items["walltime"]) if items.get("walltime") else None
    return Asked(chunks, place, walltime, _listed(items, chunks, place, select))


def _check_names(items: Mapping[str, str]) -> None:
    per_chunk = [name for name in items if name not in _WHOLE_JOB_ONLY]
    for name in items:
        if name not in _COUNTS | _SIZES | _WHOLE_JOB_ONLY | _WORDS:
            raise Rejection(_UNKNOWN, f"Unknown resource Resource_List.{name}")
    if "nodes" in items and ("select" in items or "place" in items):
        raise Rejection(_NODES_MIXED, "Cannot be used with select or place: nodes")
    if per_chunk and ("select" in items or "place" in items):
        words = f'"-lresource=" cannot be used with "select" or "place", resource is: {per_chunk[0]}'
        raise Rejection(_MIXED, words)
    if "place" in items and "select" not in items:
        raise Rejection(_PLACE_ALONE, 'Cannot have "place" without "select"')
    for name, value in items.items():
        if not _fits(name, value):
            raise Rejection(_BAD_VALUE, f"{ILLEGAL} Resource_List.{name}")


def _fits(name: str, value: str) -> bool:
    try:
        if name in _TIMES:
            seconds(value) if value else None
        elif name in _SIZES:
            size(value)
        elif name in _COUNTS:
            return value.isdigit()
        elif name == "place":
            return bool(value and _PLACE.fullmatch(value))
        elif name in {"select", "nodes"}:
            return bool(re.fullmatch(r"[A-Za-z0-9].*", value))
    except ValueError:
        return False
    return True


def _plain(items: Mapping[str, str]) -> str:
    """The select of a job without one: a single chunk with its resources."""
    words = {"ncpus": "1", **{name: value for name, value in items.items() if name not in _WHOLE_JOB_ONLY}}
    return "1:" + ":".join(f"{name}={value}" for name, value in words.items())


def _nodes(text: str) -> str:
    """The select for older PBS' ``nodes=2:ppn=2``."""
    parts = []
    for part in text.split("+"):
        match = re.fullmatch(r"(\d+)(?::ppn=(\d+))?", part)
        if match is None:
            raise Rejection(_NODE_SPEC, "node(s) specification error")
        count, ppn = match.group(1), match.group(2) or "1"
        parts.append(f"{count}:ncpus={ppn}:mpiprocs={ppn}")
    return "+".join(parts)


def _chunk(text: str) -> Chunk:
    head, *words = text.split(":")
    if "=" in head:
        head, words = "1", [head, *words]
    if not head.isdigit():
        raise Rejection(_BAD_VALUE, f"{ILLEGAL} Resource_List.select")
    if int(head) == 0:
        raise Rejection(_BAD_VALUE, ILLEGAL)
    values: dict[str, str] = {}
    for word in words:
        name, _, value = word.partition("=")
        if name in values:
            words_of = "duplicated resource within a section of a select specification, resource is:"
            raise Rejection(_DUPLICATE, f"{words_of} {name}")
        if name in _WHOLE_JOB_ONLY:
            raise Rejection(_BAD_VALUE, f"{ILLEGAL} Resource_List.select")
        if name not in _COUNTS | _SIZES | _WORDS:
            raise Rejection(_UNKNOWN, f"Unknown resource: {name}")
        if not value or not _fits(name, value) or (name == "mpiprocs" and int(value) > _MOST_RANKS):
            raise Rejection(_BAD_VALUE, f"{ILLEGAL} select.{name}")
        values[name] = value
    ncpus = int(values.get("ncpus", "1"))
    return Chunk(
        count=int(head),
        ncpus=ncpus,
        mpiprocs=int(values.get("mpiprocs", "1")),
        ompthreads=int(values.get("ompthreads", ncpus)),
        memory=size(values["mem"]) if "mem" in values else 0,
        gpus=int(values.get("ngpus", "0")),
    )


def _listed(items: Mapping[str, str], chunks: tuple[Chunk, ...], place: str, select: str) -> dict[str, str]:
    """Resource_List, sorted by name: sums over the chunks, and resources of the whole job."""
    listed = {"ncpus": str(sum(chunk.count * chunk.ncpus for chunk in chunks))}
    memory = sum(chunk.count * chunk.memory for chunk in chunks)
    gpus = sum(chunk.count * chunk.gpus for chunk in chunks)
    if memory:
        listed["mem"] = show_size(memory)
    if "mpiprocs=" in select:
        listed["mpiprocs"] = str(sum(chunk.count * chunk.mpiprocs for chunk in chunks))
    if gpus:
        listed["ngpus"] = str(gpus)
    listed |= {"nodect": str(sum(chunk.count for chunk in chunks)), "place": place, "select": select}
    if items.get("walltime"):
        listed["walltime"] = clock(seconds(items["walltime"]))
    if items.get("nodes"):
        listed["nodes"] = items["nodes"]
    return dict(sorted(listed.items()))
