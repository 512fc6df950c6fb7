"""Whose request may be received next."""

from __future__ import annotations

from router.webhook.receiving import Receiving


def test_a_client_has_few_requests_that_are_received_and_the_others_wait_in_order() -> None:
    receiving: Receiving[str] = Receiving(2)

    began = [receiving.begin(name, name[0]) for name in ("a1", "a2", "a3", "b1", "a4", "a5")]

    assert began == [True, True, False, True, False, False]
    assert receiving.waiting() == ["a3", "a4", "a5"]
    for short, expected in ((False, [True, False, False]), (True, [True, False, True])):
        assert [receiving.is_in_the_way(name, short=short) for name in ("a2", "a3", "b1")] == expected
    assert receiving.end("b1") is None
    assert receiving.end("a2") == "a3"
    assert receiving.end("a2") is None
    assert (receiving.give_up("a4"), receiving.give_up("a4"), receiving.give_up("a1")) == (True, False, False)
    assert receiving.end("a1") == "a5"
    assert [receiving.end(name) for name in ("a3", "a5")] == [None, None]
    assert receiving.begin("a6", "a")
    assert receiving.waiting() == []
