"""Refuses changes of immutable fields in the Pod template of a Job that went to HPC, with one sentence.

Pure. The API server would refuse them too, after all webhooks, but its message has both templates with the whole
script.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from router.errors import JobError

ANEW: Final = "delete and create it"
_MOST_NAMED: Final = 5
_MUTABLE: Final = frozenset({"nodeSelector", "tolerations", "affinity", "schedulingGates", "resources"})
"""Fields of the Pod's spec and of containers that may change on a suspended Job, beside labels and annotations
(ValidateJobUpdate of Kubernetes; amounts from 1.35 on)."""
_GENERATED: Final = ("batch.kubernetes.io/", "controller-uid", "job-name")
"""Labels that the API server adds; a file that replaces the whole Job lacks them."""
_REPLACED: Final = (
    "Required value: a file that replaces a Job holds the selector and the labels that the API server wrote into it; "
    "apply the file instead, or delete and create the Job (kubectl replace --force)"
)


def demand_same(stored: object, new: object, *, suspended: bool) -> None:
    """Raise JobError if immutable fields of a template change; it names these fields."""
    found = list(islice(_differing(stored, new, ""), _MOST_NAMED * 20))
    fields = [field for field in found if not (suspended and _is_mutable(field))]
    if not fields:
        return
    own = [field for field in fields if not _is_generated(field)]
    if not own:
        raise JobError("spec.selector", _REPLACED)
    named = list(dict.fromkeys(field.removeprefix("spec.") for field in own))
    more = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
    shown = f"{', '.join(named[:_MOST_NAMED])}{more}"
    raise JobError(
        "spec.template", f"this Job was sent to HPC and its Pod template ({shown}) cannot be changed; {ANEW}"
    )


def _is_generated(path: str) -> bool:
    label = path.removeprefix("metadata.labels")
    return label != path and label.lstrip(".[").startswith(_GENERATED)


def _is_mutable(path: str) -> bool:
    words = path.replace("[", ".").split(".")
    if words[0] == "metadata":
        return words[1:2] in (["labels"], ["annotations"])
    field = "".join(words[1:2])
    return field in _MUTABLE or (field in ("containers", "initContainers") and words[3:4] == ["resources"])


def _differing(one: object, other: object, path: str) -> Iterator[str]:
    """The paths of fields that differ. Absent, null and empty are the same to the API server."""
    if one == other or (one in _ABSENT and other in _ABSENT):
        return
    if isinstance(one, dict) and isinstance(other, dict):
        for key in dict.fromkeys((*one, *other)):
            yield from _differing(one.get(key), other.get(key), _step(path, key))
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for index, (mine, theirs) in enumerate(zip(one, other, strict=True)):
            yield from _differing(mine, theirs, f"{path}[{index}]")
    else:
        yield path


_ABSENT: Final[tuple[Any, ...]] = (None, "", [], {})


def _step(path: str, key: str) -> str:
    plain = key.replace("-", "").isalnum()
    return (f"{path}.{key}" if path else key) if plain else f"{path}[{key[:80]}]"
