"""The page in a real browser: live, by keyboard alone, by axe's rules, narrow and dark, with hostile names."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Dialog, Page, Request, sync_playwright
from werkzeug.serving import WSGIRequestHandler, make_server

from router.page import streams
from router.page.app import create_app
from router.page.guard import guard
from router.page.models.looking import Sight
from router.page.models.rows import row_of
from router.page.policysource import Policies
from router.pod.view import view
from tests.page.objects import HOSTILE, KEY, judged, pending, sight, silent_cluster

CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium (Debian: apt-get install chromium)")
PHONE = {"width": 360, "height": 740}
SECONDS = 60_000  # milliseconds: on a busy machine all is slow
PAGES = ("/", "/?mine=1&state=waiting", "/decisions", "/logs/default/done-1/main", "/nowhere")


class Quiet(WSGIRequestHandler):
    def log_request(self, *_: object) -> None:
        """Print no line for each request."""


class Shown:
    """In place of a reader: a view that a test changes."""

    def __init__(self, directory: Path) -> None:
        self.cluster = silent_cluster(directory)
        self.room = streams.room()
        self._news = threading.Condition()
        self._version = 0
        self._sight = sight()

    def sight(self) -> Sight:
        return self._sight

    def show(self, shown: Sight) -> None:
        with self._news:
            self._sight = shown
            self._version += 1
            self._news.notify_all()

    def await_news(self, version: int, seconds: float) -> int:
        with self._news:
            self._news.wait_for(lambda: self._version != version, seconds)
            return self._version


@dataclass
class Site:
    """The page, served; ``problems`` collects what the browser complains about."""

    address: str
    shown: Shown
    browser: Browser
    problems: list[str]

    def open(self, path: str = "/", **options: Any) -> Page:
        context = self.browser.new_context(**options)
        context.set_default_timeout(SECONDS)
        page = context.new_page()
        page.on("console", self._note_refusal)
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("dialog", self._note_dialog)
        page.on("request", self._note_foreign)
        page.goto(f"{self.address}/?token=s3cret", wait_until="commit")
        page.goto(f"{self.address}/{KEY.folder}{path}")
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


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as driver:
        # The sandbox needs a user of its own; what is shown here is our own.
        found = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield found
        found.close()


@pytest.fixture
def site(tmp_path: Path, browser: Browser) -> Iterator[Site]:
    shown = Shown(tmp_path)
    app = create_app(lambda: shown, Policies(), lambda one: guard(one, KEY))  # type: ignore[arg-type, return-value]
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=Quiet)
    server.daemon_threads = True  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    found = Site(f"http://127.0.0.1:{server.server_port}", shown, browser, [])
    yield found
    for one in browser.contexts:
        one.close()
    server.shutdown()
    server.server_close()
    assert found.problems == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_rules_of_accessibility(site: Site, scheme: Any) -> None:
    for path in PAGES:
        page = site.open(path, color_scheme=scheme)
        found = Axe().run(page)
        assert found.violations_count == 0, f"{path}: {found.generate_report()}"
        page.context.close()


def test_a_change_shows_without_a_new_request_of_the_page(site: Site) -> None:
    page = site.open()
    page.get_by_text("Live", exact=True).wait_for()
    page.evaluate("document.body.dataset.same = 'yes'")

    site.shown.show(sight(jobs=(row_of(judged("brand-new", created="09:50:00")),)))

    page.get_by_role("link", name="default/brand-new").wait_for()
    assert page.get_by_role("link", name="default/runs").count() == 0
    assert page.evaluate("document.body.dataset.same") == "yes"


def test_the_rules_find_something(site: Site) -> None:
    page = site.open()
    page.evaluate("document.querySelector('html').removeAttribute('lang')")

    assert [one["id"] for one in Axe().run(page).response["violations"]] == ["html-has-lang"]


def test_what_somebody_has_opened_or_fills_in_stays(site: Site) -> None:
    site.shown.show(sight(missed=("jobs of all namespaces could not be looked at",)))
    page = site.open()
    page.get_by_text("1 thing that you may not see").click()
    page.get_by_label("name has").fill("half a na")

    site.shown.show(sight(jobs=(), missed=("jobs of all namespaces could not be looked at",)))

    page.get_by_text("No Job that Batchgate has judged").wait_for()
    assert page.get_by_text("could not be looked at").is_visible()
    assert page.get_by_label("name has").input_value() == "half a na"
    assert page.evaluate("document.activeElement.id") == "filter-name"


def test_updates_are_held(site: Site) -> None:
    page = site.open()
    page.get_by_role("button", name="Pause updates").click()
    page.get_by_text("Paused").wait_for()

    site.shown.show(sight(jobs=()))
    page.wait_for_timeout(2500)
    assert page.get_by_role("link", name="default/runs").count() == 1

    page.get_by_role("button", name="Go on with updates").click()
    page.get_by_text("No Job that Batchgate has judged").wait_for()


def test_the_picture_of_the_documentation(site: Site, tmp_path: Path) -> None:
    """``BATCHGATE_PICTURES=docs`` writes it anew."""
    page = site.open(viewport={"width": 1200, "height": 800})
    page.get_by_text("Live", exact=True).wait_for()
    directory = Path(os.environ.get("BATCHGATE_PICTURES", tmp_path))

    page.screenshot(path=directory / "page.png", full_page=True)

    assert (directory / "page.png").read_bytes().startswith(b"\x89PNG")


def test_by_keyboard_alone(site: Site) -> None:
    page = site.open()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "To the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"

    page.get_by_label("state").focus()
    page.keyboard.type("running")
    page.keyboard.press("Tab")
    page.get_by_role("button", name="Filter", exact=True).focus()
    with page.expect_navigation():
        page.keyboard.press("Enter")

    assert "state=running" in page.url
    assert page.get_by_role("row").count() == 3  # the head, and two Jobs


def test_every_control_is_reached_and_seen(site: Site) -> None:
    page = site.open()
    wanted = page.locator("a[href], button, input, select, summary").evaluate_all(
        "all => all.filter(one => one.offsetParent).length"
    )
    reached = set()
    for _ in range(wanted + 1):
        page.keyboard.press("Tab")
        reached.add(
            page.evaluate(
                "[...document.querySelectorAll('*')].indexOf(document.activeElement)"
                " + '/' + getComputedStyle(document.activeElement).outlineStyle"
            )
        )
    assert len({one for one in reached if one.endswith("/solid")}) >= wanted


@pytest.mark.parametrize("path", ["/", "/decisions"])
def test_on_a_telephone_nothing_is_wider_than_the_screen(site: Site, path: str) -> None:
    page = site.open(path, viewport=PHONE, is_mobile=True, has_touch=True)

    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def test_without_scripts(site: Site) -> None:
    page = site.open("/?state=running", java_script_enabled=False)

    assert page.get_by_role("link", name="default/runs").is_visible()
    assert not page.get_by_role("button", name="Pause updates").is_visible()


def test_hostile_names(site: Site) -> None:
    made = judged(HOSTILE, rule=HOSTILE, requester=HOSTILE)
    hostile = sight(
        jobs=(row_of(made),), pods=(view(pending(HOSTILE, HOSTILE, HOSTILE, HOSTILE)),), user=HOSTILE,
        missed=(HOSTILE,), problem=HOSTILE,
    )  # fmt: skip
    site.shown.show(hostile)
    page = site.open()
    assert page.get_by_role("row").nth(1).inner_text().startswith(f"default/{HOSTILE}")

    site.shown.show(replace(hostile, missed=(HOSTILE, HOSTILE)))
    page.get_by_text("2 things that you may not see").wait_for()
    page.goto(f"{site.address}/{KEY.folder}/decisions")

    assert page.locator("script").count() == 1
    assert page.evaluate("document.querySelectorAll('[onload]').length") == 0


def test_a_stranger_is_asked_for_the_token(site: Site) -> None:
    page = site.browser.new_context().new_page()
    page.goto(site.address)
    assert Axe().run(page).violations_count == 0

    page.get_by_label("Token").fill("s3cret")
    page.keyboard.press("Enter")

    page.get_by_role("heading", name="Needs somebody").wait_for()


def test_another_port_of_the_machine_gets_no_cookie(site: Site) -> None:
    """Another user's server there is the same site to a browser, so SameSite does not keep the cookie from it."""
    got: list[str] = []

    class Other(Quiet):
        def run_wsgi(self) -> None:
            got.append(self.headers.get("Cookie", ""))
            super().run_wsgi()

    def answer(_environ: object, start: Any) -> list[bytes]:
        start("200 OK", [("Content-Type", "text/html")])
        return [b"theirs"]

    server = make_server("127.0.0.1", 0, answer, threaded=True, request_handler=Other)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    page = site.open()
    other = page.context.new_page()
    other.goto(f"http://127.0.0.1:{server.server_port}/decisions")
    other.evaluate("fetch('/stream', {credentials: 'include'})")
    server.shutdown()
    server.server_close()

    assert (len(got) >= 2, set(got)) == (True, {""})
    assert KEY.cookie in [one.get("name") for one in page.context.cookies(f"{site.address}/{KEY.folder}/")]
