"""Completes a Job's own part of a script with the runtime when it is submitted.

Pure. The annotation ``script`` holds the Job's own part. The runtime, which is the same in every script, is in shell
files here, in one directory for each format (``runtime/1/base.sh`` …). The own part's last line names the format and
the files in their order::

    # runtime 1: base apptainer plain

The signature covers the own part. An agent has the runtimes of its own format and of the one before. A script that is
older than formats is complete, and is submitted as it is.

The batch system keeps a copy of each job's script. Lines that begin with ``##`` are for authors of the runtime alone: no
script carries them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from importlib import resources
from typing import Final

from router.errors import OtherRelease

FORMAT: Final = 1
"""Increased when the own part no longer works with the runtime of the release before."""
_OLDEST: Final = 0
"""The format of scripts that are complete without a runtime."""
_LINE: Final = re.compile(r"# runtime ([0-9]{1,9}): ([a-z]+(?: [a-z]+)*)")
_FOR_AUTHORS: Final = re.compile(r"^\t*##.*\n", re.MULTILINE)
_CALL: Final = 'main "$@"\n'
"""The last line of a complete script."""


def runtime_line(parts: Sequence[str]) -> str:
    """An own part's last line.

    :param parts: names of files of the runtime, without ``.sh``
    """
    return f"# runtime {FORMAT}: {' '.join(parts)}"


def complete(own: str) -> str:
    """The script to submit. Raises OtherRelease, which says which side is older, and what to do."""
    last = own.removesuffix("\n").rpartition("\n")[2]
    if found := _LINE.fullmatch(last):
        return f"{own}{_runtime(int(found[1]), found[2])}"
    if own.endswith(f"\n{_CALL}"):
        return own
    raise OtherRelease(f"the script's last line names no runtime that this agent knows; {_newer('others')}")


@lru_cache(maxsize=64)
def _runtime(number: int, parts: str) -> str:
    """The text after an own part: the files in their order, and the call of ``main``."""
    if number > FORMAT:
        raise OtherRelease(f"the script has format {number}; {_newer(str(FORMAT))}")
    if number <= _OLDEST:
        raise OtherRelease(
            f"the script has format {number}, and this agent completes {FORMAT}: the webhook that wrote it is older; "
            "create the Job anew"
        )
    return "".join([part_text(number, part) for part in parts.split(" ")]) + f"\n{_CALL}"


def part_text(number: int, part: str) -> str:
    """One file of a format's runtime, as scripts carry it. Raises OtherRelease if it does not exist."""
    file = resources.files("router.script") / "runtime" / str(number) / f"{part}.sh"
    if not file.is_file():
        raise OtherRelease(f"the runtime of format {number} has no part {part!r} here; {_newer('fewer')}")
    return _FOR_AUTHORS.sub("", file.read_text("utf-8"))


def _newer(known: str) -> str:
    return (
        f"this agent completes {known}, so it is older than the webhook that wrote the script: upgrade the agent, and "
        "the Pod is submitted by itself"
    )
