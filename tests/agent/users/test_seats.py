"""Seats: one for each HPC user, made once, and none for whom the deployment may not act as."""

from __future__ import annotations

from typing import cast

import pytest

from router.agent.batch.commands import BatchCommands
from router.agent.submission.submitting import WrongUser
from router.agent.users.nowhere import Nowhere
from router.agent.users.seats import Seat, Seats


def seats(*users: str) -> tuple[Seats, list[str]]:
    """Seats of a deployment that may act as everybody but eve, and whose seats were made."""
    made: list[str] = []

    def make(user: str) -> Seat:
        made.append(user)
        return Seat(user, f"/w/{user}", Nowhere(), cast("BatchCommands", None))

    return Seats(users, make=make, refusal=lambda user: "not as eve" if user == "eve" else ""), made


def test_a_seat_is_made_when_it_is_needed_and_kept() -> None:
    found, made = seats("ben", "ada")

    assert (found.users, made) == (("ada", "ben"), [])
    assert found.of("ada") is found.of("ada")
    assert found.of("carl").root == "/w/carl", "a signed Pod's user need not stand in the policy any more"
    assert made == ["ada", "carl"]


def test_nobody_is_acted_for_whom_the_deployment_may_not_act_as() -> None:
    found, made = seats("ada", "eve")

    assert found.users == ("ada",)
    with pytest.raises(WrongUser, match="not as eve"):
        found.of("eve")
    assert made == []
