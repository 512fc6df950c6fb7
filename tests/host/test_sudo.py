"""A site helper as a process of this machine, and what is left of it when the loop ends."""

from __future__ import annotations

import pytest

from router.host.eventloop import EventLoop
from router.host.sentences import HelperPlace
from router.host.sudo import LocalOpener
from tests.webhook.servers import until


class _Listener:
    """Remembers the end."""

    def __init__(self) -> None:
        self.codes: list[int | None] = []

    def received(self, data: bytes) -> None:
        """See ``Listener``."""

    def complained(self, data: bytes) -> None:
        """See ``Listener``."""

    def ended(self, code: int | None) -> None:
        """See ``Listener``."""
        self.codes.append(code)


@pytest.mark.parametrize(
    ("words", "codes"),
    [
        (("cat",), [0]),
        (("sleep", "600"), [None]),
        (("sh", "-c", "trap '' TERM; exec sleep 600"), [None]),
    ],
)
def test_a_loop_that_ends_has_waited_for_its_processes(words: tuple[str, ...], codes: list[int | None]) -> None:
    loop, listener = EventLoop(), _Listener()
    loop.run(LocalOpener(words, HelperPlace("ben", "here", "/helper")).open(listener), 60)

    loop.stop()

    assert listener.codes == codes


def test_a_process_that_has_closed_its_stdin_is_ended_as_others_are() -> None:
    """Its pipe has no loop any more by then."""
    loop, listener = EventLoop(), _Listener()
    words = ("sh", "-c", "exec <&- && exec sleep 600")
    channel = loop.run(LocalOpener(words, HelperPlace("ben", "here", "/helper")).open(listener), 60)

    until(lambda: channel._transport.get_pipe_transport(0)._loop is None)  # type: ignore[attr-defined]
    loop.stop()

    assert listener.codes == [None]
