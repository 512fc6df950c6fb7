"""The page in a real browser: live, by keyboard alone, by axe's rules, narrow and dark, with hostile names."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect
from werkzeug.serving import make_server

from router import names
from router.page.app import create_app
from router.page.guard import guard
from router.page.models.logged import Tail, logged
from router.page.models.rows import row_of
from router.page.policysource import Policies
from router.page.streams import FEW
from router.pod.view import view
from tests.operating.objects import NOW, node, over
from tests.page.apiserver import Quiet, answering
from tests.page.browsing import CHROMIUM, PHONE, SCHEMES, SECONDS, WITHOUT, Site, assert_accessible, open_all, served
from tests.page.objects import HOSTILE, KEY, LOGGED, PAIR, Shown, hostile_job, judged, pending, sight, told_job

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=WITHOUT)
JOB = "/jobs/default/train"
LOG = "/logs/default/train-0/main"
PAGES = (
    *("/", "/?mine=1&state=waiting", "/decisions", JOB, "/jobs/default/nobodys"),
    *(LOG, "/logs/default/nobodys/main", "/nowhere"),
)


@pytest.fixture
def site(tmp_path: Path, browser: Browser) -> Iterator[Site]:
    with answering() as cluster:
        cluster.jobs, cluster.pods, cluster.events = told_job()
        shown = Shown(cluster.cluster(tmp_path))
        log = logged(Tail("decisions", LOGGED, unreadable=2, left_out="only the last 9 were read"), "", NOW)
        app = create_app(lambda: shown, Policies(), lambda one: guard(one, KEY), log=lambda _now: log)  # type: ignore[arg-type, return-value]
        with served(app) as address:
            found = Site(address, browser, cluster, shown, KEY)
            yield found
            for one in browser.contexts:
                one.close()
    assert found.problems == []


@pytest.mark.parametrize("scheme", SCHEMES)
def test_rules_of_accessibility(site: Site, scheme: Any) -> None:
    for path in PAGES:
        page = site.open(path, color_scheme=scheme)
        open_all(page)
        assert_accessible(page)
        page.context.close()


def test_a_change_shows_without_a_new_request_of_the_page(site: Site) -> None:
    page = site.open()
    page.get_by_text("Live", exact=True).wait_for()
    page.evaluate("document.body.dataset.same = 'yes'")

    site.shown.show(sight(jobs=(row_of(judged("brand-new", created="09:50:00")),)))

    page.get_by_role("link", name="default/brand-new").wait_for()
    assert page.get_by_role("link", name="default/runs").count() == 0
    assert page.evaluate("document.body.dataset.same") == "yes"


@pytest.mark.parametrize("path", ["/", "/decisions", JOB])
def test_a_page_is_live_only_while_the_cluster_answers(site: Site, path: str) -> None:
    site.shown.show(sight(problem="connection refused"))
    page = site.open(path)
    corner = page.locator("#live-words")
    corner.get_by_text("Not live: the cluster does not answer", exact=True).wait_for()

    site.shown.show(sight())
    corner.get_by_text("Live", exact=True).wait_for()

    page.evaluate("""() => {
      window.said = [];
      new MutationObserver(() => window.said.push(document.getElementById("live-words").textContent))
        .observe(document.getElementById("live-words"), { childList: true });
    }""")
    for number in range(2):
        site.shown.show(sight(problem=f"connection refused, {number}"))
        page.get_by_text(f"connection refused, {number}").wait_for()
    corner.get_by_text("Not live: the cluster does not answer", exact=True).wait_for()
    assert page.evaluate("window.said") == ["Not live: the cluster does not answer"]


def test_a_change_shows_among_the_decisions(site: Site) -> None:
    page = site.open("/decisions")
    page.get_by_text("Live", exact=True).wait_for()
    page.evaluate("document.body.dataset.same = 'yes'")

    site.shown.show(sight(jobs=(row_of(judged("brand-new", rule="newest", created="09:50:00")),)))

    page.get_by_role("link", name="newest", exact=True).wait_for()
    assert page.get_by_text("1 Jobs that are still in the cluster").is_visible()
    assert page.locator("svg.hours rect.mark").count() == 1
    assert page.get_by_role("link", name="rest", exact=True).count() == 0
    assert page.evaluate("document.body.dataset.same") == "yes"


def test_a_change_leaves_every_job_in_the_list(site: Site) -> None:
    """Also two whose namespaces and names, put together, are one text."""
    site.shown.show(sight(jobs=tuple(map(row_of, PAIR))))
    page = site.open()
    page.get_by_text("Live", exact=True).wait_for()

    site.shown.show(sight(jobs=tuple(row_of(one) for one in (*PAIR, judged("brand-new", created="09:50:00")))))

    page.get_by_role("link", name="default/brand-new").wait_for()
    rows = page.locator(".jobs tbody th a").all_inner_texts()
    assert sorted(rows) == ["default/brand-new", "team-a/fit", "team/a-fit"]


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


FOCUS = "document.addEventListener('DOMContentLoaded', () => document.getElementById('filter-name').focus())"


def test_the_keyboard_stays_where_it_is(site: Site) -> None:
    """With the first version that comes, and when something above goes."""
    site.shown.show(sight(complete=False))
    page = site.open()
    page.context.add_init_script(FOCUS)
    page.reload()
    page.get_by_text("Live", exact=True).wait_for()
    page.wait_for_timeout(1000)
    assert page.evaluate("document.activeElement.id") == "filter-name"

    site.shown.show(sight())

    page.get_by_text("Still reading").wait_for(state="hidden")
    assert page.evaluate("document.activeElement.id") == "filter-name"


def test_a_stream_that_is_open_is_left_alone(site: Site) -> None:
    """The first one was refused, and another was opened by hand before it would have been tried again."""
    room = site.shown.room.streams
    for _ in range(FEW):
        assert room.acquire(blocking=False)
    page = site.open("/nowhere")
    page.clock.install()
    page.goto(f"{site.address}/{KEY.folder}/")
    page.get_by_text("Not live").wait_for()
    for _ in range(FEW):
        room.release()
    page.get_by_role("button", name="Pause updates").click()
    page.get_by_role("button", name="Go on with updates").click()
    page.get_by_text("Live", exact=True).wait_for()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))

    page.clock.fast_forward(20_000)

    site.shown.show(sight(jobs=(row_of(judged("brand-new", created="09:50:00")),)))
    page.get_by_role("link", name="default/brand-new").wait_for()
    assert asked == []


def test_updates_are_held(site: Site) -> None:
    page = site.open()
    page.get_by_role("button", name="Pause updates").click()
    page.get_by_text("Paused").wait_for()

    site.shown.show(sight(jobs=()))
    page.wait_for_timeout(2500)
    assert page.get_by_role("link", name="default/runs").count() == 1

    page.get_by_role("button", name="Go on with updates").click()
    page.get_by_text("No Job that Batchgate has judged").wait_for()


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


@pytest.mark.parametrize("path", ["/", "/decisions", JOB, LOG])
def test_every_control_is_reached_and_seen(site: Site, path: str) -> None:
    page = site.open(path)
    page.get_by_text("Follows the log" if path == LOG else "Live", exact=True).wait_for()
    wanted = page.locator("a[href], button, input, select, summary, [tabindex='0']").evaluate_all(
        "all => all.filter(one => one.checkVisibility()).length"
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


@pytest.mark.parametrize("path", ["/", "/decisions", JOB, LOG])
def test_on_a_telephone_nothing_is_wider_than_the_screen(site: Site, path: str) -> None:
    site.server.log = (f"{'x' * 400}\n",)
    page = site.open(path, viewport=PHONE, is_mobile=True, has_touch=True)
    open_all(page)

    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


LONG = "long" * 50
"""A word that is far wider than a telephone."""


@pytest.mark.parametrize(
    "path",
    [
        "/",
        f"/?rule={LONG}",
        "/decisions",
        "/jobs/default/hostile",
        f"/jobs/default/{LONG}",
        f"/logs/default/{LONG}/{LONG}",
    ],
)
def test_on_a_telephone_long_words_are_broken(site: Site, path: str) -> None:
    """Also where a Job keeps itself in the cloud by a long name of a volume."""
    job, pods, events = hostile_job(LONG)
    job["spec"]["template"]["spec"]["volumes"] = [{"name": LONG, "persistentVolumeClaim": {"claimName": LONG}}]
    site.server.jobs, site.server.pods, site.server.events = [job], pods, events
    job["metadata"]["labels"] |= {names.KEY_SITE: LONG, names.KEY_QUEUE: LONG}
    waits = replace(view(pending(f"{LONG}-pod", LONG, LONG, LONG)), site=LONG, queue=LONG)
    nodes = (node(LONG, LONG, HPCUnavailable=("True", LONG), SiteRefused=("False", LONG)),)
    shown = sight(jobs=(row_of(job),), pods=(waits,), nodes=nodes, user=LONG, missed=(LONG,), problem=LONG)
    site.shown.show(shown)
    page = site.open(path, viewport=PHONE, is_mobile=True, has_touch=True)
    open_all(page)

    assert page.locator("main").inner_text().count("long") > 50
    assert page.evaluate(WIDE, PHONE["width"]) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


WIDE = """most => [...document.querySelectorAll('main *')]
.filter(one => one.checkVisibility() && !one.closest('.wide, .hidden, pre, svg, thead') && one.getBoundingClientRect().right > most + 1)
.map(one => one.outerHTML.slice(0, 200))"""
"""What reaches beyond this width, outside of what scrolls by itself."""


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


def test_hostile_text_on_a_jobs_page(site: Site) -> None:
    """Every text that a user, a cluster or a program writes: shown as it is, and nothing of it is executed."""
    job, pods, events = hostile_job()
    site.server.jobs, site.server.pods, site.server.events = [job], pods, events
    site.shown.show(sight(jobs=(row_of(job),), user=HOSTILE))
    page = site.open("/jobs/default/hostile")
    open_all(page)

    said = page.locator("main").inner_text()
    places = ("rule", "reason", "requester", "account", "condition", "pod", "why", "container", "ended",
              "event", "told", "image", "script", "batch", "used")  # fmt: skip
    assert [place for place in places if f"{HOSTILE}-{place}" not in said] == []
    assert page.locator("#script pre").inner_text() == f"{HOSTILE}-script"

    changed = {**job, "status": over("Failed", f"{HOSTILE}-later", f"{HOSTILE}-later")}
    site.server.jobs = [changed]
    site.shown.show(sight(jobs=(row_of(changed),), user=HOSTILE))
    page.get_by_text(f"{HOSTILE}-later: {HOSTILE}-later").first.wait_for()

    assert page.locator("script").count() == 1
    assert page.evaluate("document.querySelectorAll('[onload]').length") == 0


def test_a_change_of_a_job_shows_on_its_page(site: Site) -> None:
    page = site.open(JOB)
    page.get_by_text("Live", exact=True).wait_for()
    page.get_by_text("The script's own part").click()
    page.evaluate("document.body.dataset.same = 'yes'")
    assert page.locator("h1 .badge").inner_text() == "▶ running"

    (job,), pods, _ = told_job()
    ended = {**job, "status": over("Failed", "BackoffLimitExceeded", "too many Pods have failed")}
    site.server.jobs, site.server.pods = [ended], pods[:1]
    site.shown.show(sight(jobs=(row_of(ended),)))

    page.get_by_text("BackoffLimitExceeded: too many Pods have failed").first.wait_for()
    assert page.locator("h1 .badge").inner_text() == "✖ failed"
    assert page.locator("article.card").count() == 1
    assert page.evaluate("document.body.dataset.same") == "yes"
    assert page.locator("#script pre").is_visible(), "what somebody has opened stays open"


def test_a_jobs_page_by_keyboard_alone(site: Site) -> None:
    page = site.open(JOB)
    page.get_by_text("The script's own part").focus()
    page.keyboard.press("Enter")
    page.locator("#script pre").wait_for()

    page.get_by_role("link", name="log of main").first.focus()
    with page.expect_navigation():
        page.keyboard.press("Enter")

    page.get_by_text("Follows the log").wait_for()
    assert page.locator("#log").inner_text() == "first\n"


BUSY = """
window.longest = 0;
let before = performance.now();
setInterval(() => { const now = performance.now(); window.longest = Math.max(window.longest, now - before); before = now; }, 10);
"""
"""Measures for how long the page's thread takes nothing else."""


