"""The frames of SPDY/3.1 that a kubelet's streams need, as bytes.

Pure, but for the compression's state. Draft 3.1 of the protocol defines the frames; windows are left out, as clients
of a kubelet leave them out. The connection itself holds a sender back.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from router.remotecommand.dictionary import DICTIONARY

_HEAD: Final = struct.Struct(">II")
_CONTROL: Final = 0x8000_0000
_VERSION: Final = 3
_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _PING, _GOAWAY, _HEADERS = 1, 2, 3, 6, 7, 8
_FIN: Final = 1
_IDS: Final = 0x7FFF_FFFF

MOST_CONTROL: Final = 1 << 16
"""Bytes of a control frame that are taken, and of a header block once it is unpacked."""

MOST_DATA: Final = 1 << 15
"""Bytes of a data frame that is sent."""


class SpdyError(ValueError):
    """The received bytes are not SPDY/3.1."""


@dataclass(frozen=True, slots=True)
class Opened:
    """The peer has opened a stream. Names of headers are lower case."""

    stream: int
    headers: Mapping[str, str]
    fin: bool = False


@dataclass(frozen=True, slots=True)
class Data:
    """Bytes of a stream; with ``fin`` its last ones. A frame may come in several parts."""

    stream: int
    data: bytes
    fin: bool = False


@dataclass(frozen=True, slots=True)
class Reset:
    """The peer has ended a stream at once."""

    stream: int


@dataclass(frozen=True, slots=True)
class Ping:
    """The peer wants the same number back."""

    number: int


@dataclass(frozen=True, slots=True)
class GoAway:
    """The peer opens no more streams."""


Frame = Opened | Data | Reset | Ping | GoAway


class Decoder:
    """Turns received bytes into frames. Frames that mean nothing here (settings, windows, priorities) are left out."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._unpack = zlib.decompressobj(zdict=DICTIONARY)
        self._stream, self._left, self._fin = 0, 0, False

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that are now complete, and the parts of a data frame as they come. Raises SpdyError."""
        self._kept += data
        while True:
            if self._left:
                part = bytes(self._kept[: self._left])
                if not part:
                    return
                del self._kept[: len(part)]
                self._left -= len(part)
                yield Data(self._stream, part, self._fin and not self._left)
                continue
            if len(self._kept) < _HEAD.size:
                return
            first, second = _HEAD.unpack_from(self._kept)
            flags, length = second >> 24, second & 0xFF_FFFF
            if not first & _CONTROL:
                del self._kept[: _HEAD.size]
                self._stream, self._left, self._fin = first, length, bool(flags & _FIN)
                if not length:
                    yield Data(first, b"", self._fin)
                continue
            if first >> 16 & 0x7FFF != _VERSION or length > MOST_CONTROL:
                raise SpdyError("a frame of another version, or too long a one, came")
            if len(self._kept) < _HEAD.size + length:
                return
            body = bytes(self._kept[_HEAD.size : _HEAD.size + length])
            del self._kept[: _HEAD.size + length]
            frame = self._control(first & 0xFFFF, flags, body)
            if frame is not None:
                yield frame

    def _control(self, kind: int, flags: int, body: bytes) -> Frame | None:
        try:
            if kind == _SYN_STREAM:
                (stream,) = struct.unpack_from(">I", body)
                return Opened(stream & _IDS, self._headers(body[10:]), bool(flags & _FIN))
            if kind in {_SYN_REPLY, _HEADERS}:
                self._headers(body[4:])  # one compression for all blocks: none may be skipped
            elif kind == _RST_STREAM:
                return Reset(struct.unpack(">II", body)[0] & _IDS)
            elif kind == _PING:
                return Ping(struct.unpack(">I", body)[0])
            elif kind == _GOAWAY:
                return GoAway()
        except struct.error:
            raise SpdyError(f"a frame of kind {kind} has {len(body)} bytes") from None
        return None

    def _headers(self, packed: bytes) -> dict[str, str]:
        try:
            raw = self._unpack.decompress(packed, MOST_CONTROL)
        except zlib.error as error:
            raise SpdyError(f"a header block cannot be unpacked: {error}") from None
        if self._unpack.unconsumed_tail:
            raise SpdyError("a header block is too long")
        (count,) = struct.unpack_from(">I", raw)
        words, place = [], 4
        for _ in range(2 * min(count, len(raw))):
            (length,) = struct.unpack_from(">I", raw, place)
            if length > len(raw) - place - 4:
                raise SpdyError("a header is longer than its block")
            words.append(raw[place + 4 : place + 4 + length].decode(errors="replace"))
            place += 4 + length
        return dict(zip([name.lower() for name in words[::2]], words[1::2], strict=True))


class Encoder:
    """Makes the frames of one connection, which share a compression."""

    def __init__(self) -> None:
        self._pack = zlib.compressobj(zdict=DICTIONARY)

    def opened(self, stream: int, headers: Mapping[str, str]) -> bytes:
        """The frame that opens a stream, as a client does."""
        return _control(_SYN_STREAM, struct.pack(">IIH", stream, 0, 0) + self._headers(headers))

    def reply(self, stream: int) -> bytes:
        """The frame that takes a stream which the peer has opened."""
        return _control(_SYN_REPLY, struct.pack(">I", stream) + self._headers({}))

    def _headers(self, headers: Mapping[str, str]) -> bytes:
        raw = struct.pack(">I", len(headers))
        for word in (word.encode() for pair in headers.items() for word in pair):
            raw += struct.pack(">I", len(word)) + word
        return self._pack.compress(raw) + self._pack.flush(zlib.Z_SYNC_FLUSH)


def data(stream: int, content: bytes, *, fin: bool = False) -> bytes:
    """The frame with bytes of a stream, at most ``MOST_DATA``; ``fin``: the last ones."""
    return _HEAD.pack(stream, (_FIN << 24 if fin else 0) | len(content)) + content


def ping(number: int) -> bytes:
    """The answer to a ping."""
    return _control(_PING, struct.pack(">I", number))


def reset(stream: int) -> bytes:
    """The frame that refuses a stream."""
    return _control(_RST_STREAM, struct.pack(">II", stream, 3))


def go_away(last: int) -> bytes:
    """The frame that ends a connection in order; ``last``: the peer's last stream."""
    return _control(_GOAWAY, struct.pack(">II", last, 0))


def _control(kind: int, body: bytes) -> bytes:
    return _HEAD.pack(_CONTROL | _VERSION << 16 | kind, len(body)) + body
