"""The frames of SPDY/3.1, as their draft defines them, in whatever parts they arrive."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.remotecommand import spdy
from router.remotecommand.dictionary import DICTIONARY
from router.remotecommand.spdy import Data, Decoder, Encoder, Frame, GoAway, Opened, Ping, Reset, SpdyError

STREAMS = st.integers(1, 2**31 - 1)
HEADERS = st.dictionaries(
    st.text("abcdefghijklmnopqrstuvwxyz-", min_size=1, max_size=20), st.text(max_size=50), max_size=6
)


def fed(*parts: bytes) -> list[Frame]:
    decoder = Decoder()
    return [frame for part in parts for frame in decoder.feed(part)]


def joined(frames: Sequence[Frame]) -> list[Frame]:
    """The same with the parts of one data frame put together."""
    found: list[Frame] = []
    for frame in frames:
        last = found[-1] if found else None
        if isinstance(frame, Data) and isinstance(last, Data) and not last.fin and last.stream == frame.stream:
            found[-1] = Data(frame.stream, last.data + frame.data, frame.fin)
        else:
            found.append(frame)
    return found


def test_the_dictionary_is_the_draft_s() -> None:
    """Its length and its Adler-32 sum: the sum stands in each compressed stream, so a peer checks it too."""
    assert (len(DICTIONARY), zlib.adler32(DICTIONARY)) == (1423, 0xE3C6A7C2)


def test_what_a_go_client_sends_first() -> None:
    """Recorded: the frame with which an API server of 1.36 opens the stream of errors, with streamType in it."""
    raw = spdy.Encoder().opened(1, {"streamType": "error"})

    assert fed(raw) == [Opened(1, {"streamtype": "error"})]


@given(st.data(), st.lists(st.tuples(STREAMS, HEADERS), max_size=5), st.lists(st.integers(1, 40), max_size=20))
def test_frames_arrive_in_any_parts(
    data: st.DataObject, opened: list[tuple[int, dict[str, str]]], cuts: list[int]
) -> None:
    encoder, raw, expected = Encoder(), b"", []
    for stream, headers in opened:
        content = data.draw(st.binary(max_size=200))
        fin = data.draw(st.booleans())
        raw += encoder.opened(stream, headers) + encoder.reply(stream) + spdy.ping(stream)
        raw += spdy.data(stream, content, fin=True) + spdy.reset(stream) + spdy.go_away(stream)
        expected += [Opened(stream, headers), Ping(stream), Data(stream, content, True), Reset(stream), GoAway()]
        assert fin in {True, False}
    parts = []
    for cut in cuts:
        parts.append(raw[:cut])
        raw = raw[cut:]

    assert joined(fed(*parts, raw)) == expected


@given(st.binary(max_size=300))
def test_any_bytes_are_frames_or_an_error(raw: bytes) -> None:
    try:
        found = fed(raw)
    except SpdyError:
        return
    assert all(isinstance(frame, Frame) for frame in found)


@given(st.binary(max_size=200), st.integers(1, 9), st.integers(0, 255))
def test_any_control_frame_is_one_or_an_error(body: bytes, kind: int, flags: int) -> None:
    try:
        fed(struct.pack(">HHI", 0x8003, kind, flags << 24 | len(body)) + body)
    except SpdyError:
        return


def block(raw: bytes) -> bytes:
    """A frame that opens stream 1 with this header block."""
    packer = zlib.compressobj(zdict=DICTIONARY)
    body = struct.pack(">IIH", 1, 0, 0) + packer.compress(raw) + packer.flush(zlib.Z_SYNC_FLUSH)
    return struct.pack(">HHI", 0x8003, 1, len(body)) + body


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (struct.pack(">HHI", 0x8002, 1, 0), "another version"),
        (struct.pack(">HHI", 0x8003, 1, spdy.MOST_CONTROL + 1), "too long"),
        (struct.pack(">HHI", 0x8003, 1, 3) + b"abc", "frame of kind 1 has 3 bytes"),
        (struct.pack(">HHI", 0x8003, 1, 12) + bytes(10) + b"ab", "cannot be unpacked"),
        (block(bytes(spdy.MOST_CONTROL + 1)), "too long"),
        (block(struct.pack(">II", 1, 9) + b"short"), "longer than its block"),
        (block(struct.pack(">I", 2**31)), "frame of kind 1"),
        (block(b""), "frame of kind 1"),
    ],
)
def test_what_is_refused(raw: bytes, words: str) -> None:
    with pytest.raises(SpdyError, match=words):
        fed(raw)


def test_a_large_frame_is_not_kept() -> None:
    decoder = Decoder()
    head = struct.pack(">II", 1, 0xFF_FFFF)

    assert list(decoder.feed(head)) == []
    assert list(decoder.feed(b"part")) == [Data(1, b"part")]
    assert list(decoder.feed(b"more")) == [Data(1, b"more")]
