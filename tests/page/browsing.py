"""A real browser, and the page served to it."""

from __future__ import annotations

import contextlib
import shutil
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from flask import Flask
from playwright.sync_api import Browser, ConsoleMessage, Dialog, Page, Request, sync_playwright
from werkzeug.serving import make_server

from router.page.guard import Key
from tests.page.apiserver import Answers, Quiet
from tests.page.objects import Shown

CHROMIUM = shutil.which("chromium")
DEAF = Path(__file__).with_name("deaf_chromium.py")
WITHOUT = "there is no chromium (Debian: apt-get install chromium)"
PHONE = {"width": 360, "height": 740}
SCHEMES = ("light", "dark")
SECONDS = 60_000  # milliseconds: on a busy machine all is slow


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """A browser, until the end of the block."""
    with sync_playwright() as driver:
        # The sandbox needs a user of its own; what is shown here is our own.
        found = driver.chromium.launch(executable_path=DEAF, args=["--no-sandbox", "--disable-gpu"])
        yield found
        found.close()


@dataclass
class Site:
    """The page, served; ``problems`` collects what the browser complains about."""

    address: str
    browser: Browser
    server: Answers
    """The cluster of a Job's page."""
    shown: Shown
    """What other pages show."""
    key: Key | None = None
    """The secret that opens it, if one does."""
    problems: list[str] = field(default_factory=list)

    def open(self, path: str = "/", **options: Any) -> Page:
        context = self.browser.new_context(**options)
        context.set_default_timeout(SECONDS)
        page = context.new_page()
        page.on("console", self._note_refusal)
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("dialog", self._note_dialog)
        page.on("request", self._note_foreign)
        if self.key is not None:
            page.goto(f"{self.address}/?token={self.key.secret}", wait_until="commit")
        page.goto(f"{self.address}/{self.key.folder}{path}" if self.key else f"{self.address}{path}")
        return page

    def _note_refusal(self, told: ConsoleMessage) -> None:
        if "Content Security" in told.text:
            self.problems.append(told.text)

    def _note_dialog(self, dialog: Dialog) -> None:
        self.problems.append(dialog.message)
        dialog.dismiss()

    def _note_foreign(self, request: Request) -> None:
        if not request.url.startswith(self.address):
            self.problems.append(request.url)


@contextlib.contextmanager
def served(app: Flask, **options: Any) -> Iterator[str]:
    """The address of an app."""
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=Quiet, **options)
    server.daemon_threads = True  # type: ignore[attr-defined]
    if isinstance(server.socket, ssl.SSLSocket):
        # Else the thread that accepts waits for each handshake. A busy browser leaves a connection without one for a minute.
        server.socket.do_handshake_on_connect = False  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http{'s' if options else ''}://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def open_all(page: Page) -> None:
    """Open what can be opened, so that it is looked at too."""
    closed = page.locator("details:not([open]) > summary")
    while closed.count():
        closed.first.click()


def assert_accessible(page: Page) -> None:
    found = Axe().run(page)
    assert found.violations_count == 0, f"{page.url}: {found.generate_report()}"
