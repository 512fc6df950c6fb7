"""Who is let in, what a browser may do, and that users' texts are data."""

from __future__ import annotations

import io
import re
import time
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from flask.testing import FlaskClient

from router.cli.cluster import Cluster
from router.errors import ApiError
from router.kube.watching import Watch
from router.page import streams
from router.page.app import create_app
from router.page.guard import HEADERS, Key, guard
from router.page.models.rows import row_of
from router.page.policysource import Policies
from router.page.reader import Kept, Reader
from router.pod.view import view
from tests.page.apiserver import answering
from tests.page.objects import (
    HOSTILE,
    KEY,
    PAIR,
    Fixed,
    app_of,
    client_of,
    judged,
    pending,
    sight,
    silent_cluster,
    told_job,
)


class Elements(HTMLParser):
    """The elements of a page with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


@pytest.fixture
def stranger(tmp_path: Path) -> FlaskClient:
    return app_of(tmp_path, sight()).test_client()


@pytest.mark.parametrize(
    ("path", "host", "status"),
    [
        ("/", "127.0.0.1:8800", 401),
        ("/stream", "127.0.0.1:8800", 401),
        ("/?token=wrong", "localhost:8800", 401),
        ("/?token=%FF%FE", "localhost", 401),
        ("/?token=s3cret", "localhost:8800", 303),
        ("/?token=s3cret", "[::1]:8800", 303),
        ("/?token=s3cret", "LOCALHOST:9", 303),
        ("/?token=s3cret", "evil.example", 421),
        ("/?token=s3cret", "127.0.0.1.evil.example:8800", 421),
        ("/?token=s3cret", "evil.example:127", 421),
        ("/static/page.css", "127.0.0.1", 200),
        ("/static/page.css", "evil.example", 421),
        ("/static/../app.py", "127.0.0.1", 401),
    ],
)
def test_who_is_let_in(stranger: FlaskClient, path: str, host: str, status: int) -> None:
    answer = stranger.get(path, headers={"Host": host})

    assert answer.status_code == status
    assert {name: answer.headers[name] for name in HEADERS} == HEADERS
    answer.close()


def test_the_secret_leaves_the_address(stranger: FlaskClient) -> None:
    answer = stranger.get("/jobs/default/done?token=s3cret")

    assert answer.headers["Location"] == "/folder/jobs/default/done"
    assert answer.headers["Set-Cookie"] == f"{KEY.cookie}=s3cret; HttpOnly; Path=/folder; SameSite=Strict"


def test_the_cookie_is_for_a_path_that_nobody_can_guess() -> None:
    """Browsers send a cookie to every port of a host, and other users of the machine may listen on one."""
    one, other = Key(), Key()

    assert (len(one.folder) >= 20, one.folder == other.folder, one.folder in one.secret) == (True, False, False)


@pytest.mark.parametrize("path", ["/", "/decisions", "/nothing", "/logs/default/done-1/main"])
def test_a_page_names_no_place_outside_its_folder(stranger: FlaskClient, path: str) -> None:
    stranger.get(f"{path}?token=s3cret")  # the cookie is then sent below the folder alone

    assert stranger.get(path).status_code == 401
    found = Elements(stranger.get(f"/folder{path}").text).found
    wanted = ("href", "src", "action", "data-stream", "data-follow")
    places = [one for _, attributes in found for name in wanted if (one := attributes.get(name)) is not None]
    assert len(places) > 5
    assert [one for one in places if not one.startswith(("/folder/", "#"))] == []


@pytest.mark.parametrize("path", ["//evil.example", "/\\evil.example", "///evil.example/x"])
def test_nobody_is_sent_elsewhere(stranger: FlaskClient, path: str) -> None:
    answer = stranger.get(f"{path}?token=s3cret", base_url="http://localhost")

    assert re.fullmatch(r"(http://localhost)?/(?![/\\]).*", answer.headers.get("Location", "/ok"))


@pytest.mark.parametrize(
    ("path", "location"),
    [
        ("/%0d%0aX-Y:1", "/folder/%0D%0AX-Y:1"),
        ("/jobs/a%3Fb/%23c%25d", "/folder/jobs/a%3Fb/%23c%25d"),
        ("/jobs/default/%C3%A4%5C", "/folder/jobs/default/%C3%A4%5C"),
        ("/jobs/default/%FF", "/folder/jobs/default/%EF%BF%BD"),
    ],
)
def test_a_path_is_quoted_in_a_redirect(stranger: FlaskClient, path: str, location: str) -> None:
    answer = stranger.get(f"{path}?token=s3cret")

    assert (answer.status_code, answer.headers["Location"]) == (303, location)
    assert stranger.get(answer.headers["Location"]).status_code == 404


def test_a_token_that_is_pasted(stranger: FlaskClient) -> None:
    assert stranger.post("/enter", data={"token": "wrong"}).status_code == 401
    assert stranger.post("/enter", data={"token": " s3cret "}).status_code == 303
    assert stranger.get("/folder/").status_code == 200


def test_a_large_form_is_refused(stranger: FlaskClient) -> None:
    """Files of a form are written to a disk, and nobody needs a token for that."""
    answer = stranger.post("/enter", data={"file": (io.BytesIO(b"x" * 200_000), "file"), "token": "s3cret"})

    assert (answer.status_code, "This form is too large." in answer.text) == (413, True)


def test_the_secret_is_in_no_representation() -> None:
    assert "s3cret" not in repr(KEY)


@pytest.mark.parametrize("path", ["/", "/decisions", "/nothing"])
def test_users_texts_are_data(tmp_path: Path, path: str) -> None:
    """Names that an API server would refuse are tried too."""
    made = judged(HOSTILE, rule=HOSTILE, requester=HOSTILE)
    made["metadata"]["namespace"] = HOSTILE
    waits = pending("p", HOSTILE, HOSTILE, HOSTILE)
    queue = view(waits)
    shown = sight(
        jobs=(row_of(made),), pods=(queue, replace(queue, uid="2", job_uid=f"job-{HOSTILE}")), missed=(HOSTILE,),
        problem=HOSTILE, user=HOSTILE,
    )  # fmt: skip

    answer = client_of(tmp_path, shown).get(path)

    found = Elements(answer.text).found
    scripts = [attributes for tag, attributes in found if tag == "script"]
    assert scripts == [{"src": "/static/page.js", "defer": None}]
    assert [name for _, attributes in found for name in attributes if name.startswith("on") or name == "style"] == []
    assert "<script>alert" not in answer.text


def test_every_part_of_a_page_comes_from_the_page_itself(tmp_path: Path) -> None:
    found = Elements(client_of(tmp_path, sight()).get("/").text).found

    addresses = [one for _, attributes in found for name in ("href", "src", "action") if (one := attributes.get(name))]
    assert addresses
    assert [one for one in addresses if not re.match(r"[/#](?!/)|$", one)] == []


@pytest.mark.parametrize("path", ["/", "/decisions", "/jobs/default/train", "/logs/default/train-0/main"])
def test_no_two_parts_of_a_page_have_one_id(tmp_path: Path, path: str) -> None:
    """A page that changes finds its parts again by their ids, so one of two with the same id would vanish."""
    with answering() as server:
        server.jobs, server.pods, server.events = told_job()
        shown = sight(jobs=tuple(row_of(one) for one in (*PAIR, *server.jobs)))
        found = Elements(client_of(tmp_path, shown, server.cluster(tmp_path)).get(path).text).found

    ids = [one for _, attributes in found if (one := attributes.get("id"))]
    assert len(ids) > 5
    assert [one for one in set(ids) if ids.count(one) > 1] == []


def test_the_stream_of_a_page(tmp_path: Path) -> None:
    answer = client_of(tmp_path, sight()).get("/stream?mine=1", buffered=False)
    text = next(answer.iter_encoded()).decode()
    answer.close()

    assert text.startswith('event: page\ndata: "')
    assert text.count("\n") == 3
    assert ("default/mine" in text, "default/runs" in text) == (True, False)


@pytest.mark.parametrize("path", ["/jobs/default/done", "/logs/default/done-1/main"])
def test_a_cluster_that_does_not_answer(tmp_path: Path, path: str) -> None:
    answer = client_of(tmp_path, sight()).get(path)

    assert "no answer" in answer.text or "refused" in answer.text
    assert "Traceback" not in answer.text


def test_nothing_is_said_to_be_missing_before_it_was_read(tmp_path: Path) -> None:
    shown = sight(jobs=(), pods=(), nodes=(), queues={}, read=0, complete=False, failed_creations=())

    text = client_of(tmp_path, shown).get("/").text

    assert (text.count("Not known yet"), "Nothing is stuck" in text, "No Job" in text) == (3, False, False)


def test_what_needs_somebody_beyond_the_first_ones(tmp_path: Path) -> None:
    """``batchgate status`` knows sites: it leaves out Jobs in the cloud whose Pods cannot be created."""
    held = tuple(view(pending(f"p-{number}", "stuck", "Held", "by an operator")) for number in range(22))

    text = client_of(tmp_path, sight(pods=held)).get("/").text

    assert "3 more: <code>batchgate status</code> lists all that are on HPC." in text


def test_a_list_that_is_followed_no_longer_is_told(tmp_path: Path) -> None:
    cluster, kept = silent_cluster(tmp_path), Kept(row_of, lambda: None)
    reader = Reader(cluster)
    reader._watches.append(Watch(cluster.api, "/apis/batch/v1/jobs", kept.on_list, kept.on_change))

    assert reader.sight().problem == "what is here is read no longer, by a fault of this page; start it again"


def test_the_stream_of_a_view_that_was_stopped_ends(tmp_path: Path) -> None:
    reader = Reader(silent_cluster(tmp_path))
    reader.stop()

    parts = list(streams._versions(lambda: "x", reader, reader.await_news))

    assert parts == ['event: page\ndata: "x"\n\n']


@dataclass
class Noted:
    """A view of one version, which notes what is asked of it."""

    asked: list[tuple[int, float]] = field(default_factory=list)
    room: streams.Room = field(default_factory=streams.Room)
    refused: bool = False

    def await_news(self, version: int, seconds: float) -> int:
        self.asked.append((version, seconds))
        return 7


def test_a_page_is_made_again_when_there_is_news(monkeypatch: pytest.MonkeyPatch) -> None:
    """At first too: what it shows is of the version that is there."""
    monkeypatch.setattr(streams, "_SLOWEST", 0.0)
    view, resting = Noted(), Noted()

    parts = streams._versions(lambda: str(len(view.asked)), resting, view.await_news)

    assert [next(parts), next(parts)] == ['event: page\ndata: "1"\n\n', 'event: page\ndata: "3"\n\n']
    assert view.asked == [(-1, 0), (7, streams.HEARTBEAT), (7, 0)]


def test_a_stream_that_rests_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "HEARTBEAT", 0.01)
    monkeypatch.setattr(streams, "_SLOWEST", 0.001)

    assert set(streams._rest(Noted(), 0.3)) == {": rests\n\n"}


def test_a_view_that_is_stopped_while_it_opens_follows_no_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its threads would go on with the token of somebody who has left."""
    view = Reader(silent_cluster(tmp_path))

    def readable(_cluster: Cluster, _list: object, _refused: list[object]) -> str:
        view.stop()
        return "/apis/batch/v1/jobs"

    monkeypatch.setattr("router.page.reader._readable", readable)
    view._turn()
    for one in view._watches:
        one.await_end(10)

    assert not any(one.alive for one in view._watches)


