"""Users whose keys only short-lived certificates let in: what is renewed is taken, what has run out is said."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bed.layout import USERS
from tests.agent.bed import faults
from tests.agent.bed.conftest import Cluster, Stack, reached
from tests.agent.bed.jobs import SECONDS, apply
from tests.agent.bed.site import ADA, LAYOUT, OWN_KEYS, BedSite
from tests.agent.bed.tally import await_empty, await_ends, await_started, counted, let_go, lines, told, waiting
from tests.agent.bed.test_hosts import warnings
from tests.agent.whole.jobs import finished
from tests.agent.whole.waiting import until

pytestmark = [pytest.mark.bed, pytest.mark.slurm, pytest.mark.apptainer, pytest.mark.timeout(1200)]
VALID, OVER = "-5m:+2h", "-2h:-5m"


@dataclass(frozen=True)
class CertifiedSite(BedSite):
    """The bed, where the agent has a key of each user's that no ``authorized_keys`` names."""

    def make(self) -> None:
        """The keys, each with its certificate."""
        super().make()
        for user in USERS:
            key = self.home / "keys" / user
            key.unlink()
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
            self.certify(user, VALID)
        self.give(self.home)

    def certify(self, user: str, validity: str) -> None:
        """A certificate for that user, in place of the one before."""
        key = self.home / "keys" / user
        authority = ["-s", str(LAYOUT.ssh / "user_ca"), "-I", f"test of {user}", "-n", user]
        subprocess.run(["ssh-keygen", "-q", *authority, "-V", validity, f"{key}.pub"], check=True)
        self.give(Path(f"{key}-cert.pub"))


@pytest.fixture(scope="module")
def stack(cluster: Cluster) -> Iterator[Stack]:
    with reached(cluster, OWN_KEYS, kind=CertifiedSite) as found:
        yield found


def test_one_that_has_run_out_holds_up_that_users_jobs_until_it_is_renewed(stack: Stack) -> None:
    assert isinstance(stack.site, CertifiedSite)
    runs = apply(stack.ada, waiting(counted()))
    await_started(runs)

    stack.site.certify(ADA, OVER)
    faults.kill_sshd(faults.CONNECTIONS)  # one that stands needs no certificate any more
    comes, others = apply(stack.ada, counted()), apply(stack.ben, counted())
    let_go(runs)
    until(
        lambda: warnings(stack.ada, comes),
        lambda found: any(kind == "HPCUnavailable" and "renew the certificate" in words for kind, words in found),
        seconds=SECONDS,
        what="for the words of the certificate",
    )
    assert await_ends(stack.ben, [others]) == {others: "Complete"}
    assert told(comes, "start") == 0
    assert not finished(stack.ada.get("job", runs) or {})
    stack.site.certify(ADA, VALID)

    every = (runs, comes, others)
    assert await_ends(stack.ada, every) == dict.fromkeys(every, "Complete")
    assert {name: [line.event for line in lines(name)] for name in every} == {name: ["start", "end"] for name in every}
    await_empty(*every)
