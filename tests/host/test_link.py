"""A site helper that answers and ends at once."""

from __future__ import annotations

import threading

import pytest

from router.host import HostUnavailable
from router.host.eventloop import EventLoop
from router.host.framing import encode
from router.host.link import Channel, Link, Listener
from router.host.sentences import HelperPlace
from router.host.sitehelper import MAGIC, VERSION

REFUSAL = {"n": 0, "version": VERSION, "errno": 13, "error": "/data: Permission denied"}


class Ends:
    """A site helper that refuses the directory, and has ended before anybody could read that."""

    place = HelperPlace("ada", "this machine", "/helper")

    def __init__(self) -> None:
        self.listener: Listener | None = None
        self.over = threading.Event()

    async def open(self, listener: Listener) -> Channel:
        self.listener = listener
        return self

    def write(self, data: bytes) -> None:
        assert self.listener is not None
        self.listener.received(MAGIC + encode(REFUSAL, b""))
        self.listener.ended(0)
        self.over.set()

    def close(self, *, doubtful: bool) -> None:
        pass


class Slow(Link):
    """A thread that comes to its answer late."""

    helper: Ends

    def ask(self, *asked, **named):
        answer = super().ask(*asked, **named)
        assert self.helper.over.wait(60)
        return answer


def test_what_it_refuses_is_said_and_not_that_it_ended() -> None:
    loop, helper = EventLoop(), Ends()
    link = Slow(loop, helper.place)
    link.helper = helper

    with pytest.raises(HostUnavailable, match="/data: the user may not do that there"):
        link.begin(helper, "/data", 60)

    loop.stop()
    assert "may not do that" in str(link.lost)
