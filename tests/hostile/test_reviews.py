"""Malformed reviews over TLS for a while: no crash, no hang, no growth; those of others are answered all the time.

``BATCHGATE_MALFORMED_SECONDS`` says how long.
"""

from __future__ import annotations

import contextlib
import os
import re
import ssl
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.hostile.reviews import Breaker, Sent
from tests.webhook.servers import Server, serving, until
from tests.webhook.test_command import Setup, job, review, send

SECONDS = float(os.environ.get("BATCHGATE_MALFORMED_SECONDS", "10"))
SENDERS = 6
GOOD = 6
"""Good reviews that are asked for at least, however long a busy machine takes for them."""
WARM = 0.25
"""The part of the time after which memory has to stay as it is."""
STATUSES = {"200", "400", "404", "405", "413", "414", "415", "429", "431", "501", "505"}

pytestmark = pytest.mark.timeout(SECONDS + 180)


def told(server: Server, sent: Sent) -> str:
    """Send this on a connection of its own; the answer's status, or ``closed``."""
    with contextlib.closing(server.connect(60)) as connection:
        assert isinstance(connection.sock, ssl.SSLSocket)
        try:
            connection.sock.sendall(sent.data)
            if not sent.ends:
                connection.sock.settimeout(1)
            first = connection.sock.recv(65536)
        except (TimeoutError, ConnectionError, ssl.SSLError) as error:
            return "silent" if isinstance(error, TimeoutError) and not sent.ends else f"{type(error).__name__}: {error}"
    found = re.match(rb"HTTP/1\.1 ([0-9]{3}) ", first)
    return found[1].decode() if found else "closed"


def memory(server: Server) -> int:
    """Resident bytes of the worker."""
    (worker,) = server.children()
    pages = Path(f"/proc/{worker}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def test_malformed_reviews_harm_nobody(tmp_path: Path) -> None:
    setup = Setup(tmp_path)
    ended = threading.Event()
    statuses, numbers, lock = Counter[tuple[str, str]](), iter(range(10**9)), threading.Lock()

    def attack(server: Server) -> None:
        while not ended.is_set():
            with lock:
                number = next(numbers)
            sent = Breaker(number).sent()
            status = told(server, sent)
            with lock:
                statuses[sent.name, status] += 1

    argv = ["router", "webhook", *(word for pair in setup.options().items() for word in pair)]
    with serving(argv, setup.pki, tmp_path / "log") as server:
        (worker,) = until(server.children)
        threads = [threading.Thread(target=attack, args=(server,)) for _ in range(SENDERS)]
        for one in threads:
            one.start()
        begun, slowest, warm, good = time.monotonic(), 0.0, 0, 0
        while (passed := time.monotonic() - begun) < SECONDS or good < GOOD:
            before = time.monotonic()
            status, answer = send(server, review(job()))
            slowest = max(slowest, time.monotonic() - before)
            assert (status, answer["response"]["allowed"]) == (200, True)
            good += 1
            warm = warm or (memory(server) if passed > WARM * SECONDS else 0)
            time.sleep(0.2)
        ended.set()
        for one in threads:
            one.join(120)
        grown = memory(server) - warm
        assert server.children() == [worker]
        assert server.logged("a bug in Batchgate") == []

    assert {status for _, status in statuses} <= STATUSES | {"silent", "closed"}
    assert {status for (name, status) in statuses if name in {"hostile", "changed", "text", "bytes"}} <= STATUSES
    assert slowest < 10
    assert grown < 32 * 2**20
