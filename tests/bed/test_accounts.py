"""What the service account may do."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from bed import accounts


def test_sudo_permits_the_helper_as_the_users_and_nothing_else() -> None:
    rules = [line for line in accounts.sudoers(Path("/h/elper")).splitlines() if "ALL=" in line]

    assert rules == [
        'hpc-agent ALL=(hpc-ada,hpc-ben) NOPASSWD: /h/elper ""',
        "hpc-agent ALL=(hpc-watch) NOPASSWD: /usr/bin/squeue, /usr/bin/sacct, /usr/bin/sinfo, /usr/bin/scontrol show *",
    ]


def test_sudo_takes_the_rules(tmp_path: Path) -> None:
    if not shutil.which("visudo"):
        pytest.skip("visudo is not installed")
    path = tmp_path / "sudoers"
    path.write_text(accounts.sudoers())

    done = subprocess.run(["visudo", "-c", "-f", path], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
