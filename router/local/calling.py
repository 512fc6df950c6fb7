"""Runs an OpenPBS command for its caller: sends words, files and environment to the daemon, prints the answer.

Shell. The daemon does all other work, and imports are few, so that a ``qsub`` takes little longer than starting Python.
"""

from __future__ import annotations

import os
import pwd
import stat
import sys

from router.local import client

COMMANDS = frozenset({"qsub", "qstat", "qselect", "qdel", "qsig", "qhold", "qrls"})
USER = "BATCHGATE_LOCAL_USER"
"""Names the requesting user in place of the caller's account: the embedded queue runs all jobs as one user."""
FAULTS = "BATCHGATE_LOCAL_FAULTS"
"""``ignore``: simulated faults do not affect this command."""


def run(root: str, name: str, words: list[str]) -> int:
    """Run one command; returns its exit code."""
    request = _request(name, words)
    try:
        answer = client.ask(root, request)
        if "needs" in answer:
            answer = _with_script(root, request, str(answer["needs"]))
    except client.Unusable as error:
        answer = _cannot_connect(name, words, str(error))
    # Written as bytes, as names and values may be invalid UTF-8.
    for stream, text in ((sys.stdout, answer["out"]), (sys.stderr, answer["err"])):
        stream.buffer.write(str(text).encode(errors="surrogateescape"))
        stream.flush()
    rc = answer["rc"]
    return rc if isinstance(rc, int) else 1


def _request(name: str, words: list[str]) -> dict[str, object]:
    return {
        "op": name,
        "words": words,
        "environment": dict(os.environ),
        "cwd": os.getcwd(),  # noqa: PTH109 - pathlib takes longer to import than all of this module
        "user": os.environ.get(USER) or _account(),
        "host": os.uname().nodename,
        "faults": os.environ.get(FAULTS, ""),
        "token": os.urandom(16).hex(),
    }


def _account() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def _with_script(root: str, request: dict[str, object], path: str) -> dict[str, object]:
    """The answer to a submission whose script is a file or standard input."""
    try:
        if path == "-":
            content = sys.stdin.buffer.read()
        else:
            if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116 - as above
                return {"rc": 1, "out": "", "err": "qsub: script not a file\n"}
            with open(path, "rb") as file:  # noqa: PTH123
                content = file.read()
    except OSError as error:
        return {"rc": 1, "out": "", "err": f"qsub: script file:: {error.strerror}\n"}
    return client.ask(root, {**request, "script": content.decode(errors="surrogateescape")})


def _cannot_connect(name: str, words: list[str], reason: str) -> dict[str, object]:
    from router.local import looking  # noqa: PLC0415 - only needed without a daemon

    return looking.cannot_connect(name, words, reason)
