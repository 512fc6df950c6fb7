"""Whose process this is: a uid without an account is told as such, by each command that asks for the name."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
POLICY = str(EXAMPLES / "policies")
UID = 4_242_424
"""Far above what is given to people, so that no machine has an account for it."""
_AS_UID = f"import os; os.getuid = os.geteuid = lambda: {UID}; from router.cli import main; main()"
_NAMED = ("LOGNAME", "USER", "LNAME", "USERNAME")
SAID = (
    f"Error: uid {UID} has no account here, as `getent passwd {UID}` shows: "
    "add one to /etc/passwd (in a container: to its image's), "
)


def run(*words: str, **environment: str) -> tuple[int, str]:
    """Exit code and last line of a command whose process has a uid without an account."""
    inherited = {key: value for key, value in os.environ.items() if key not in _NAMED}
    done = subprocess.run(
        [sys.executable, "-c", _AS_UID, *words],
        check=False, capture_output=True, text=True, env=inherited | environment, timeout=60,
    )  # fmt: skip
    return done.returncode, (done.stderr.splitlines() or [""])[-1]


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (
            ("agent", "--site", "demo", "--policy", POLICY, "--public-key", "signing.pub", "--address", "127.0.0.1"),
            "or start this as a user who has one",
        ),
        (("site", "check", "demo", "--policy", POLICY), "or start this as a user who has one"),
        (
            ("route", "-f", str(EXAMPLES / "04-gpu" / "job.yaml"), "--policy", POLICY),
            "or name the user in the variable LOGNAME",
        ),
    ],
)
def test_a_uid_without_an_account_is_told(words: tuple[str, ...], advice: str) -> None:
    with pytest.raises(KeyError):
        pwd.getpwuid(UID)

    assert run(*words) == (2, SAID + advice)


def test_the_environment_names_who_asks() -> None:
    code, last = run("route", "-f", str(EXAMPLES / "04-gpu" / "job.yaml"), "--policy", POLICY, LOGNAME="ada")

    assert (code, last.partition(":")[0]) == (0, "Warning")
