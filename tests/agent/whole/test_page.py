"""The page over a real cluster: with a user's rights and an admin's, live, with a log that follows."""

from __future__ import annotations

import contextlib
import http.cookiejar
import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.agent.whole.jobs import unique
from tests.agent.whole.kubectl import Kubectl
from tests.agent.whole.site import ROUTE_NARROW, SITE, USER, WIDE
from tests.agent.whole.stack import Stack
from tests.agent.whole.waiting import SECONDS, until
from tests.page import pictures
from tests.page.browsing import CHROMIUM, WITHOUT, chromium
from tests.processes import started

pytestmark = pytest.mark.timeout(600)


@dataclass
class Reader:
    """A browser without a screen that has opened the printed address."""

    address: str
    base: str
    opener: urllib.request.OpenerDirector

    def text(self, path: str) -> str:
        with self.opener.open(self.base + path, timeout=SECONDS) as answer:
            return str(answer.read().decode())

    @contextlib.contextmanager
    def events(self, path: str) -> Iterator[Iterator[tuple[str, str]]]:
        """The events of a stream, as kind and text."""
        with self.opener.open(self.base + path, timeout=SECONDS) as answer:
            lines = (line.decode().rstrip("\n") for line in answer)
            yield ((line[7:], json.loads(next(lines)[6:])) for line in lines if line.startswith("event: "))


@contextlib.contextmanager
def opened(person: Kubectl, *words: str) -> Iterator[Reader]:
    """``batchgate page`` as that person; Ctrl-C ends it without a word."""
    argv = [sys.executable, "-m", "router", "page", *words]
    with started(
        argv, env=person.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=Path.cwd()
    ) as process:
        yield _reader(process)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=SECONDS)
        assert (process.returncode, errors) == (0, "")


def _reader(process: subprocess.Popen[str]) -> Reader:
    """A browser that has opened the address that this process prints."""
    assert process.stdout is not None
    printed = ""
    while not (found := re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", printed)):
        line = process.stdout.readline()
        assert line, process.communicate()
        printed += line
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))
    with opener.open(found[0], timeout=SECONDS) as answer:
        return Reader(found[0], answer.geturl().rstrip("/"), opener)


def saying(reader: Reader, path: str, *words: str) -> str:
    """A page, once it says all of this: what it shows is read in parts, one after another."""
    return until(lambda: reader.text(path), lambda text: all(one in text for one in words), what=f"for {words}")


def test_a_job_as_its_user_and_as_an_admin_sees_it(stack: Stack) -> None:
    job = unique("looked-at")
    stack.user.apply(stack.runs.job(job, f"echo first\n{stack.waiting(job, then='echo second; exit 3')}"))
    stack.await_running(job)
    (pod,) = stack.pods(job)
    stack.await_logs({job: "first\n"})

    with opened(stack.user, "--policy", str(stack.site.policy)) as reader:
        missed = "jobs of all namespaces could not be looked at"
        saying(reader, "/?mine=1", f"default/{job}", "> running</span>", f"You are <strong>{USER}</strong>", missed)

        page = reader.text(f"/jobs/default/{job}")
        assert f"batch job {stack.site.of(job)[0].job_id}" in page
        assert f"<strong>{SITE}/{WIDE}</strong> is taken" in page

        with reader.events("/stream?mine=1") as changes, reader.events(log_of(pod)) as log:
            assert next(log) == ("log", "first\n")
            stack.let_go(job)
            rest = list(log)
            assert ("".join(text for kind, text in rest if kind == "log"), rest[-1]) == ("second\n", ("end", ""))
            assert any(kind == "page" and "> failed</span>" in text for kind, text in changes)

        ended = until(
            lambda: reader.text(f"/jobs/default/{job}"), lambda text: "ended with 3" in text, what="for the end"
        )
        assert "> failed</span>" in ended
        log_page = re.sub(r"</?span>", "", reader.text(log_of(pod).removesuffix("/stream")))
        assert log_page.count("first\nsecond\n") == 1

    with opened(stack.admin) as reader:
        shown = saying(reader, "/", "✔</span> open", f"default/{job}", stack.agent.name, "Jobs running: 0 ours")
        assert "you may not see" not in shown
        assert "busy" in reader.text("/decisions")