def lines_of(page: Page) -> list[str]:
    """The lines of a log that the browser shows, each in a block of its own."""
    return [str(one) for one in page.locator("#log > span").evaluate_all("all => all.map(one => one.textContent)")]


@pytest.mark.parametrize(
    ("log", "shown"),
    [
        (
            ("before\n", "x" * 10_000_000, "\nafter\n"),
            ["before\n", "x" * 8192 + "\n", "[9,991,808 more characters of this line are left out]\n", "after\n"],
        ),
        (
            ("begin\n", *(f"\rstep {one} of 40000 {'.' * 50}" for one in range(1, 40_001)), "\nafter\n"),
            ["begin\n", f"step 40000 of 40000 {'.' * 50}\n", "after\n"],
        ),
    ],
    ids=["a huge line", "a progress bar"],
)
def test_a_log_leaves_the_browser_free(site: Site, log: tuple[str, ...], shown: list[str]) -> None:
    site.server.log = log
    page = site.open("/")
    page.context.add_init_script(BUSY)
    page.goto(f"{site.address}/{KEY.folder}{LOG}")
    page.get_by_text("Follows the log", exact=True).wait_for()
    expect(page.locator("#log > span").last).to_have_text("after\n", timeout=SECONDS)

    assert lines_of(page) == shown
    assert page.evaluate("window.longest") < 1000, "milliseconds; without a busy machine some tens"