def test_a_page_is_tried_again_at_once_after_a_time_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise it would say for minutes that the cluster does not answer: one time-out takes half a minute."""
    monkeypatch.setattr(streams, "_SLOWEST", 0.01)
    rests: list[float] = []

    def rest(_view: object, seconds: float) -> tuple[str, ...]:
        rests.append(seconds)
        return ()

    monkeypatch.setattr(streams, "_rest", rest)

    def render() -> str:
        if rests:
            return "x"
        time.sleep(0.4)
        raise ApiError(0, "Timeout", "no answer", "GET /")

    view = Fixed(sight(), silent_cluster(tmp_path))
    parts = streams._versions(render, view, lambda _version, _seconds: 1)

    assert [next(parts).partition("\n")[0] for _ in range(2)] == ["event: trouble", "event: page"]
    assert rests[0] < 5 * 0.4, "the rest of a page that takes so long to make"


def test_one_viewer_leaves_pages_to_others(tmp_path: Path) -> None:
    """Each page gives its room back, however it ends."""
    ours, theirs = (Fixed(sight(), silent_cluster(tmp_path)) for _ in range(2))
    looks = ours
    app = create_app(lambda: looks, Policies(), lambda one: guard(one, KEY))  # type: ignore[arg-type, return-value]
    client = app.test_client()
    client.set_cookie(KEY.cookie, KEY.secret, domain="localhost")
    paths = ["/", "/decisions", "/nowhere", "/jobs/default/mine", "/jobs/default/mine", "/static/page.css"] * 5

    assert {client.get(path).status_code for path in paths} == {200, 404, 503}  # the cluster does not answer
    rooms = [ours.room.pages.acquire(blocking=False) for _ in range(13)]
    refused = client.get("/")
    asset = client.get("/static/page.css")
    looks = theirs
    other = client.get("/")
    looks = ours
    ours.room.pages.release()

    assert rooms == [True] * 12 + [False]
    assert (refused.status_code, asset.status_code, other.status_code) == (503, 200, 200)
    assert "Load this one again in a moment." in refused.text
    assert client.get("/").status_code == 200


def test_one_viewer_leaves_streams_to_others(tmp_path: Path) -> None:
    ours, theirs = (Fixed(sight(), silent_cluster(tmp_path)) for _ in range(2))
    readers = [*[ours] * (streams.FEW + 1), theirs]
    app = create_app(lambda: readers.pop(0), Policies(), lambda one: guard(one, KEY), streams.MANY)  # type: ignore[arg-type, return-value]
    client = app.test_client()
    client.set_cookie(KEY.cookie, KEY.secret, domain="localhost")

    answers = [client.get("/logs/a/b/c/stream", buffered=False) for _ in range(streams.FEW + 2)]
    assert [one.status_code for one in answers] == [*[200] * streams.FEW, 503, 200]
    for one in answers:
        one.close()
    readers.append(ours)
    again = client.get("/logs/a/b/c/stream", buffered=False)
    again.close()
    assert again.status_code == 200
