"""Many viewers, each with a token of their own: who is let in, and what each sees of a real cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from flask.testing import FlaskClient

from router.cli.cluster import Cluster
from router.controlplane.plane import ControlPlane
from router.kube import credentials, watching
from router.kube.client import Api, connect
from router.kube.credentials import with_tokens
from router.page import reader, viewers
from router.page.app import create_app
from router.page.guard import HEADERS
from router.page.policysource import Policies
from router.page.reader import namespace_of_jobs
from router.page.viewers import COOKIE, PLACE, Viewers, admit, reader_of_request
from tests.agent.whole.waiting import until
from tests.page.apiserver import answering
from tests.page.objects import PODS, judged, silent_cluster

NAMES = frozenset({"page.example"})
OURS = {"Host": "page.example"}
ClusterOf = Callable[[str], Cluster]


def client_of(cluster_of: ClusterOf, header: str = "") -> tuple[FlaskClient, Viewers]:
    found = Viewers(cluster_of)
    app = create_app(reader_of_request, Policies(), lambda one: admit(one, found, NAMES, header))
    app.config["TOKENS_ARE_PASTED"] = not header
    return app.test_client(use_cookies=False), found


@pytest.fixture
def silent(tmp_path: Path) -> ClusterOf:
    cluster = silent_cluster(tmp_path)
    return lambda _token: cluster


@pytest.mark.parametrize(
    ("path", "headers", "cookie", "status", "words"),
    [
        ("/", {"Host": "evil.example"}, "t", 421, "page.example"),
        ("/livez", {"Host": "10.0.0.7:8443"}, "", 200, "ok"),
        ("/", OURS, "", 401, "Paste a token"),
        ("/", OURS, "bad token", 401, "Paste a token"),
        ("/", OURS, "t", 503, "does not answer"),
        ("/stream", OURS, "", 401, "Paste a token"),
        ("/", {**OURS, "X-Token": "t"}, "", 401, "Paste a token"),
    ],
)
def test_who_is_let_in(
    silent: ClusterOf, path: str, headers: dict[str, str], cookie: str, status: int, words: str
) -> None:
    client, _ = client_of(silent)

    answer = client.get(path, headers={**headers, "Cookie": f"{COOKIE}={cookie}"})

    assert (answer.status_code, words in answer.text) == (status, True)
    assert path == "/livez" or {name: answer.headers[name] for name in HEADERS} == HEADERS


@pytest.mark.parametrize(
    ("given", "status", "words"),
    [
        ("", 401, "no token in the header X-Token"),
        ("Bearer a\tb", 401, "no token"),
        ("Bearer t", 503, "does not answer"),
        ("t", 503, "does not answer"),
    ],
)
def test_a_token_by_a_proxys_header(silent: ClusterOf, given: str, status: int, words: str) -> None:
    client, _ = client_of(silent, "X-Token")

    answer = client.get("/", headers={**OURS, "X-Token": given, "Cookie": f"{COOKIE}=other"})

    assert (answer.status_code, words in answer.text) == (status, True)
    assert client.post("/enter", headers=OURS, data={"token": "t"}).status_code == 403


def test_a_pasted_token_is_kept_by_the_browser_alone(silent: ClusterOf) -> None:
    client, found = client_of(silent)

    answer = client.post("/enter", headers=OURS, data={"token": " abc.def "})

    kept = f"{COOKIE}=abc.def; Secure; HttpOnly; Path=/; SameSite=Lax"
    assert (answer.status_code, answer.headers["Set-Cookie"], len(found._readers)) == (303, kept, 0)
    left = client.post("/leave", headers=OURS).headers["Set-Cookie"]
    assert left.startswith(f"{COOKIE}=; Expires=Thu, 01 Jan 1970")
    for token, status in (("a b", 400), ("x" * 5000, 400), ("", 400), ("x" * 100_000, 413)):
        assert client.post("/enter", headers=OURS, data={"token": token}).status_code == status
    foreign = {**OURS, "Sec-Fetch-Site": "cross-site"}
    assert client.post("/leave", headers=foreign).status_code == 403
    assert client.post("/enter", headers=foreign, data={"token": "t"}).status_code == 403


@pytest.mark.parametrize("sender", ["cross-site", "same-site"])
def test_a_form_of_another_page_is_refused_wherever_it_goes(silent: ClusterOf, sender: str) -> None:
    """Browsers send the cookie with a link from another page, so only forms may change anything."""
    client, found = client_of(silent)
    places = {
        str(one): frozenset(one.methods or ()) - {"HEAD", "OPTIONS"} for one in client.application.url_map.iter_rules()
    }
    forms = {"/enter", "/leave", "/namespace"}
    assert {path for path, methods in places.items() if methods != {"GET"}} == forms

    for path in forms:
        headers = {**OURS, "Cookie": f"{COOKIE}=t", "Sec-Fetch-Site": sender}
        answer = client.post(path, headers=headers, data={"token": "other", "namespace": "other"})
        assert (answer.status_code, answer.headers.get("Set-Cookie"), len(found._readers)) == (403, None, 0)


@pytest.mark.parametrize(
    ("namespace", "headers", "status"),
    [
        ("physics", {}, 303),
        ("", {}, 303),
        ("a b", {}, 400),
        ("-x", {}, 400),
        ("physics", {"Sec-Fetch-Site": "cross-site"}, 403),
    ],
)
def test_a_namespace_is_chosen(silent: ClusterOf, namespace: str, headers: dict[str, str], status: int) -> None:
    client, _ = client_of(silent, "X-Token")

    answer = client.post("/namespace", headers={**OURS, **headers, "X-Token": "t"}, data={"namespace": namespace})

    kept = f"{PLACE}={namespace}; Secure; HttpOnly; Path=/; SameSite=Lax"
    assert (answer.status_code, answer.headers.get("Set-Cookie")) == (status, kept if status == 303 else None)


def test_a_kubeconfigs_own_credentials_are_left_unused(tmp_path: Path) -> None:
    silent_cluster(tmp_path)  # whose kubeconfig has the token t

    access = with_tokens(str(tmp_path / "kubeconfig"))

    assert [access(token).authorization() for token in ("a", "b")] == ["Bearer a", "Bearer b"]


@pytest.mark.parametrize(("host", "url"), [("10.0.0.1", "https://10.0.0.1:443"), ("fd00::1", "https://[fd00::1]:443")])
def test_the_cluster_of_a_pod_without_an_account(
    monkeypatch: pytest.MonkeyPatch, plane: ControlPlane, host: str, url: str
) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setattr(credentials, "_POD_CA", plane.ca_file)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")

    found = with_tokens(None)("a")

    assert (found.host, found.authorization()) == (url, "Bearer a")


@pytest.mark.parametrize(
    ("people", "chosen"),
    [
        (["ada", "ben"], None),
        (["ada", "ben", "eve", "eve"], 2),
        (["ada", "eve", "ben", "ada", "eve", "eve"], 1),
        (["ada", "ada"], 0),
    ],
)
def test_whoever_has_most_views_makes_room(people: list[str], chosen: int | None) -> None:
    """One person could name forty namespaces, or make forty accounts, and so keep all others out."""
    assert viewers.giving_way(people) == chosen


@pytest.mark.parametrize(
    ("user", "person"),
    [
        ("ada", "ada"),
        ("oidc:ada", "oidc:ada"),
        ("system:serviceaccount:physics:one", "system:serviceaccount:physics"),
        ("system:serviceaccount:physics:two", "system:serviceaccount:physics"),
    ],
)
def test_a_namespaces_accounts_are_one_person(user: str, person: str) -> None:
    assert viewers.person_of(user) == person


@pytest.fixture
def tokens(plane: ControlPlane, namespace: str) -> Callable[[str], str]:
    """Tokens of accounts of the namespace; ``reads`` may read its Jobs, ``blind`` nothing."""
    made = judged("seen")
    del made["metadata"]["uid"], made["status"], made["metadata"]["creationTimestamp"]
    # A routed Job would need the webhook: its cloud part is enough to be seen.
    made["metadata"]["labels"] = {"batchgate.dev/target": "cloud"}
    made["metadata"]["annotations"] = {"batchgate.dev/rule": "<b>rest</b>", "batchgate.dev/reason": "so"}
    made |= {"apiVersion": "batch/v1", "kind": "Job"}
    made["metadata"]["namespace"] = namespace
    made["spec"]["suspend"] = True
    plane.kubectl("create", "-f", "-", stdin=yaml.safe_dump(made))
    for name in ("reads", "blind"):
        plane.kubectl("create", "serviceaccount", name, "-n", namespace)
    plane.kubectl(
        "create", "role", "reads", "-n", namespace, "--verb=get,list,watch", "--resource=jobs.batch,pods,events"
    )
    plane.kubectl(
        "create", "rolebinding", "reads", "-n", namespace, "--role=reads", f"--serviceaccount={namespace}:reads"
    )
    return lambda name: plane.kubectl("create", "token", name, "-n", namespace).stdout.strip()


def _events(job: dict[str, Any], namespace: str) -> Iterator[dict[str, Any]]:
    """Events by whose fields a real API server selects: of the Job, of a Pod that is gone, of another Job's Pod."""
    for kind, name, uid, words in (
        ("Job", "seen", job["metadata"]["uid"], "of the Job itself"),
        ("Pod", "seen-abcde", "1", "of a former Pod"),
        ("Pod", "other-abcde", "2", "of another one"),
    ):
        about = {"kind": kind, "name": name, "uid": uid, "namespace": namespace}
        yield {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{name}.1", "namespace": namespace},
            "involvedObject": about,
            "reason": "Told",
            "message": words,
            "type": "Normal",
            "lastTimestamp": "2099-01-01T00:00:00Z",
        }


