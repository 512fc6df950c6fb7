"""Two people on one site: each one's Jobs run as that HPC user, with files that the other cannot see."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.agent.bed.jobs import apply, end_of, pod_of, printed
from tests.agent.pbs import server
from tests.agent.pbs.conftest import Stack
from tests.agent.pbs.jobs import counted, submitted
from tests.agent.pbs.site import ADA, BEN, SHARED, as_user

pytestmark = [pytest.mark.pbs, pytest.mark.apptainer, pytest.mark.timeout(900)]


def files_of(user: str) -> list[Path]:
    """All that lies below the user's work directory."""
    return list((SHARED / "work" / user).rglob("*"))


def test_each_ones_jobs_run_as_that_user_and_nobody_sees_the_others_files(attending: Stack) -> None:
    people = ((attending.ada, ADA, BEN), (attending.ben, BEN, ADA))
    jobs = [(*one, apply(one[0], counted("id -u; umask 077; echo secret"))) for one in people]

    for who, user, other, name in jobs:
        assert end_of(who, name) == "Complete"
        uid = subprocess.run(["id", "-u", user], capture_output=True, text=True, check=True).stdout
        assert printed(who, name) == [uid.strip(), "secret"]
        assert server.attribute(submitted(who, name), "Job_Owner").startswith(f"{user}@")
        pod = pod_of(who, name)["metadata"]["uid"]
        mine = [path for path in files_of(user) if pod in path.parts]
        assert {path.owner() for path in mine} == {user}
        (log,) = [path for path in mine if path.parent.name == "log" and path.name == "main.0"]
        read = subprocess.run([*as_user(other), "cat", str(log)], capture_output=True, text=True, check=False)
        assert (read.returncode, read.stdout) == (1, "")
        assert not [path for path in files_of(other) if pod in path.parts]