def test_a_log_keeps_only_its_last_lines(site: Site) -> None:
    site.server.log = ("".join(f"{number} {'x' * 90}\n" for number in range(400)),)
    page = site.open(LOG)
    page.get_by_text("Follows the log", exact=True).wait_for()
    expect(page.locator("#log > span")).to_have_count(400, timeout=SECONDS)
    assert not page.locator("#log-cut").is_visible()

    site.server.news.put("".join(f"n{number}\n" for number in range(30_000)) + "no end")

    expect(page.locator("#log > span").last).to_have_text("no end", timeout=SECONDS)
    assert lines_of(page) == [*(f"n{number}\n" for number in range(25_001, 30_000)), "no end"]
    assert page.locator("#log-cut").inner_text() == "Earlier lines are left out."

    site.server.news.put("ing\rover\n")
    expect(page.locator("#log > span").last).to_have_text("over\n", timeout=SECONDS)
    assert lines_of(page) == [*(f"n{number}\n" for number in range(25_001, 30_000)), "over\n"]


def test_a_line_of_a_log_does_not_turn_its_neighbours(site: Site) -> None:
    """U+202E turns what follows it, to the end of its line."""
    site.server.log = ("plain\nturned \u202eabc\nneighbour\n",)
    for scripts in (True, False):
        page = site.open(LOG, java_script_enabled=scripts)
        page.locator("#log > span").nth(2).wait_for()

        spans = page.locator("#log > span")
        assert spans.all_inner_texts() == ["plain\n", "turned \u202eabc\n", "neighbour\n"]
        styles = spans.evaluate_all(
            "all => all.map(one => getComputedStyle(one).unicodeBidi + getComputedStyle(one).display)"
        )
        assert styles == ["isolateblock"] * 3
        page.context.close()


def test_a_stranger_is_asked_for_the_token(site: Site) -> None:
    page = site.browser.new_context().new_page()
    page.set_default_timeout(SECONDS)
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
