"""What the check says of the program that pulls images."""

from __future__ import annotations

import subprocess
import sys

import pytest

from router.host import Ended, imagepull
from router.preflight import Mark
from router.sitecheck.imagecheck import QUESTION, imagepull_line

_CHANGE = "install the agent's imagepull.py as /i, root's with mode 0755; or write pull: job, or pull: never"


def _of_this_version() -> Ended:
    done = subprocess.run([sys.executable, imagepull.__file__], input=QUESTION, capture_output=True, check=False)
    return Ended(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize(
    ("ended", "mark", "seen"),
    [
        (None, Mark.OK, "/i of version 1"),
        (
            Ended(0, b'{"version": 2, "state": "failed"}', b""),
            Mark.WARNING,
            "the answer is not an object with version 1",
        ),
        (Ended(0, b"hello", b""), Mark.WARNING, "the answer is not JSON"),
        (Ended(None, b"", b"/i: No such file or directory"), Mark.WARNING, "no answer: /i: No such file or directory"),
        (Ended(126, b"", b""), Mark.WARNING, "no answer: exit code 126"),
    ],
)
def test_the_program_that_pulls_images(ended: Ended | None, mark: Mark, seen: str) -> None:
    line = imagepull_line("ada", "/i", ended or _of_this_version())

    assert (line.name, line.user, line.mark, line.seen, line.expected) == (
        "imagepull",
        "ada",
        mark,
        seen,
        "/i of version 1",
    )
    assert line.change == ("" if mark is Mark.OK else _CHANGE)
