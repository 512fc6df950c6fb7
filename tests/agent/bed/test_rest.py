"""A user for whom there is nothing to do has no process on the login node, and the next Job begins one."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from bed.layout import HELPER
from tests.agent.bed.conftest import Cluster, Stack, reached
from tests.agent.bed.jobs import SECONDS, apply, end_of, job, printed
from tests.agent.bed.site import ADA, BEN, LOCAL_SUDO, OWN_KEYS, SHORT, SUDO
from tests.agent.whole.waiting import until

pytestmark = [pytest.mark.bed, pytest.mark.slurm, pytest.mark.apptainer, pytest.mark.timeout(1200)]
IDLE = 5


@pytest.fixture(scope="module", params=[OWN_KEYS, SUDO, LOCAL_SUDO])
def stack(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Stack]:
    with reached(cluster, request.param, times={**SHORT, "--idle-seconds": IDLE}) as found:
        yield found


def helped() -> set[str]:
    """The users whose site helpers run on the login node."""
    found = set()
    for user in (ADA, BEN):
        done = subprocess.run(["pgrep", "-u", user, "-f", str(HELPER)], capture_output=True, check=False)
        found |= {user} if done.returncode == 0 else set()
    return found


def test_a_site_helper_ends_with_what_there_is_to_do_and_begins_with_the_next_job(stack: Stack) -> None:
    """One of the two stays, from whom the site is seen."""
    people = {ADA: stack.ada, BEN: stack.ben}
    first = {user: apply(who, job("echo first")) for user, who in people.items()}
    assert {user: end_of(who, first[user]) for user, who in people.items()} == dict.fromkeys(people, "Complete")

    (left,) = until(helped, lambda users: len(users) == 1, seconds=SECONDS, what="for one user to be at rest")
    resting = BEN if left == ADA else ADA
    assert printed(people[resting], first[resting]) == ["first"], "its logs are read all the same"
    until(helped, lambda users: users == {left}, seconds=SECONDS, what="for the connection to be ended again")

    name = apply(people[resting], job("echo second; sleep 5"))

    until(helped, lambda users: users == {ADA, BEN}, seconds=SECONDS, what="for the user to be attended to")
    assert end_of(people[resting], name) == "Complete"
    assert printed(people[resting], name) == ["second"]
