from __future__ import annotations

import asyncio

import pytest

from router.host import HostUnavailable
from router.host.eventloop import EventLoop


async def _nothing() -> int:
    return 7


async def _forever(ended: list[str]) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        ended.append("ended")


def test_what_takes_too_long_is_cancelled() -> None:
    loop, ended = EventLoop(), list[str]()

    with pytest.raises(TimeoutError):
        loop.run(_forever(ended), 0.1)

    assert loop.run(_nothing(), 60) == 7
    assert ended == ["ended"]
    loop.stop()


def test_after_its_end_nothing_is_done() -> None:
    loop = EventLoop()
    loop.run(_nothing(), 60)
    loop.stop()
    loop.stop()

    with pytest.raises(HostUnavailable, match="the agent ends"):
        loop.run(_nothing(), 60)
    loop.call(print)
