from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.host.framing import MOST_ANSWER_HEAD, MOST_CHATTER, Decoder, FramingError, Message, encode
from router.host.sitehelper import LENGTHS, MAGIC, MOST_BODY


def _any(_head: object) -> int:
    return MOST_BODY


HEADS = st.dictionaries(st.text(max_size=8), st.text(max_size=8) | st.integers() | st.none(), max_size=4)
MESSAGES = st.lists(st.builds(Message, HEADS, st.binary(max_size=64)), max_size=5)


@given(MESSAGES, st.binary(max_size=40).filter(lambda text: b"\0" not in text), st.lists(st.integers(1, 30)))
def test_messages_arrive_whole_however_they_are_cut(messages: list[Message], chatter: bytes, cuts: list[int]) -> None:
    raw = chatter + MAGIC + b"".join(encode(one.head, one.body) for one in messages)
    decoder, found = Decoder(_any), []

    while raw:
        size = cuts.pop() if cuts else len(raw)
        found += decoder.feed(raw[:size])
        raw = raw[size:]

    assert found == messages


@given(st.binary(max_size=300))
def test_rubbish_is_an_error_or_nothing_yet(raw: bytes) -> None:
    decoder = Decoder(_any)
    try:
        messages = decoder.feed(MAGIC + raw)
    except FramingError:
        return
    assert all(isinstance(one.head, dict) for one in messages)


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"welcome\n" * MOST_CHATTER, "no site helper answers; what came begins with b'welcome"),
        (MAGIC + LENGTHS.pack(MOST_ANSWER_HEAD + 1, 0), "is announced, which is too long"),
        (MAGIC + LENGTHS.pack(1, MOST_BODY + 1), "is announced, which is too long"),
        (MAGIC + LENGTHS.pack(2, 0) + b"[]", "is no JSON object"),
        (MAGIC + LENGTHS.pack(2, 0) + b"{]", "is no JSON"),
        (MAGIC + LENGTHS.pack(2, 0) + b"\xff\xff", "is no JSON"),
    ],
)
def test_what_is_no_message(raw: bytes, words: str) -> None:
    with pytest.raises(FramingError, match=words):
        Decoder(_any).feed(raw)


def test_more_than_a_message_holds_is_not_sent() -> None:
    with pytest.raises(OSError, match="more than one message to a site helper holds"):
        encode({}, bytes(MOST_BODY + 1))


def test_what_is_more_than_was_asked_for_is_refused_before_it_comes() -> None:
    decoder = Decoder(lambda head: int(head["n"]))
    head = b'{"n": 3}'

    assert decoder.feed(MAGIC + LENGTHS.pack(len(head), 3) + head + b"ab") == []
    assert decoder.feed(b"c" + LENGTHS.pack(len(head), 4)) == [Message({"n": 3}, b"abc")]
    with pytest.raises(FramingError, match="4 bytes are announced, where at most 3 were asked for"):
        decoder.feed(head)
