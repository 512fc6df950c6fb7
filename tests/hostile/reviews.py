"""Reviews that are broken in every way that a client can think of: their JSON, their HTTP, their connection."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tests.hostile.jobs import MORE, Maker
from tests.script.nasty import NASTY

ODD: Final[list[Any]] = [
    *(None, True, False, 0, -1, 1, 2**63, -(2**63) - 1, 10**400, 1e308, 1.5),
    *("", [], {}, [[]], {"": ""}, [None], "x" * 100_000, {"a": {"b": {}}}),
    *NASTY,
    *MORE,
]
TEXTS: Final = [
    *(b"", b"{", b"}", b"[]", b"null", b'"x"', b"0", b"\xff\xfe", b"\x00", b"NaN", b"[" * 100_000, b'{"a":' * 50_000),
    *(b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}', b"1" * 5000, b'"\\ud800"', b"\xef\xbb\xbf{}"),
]


@dataclass(frozen=True, slots=True)
class Sent:
    """What goes over a connection. ``ends``: whether the server has all of a request, so that it has to answer."""

    name: str
    data: bytes
    ends: bool = True


def review_of(job: Any, number: int) -> dict[str, Any]:
    """A review as the API server sends it."""
    kind = {"group": "batch", "version": "v1", "kind": "Job"}
    request = {
        "uid": f"uid-{number}",
        "kind": kind,
        "resource": {"group": "batch", "version": "v1", "resource": "jobs"},
        "operation": "CREATE",
        "namespace": "physics",
        "name": "solve",
        "userInfo": {"username": "ada", "groups": []},
        "object": job,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


class Breaker:
    """Makes one thing to send from a number."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.chance = random.Random(number)

    def sent(self) -> Sent:
        """A request that is broken in one way or another, or a hostile Job's whole one."""
        kinds: list[Callable[[], Sent]] = [
            self.hostile,
            self.changed,
            self.changed,
            self.changed,
            self.text,
            self.bytes,
        ]
        kinds += [self.length, self.chunked, self.head, self.path, self.cut, self.noise]
        return self.chance.choice(kinds)()

    def hostile(self) -> Sent:
        return Sent("hostile", post(encoded(review_of(Maker(self.number).job(), self.number))))

    def changed(self) -> Sent:
        """A review in which some places hold something else."""
        review = review_of(Maker(self.number).job(), self.number)
        for _ in range(self.chance.randint(1, 4)):
            self.change(review)
        return Sent("changed", post(encoded(review)))

    def change(self, value: Any) -> None:
        """Replace, take away or add something at one place of an object or list."""
        while True:
            keys = list(value) if isinstance(value, dict) else list(range(len(value)))
            if not keys:
                return
            key = self.chance.choice(keys)
            if isinstance(value[key], (dict, list)) and value[key] and self.chance.random() < 0.8:
                value = value[key]
                continue
            odd = copy.deepcopy(self.chance.choice(ODD))
            how = self.chance.randrange(4)
            if how == 0:
                del value[key]
            elif how == 1 and isinstance(value, dict):
                value[f"{key}{self.chance.choice(NASTY)}"[:1000]] = odd
            else:
                value[key] = odd
            return

    def text(self) -> Sent:
        return Sent("text", post(self.chance.choice(TEXTS)))

    def bytes(self) -> Sent:
        """A good review with some bytes changed."""
        data = bytearray(encoded(review_of(Maker(self.number).job(), self.number)))
        for _ in range(self.chance.randint(1, 20)):
            data[self.chance.randrange(len(data))] = self.chance.randrange(256)
        return Sent("bytes", post(bytes(data)))

    def length(self) -> Sent:
        """A Content-Length that is none, or another's."""
        value = self.chance.choice(
            ["-1", "x", "1e3", "", "99999999999999999999", "0x10", "5, 5", "1\r\nContent-Length: 2"]
        )
        return Sent("length", post(b"{}", length=value), ends=False)

    def chunked(self) -> Sent:
        size = self.chance.choice(
            [
                b"2\r\n{}\r\n0\r\n\r\n",
                b"zz\r\n",
                b"-1\r\n\r\n",
                b"ffffffffffffffff\r\n",
                b"2;" + b"x" * 9000 + b"\r\n{}\r\n",
            ]
        )
        return Sent("chunked", HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + size, ends=False)

    def head(self) -> Sent:
        """Headers that are too many, too long or none."""
        more = self.chance.choice(
            [b"X: " + b"y" * 100_000, b"X: y\r\n" * 500, b"no header", b": empty", b"X\x00: y", b" folded"]
        )
        return Sent("head", HEAD + more + b"\r\nContent-Length: 2\r\n\r\n{}", ends=False)

    def path(self) -> Sent:
        path = self.chance.choice(
            ["/", "/mutate/", "/../etc/passwd", "//mutate", "/%00", "/policy", "/mutate?timeout=10s", "*", "x" * 9000]
        )
        method = self.chance.choice(["GET", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "POST", "get", "\x00"])
        return Sent(
            "path", f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{{}}".encode(), ends=False
        )

    def cut(self) -> Sent:
        """The beginning of a request."""
        data = post(encoded(review_of(Maker(self.number).job(), self.number)))
        return Sent("cut", data[: self.chance.randrange(len(data))], ends=False)

    def noise(self) -> Sent:
        return Sent("noise", self.chance.randbytes(self.chance.randint(1, 5000)), ends=False)


HEAD: Final = (
    b"POST /mutate?timeout=10s HTTP/1.1\r\nHost: batchgate.batchgate-system.svc\r\nContent-Type: application/json\r\n"
)


def encoded(value: Any) -> bytes:
    return json.dumps(value).encode("utf-8", errors="surrogatepass")


def post(body: bytes, *, length: str = "") -> bytes:
    """A POST of this body as it goes over the wire."""
    return HEAD + f"Content-Length: {length or len(body)}\r\n\r\n".encode() + body
