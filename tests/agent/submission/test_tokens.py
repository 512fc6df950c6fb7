"""Tokens are asked for by the Pod's own account and bound to the Pod, and renewed before they end."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from router import names
from router.agent.files.wiping import wipe
from router.agent.pods.renewing import Renewing
from router.agent.records import Record, Records
from router.agent.submission import tokens
from router.agent.submission.secrets import NotAllowed
from router.agent.submission.submitting import Submitter, Withdrawn
from router.agent.submission.tokens import Given
from router.errors import ApiError, ApiUnavailable, TooLarge
from router.host.local import LocalHost
from router.kube.client import Api
from router.pod.accounttoken import Wanted
from router.pod.files import Staged
from router.pod.layout import PodDirectory
from router.reconcile import outcomes
from tests.agent.test_records import pod

POD = {"metadata": {"namespace": "lab", "name": "p", "uid": "u"}, "spec": {"serviceAccountName": "robot"}}
VAULT = Wanted("v/t", "vault", 900)


class Server:
    """The API server's answer to requests for tokens."""

    def __init__(self, error: ApiError | None = None) -> None:
        self.asked: list[tuple[str, Any]] = []
        self.error = error

    def create(self, path: str, body: Any) -> Any:
        self.asked.append((path, body["spec"]))
        if self.error:
            raise self.error
        return {"status": {"token": f"token-{len(self.asked)}", "expirationTimestamp": "2030-01-01T00:00:00Z"}}


def test_a_token_is_bound_to_its_pod() -> None:
    server = Server()

    given = tokens.request(cast("Api", server), POD, [VAULT, Wanted("w/t", "", 3607)])

    bound = {"kind": "Pod", "apiVersion": "v1", "name": "p", "uid": "u"}
    path = "/api/v1/namespaces/lab/serviceaccounts/robot/token"
    assert server.asked == [
        (path, {"audiences": ["vault"], "expirationSeconds": 900, "boundObjectRef": bound}),
        (path, {"audiences": [], "expirationSeconds": 3607, "boundObjectRef": bound}),
    ]
    assert given == Given({"v/t": "token-1", "w/t": "token-2"}, 1893456000.0)
    assert "token-1" not in repr(given)
    with pytest.raises(TooLarge, match="need 21 service account tokens; at most 20"):
        tokens.request(cast("Api", server), POD, [VAULT] * 21)


def test_a_right_that_lacks_is_told_with_what_gives_it() -> None:
    server = Server(ApiError(403, "Forbidden", "no", "POST"))

    with pytest.raises(NotAllowed) as error:
        tokens.request(cast("Api", server), POD, [VAULT])
    assert str(error.value) == (
        "the agent may not create a token of service account robot: an admin of namespace lab allows it with `kubectl -n "
        f"lab create rolebinding batchgate-agent-tokens --clusterrole {names.TOKENS_ROLE} --serviceaccount "
        "batchgate-system:batchgate-agent`"
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [(Given({}), None), (Given({}, 1000.0), 820.0), (Given({}, 10_000_000.0), 86500.0)],
)
def test_when_tokens_are_renewed(given: Given, expected: float | None) -> None:
    assert given.renewal(100.0) == expected


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        (None, {}),
        ("https://k.example.org:6443", ("k.example.org", "6443")),
        ("https://k.example.org", ("k.example.org", "443")),
        ("https://[2001:db8::1]:6443", ("2001:db8::1", "6443")),
    ],
)
def test_where_programs_find_the_api_server(server: str | None, expected: Any) -> None:
    names_ = ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "KUBERNETES_SERVICE_PORT_HTTPS")
    found = tokens.service_variables(server)
    assert found == (dict(zip(names_, (*expected, expected[1]), strict=True)) if expected else {})


class Renewal:
    """One Pod whose files are on a site, a clock, and what a submitter answers."""

    def __init__(self, tmp_path: Path) -> None:
        self.root = str(tmp_path / "site")
        self.host = LocalHost(self.root)
        self.records = Records(lambda view: PodDirectory(self.root, view.job_uid, view.index, view.uid))
        self.now = 1000.0
        self.asked = 0
        self.renewals: dict[str, float] = {}
        self.error: Exception | None = None
        self.ends = self.wipes = False
        self.record: Record = self.records.add(outcomes.first(pod("u")))
        self.record.change(lambda facts: outcomes.submitted(facts, "1.vm"))
        self.host.write_pod(self.record.directory.path, Staged({"files/v/t": b"old", "credentials": b""}))
        self.renewing = Renewing(
            self.host, self.records, cast("Submitter", self), ready=lambda: True, clock=lambda: self.now
        )

    def tokens(self, _: object) -> Given:
        self.asked += 1
        if self.error:
            raise self.error
        self.record.over = self.ends
        if self.wipes:
            wipe(self.host, self.record.directory)
        return Given({"v/t": f"new {self.asked}"}, self.now + 100)

    def token(self) -> bytes:
        return self.host.read(self.record.directory.path / "files" / "v" / "t")

    def after(self, seconds: float) -> tuple[int, bytes]:
        self.now += seconds
        self.renewing.look()
        return self.asked, self.token()


@pytest.fixture
def renewal(tmp_path: Path) -> Renewal:
    return Renewal(tmp_path)


def test_tokens_are_renewed_at_once_by_a_new_agent_and_then_in_time(renewal: Renewal) -> None:
    assert [renewal.after(seconds) for seconds in (0, 70, 10)] == [(1, b"new 1"), (1, b"new 1"), (2, b"new 2")]


def test_tokens_that_were_just_staged_are_left_alone(renewal: Renewal) -> None:
    renewal.renewals["u"] = 1050.0

    assert [renewal.after(seconds) for seconds in (0, 50)] == [(0, b"old"), (1, b"new 1")]


@pytest.mark.parametrize(("error", "asked"), [(ApiUnavailable(503, "", "", ""), 2), (Withdrawn("gone"), 1)])
def test_what_fails_is_tried_again_unless_the_pod_is_gone(renewal: Renewal, error: Exception, asked: int) -> None:
    renewal.error = error

    assert [renewal.after(seconds) for seconds in (0, 59, 1)] == [(1, b"old"), (1, b"old"), (asked, b"old")]


def test_a_pod_that_ends_meanwhile_keeps_no_token(renewal: Renewal) -> None:
    renewal.host.remove_tree(renewal.record.directory.path / "files")
    renewal.ends = True

    renewal.renewing.look()

    assert renewal.asked == 1
    assert sorted(renewal.host.names(renewal.record.directory.path)) == ["exit", "log"]


def test_a_script_that_wipes_meanwhile_leaves_no_token(renewal: Renewal) -> None:
    """The notes of its end come later."""
    renewal.wipes = True

    renewal.renewing.look()

    assert renewal.asked == 1
    assert sorted(renewal.host.names(renewal.record.directory.path)) == ["exit", "log"]


def test_a_pod_without_credentials_is_not_asked_about(renewal: Renewal) -> None:
    renewal.host.remove(renewal.record.directory.path / "credentials")

    assert renewal.after(0) == (0, b"old")
