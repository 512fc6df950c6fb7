"""Describes a Pod's results: the plan of what to collect, the manifest of what was collected, and the Event about it.

Pure. ``router.workload.resultpaths`` interprets the paths of the hint. File names are text with surrogates for bytes
that are not UTF-8 (``os.fsdecode``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from router.pod import layout
from router.pod.life import Exit
from router.workload import resultpaths
from router.workload.resultpaths import Plan, Wanted

MANIFEST: Final = "manifest.json"
RESULTS: Final = "results"
VERSION: Final = 1
_UID_DIGITS: Final = 8
MOST_LEFT: Final = 1000
"""Most files left behind that the manifest names; it counts all."""
MOST_PLAN: Final = 2 << 20
"""Most bytes of a plan: more than ``resultpaths.LONGEST_PLACES`` take as JSON."""
_DEEPEST_PATTERN: Final = 100
_LONGEST_PROBLEM: Final = 500
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")


# --- the plan -------------------------------------------------------------------------------------------------------


def plan_text(plan: Plan) -> bytes:
    """A plan as a file of the Pod's directory. It is made when the Job is verified."""
    document = {"version": VERSION, "wanted": [asdict(one) for one in plan.wanted], "problems": plan.problems}
    return json.dumps(document).encode() + b"\n"


def read_plan(content: bytes) -> Plan:
    """The plan in a file; an empty plan with a problem if the file is invalid.

    As the Job's user can write the file, only names of places below a volume are accepted.
    """
    if not content:
        return Plan()
    if len(content) > MOST_PLAN:
        return _overwritten(f"it has more than {MOST_PLAN} bytes")
    try:
        document = json.loads(content)
        wanted = tuple(_wanted(one) for one in document["wanted"][: resultpaths.MOST_PLACES])
        problems = tuple(str(one)[:_LONGEST_PROBLEM] for one in document["problems"][: resultpaths.MOST_PLACES])
    except (ValueError, TypeError, KeyError, RecursionError):
        return _overwritten("its content is not a plan of results")
    if resultpaths.length(wanted) > resultpaths.LONGEST_PLACES:
        return _overwritten("it names more places than a plan can have")
    return Plan(wanted, problems)


def _overwritten(why: str) -> Plan:
    return Plan((), (f"{layout.RESULTS} in the Pod's directory was overwritten: {why}",))


def _wanted(document: Mapping[str, Any]) -> Wanted:
    volume, pattern = str(document["volume"]), tuple(str(part) for part in document["pattern"])
    if len(pattern) > _DEEPEST_PATTERN or not all(map(_is_part, (volume, *pattern))):
        raise ValueError(f"{document!r} is not below a volume")
    return Wanted(str(document["said"]), volume, pattern)


def _is_part(text: str) -> bool:
    return text not in {"", ".", ".."} and "/" not in text and "\0" not in text


# --- where to ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Subject:
    """The Pod that the results are of. ``job_id`` is the batch job's; ``exits`` tells how each last run ended."""

    namespace: str
    job: str
    pod: str
    uid: str
    job_uid: str
    index: str
    site: str
    queue: str
    job_id: str = ""
    exits: Mapping[str, Exit] = field(default_factory=dict)


def place(subject: Subject) -> tuple[str, str, str]:
    """The directory of a Pod below the site's: ``<namespace>/<job>/<pod>.<short uid>``.

    Raises ValueError if a name is not a valid Kubernetes name, as the path might lead elsewhere.
    """
    for name in (subject.namespace, subject.job, subject.pod, subject.uid):
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not a valid name of a Kubernetes object")
    return subject.namespace, subject.job, f"{subject.pod}.{subject.uid[:_UID_DIGITS]}"


# --- the manifest ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Brought:
    """One collected file.

    :param path: below the Pod's results
    :param size: in bytes
    :param sha256: in hex
    :param modified: modification time in seconds since 1970
    :param changed: whether a program wrote to it while it was copied
    """

    path: str
    size: int
    sha256: str
    modified: float
    changed: bool = False


