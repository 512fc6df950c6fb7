"""Serves the page as ``batchgate page`` does, over a view that does not change; prints its port. For tests of slow clients.

Run as ``python -m tests.page.served DIRECTORY``. Two more addresses behave as no page does: ``/static-flood`` never ends,
and ``/static-slow`` takes longer to make than a request may take to arrive.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

from flask import Flask, Response

from router.page import serve
from router.page.worker import PageWorker
from tests.page.objects import app_of, sight

PAGES, STREAMS = 48, 4
RECEIVING, SENDING, MAKING = 2.0, 2.0, 3.0
"""Seconds."""


def _app(directory: Path) -> Flask:
    app = app_of(directory, sight())
    app.before_request_funcs.clear()  # lets everybody in

    @app.get("/static-flood")
    def flood() -> Response:
        def parts() -> Iterator[bytes]:
            while True:
                yield b"x" * (1 << 20)

        return Response(parts())

    @app.get("/static-slow")
    def slow() -> str:
        time.sleep(MAKING)
        return "made"

    return app


def main() -> None:
    """Serve until SIGTERM."""
    PageWorker.exchange_seconds, PageWorker.sending_seconds = RECEIVING, SENDING
    listener = serve.bind_loopback(0)
    sys.stdout.write(f"{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    serve.Application(listener, lambda: _app(Path(sys.argv[1])), STREAMS).run()


if __name__ == "__main__":
    main()
