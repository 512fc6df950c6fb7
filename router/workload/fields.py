"""Gives typed access to the fields of a manifest: a value of the wanted type, or a JobError with the field's path.

Pure. Knows JSON's types and Kubernetes' reading of them (``null`` is an absent field), but no field by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Final

from router.errors import JobError
from router.values import unchanging
from router.workload.model import Obstacle

Fields = Mapping[str, object]

INT32: Final = 2**31 - 1
INT64: Final = 2**63 - 1
_NOTHING: Final[Fields] = {}
_SHOWN: Final = 40

LONGEST_WARNING: Final = 256
"""Most characters of one warning that reach the user: the API server cuts longer ones (kubernetes.io/docs/reference/
access-authn-authz/extensible-admission-controllers/#response)."""


@unchanging
class Findings:
    """What reading a Job finds beside its figures.

    :param unhonoured: paths of fields without effect when the process runs as the HPC user; they share one warning
    :param preferred: paths of preferences about nodes, which share another
    :param shared: paths of fields that ask for a namespace of the node
    :param privileged: paths of fields that ask for a privileged container
    :param schedulers: the scheduler that the Pod names, unless it is Kubernetes' own
    """

    obstacles: list[Obstacle] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    unhonoured: list[str] = field(default_factory=list)
    preferred: list[str] = field(default_factory=list)
    shared: list[str] = field(default_factory=list)
    privileged: list[str] = field(default_factory=list)
    schedulers: list[str] = field(default_factory=list)

    def block(self, path: str, reason: str) -> None:
        """Note that this field keeps the Job out of HPC."""
        self.obstacles.append(Obstacle(path, reason))


def step(path: str, key: str) -> str:
    """``path.key``, or ``path[key]`` if the key itself has a dot or slash."""
    if not path:
        return key
    return f"{path}[{key}]" if "." in key or "/" in key else f"{path}.{key}"


def mapping(owner: Fields, key: str, path: str) -> Fields:
    """The mapping under a key, empty where it is absent."""
    value = owner.get(key)
    if value is None:
        return _NOTHING
    return value if type(value) is dict else as_mapping(value, step(path, key))


def as_mapping(value: object, path: str) -> Fields:
    """The value as a mapping, or a JobError."""
    if isinstance(value, dict):
        return value
    if isinstance(value, Mapping):
        return value
    raise _wrong(path, value, "an object")


def items(owner: Fields, key: str, path: str) -> list[object]:
    """The list under a key, empty where it is absent."""
    value = owner.get(key)
    if value is None:
        return []
    return as_list(value, step(path, key))


def as_list(value: object, path: str) -> list[object]:
    """The value as a list, or a JobError."""
    if isinstance(value, list):
        return value
    raise _wrong(path, value, "a list")


def mappings(owner: Fields, key: str, path: str) -> list[tuple[str, Fields]]:
    """The mappings of a list under a key, each with its path."""
    found = owner.get(key)
    return as_mappings(found, step(path, key)) if found is not None else []


def as_mappings(value: object, path: str) -> list[tuple[str, Fields]]:
    """The mappings of a list, each with its path, or a JobError."""
    found: list[tuple[str, Fields]] = []
    for index, item in enumerate(as_list(value, path)):
        here = f"{path}[{index}]"
        found.append((here, item if type(item) is dict else as_mapping(item, here)))
    return found


def text(owner: Fields, key: str, path: str) -> str:
    """The string under a key, empty where it is absent."""
    value = owner.get(key)
    if value is None:
        return ""
    return value if isinstance(value, str) else as_text(value, step(path, key))


def as_text(value: object, path: str) -> str:
    """The value as a string, or a JobError."""
    if isinstance(value, str):
        return value
    raise _wrong(path, value, "a string")


def data_text(value: object, path: str) -> str:
    """A string for a process: without NUL, and valid Unicode."""
    found = as_text(value, path)
    if "\0" in found:
        raise JobError(path, "has a NUL character, which no process can be given; take it out")
    if not found.isascii():
        try:
            found.encode()
        except UnicodeEncodeError as error:
            raise JobError(path, "has half of a surrogate pair, which is not valid Unicode; take it out") from error
    return found


def texts(owner: Fields, key: str, path: str) -> tuple[str, ...] | None:
    """The strings of a list under a key; None if it is absent or empty, which Kubernetes treats alike."""
    value = owner.get(key)
    if value is None:
        return None
    here = step(path, key)
    found = as_list(value, here)
    if not all(type(item) is str and item.isascii() and "\0" not in item for item in found):  # hardly ever
        return tuple([data_text(item, f"{here}[{index}]") for index, item in enumerate(found)])
    return tuple(found) or None  # type: ignore[arg-type]  # each item was just seen to be a string


def flag(owner: Fields, key: str, path: str) -> bool:
    """The boolean under a key, false where it is absent."""
    value = owner.get(key)
    if value is None:
        return False
    return value if isinstance(value, bool) else as_flag(value, step(path, key))


def as_flag(value: object, path: str) -> bool:
    """The value as a boolean, or a JobError."""
    if isinstance(value, bool):
        return value
    raise _wrong(path, value, "true or false")


def integer(owner: Fields, key: str, path: str, *, most: int = INT32) -> int | None:
    """The whole number from 0 under a key, None where it is absent."""
    value = owner.get(key)
    return None if value is None else as_integer(value, step(path, key), most=most)


def as_integer(value: object, path: str, *, most: int = INT32) -> int:
    """The value as a whole number from 0 to ``most``, or a JobError."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong(path, value, "a whole number")
    if value < 0:
        raise JobError(path, "is negative, and must not be")
    if value > most:
        raise JobError(path, f"is larger than {most}, the largest number that Kubernetes takes here")
    return value


def string_map(owner: Fields, key: str, path: str) -> Mapping[str, str]:
    """A mapping of strings, such as labels; the owner's own object, without a copy."""
    found = mapping(owner, key, path)
    for name, value in found.items():
        if not isinstance(value, str):
            raise _wrong(f"{step(path, key)}[{name}]", value, "a string")
    return found  # type: ignore[return-value]  # each value was just seen to be a string


def _wrong(path: str, value: object, expected: str) -> JobError:
    return JobError(path, f"must be {expected}, and is {_show(value)}")


def _show(value: object) -> str:
    if isinstance(value, str):
        return repr(value if len(value) <= _SHOWN else value[:_SHOWN] + "…")
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int | float):
        return "a number"  # without its digits, as there may be more than Python prints
    return "a list" if isinstance(value, list) else "an object"