@dataclass(frozen=True, slots=True)
class Left:
    """One file or directory that was not collected, and why."""

    path: str
    reason: str
    size: int | None = None


@dataclass(frozen=True, slots=True)
class Collected:
    """What was collected of a Pod's results, and what was not.

    :param left: what was not collected; at most ``MOST_LEFT`` of these
    :param left_count: the number of all files and directories that were not collected
    :param missing: paths of the hint that nothing matched
    """

    files: tuple[Brought, ...] = ()
    left: tuple[Left, ...] = ()
    left_count: int = 0
    missing: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether everything that the hint asks for was collected."""
        return not (self.left_count or self.missing or self.problems or any(one.changed for one in self.files))

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(one.size for one in self.files)


def manifest_text(subject: Subject, plan: Plan, collected: Collected) -> bytes:
    """``manifest.json``, the last file that is written.

    Names that are not UTF-8 are shown with ``\\xNN``, and ``pathHex`` has their bytes.
    """
    document = {
        "version": VERSION,
        "namespace": subject.namespace,
        "job": subject.job,
        "jobUid": subject.job_uid,
        "index": subject.index,
        "pod": subject.pod,
        "podUid": subject.uid,
        "site": subject.site,
        "queue": subject.queue,
        "batchJob": subject.job_id,
        "containers": {name: _exit(one) for name, one in sorted(subject.exits.items())},
        "asked": sorted({one.said for one in plan.wanted}),
        "complete": collected.complete,
        "size": collected.size,
        "files": [_file(one) for one in collected.files],
        "left": [_left(one) for one in collected.left],
        "leftCount": collected.left_count,
        "missing": list(collected.missing),
        "problems": list(collected.problems),
    }
    return json.dumps(document, indent=1, ensure_ascii=False).encode() + b"\n"


def _exit(one: Exit) -> Mapping[str, object]:
    """How a container ended. The size of its log is left out, as the log is listed among the files."""
    return {key: value for key, value in asdict(one).items() if key != "log" and value != ""}


def _file(one: Brought) -> dict[str, Any]:
    shown = _path(one.path) | {"size": one.size, "sha256": one.sha256, "modified": round(one.modified, 6)}
    return shown | ({"changed": True} if one.changed else {})


def _left(one: Left) -> dict[str, Any]:
    return _path(one.path) | ({} if one.size is None else {"size": one.size}) | {"reason": one.reason}


def _path(path: str) -> dict[str, str]:
    raw = path.encode(errors="surrogateescape")
    try:
        return {"path": raw.decode()}
    except UnicodeDecodeError:
        return {"path": raw.decode(errors="backslashreplace"), "pathHex": raw.hex()}


# --- words -------------------------------------------------------------------------------------------------------

_UNITS: Final = (("Gi", 30), ("Mi", 20), ("Ki", 10))
_MOST_NAMED: Final = 3


def sentence(collected: Collected, where: str) -> str:
    """The message of the Event about collected results."""
    count = len(collected.files)
    said = f"{count} file{'' if count == 1 else 's'}, {_shown(collected.size)}, brought to {where}"
    return "; ".join([said, *_shortfalls(collected)])


def _shortfalls(collected: Collected) -> Iterator[str]:
    if collected.missing:
        yield f"nothing matched {_named(collected.missing)}"
    yield from collected.problems[:_MOST_NAMED]
    if collected.left_count:
        first = collected.left[0]
        more = f" and {collected.left_count - 1} more" if collected.left_count > 1 else ""
        yield f"not brought: {_path(first.path)['path']} ({first.reason}){more}"
    if changed := [one.path for one in collected.files if one.changed]:
        yield f"changed while they were copied: {_named(changed)}"


def _named(names: Collection[str]) -> str:
    shown = [_path(name)["path"] for name in names][:_MOST_NAMED]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _shown(size: int) -> str:
    for unit, shift in _UNITS:
        if size >= 1 << shift:
            return f"{size / (1 << shift):.1f} {unit}B"
    return f"{size} bytes"
