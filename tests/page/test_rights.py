"""Nobody sees what kubectl would not show: what a view does as a right is withdrawn, and as it returns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from router.kube import watching
from router.page import reader
from router.page.models.looking import Sight
from router.page.reader import Reader
from tests.agent.whole.waiting import until
from tests.page.apiserver import Answers, answering
from tests.page.objects import PODS, client_of, judged

JOBS = "/apis/batch/v1/jobs"
JOBS_HERE = "/apis/batch/v1/namespaces/default/jobs"
PODS_HERE = "/api/v1/namespaces/default/pods"


def rights(*paths: str) -> frozenset[str]:
    """To list and to watch, as those who grant rights give both."""
    return frozenset(f"{verb} {path}" for path in paths for verb in ("list", "watch"))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Answers]:
    """With a Job here, its Pod, and a Job elsewhere. A watch lasts a second, and all else comes soon."""
    monkeypatch.setattr(watching, "WATCH_SECONDS", 1)
    monkeypatch.setattr(reader, "POLL_SECONDS", 0.1)
    monkeypatch.setattr(reader, "RIGHTS_SECONDS", 0.3)
    elsewhere = judged("secret")
    elsewhere["metadata"] |= {"namespace": "elsewhere", "uid": "job-elsewhere"}
    with answering() as found:
        found.jobs, found.pods = [judged("runs"), elsewhere], [PODS[2]]
        yield found


@pytest.fixture
def views(server: Answers, tmp_path: Path) -> Iterator[Callable[..., Reader]]:
    """Makes a view; ``named``: of the namespace ``default`` alone."""
    made: list[Reader] = []

    def make(*, named: bool = False) -> Reader:
        cluster = server.cluster(tmp_path)
        cluster.named = named
        made.append(Reader(cluster))
        made[-1].start()
        return made[-1]

    yield make
    for one in made:
        one.stop()


def jobs(sight: Sight) -> list[str]:
    return sorted(one.facts.name for one in sight.jobs)


def seen(view: Reader, expected: list[str], *said: str) -> Sight:
    """The view once it shows these Jobs and says these words among what may not be seen."""
    return until(
        view.sight,
        lambda one: (
            one.known and jobs(one) == expected and all(any(word in told for told in one.missed) for word in said)
        ),
        what=f"for {expected} and {said}",
    )


@pytest.mark.parametrize("named", [False, True])
def test_jobs_leave_with_the_right_to_list_them_and_return_with_it(
    server: Answers, views: Callable[..., Reader], tmp_path: Path, named: bool
) -> None:
    both = ["runs"] if named else ["runs", "secret"]
    view = views(named=named)
    assert [one.name for one in seen(view, both).pods] == ["runs-1"]

    server.forbids = rights(JOBS, JOBS_HERE)

    where = "namespace default" if named else "all namespaces"
    found = seen(view, [], f"jobs of {where} could not be looked at: ben cannot ")
    assert (found.problem, [one.name for one in found.pods]) == ("", ["runs-1"])
    text = client_of(tmp_path, found).get("/").text
    assert ("ben cannot" in text, "does not answer" in text) == (True, False)

    server.forbids = frozenset()

    assert [one for one in seen(view, both).missed if "jobs" in one] == []


def test_whoever_may_see_one_namespace_only_sees_no_other_any_more(
    server: Answers, views: Callable[..., Reader]
) -> None:
    view = views()
    seen(view, ["runs", "secret"])

    server.forbids = rights(JOBS)

    found = seen(view, ["runs"], "jobs of all namespaces could not be looked at")
    assert found.problem == ""


def test_pods_leave_with_the_right_to_list_them(server: Answers, views: Callable[..., Reader]) -> None:
    view = views(named=True)
    seen(view, ["runs"])

    server.forbids = rights(PODS_HERE)

    found = seen(view, ["runs"], "pods of namespace default could not be looked at")
    assert (found.pods, found.problem) == ((), "")


def test_what_may_be_listed_but_not_watched_is_told_and_never_shown_for_a_moment(
    server: Answers, views: Callable[..., Reader]
) -> None:
    """A list that is not followed would show what is long gone."""
    server.forbids = frozenset({f"watch {JOBS}", f"watch {JOBS_HERE}"})

    view = views()

    found = seen(view, [], f"ben cannot watch {JOBS}", f"ben cannot watch {JOBS_HERE}")
    assert found.problem == ""
    assert [query for query in server.lists("jobs") if "limit" in query and query["limit"] != "1"] == []


def test_rights_that_are_there_are_not_asked_for_again(
    server: Answers, views: Callable[..., Reader], monkeypatch: pytest.MonkeyPatch
) -> None:
    """To list a single Job by its label, a server may have to read all of them."""
    monkeypatch.setattr(watching, "WATCH_SECONDS", 60)
    view = views()
    seen(view, ["runs", "secret"])
    asked = len(server.lists("jobs"))

    looks = len(server.lists("events"))
    until(lambda: len(server.lists("events")) > looks + 8, what="for more looks")

    assert len(server.lists("jobs")) == asked
