"""Measures a browser's first paint of a screen of many Jobs, for ``bench.page``: from the navigation's start, by the clock.

The page is served by a process of its own, as ``batchgate page`` serves it. Each load is that of a browser which has
seen nothing yet: with the address that the command prints, its redirect, styles and script.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import sync_playwright

from router.page import serve
from router.page.models.looking import Sight
from router.page.streams import FEW
from tests.page.objects import KEY, app_of

CHROMIUM = shutil.which("chromium")
LOADS = 9
_PAINT = """() => new Promise((done) => new PerformanceObserver((list) => {
  for (const one of list.getEntries()) if (one.name === "first-contentful-paint") done(one.startTime);
}).observe({ type: "paint", buffered: true }))"""


def paints(module: str) -> list[float]:
    """Seconds to the first paint, of several loads one after another.

    :param module: serves the page if it is run with the argument ``serve``, and prints its port
    """
    found = []
    with _served(module) as address, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        for _ in range(LOADS):
            context = browser.new_context()
            page = context.new_page()
            page.goto(address)
            found.append(float(page.evaluate(_PAINT)) / 1000)
            context.close()
        browser.close()
    return found


@contextlib.contextmanager
def _served(module: str) -> Iterator[str]:
    argv = [sys.executable, "-m", module, "serve"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/?token={KEY.secret}"
        process.terminate()


def serve_for_ever(shown: Sight) -> None:
    """Serve a view that does not change; prints the port."""
    listener = serve.bind_loopback(0)
    print(listener.getsockname()[1], flush=True)
    with tempfile.TemporaryDirectory() as directory:
        serve.Application(listener, lambda: app_of(Path(directory), shown), FEW).run()
