"""The page for many in a real browser: the forms for token and namespace, and what is seen of a token's end."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from router.page import reader
from router.page.app import create_app
from router.page.policysource import Policies
from router.page.viewers import Viewers, admit, reader_of_request
from tests.page.apiserver import answering
from tests.page.browsing import CHROMIUM, DEAF, PHONE, SCHEMES, WITHOUT, Site, assert_accessible, served
from tests.page.objects import JOBS, PODS, Shown, silent_cluster

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=WITHOUT)
TLS: dict[str, Any] = {"ignore_https_errors": True}


@pytest.fixture
def site(tmp_path: Path, browser: Browser, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """Over TLS, without which browsers keep no cookie of this name. The token is ``t``."""
    monkeypatch.setattr(reader, "POLL_SECONDS", 0.2)
    with answering() as cluster:
        cluster.jobs, cluster.pods = list(JOBS), list(PODS)
        viewers = Viewers(lambda token: cluster.cluster(tmp_path, token))
        names = frozenset({"127.0.0.1"})
        app = create_app(reader_of_request, Policies(), lambda one: admit(one, viewers, names, ""))
        app.config["TOKENS_ARE_PASTED"] = True
        with served(app, ssl_context="adhoc") as address:
            found = Site(address, browser, cluster, Shown(silent_cluster(tmp_path)))
            yield found
            for one in browser.contexts:
                one.close()
            viewers.stop()
    assert found.problems == []


def enter(page: Page, token: str) -> None:
    page.get_by_label("Token").fill(token)
    page.keyboard.press("Enter")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_forms_by_the_rules_of_accessibility(site: Site, scheme: Any) -> None:
    page = site.open(color_scheme=scheme, viewport=PHONE, **TLS)
    assert_accessible(page)
    enter(page, "wrong")
    page.get_by_role("alert").filter(has_text="the cluster does not take this token").wait_for()
    assert_accessible(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]

    enter(page, "t")
    page.get_by_role("link", name="default/runs").wait_for()
    assert_accessible(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]

    page.get_by_role("textbox", name="Namespace").fill("No Namespace")
    page.keyboard.press("Enter")
    page.get_by_text("a namespace has small letters").wait_for()
    assert_accessible(page)


def test_a_namespace_is_chosen_and_the_token_forgotten(site: Site) -> None:
    page = site.open(**TLS)
    enter(page, "t")
    page.get_by_role("link", name="default/runs").wait_for()

    page.get_by_role("textbox", name="Namespace").fill("other")
    page.get_by_role("button", name="Show", exact=True).click()
    page.get_by_text("No Job that Batchgate has judged is here").wait_for()
    assert page.get_by_role("textbox", name="Namespace").input_value() == "other"

    page.get_by_role("button", name="Forget my token").click()
    page.get_by_label("Token").wait_for()
    page.goto(f"{site.address}/decisions")
    assert page.get_by_label("Token").is_visible()
    assert [one.get("name") for one in page.context.cookies()] == ["__Host-batchgate-namespace"]


def test_a_link_from_another_page_asks_for_no_token_again(site: Site) -> None:
    page = site.open(**TLS)
    enter(page, "t")
    page.get_by_role("link", name="default/runs").wait_for()
    page.goto("about:blank")
    page.set_content(f"<a href='{site.address}/jobs/default/runs'>our Job</a>")

    page.get_by_role("link", name="our Job").click()

    page.get_by_role("heading", name="default/runs").wait_for()


def test_a_form_of_another_page_forgets_no_token(site: Site) -> None:
    page = site.open(**TLS)
    enter(page, "t")
    page.get_by_role("link", name="default/runs").wait_for()
    page.goto("about:blank")
    page.set_content(f"<form method='post' action='{site.address}/leave'><button>Win</button></form>")

    page.get_by_role("button", name="Win").click()

    page.get_by_text("this form was sent by another page").wait_for()
    page.goto(f"{site.address}/")
    page.get_by_role("link", name="default/runs").wait_for()


@pytest.mark.parametrize("path", ["/decisions", "/logs/default/runs-1/main"])
def test_other_tabs_close_when_the_token_is_forgotten(site: Site, path: str) -> None:
    """Another browser with the same token goes on."""
    page, elsewhere = site.open(**TLS), site.open(**TLS)
    for one in (page, elsewhere):
        enter(one, "t")
        one.get_by_text("Live", exact=True).wait_for()
    tab = page.context.new_page()
    tab.goto(f"{site.address}{path}")
    tab.get_by_text("Follows the log" if "logs" in path else "Live", exact=True).wait_for()
    elsewhere.evaluate("document.body.dataset.same = 'yes'")

    page.get_by_role("button", name="Forget my token").click()

    tab.get_by_label("Token").wait_for()
    assert tab.get_by_text("runs").count() == 0
    elsewhere.get_by_text("Live", exact=True).wait_for()
    assert elsewhere.evaluate("document.body.dataset.same") == "yes"


@pytest.mark.parametrize("path", ["/", "/jobs/default/runs", "/logs/default/runs-1/main"])
def test_what_is_open_closes_when_the_token_ends(site: Site, path: str) -> None:
    page = site.open(**TLS)
    enter(page, "t")
    page.get_by_role("link", name="default/runs").wait_for()
    page.goto(f"{site.address}{path}")
    page.get_by_text("Follows the log" if "logs" in path else "Live", exact=True).wait_for()

    site.server.refuses = True

    page.get_by_role("alert").filter(has_text="the cluster does not take this token").wait_for()
    assert page.get_by_text("runs").count() == 0


def test_a_page_that_came_back_too_late_says_so(site: Site) -> None:
    """Its stream is refused, and a browser hides from scripts why."""
    page = site.open(**TLS)
    enter(page, "t")
    page.get_by_text("Live", exact=True).wait_for()
    page.get_by_role("button", name="Pause updates").click()
    site.server.refuses = True
    page.wait_for_timeout(1000)  # meanwhile the view has ended, of which a page that pauses hears nothing

    page.get_by_role("button", name="Go on with updates").click()

    page.get_by_role("alert").filter(has_text="the cluster does not take this token").wait_for()


def test_other_tests_interfaces_are_not_seen_by_the_browser(tmp_path: Path) -> None:
    """In place of the browser, a program that opens two kinds of sockets."""
    program = "import socket\nprint(socket.create_server(('127.0.0.1', 0)).family)\nsocket.socket(socket.AF_NETLINK)\n"
    (tmp_path / "chromium").write_text(f"#!{sys.executable}\n{program}")
    (tmp_path / "chromium").chmod(0o755)

    ended = subprocess.run(DEAF, env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, capture_output=True, text=True, check=False)

    told = "OSError: [Errno 97] Address family not supported by protocol"
    assert (ended.stdout, ended.stderr.splitlines()[-1]) == ("2\n", told)
