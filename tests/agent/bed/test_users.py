"""Two people on one site: each one's Jobs run as that HPC user, with files that the other cannot see."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from tests.agent.bed.conftest import Cluster, Stack, reached
from tests.agent.bed.jobs import SECONDS, apply, end_of, exit_code, job, pod_of, printed
from tests.agent.bed.site import ADA, BEN, LOCAL_SUDO, OWN_KEYS, SUDO, as_user, files_of, living
from tests.agent.bed.test_hosts import warnings
from tests.agent.whole.jobs import LABEL, finished
from tests.agent.whole.waiting import until

pytestmark = [pytest.mark.bed, pytest.mark.slurm, pytest.mark.apptainer, pytest.mark.timeout(600)]


@pytest.fixture(scope="module", params=[OWN_KEYS, SUDO, LOCAL_SUDO])
def stack(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Stack]:
    """Each way on which several users are reached."""
    with reached(cluster, request.param) as found:
        yield found


def test_each_ones_jobs_run_as_that_user_and_nobody_sees_the_others_files(stack: Stack) -> None:
    people = ((stack.ada, ADA), (stack.ben, BEN))
    jobs = [(who, user, apply(who, job("id -u; umask 077; echo secret"))) for who, user in people]

    for who, user, name in jobs:
        assert end_of(who, name) == "Complete"
        uid = subprocess.run(["id", "-u", user], capture_output=True, text=True, check=True).stdout
        assert printed(who, name) == [uid.strip(), "secret"]
        pod = pod_of(who, name)["metadata"]["uid"]
        mine = [path for path in files_of(user) if pod in path.parts]
        assert mine
        assert {path.owner() for path in mine} == {user}
        other = BEN if user == ADA else ADA
        (log,) = [path for path in mine if path.parent.name == "log" and path.name == "main.0"]
        seen = subprocess.run([*as_user(other), "cat", str(log)], capture_output=True, text=True, check=False)
        assert (seen.returncode, seen.stdout) == (1, "")
        assert not [path for path in files_of(other) if pod in path.parts]


def test_a_programs_exit_code_is_the_pods(stack: Stack) -> None:
    name = apply(stack.ben, job("echo broken; exit 7"))

    assert end_of(stack.ben, name) == "Failed"
    assert exit_code(stack.ben, name) == 7
    assert printed(stack.ben, name) == ["broken"]


def test_a_job_that_is_deleted_is_cancelled_on_the_site(stack: Stack) -> None:
    name = apply(stack.ada, job("echo runs; sleep 600"))
    until(lambda: stack.ada.run("logs", f"job/{name}").out, lambda out: out.endswith("runs\n"), seconds=SECONDS)
    assert len(living(ADA)) == 1

    stack.ada.ok("delete", "job", name, "--wait=false")

    until(lambda: living(ADA), lambda ids: not ids, seconds=SECONDS, what="for the batch job to go")
    until(lambda: stack.ada.every("pods", f"{LABEL}={name}"), lambda pods: not pods, seconds=SECONDS)


def test_an_agent_that_is_killed_finds_everybodys_jobs_again(stack: Stack) -> None:
    people = ((stack.ada, ADA), (stack.ben, BEN))
    jobs = [(who, user, apply(who, job("echo once; sleep 20; echo over"))) for who, user in people]
    for _, user, _ in jobs:
        until(lambda: living(user), lambda ids: len(ids) == 1, seconds=SECONDS)  # noqa: B023 - used at once
    ids = {user: living(user) for _, user, _ in jobs}

    stack.agent.kill()
    stack.agent.start()

    for who, user, name in jobs:
        assert end_of(who, name) == "Complete"
        assert printed(who, name) == ["once", "over"]
        assert pod_of(who, name)["metadata"]["annotations"]["batchgate.dev/job-id"].partition(".")[0] == ids[user][0]


def test_one_users_trouble_is_that_users_alone(stack: Stack) -> None:
    """Nobody can enter the other's work directory: nothing of that user's can be done, and its Pod says why."""
    where = next(iter(files_of(BEN)), None)
    assert where is None or where.owner() == BEN
    work = str(next(path for path in files_of(ADA)).parents[0]).replace(ADA, BEN)
    subprocess.run(["chmod", "000", work], check=True)
    try:
        waiting, well = apply(stack.ben, job("true")), apply(stack.ada, job("true"))
        assert end_of(stack.ada, well) == "Complete"
        until(
            lambda: warnings(stack.ben, waiting),
            lambda found: any(
                kind == "SiteStorage" and work in words and "see the owner and the mode" in words
                for kind, words in found
            ),
            seconds=SECONDS,
            what="for words of the directory",
        )
        assert not finished(stack.ben.get("job", waiting) or {})
    finally:
        subprocess.run(["chmod", "700", work], check=True)
    assert end_of(stack.ben, waiting) == "Complete"
