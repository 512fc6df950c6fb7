"""Puts the site helper and the image puller of this release in the place of older ones, with the settings of the site.

Pure: text. The first lines of both hold what an admin may set. Another release's file is replaced, and these lines and
the Python that it names stay.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Final

from router.errors import InputError

HELPER_SETTINGS: Final = ("LEAST_UID", "ROOTS", "ENTERING", "FURTHER_PROGRAMS", "CONF_SERVERS")
IMAGEPULL_SETTINGS: Final = ("CORES", "PULLS", "MOST_BYTES", "MOST_DISK", "SCRATCH", "FURTHER_ENVIRONMENT")


def merged(ours: str, found: str | None, settings: Sequence[str], place: str) -> str:
    """Our file with the settings of the file that is there; ours alone where there is none.

    :param settings: the names of what an admin may set
    :param place: the path of the file that is there, for messages
    :raises InputError: it is no such file
    """
    if found is None:
        return ours
    theirs = _assignments(found, settings, place)
    if not theirs:
        raise InputError(f"{place}: is no file of Batchgate's (it sets none of {', '.join(settings)}); move it away")
    lines = ours.splitlines()
    where = _spans(ours, settings, "this release's file")
    for name in sorted(where, key=lambda one: where[one], reverse=True):
        first, last = where[name]
        lines[first:last] = theirs.get(name, lines[first:last])
    if found.startswith("#!"):
        lines[0] = found.splitlines()[0]
    return "\n".join(lines) + "\n"


def _assignments(text: str, settings: Sequence[str], place: str) -> dict[str, list[str]]:
    lines = text.splitlines()
    return {name: lines[first:last] for name, (first, last) in _spans(text, settings, place).items()}


def _spans(text: str, settings: Sequence[str], place: str) -> dict[str, tuple[int, int]]:
    """The lines of each setting: the first one, counted from 0, and the one after the last."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError) as error:
        raise InputError(f"{place}: is no Python file ({error}); move it away") from None
    return {
        one.targets[0].id: (one.lineno - 1, one.end_lineno or one.lineno)
        for one in tree.body
        if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name) and one.targets[0].id in settings
    }
