"""What OpenPBS and TORQUE have in common: the words of their directives, and how their submit command ends.

Pure. A shell adds 128 to a signal's number. On both systems PBS' own codes, modulo 256, begin at 153 (PBSE_UNKJOBID);
with such a code qsub also prints ``qsub: …``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from router.hpc.requests import Request, quoted
from router.names import ENV_DIR

CHUNK: Final = "chunk."
NODE: Final = "node."
JOB_WIDE: Final = "resource."
MARK: Final = "#PBS"
ACCOUNTS: Final = frozenset({"account", "project"})
"""Keys whose values are checked like those of directives; they have options of their own."""
_RESOURCE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,5}")
_NAMED: Final = {",": "a comma"}
OURS: Final = frozenset(
    [
        "select",
        "nodes",
        "nodect",
        "walltime",
        "min_walltime",
        "max_walltime",
        "soft_walltime",
        "ncpus",
        "mem",
        "pmem",
        "vmem",
        "mpiprocs",
        "ompthreads",
        "ngpus",
        "gpus",
        "ppn",
        "place",
        "procs",
    ]
)
PLAIN_RESOURCES: Final = frozenset(
    [
        "arch",
        "cput",
        "file",
        "filesystems",
        "host",
        "io",
        "licenses",
        "naccesspolicy",
        "nice",
        "partition",
        "qos",
        "software",
        "switches",
    ]
)
_BELOW_PBS: Final = range(128 + 1, 153)
_AS_PBS: Final = range(153, 128 + 31 + 1)
_OWN_WORDS: Final = re.compile(r"^qsub: ", re.MULTILINE)


def by_signal(returncode: int, words: str) -> bool:
    """Whether a signal may have ended qsub: then it is unknown whether qsub made a job."""
    return returncode in _BELOW_PBS or (returncode in _AS_PBS and not _OWN_WORDS.search(words))


def entry_lines(cores_per_rank: int) -> tuple[str, ...]:  # noqa: ARG001 - Slurm's reads it
    """The script's line about the Pod's directory."""
    return (f"# The directory of the Pod comes in {ENV_DIR} (qsub -v).",)


def is_directive(key: str, table: Mapping[str, str], prefix: str) -> bool:
    """Whether a policy may add this directive. Resource names mean the same in upper case."""
    if key in table:
        return True
    name = key.removeprefix(prefix) if key.startswith(prefix) else key.removeprefix(JOB_WIDE)
    return (
        _RESOURCE.fullmatch(name) is not None and name.lower() not in OURS and (key != name or name in PLAIN_RESOURCES)
    )


def value_problem(key: str, value: str, separators: str) -> str | None:
    """Why a value would be read as more than a value, as one clause; quotes would help on neither system.

    :param separators: the characters that end a value of that directive
    """
    if key not in ACCOUNTS and " " in value:
        return f"{value!r} has a blank, which PBS refuses there"
    if not value:
        return "has no value"
    if key == "priority":
        return None if _NUMBER.fullmatch(value) else f"{value!r} is no whole number"
    for sign in separators:
        if sign in value:
            return f"{value!r} has {_NAMED.get(sign, repr(sign))}, which would begin something else there"
    return None


def named(request: Request, account: str, project: str) -> Iterator[str]:
    """Account and project, with these options. An empty value is left out, and the project if it has no option."""
    if request.account:
        yield f"{account} {quoted(request.account)}"
    if request.project and project:
        yield f"{project} {quoted(request.project)}"


def resources(extra: Mapping[str, str], table: Mapping[str, str], skip: str = "") -> Iterator[str]:
    """The policy's further directives, without those of chunks and nodes."""
    for key, value in extra.items():
        if key == skip or key.startswith((CHUNK, NODE)):
            continue
        option = table.get(key)
        if option is None:
            yield f"-l {key.removeprefix(JOB_WIDE)}={value}"
        elif option.startswith(("-l", "-W")):
            yield f"{option}{':' if option.endswith('ADVRES') else '='}{value}"
        else:
            yield f"{option} {value}"
