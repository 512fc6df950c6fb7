"""A stretch of network between a client and the API server that a test can cut, stop and mend. Bytes pass unread."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

import yaml

DEADLINE = 90.0


def await_true(holds: Callable[[], object], what: str, seconds: float = DEADLINE) -> None:
    """Wait until it holds; fail with what was waited for."""
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until, f"not within {seconds} s: {what}"
        time.sleep(0.02)


class Wire:
    """Forwards connections to a port of this machine. ``with`` it.

    :param listener: where it takes them; by default a free port of this machine
    """

    def __init__(self, target: int, listener: socket.socket | None = None) -> None:
        self._target = target
        self._listener = listener or socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._passes = threading.Event()
        self._passes.set()
        self._closed = False
        self.cut_after: int | None = None
        """Cut each new connection when so many bytes came from the server."""
        self.refuses = False
        self.connections = 0

    def __enter__(self) -> Self:
        self._spawn(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._closed = True
        self._passes.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join(10)

    def cut(self) -> None:
        """End all connections, as a crash does."""
        with self._lock:
            ends = list(self._open)
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def stop(self) -> None:
        """From now on nothing passes, and nobody is told."""
        self._passes.clear()

    def mend(self) -> None:
        """Let everything pass again."""
        self.cut_after, self.refuses = None, False
        self._passes.set()

    def _spawn(self, work: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._closed:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            if self.refuses:
                near.close()
            else:
                self._spawn(self._carry, near)

    def _carry(self, near: socket.socket) -> None:
        try:
            far = socket.create_connection(("127.0.0.1", self._target), timeout=5)
        except OSError:
            near.close()
            return
        far.settimeout(None)  # else whoever reads slowly, as on a busy machine, is cut off
        with near, far:
            with self._lock:
                self._open |= {near, far}
            with contextlib.suppress(OSError):
                self._forward(near, far, self.cut_after)
            with self._lock:
                self._open -= {near, far}

    def _forward(self, near: socket.socket, far: socket.socket, limit: int | None) -> None:
        while not self._closed:
            for end in select.select([near, far], [], [], 0.2)[0]:
                data = end.recv(65536)
                self._passes.wait()
                if not data:
                    return
                if end is far and limit is not None:
                    limit, data = limit - len(data), data[: max(0, limit)]
                (near if end is far else far).sendall(data)
                if limit is not None and limit <= 0:
                    return


def listener_on(address: tuple[str, int], device: str) -> socket.socket:
    """A listener for what comes in by one network device: another may have the same address."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device.encode())
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(address)
    listener.listen(64)
    return listener


@contextlib.contextmanager
def wire_to(kubeconfig: Path, directory: Path) -> Iterator[tuple[Wire, str]]:
    """A wire to a kubeconfig's API server, and the path of a kubeconfig that goes through it."""
    config = yaml.safe_load(kubeconfig.read_text())
    cluster = config["clusters"][0]["cluster"]
    with Wire(urlsplit(cluster["server"]).port or 443) as wire:
        cluster["server"] = f"https://127.0.0.1:{wire.port}"
        path = directory / f"wire-{wire.port}.yaml"
        path.write_text(yaml.safe_dump(config))
        yield wire, str(path)
