"""Turns the raw bytes of a log into the bytes that are sent.

Pure. All bytes of a log pass unchanged, also binary ones and a last line without a newline.
"""

from __future__ import annotations

from router.kubelet.index import Times


class Printer:
    """Adds timestamps to a log and applies its limit, block by block.

    :param offset: where in the log the first block begins
    :param times: for timestamps, or None. It must know the time of each byte that is fed.
    :param limit: the most bytes to send; None is unlimited
    :param skip: the first block begins within an unwanted line: leave out the rest of that line
    """

    def __init__(
        self, offset: int, *, times: Times | None = None, limit: int | None = None, skip: bool = False
    ) -> None:
        self.offset = offset
        self._times = times
        self._remain = limit
        self._skip = skip
        self._fresh = True  # the next byte begins a line

    @property
    def done(self) -> bool:
        """Whether the limit is reached, so that no more bytes are sent."""
        return self._remain == 0

    def feed(self, data: bytes) -> bytes:
        """Takes the log's next block; returns the bytes to send."""
        data = self._wanted(data)
        out = data if self._times is None else self._stamped(data, self._times)
        self.offset += len(data)
        if self._remain is not None:
            out = out[: self._remain]
            self._remain -= len(out)
        return out

    def _wanted(self, data: bytes) -> bytes:
        if not self._skip:
            return data
        end = data.find(b"\n") + 1
        self._skip = not end
        self.offset += end or len(data)
        return data[end:] if end else b""

    def _stamped(self, data: bytes, times: Times) -> bytes:
        pieces = []
        position = 0
        while position < len(data):
            stamp, until = times.at(self.offset + position)
            end = min(len(data), until - self.offset)
            piece = data[position:end]
            if self._fresh:
                pieces.append(stamp)
            # The last byte is left out: a line after its newline may have another time.
            pieces.append(piece[:-1].replace(b"\n", b"\n" + stamp) + piece[-1:])
            self._fresh = piece.endswith(b"\n")
            position = end
        return b"".join(pieces)
