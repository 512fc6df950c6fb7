"""Executes the Jobs' own parts of scripts: each function of a container is called, with the runtime's functions as stubs.

One bash does many of them, each in a subshell. It has no PATH, so that a command which is no stub is noted, not run.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Final

SECONDS: Final = 120
OUTSIDE: Final = frozenset({"mkdir", "ln", "chmod"})
"""Programs that an own part calls itself, for the directories of its volumes."""


@dataclass(frozen=True, slots=True)
class Executed:
    """What came of one own part: the words and the environment of each container, and commands that nobody knows.

    ``later``: the agent brings the words of a container, in a file.
    """

    later: bool
    argv: tuple[tuple[bytes, ...], ...]
    env: tuple[tuple[bytes, ...], ...]
    unknown: tuple[str, ...]


def functions() -> frozenset[str]:
    """The runtime's functions, which an own part may call."""
    folder = resources.files("router.script") / "runtime" / "1"
    texts = [one.read_text("utf-8") for one in folder.iterdir() if one.name.endswith(".sh")]
    return frozenset(name for text in texts for name in re.findall(r"(?m)^([a-z_]+)\(\)", text))


_PROGRAM: Final = r"""
set -u
PATH=/nowhere
dir=/nowhere/pod scratch=/nowhere/scratch uid=1 name=main HOSTNAME=node
command_not_found_handle() { printf 'unknown\0%s\0' "$1" >&3; return 0; }
%STUBS%
for script in "$@"; do
    printf 'begin\0' >&3
    (
        . "$script"
        for ((i = 0; i < ${#kinds[@]}; i++)); do
            argv=() env=() options=() needs_argv=
            "container_$i"
            [[ -z $needs_argv ]] || printf 'later\0' >&3
            printf 'argv\0%s\0' "${#argv[@]}" >&3
            ((${#argv[@]} == 0)) || printf '%s\0' "${argv[@]}" >&3
            printf 'env\0%s\0' "${#env[@]}" >&3
            ((${#env[@]} == 0)) || printf '%s\0' "${env[@]}" >&3
        done
    ) </dev/null
    printf 'end\0' >&3
done
"""


def execute(scripts: Sequence[Path], folder: Path) -> tuple[list[Executed], bytes]:
    """Execute these own parts; also returns what the shell itself said, which is nothing if all is well."""
    stubs = "\n".join(f"{name}() {{ :; }}" for name in sorted(functions() | OUTSIDE))
    (folder / "program").write_text(_PROGRAM.replace("%STUBS%", stubs))
    with (folder / "told").open("wb") as told:
        done = subprocess.run(
            [
                "/bin/bash",
                "-c",
                'exec 3>&"$0"; program=$1; shift; . "$program"',
                str(told.fileno()),
                str(folder / "program"),
                *map(str, scripts),
            ],
            env={"LC_ALL": "C"},
            pass_fds=[told.fileno()],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=SECONDS,
            check=False,
        )
    return _read((folder / "told").read_bytes()), done.stdout


def _read(told: bytes) -> list[Executed]:
    words = iter(told.split(b"\0")[:-1])
    found: list[Executed] = []
    argv: list[tuple[bytes, ...]] = []
    env: list[tuple[bytes, ...]] = []
    unknown: list[str] = []
    later = False
    for word in words:
        if word == b"begin":
            argv, env, unknown, later = [], [], [], False
        elif word == b"later":
            later = True
        elif word == b"unknown":
            unknown.append(next(words).decode(errors="replace"))
        elif word in {b"argv", b"env"}:
            (argv if word == b"argv" else env).append(tuple(next(words) for _ in range(int(next(words)))))
        else:
            assert word == b"end", word
            found.append(Executed(later, tuple(argv), tuple(env), tuple(unknown)))
    return found