def test_each_sees_what_the_token_lets_them_see(
    plane: ControlPlane, namespace: str, tokens: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    access = with_tokens(str(plane.kubeconfig()))  # an admin's: none of its rights may show

    def cluster_of(token: str, named: bool = True) -> Cluster:
        return Cluster(Api(lambda: access(token)), namespace, named=named, system="batchgate-system")

    client, found = client_of(cluster_of)
    reads, blind = tokens("reads"), tokens("blind")
    # Of a decision log they see as much as of Jobs.
    assert [namespace_of_jobs(cluster_of(one, named=False)) for one in (reads, blind)] == [namespace, None]
    assert namespace_of_jobs(Cluster(connect(str(plane.kubeconfig())), namespace, named=False, system="")) == ""

    def get(path: str, token: str) -> tuple[int, str]:
        answer = client.get(path, headers={**OURS, "Cookie": f"{COOKIE}={token}"})
        return answer.status_code, answer.text

    # The Job is watched; what else there is comes after a look of its own.
    words = (f"{namespace}/seen", "Nodes of queues could not be looked at")
    _, text = until(lambda: get("/", reads), lambda seen: all(one in seen[1] for one in words), what=f"for {words}")
    assert f"system:serviceaccount:{namespace}:reads" in text
    assert ("&lt;b&gt;rest&lt;/b&gt;" in text, "<b>rest" in text) == (True, False)
    assert get(f"/jobs/{namespace}/seen", reads)[0] == 200
    plane.apply(*_events(plane.get("job", "seen", "-n", namespace), namespace))
    path = f"/jobs/{namespace}/seen"
    _, text = until(lambda: get(path, reads), lambda seen: "of the Job itself" in seen[1], what="for the Events")
    assert [word in text for word in ("of the Job itself", "of a former Pod", "of another one")] == [True, True, False]

    _, text = until(lambda: get("/", blind), lambda seen: "jobs of namespace" in seen[1], what="for the refusal")
    assert f"{namespace}/seen" not in text
    status, text = get(f"/jobs/{namespace}/seen", blind)
    assert (status, "forbidden" in text) == (404, True)

    headers = {**OURS, "Cookie": f"{COOKIE}={reads}; {PLACE}=default"}
    elsewhere = until(
        lambda: client.get("/", headers=headers).text,
        lambda text: "jobs of namespace default" in text,
        what="for default",
    )
    assert f"{namespace}/seen" not in elsewhere
    assert 'value="default" placeholder="all"' in elsewhere

    assert get("/", "wrong")[0] == 401
    assert len(found._readers) == 3
    monkeypatch.setattr(viewers, "MOST_VIEWERS", 3)
    plane.kubectl("create", "serviceaccount", "third", "-n", namespace)
    assert (get("/", tokens("third"))[0], len(found._readers)) == (200, 3)  # one namespace's accounts share their room
    found.stop()
    assert len(found._readers) == 0


def test_a_token_that_the_cluster_takes_no_longer(
    plane: ControlPlane, namespace: str, tokens: Callable[[str], str]
) -> None:
    access = with_tokens(str(plane.kubeconfig()))
    client, found = client_of(
        lambda token: Cluster(Api(lambda: access(token)), namespace, named=True, system="batchgate-system")
    )
    headers = {**OURS, "Cookie": f"{COOKIE}={tokens('reads')}"}
    assert client.get("/", headers=headers).status_code == 200

    plane.kubectl("delete", "serviceaccount", "reads", "-n", namespace)

    until(lambda: client.get("/", headers=headers).status_code, lambda status: status == 401, what="for a refusal")
    found.stop()


def test_a_right_that_is_withdrawn(
    plane: ControlPlane, namespace: str, tokens: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The token is still taken, and a watch that is open goes on to its end."""
    monkeypatch.setattr(watching, "WATCH_SECONDS", 2)
    monkeypatch.setattr(reader, "POLL_SECONDS", 0.5)
    monkeypatch.setattr(reader, "RIGHTS_SECONDS", 1.0)
    access = with_tokens(str(plane.kubeconfig()))
    client, found = client_of(
        lambda token: Cluster(Api(lambda: access(token)), namespace, named=True, system="batchgate-system")
    )
    headers = {**OURS, "Cookie": f"{COOKIE}={tokens('reads')}"}
    shown, words = f"{namespace}/seen", "cannot list resource &#34;jobs&#34;"

    def told() -> tuple[bool, bool, bool]:
        text = client.get("/", headers=headers).text
        return shown in text, words in text, "does not answer" in text

    until(told, lambda one: one == (True, False, False), what="for the Job")
    plane.kubectl("delete", "rolebinding", "reads", "-n", namespace)
    until(told, lambda one: one == (False, True, False), what="for the refusal")
    plane.kubectl(
        "create", "rolebinding", "reads", "-n", namespace, "--role=reads", f"--serviceaccount={namespace}:reads"
    )
    until(told, lambda one: one == (True, False, False), what="for the Job again")
    found.stop()


@pytest.mark.parametrize(
    "path", ["/stream", "/decisions/stream", "/jobs/default/runs/stream", "/logs/default/runs-1/main/stream"]
)
def test_whatever_follows_ends_with_the_token(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also a log of which nothing more comes; the browser is told why."""
    monkeypatch.setattr(reader, "POLL_SECONDS", 0.1)
    with answering() as server:
        server.jobs, server.pods = [judged("runs")], [PODS[2]]
        cluster = server.cluster(tmp_path)
        client, found = client_of(lambda _token: cluster)
        headers = {**OURS, "Cookie": f"{COOKIE}=t"}
        answer = client.get(path, headers=headers, buffered=False)
        parts = (part.decode() for part in answer.iter_encoded())
        assert next(parts).startswith("event: ")

        server.refuses = True

        assert [part for part in parts if part.startswith("event: ")][-1] == 'event: refused\ndata: ""\n\n'
        assert (len(found._readers), client.get("/", headers=headers).status_code) == (0, 401)
        answer.close()


@pytest.mark.parametrize("path", ["/stream", "/logs/default/runs-1/main/stream"])
def test_a_token_that_is_forgotten_is_followed_no_longer(path: str, tmp_path: Path) -> None:
    """In any namespace that its viewer has chosen. The views of other tokens stay."""
    with answering() as server:
        server.jobs, server.pods = [judged("runs")], [PODS[2]]
        cluster = server.cluster(tmp_path)
        client, found = client_of(lambda _token: cluster)

        def opened(cookie: str) -> tuple[Any, Iterator[str]]:
            answer = client.get(path, headers={**OURS, "Cookie": cookie}, buffered=False)
            parts = (part.decode() for part in answer.iter_encoded())
            assert next(parts).startswith("event: ")
            return answer, parts

        wide, wide_parts = opened(f"{COOKIE}=t")
        narrow, narrow_parts = opened(f"{COOKIE}=t; {PLACE}=default")
        other, _ = opened(f"{COOKIE}=u")

        client.post("/leave", headers={**OURS, "Cookie": f"{COOKIE}=t"}).close()

        assert len(found._readers) == 1
        for parts in (wide_parts, narrow_parts):
            # A browser that was told that it is refused would load the page at once, maybe with its cookie still.
            assert [part for part in parts if part.startswith("event: refused")] == []
        for answer in (wide, narrow, other):
            answer.close()
        found.stop()


def test_a_form_of_another_page_forgets_no_token(tmp_path: Path) -> None:
    with answering() as server:
        cluster = server.cluster(tmp_path)
        client, found = client_of(lambda _token: cluster)
        cookie = {**OURS, "Cookie": f"{COOKIE}=t"}
        assert client.get("/", headers=cookie).status_code == 200

        answer = client.post("/leave", headers={**cookie, "Sec-Fetch-Site": "cross-site"})

        assert (answer.status_code, len(found._readers)) == (403, 1)
        answer.close()
        found.stop()


def test_who_comes_back_after_a_while_is_asked_for_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is read for a view at which nobody looks, so a token may have ended without notice."""
    monkeypatch.setattr(viewers, "UNWATCHED_SECONDS", 0.0)
    monkeypatch.setattr(reader, "POLL_SECONDS", 1e6)
    with answering() as server:
        cluster = server.cluster(tmp_path)
        client, found = client_of(lambda _token: cluster)
        headers = {**OURS, "Cookie": f"{COOKIE}=t"}
        assert client.get("/", headers=headers).status_code == 200

        server.refuses = True

        assert client.get("/", headers=headers).status_code == 401
        found.stop()


def test_the_view_of_whoever_follows_a_log_is_kept(tmp_path: Path) -> None:
    with answering() as server:
        server.pods = [PODS[2]]
        cluster = server.cluster(tmp_path)
        client, found = client_of(lambda _token: cluster)
        answer = client.get(
            "/logs/default/runs-1/main/stream", headers={**OURS, "Cookie": f"{COOKIE}=t"}, buffered=False
        )
        (view,) = found._readers.values()
        view._looked -= 1e6
        parts = answer.iter_encoded()

        assert [next(parts), next(parts)][-1] == b": nothing yet\n\n"

        assert view.idle_seconds < viewers.IDLE_SECONDS
        answer.close()
        found.stop()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_view_that_a_fault_has_ended_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "POLL_SECONDS", 0.01)
    with answering() as server:
        cluster = server.cluster(tmp_path)
        client, found = client_of(lambda _token: cluster)
        headers = {**OURS, "Cookie": f"{COOKIE}=t"}
        client.get("/", headers=headers)
        (view,) = found._readers.values()
        server.misspeaks = True
        until(lambda: view.broken, bool, what="for the end of its thread")
        server.misspeaks = False

        answer = client.get("/", headers=headers)

        assert (answer.status_code, "fault" in answer.text) == (200, False)
        assert view not in found._readers.values()
        found.stop()


def test_strangers_leave_threads_to_others(tmp_path: Path) -> None:
    """A token that nobody knows waits for the API server. Whoever looks already is not held up by that."""
    with answering() as server:
        cluster = server.cluster(tmp_path)
        client, found = client_of(lambda _token: cluster)
        known, new = ({**OURS, "Cookie": f"{COOKIE}={token}"} for token in ("t", "u"))
        first = client.get("/", headers=known).status_code
        rooms = [found._asking.acquire(blocking=False) for _ in range(16)]

        asked = [(one := client.get("/", headers=who)).status_code for who in (known, new)]

        assert (first, all(rooms), asked, "Many ask at this moment" in one.text) == (200, True, [200, 503], True)
        for _ in rooms:
            found._asking.release()
        assert client.get("/", headers=new).status_code == 200
        found.stop()