@pytest.mark.skipif(CHROMIUM is None, reason=WITHOUT)
def test_a_job_in_a_browser(stack: Stack) -> None:
    job, hostile = unique("in-a-browser"), "<script>alert(1)</script>"
    stack.user.apply(stack.runs.job(job, f"echo '{hostile}'\nexit 3"))
    assert stack.await_end(job) == ["Failed"]
    stack.await_logs({job: f"{hostile}\n"})

    with opened(stack.user) as reader, chromium() as browser:
        page = browser.new_page()
        page.set_default_timeout(SECONDS * 1000)
        page.goto(reader.address)
        page.get_by_role("link", name=f"default/{job}").click()
        page.get_by_role("heading", name="What happened").wait_for()
        assert Axe().run(page).violations_count == 0

        page.get_by_role("link", name="log of main").click()
        page.get_by_text("The log has ended").wait_for()
        assert page.locator("#log").inner_text() == f"{hostile}\n"
        assert Axe().run(page).violations_count == 0


INDEXED: dict[str, Any] = {"completions": 4, "parallelism": 4, "completionMode": "Indexed", "backoffLimit": 6}


@pytest.mark.skipif(CHROMIUM is None, reason=WITHOUT)
def test_the_pictures_of_the_documentation(stack: Stack, tmp_path: Path) -> None:
    """``BATCHGATE_PICTURES=docs`` takes them anew, of Jobs that really run."""

    def narrowly(name: str) -> dict[str, Any]:
        return to_narrow(stack.runs.job(name, stack.waiting(name)))

    directory = Path(os.environ.get("BATCHGATE_PICTURES", tmp_path))
    parts = f"case $JOB_COMPLETION_INDEX in 0) exit 0;; 1) exit 3;; esac\n{stack.waiting('train')}"
    stack.user.apply(
        stack.runs.job("prepare", "echo 41 files"),
        stack.runs.job("broken", "echo cannot open input.dat; exit 3"),
        stack.runs.job("train", parts, **INDEXED),
        narrowly("solve"),
    )
    stack.await_running("solve")  # else another may come to its queue first, which has room for one
    stack.user.apply(narrowly("evaluate"), narrowly("archive"))
    assert stack.await_end("prepare", "broken") == ["Complete", "Failed"]
    stack.await_running("train")
    stack.await_submitted("evaluate", "archive")
    stack.site.local("qhold", stack.site.of("archive")[0].job_id)

    with opened(stack.admin, "--policy", str(stack.site.policy)) as reader, chromium() as browser:
        page = browser.new_context(viewport={"width": 1080, "height": 700}).new_page()
        page.set_default_timeout(SECONDS * 1000)
        page.goto(reader.address)
        page.get_by_text("First in line").first.wait_for()  # of each queue in which a Pod waits
        page.get_by_text("Held").first.wait_for()
        page.get_by_text("Nodes: 1 of 1 busy").wait_for()
        for name, path in pictures.NAMES.items():
            page.goto(reader.base + path)
            page.get_by_text("Live", exact=True).wait_for()
            # Its three seconds are less than the ten after which the page reads it again.
            page.get_by_text("its Lease has run out").wait_for(state="hidden")
            pictures.take(page, directory / name)
            assert pictures.digest_in(directory / name) == pictures.digest(name)
    stack.let_go("train", "solve", "evaluate")


def to_narrow(job: dict[str, Any]) -> dict[str, Any]:
    job["metadata"]["labels"]["queue"] = ROUTE_NARROW
    return job


def log_of(pod: dict[str, dict[str, str]]) -> str:
    return f"/logs/default/{pod['metadata']['name']}/main/stream"
