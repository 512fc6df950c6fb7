"""The kubelet API as a client meets it: TLS, who may, what is answered."""

from __future__ import annotations

import contextlib
import errno
import http.client
import json
import os
import socket
import ssl
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID

from router.certs import issuing
from router.certs.issuing import Pair
from router.errors import ApiUnavailable, ConfigError
from router.kubelet import reviews, serve, server
from router.kubelet.figures import NodeUsage, PodUsage, Usage
from router.kubelet.runs import LoggedContainer, RunState
from tests.kubelet.site import NODE, TOKEN, Served, client_pair, client_tls, served, until

OTHER = "long.demo.batchgate"


def test_each_path_has_its_answer(api: Served) -> None:
    api.cluster.rights.add(("prometheus", "create", "proxy", NODE))
    api.site.ended(content=b"one\ntwo\n")
    api.site.figures = NodeUsage(NODE, 0, (PodUsage("ada", "pod", "u", 0, Usage(1, 2.0, 3)),))

    assert api.ask("/healthz") == (200, b"ok")
    assert api.logs() == (200, b"one\ntwo\n")
    status, pods = api.ask("/pods")
    assert (status, json.loads(pods)) == (
        200,
        {
            "kind": "PodList",
            "apiVersion": "v1",
            "metadata": {},
            "items": [{"metadata": {"namespace": "ada", "name": "pod", "uid": "uid-of-ada-pod"}}],
        },
    )
    status, summary = api.ask("/stats/summary?only_cpu_and_memory=true")
    assert (status, json.loads(summary)["pods"][0]["memory"]["workingSetBytes"]) == (200, 3)
    with api.asking("/metrics/resource") as answer:
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert b'pod_cpu_usage_seconds_total{namespace="ada",pod="pod"} 2.0 1000\n' in answer.read()
    assert api.ask("/configz") == (404, b"404 page not found")
    assert api.ask("/pods", method="POST") == (405, b"405: Method Not Allowed")
    status, words = api.ask("/exec/ada/pod/main?command=sh", method="POST")
    assert (status, words[:58]) == (501, b"exec is not possible, as site demo does not allow it")


@pytest.mark.parametrize(
    ("query", "pod", "container", "status", "text"),
    [
        ("", "ada/other", "main", 404, 'pod "other" does not exist'),
        ("", "ada/pod", "other", 404, 'container "other" not found in pod "pod"'),
        ("previous=true", "ada/pod", "main", 400, 'previous terminated container "main" in pod "pod" not found'),
        ("tailLines=-1", "ada/pod", "main", 400, "tailLines: -1 must be greater than or equal to 0"),
        ("", "ada/queued", "main", 400, 'container "main" in pod "queued" is waiting to start: Queued'),
        ("follow=true", "ada/queued", "main", 400, 'container "main" in pod "queued" is waiting to start: Queued'),
    ],
)
def test_what_has_no_logs_is_said(api: Served, query: str, pod: str, container: str, status: int, text: str) -> None:
    api.site.running()
    api.site.add(LoggedContainer("main", RunState.WAITING, None, "Queued"), name="queued")

    assert api.logs(query, pod, container) == (status, text.encode())


def test_each_container_and_run_has_its_log(api: Served) -> None:
    pod = api.site.add(
        LoggedContainer("init", RunState.TERMINATED, 0),
        LoggedContainer("side", RunState.RUNNING, 2),
        LoggedContainer("main", RunState.WAITING, 1, "CrashLoopBackOff"),
    )
    for container, run in [("init", 0), ("side", 1), ("side", 2), ("main", 0), ("main", 1)]:
        api.site.append(pod, f"{container} {run}\n".encode(), run, container)

    assert api.logs(container="init") == (200, b"init 0\n")
    assert api.logs(container="side") == (200, b"side 2\n")
    assert api.logs("previous=true", container="side") == (200, b"side 1\n")
    assert api.logs(container="main") == (200, b"main 1\n")
    assert api.logs("previous=true", container="main") == (200, b"main 1\n")


@pytest.fixture
def others_ca() -> Pair:
    return issuing.make_ca(datetime.now(UTC))


def ca_of(api: Served) -> Pair:
    """A CA that the cluster publishes as that of its clients."""
    ca = issuing.make_ca(datetime.now(UTC))
    api.cluster.client_ca = ca.public
    api.kubelet._ca_read = float("-inf")
    api.kubelet._keep()
    return ca


def test_a_client_certificate_opens_what_its_user_may(api: Served, tmp_path: Path) -> None:
    tls = client_tls(tmp_path, client_pair(ca_of(api), "kube-apiserver"))

    assert api.ask("/healthz", tls=tls, token=None) == (200, b"ok")


def test_a_certificate_of_the_clusters_ca_alone_opens_nothing(api: Served, tmp_path: Path) -> None:
    tls = client_tls(tmp_path, client_pair(ca_of(api), "system:node:worker-1"))
    api.site.ended(content=b"secret")

    for path in ("/containerLogs/ada/pod/main", "/containerLogs/ada/none/main", "/pods", "/healthz", "/exec/a/b/c"):
        status, text = api.ask(path, tls=tls, token=None)
        assert (status, text[:37]) == (403, b"Forbidden (user=system:node:worker-1,")
    assert api.ask("/healthz", tls=tls)[0] == 403  # also with a token that may


@pytest.mark.parametrize("kind", ["another CA's", "expired", "for servers"])
def test_a_certificate_that_does_not_verify_ends_the_handshake(
    api: Served, tmp_path: Path, kind: str, others_ca: Pair
) -> None:
    ca = ca_of(api)
    pair = {
        "another CA's": lambda: client_pair(others_ca, "kube-apiserver"),
        "expired": lambda: client_pair(ca, "kube-apiserver", days=-0.001),
        "for servers": lambda: client_pair(ca, "kube-apiserver", usage=ExtendedKeyUsageOID.SERVER_AUTH),
    }[kind]()

    with pytest.raises((ssl.SSLError, ConnectionError, http.client.RemoteDisconnected)):
        api.ask("/healthz", tls=client_tls(tmp_path, pair))
    assert api.ask("/healthz") == (200, b"ok")


def test_nobody_gets_to_know_what_is_there(api: Served) -> None:
    api.site.running()

    for path in ("/containerLogs/ada/pod/main", "/containerLogs/ada/none/main", "/pods", "/nothing", "/exec/a/b/c"):
        assert api.ask(path, token=None) == (401, b"Unauthorized")
        assert api.ask(path, token="guessed") == (401, b"Unauthorized")


def test_without_an_answer_of_the_api_server_nothing_is_open(api: Served) -> None:
    api.cluster.down()

    assert api.ask("/healthz") == (503, b"who you are cannot be found out now: the API server does not answer")


def test_each_node_has_its_own_port_and_rights(api: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reviews, "NO_SECONDS", 0.5)
    api.site.ended("mine", b"mine\n")
    api.site.add(LoggedContainer("main", RunState.TERMINATED, 0), name="theirs", node=OTHER)
    api.site.append(api.site.known["ada", "theirs"], b"theirs\n")

    assert api.logs(pod="ada/theirs") == (404, b'pod "theirs" does not exist')
    api.port = api.kubelet.listen("127.0.0.1", 0, OTHER)
    assert api.logs(pod="ada/theirs")[0] == 403
    api.cluster.rights.add(("prometheus", "get", "proxy", OTHER))
    until(lambda: api.logs(pod="ada/theirs") == (200, b"theirs\n"))  # a no is remembered for a while
    assert [pod["metadata"]["name"] for pod in json.loads(api.ask("/pods")[1])["items"]] == ["theirs"]


def test_a_port_for_all_nodes_asks_for_the_pods_node_or_all_nodes(api: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reviews, "NO_SECONDS", 0.5)
    api.site.ended(content=b"mine\n")
    api.site.add(LoggedContainer("main", RunState.TERMINATED, 0), name="theirs", node=OTHER)
    api.port = api.kubelet.listen("127.0.0.1", 0)

    assert api.logs() == (200, b"mine\n")
    assert api.logs(pod="ada/theirs")[0] == 403
    assert api.logs(pod="ada/none")[0] == 403
    assert api.ask("/pods")[0] == 403
    api.cluster.rights.add(("prometheus", "get", "proxy", ""))
    until(lambda: api.logs(pod="ada/none")[0] == 404)
    until(lambda: api.ask("/pods")[0] == 200)


def test_a_port_is_listened_to_until_it_is_given_up(api: Served) -> None:
    with pytest.raises(ConfigError, match=rf"cannot listen on 127.0.0.1:{api.port}: address already in use"):
        api.kubelet.listen("127.0.0.1", api.port, OTHER)
    with pytest.raises(ConfigError, match=f"listens for node {NODE} already"):
        api.kubelet.listen("127.0.0.1", 0, NODE)

    pod = api.site.running(content=b"early\n")
    with api.asking("/containerLogs/ada/pod/main?follow=true") as answer:
        assert answer.readline() == b"early\n"
        api.kubelet.unlisten(NODE)
        with pytest.raises(ConnectionRefusedError):
            api.connect()
        api.site.append(pod, b"late\n")
        assert answer.readline() == b"late\n"
    assert api.kubelet.listen("127.0.0.1", api.port, NODE) == api.port


def test_old_tls_is_refused(api: Served) -> None:
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname = False
    old.verify_mode = ssl.CERT_NONE
    old.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        old.maximum_version = ssl.TLSVersion.TLSv1_1

    with pytest.raises(ssl.SSLError):
        api.connect(old)


def test_a_session_is_not_resumed(api: Served) -> None:
    """A resumed one would bring the client's certificate along, seen as it was then."""
    api.tls.maximum_version = ssl.TLSVersion.TLSv1_2
    first = api.connect()
    session = first.sock.session
    first.close()

    with socket.create_connection(("127.0.0.1", api.port)) as plain:
        again = api.tls.wrap_socket(plain, session=session)
        assert not again.session_reused
        again.close()


def serving_certificate(api: Served) -> bytes:
    connection = api.connect()
    certificate = connection.sock.getpeercert(binary_form=True)
    connection.close()
    assert certificate
    return bytes(certificate)


def test_the_clusters_certificate_takes_the_place_of_our_own(tmp_path: Path) -> None:
    ca = issuing.make_ca(datetime.now(UTC))
    with served(tmp_path, self_signed=False, upkeep_seconds=0.05) as api:
        name = until(lambda: api.kubelet.waiting_for)
        own = serving_certificate(api)
        pod = api.site.running(content=b"early\n")
        with api.asking("/containerLogs/ada/pod/main?follow=true") as answer:
            assert answer.readline() == b"early\n"
            api.cluster.sign(ca, name)
            until(lambda: serving_certificate(api) != own)
            api.site.append(pod, b"late\n")
            assert answer.readline() == b"late\n"
        assert api.kubelet.waiting_for == ""

        (tmp_path / "ca.crt").write_bytes(ca.public)
        verifying = ssl.create_default_context(cafile=tmp_path / "ca.crt")
        assert api.ask("/healthz", tls=verifying) == (200, b"ok")


def test_clients_ca_is_looked_at_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, others_ca: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(serve, "CA_SECONDS", 0)
    with served(tmp_path, upkeep_seconds=0.05) as api:
        tls = client_tls(tmp_path, client_pair(others_ca, "kube-apiserver"))
        api.cluster.client_ca = others_ca.public

        def opens() -> bool:
            try:
                return api.ask("/healthz", tls=tls, token=None)[0] == 200
            except (ssl.SSLError, ConnectionError, http.client.RemoteDisconnected):
                return False

        until(opens)
        api.cluster.client_ca = b"no certificate"
        until(lambda: "no certificate in PEM form" in caplog.text)
        assert opens()
        api.cluster.client_ca = None
        until(lambda: not opens())
        assert api.ask("/healthz") == (200, b"ok")


def test_an_api_server_that_is_down_at_the_start_is_waited_for(tmp_path: Path) -> None:
    with served(tmp_path, self_signed=False, upkeep_seconds=0.05, trouble=ApiUnavailable(0, "", "", "")) as api:
        assert api.ask("/healthz")[0] == 503
        api.cluster.trouble = None
        until(lambda: api.kubelet.waiting_for)
        assert api.ask("/healthz") == (200, b"ok")


def test_the_end_cuts_streams_and_leaves_nothing(tmp_path: Path) -> None:
    with served(tmp_path) as api:
        api.site.running(content=b"early\n")
        idle = api.connect()
        half = socket.create_connection(("127.0.0.1", api.port))
        with api.asking("/containerLogs/ada/pod/main?follow=true") as answer:
            assert answer.readline() == b"early\n"
            api.kubelet.stop()
            with pytest.raises((http.client.IncompleteRead, ConnectionError)):
                answer.read()
        with pytest.raises(ConnectionRefusedError):
            api.connect()
        idle.close()
        half.close()

    until(lambda: not [thread for thread in threading.enumerate() if thread.name.startswith("kubelet")])


def raw(api: Served, data: bytes) -> bytes:
    """What comes back for these bytes."""
    with socket.create_connection(("127.0.0.1", api.port), timeout=60) as plain, api.tls.wrap_socket(plain) as tls:
        tls.sendall(data)
        got = b""
        with contextlib.suppress(ConnectionResetError):  # by a server that has answered and reads no more
            while more := tls.recv(4096):
                got += more
        return got


@pytest.mark.parametrize(
    "data",
    [
        b"no HTTP at all\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + b"a" * 20_000 + b"\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + b"".join(b"X-%d: 1\r\n" % n for n in range(100)) + b"\r\n",
    ],
)
def test_what_is_no_proper_request_is_refused_and_no_line_in_the_log(
    api: Served, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    assert raw(api, data).startswith(b"HTTP/1.1 400 ") or raw(api, data).startswith(b"HTTP/1.0 400 ")
    assert caplog.text == ""
    assert api.ask("/healthz") == (200, b"ok")


def test_a_connection_serves_one_request(api: Served) -> None:
    head = f"GET /healthz HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()

    answer = raw(api, head + head)

    assert answer.count(b"HTTP/1.1 200 OK") == 1
    assert b"\r\nConnection: close\r\n" in answer


def test_who_only_connects_stops_nobody_and_is_sent_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HANDSHAKE_SECONDS", 10)
    monkeypatch.setattr(server, "HEAD_SECONDS", 10)
    with served(tmp_path) as api:
        silent = [socket.create_connection(("127.0.0.1", api.port), timeout=60) for _ in range(50)]
        shaken = [api.connect() for _ in range(20)]
        begun = []
        for _ in range(20):
            begun.append(api.connect())
            begun[-1].sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: ")

        assert api.ask("/healthz") == (200, b"ok")

        for plain in silent:
            assert plain.recv(1) == b""
            plain.close()
        for connection in shaken + begun:
            assert connection.sock.recv(1) == b""
            connection.close()


FOLLOW = "/containerLogs/ada/pod/main?follow=true"
HALF_A_REQUEST = b"GET /healthz HTTP/1.1\r\nHost: "


@pytest.mark.parametrize("sources", [1, 50])
@pytest.mark.parametrize("kind", ["silent", "shaken", "half a request"])
def test_a_flood_of_strangers_starves_nobody(tmp_path: Path, kind: str, sources: int) -> None:
    """Whatever a client without a known caller does, it has its place until another client needs it."""
    with served(tmp_path, connections=20) as api, contextlib.ExitStack() as stack:
        pod = api.site.running(content=b"early\n")
        follower = stack.enter_context(api.asking(FOLLOW))
        early = follower.readline()
        answers = []
        for number in range(60):
            to, source = ("127.0.0.1", api.port), (f"127.0.1.{number % sources + 1}", 0)
            client = stack.enter_context(socket.create_connection(to, 60, source_address=source))
            if kind != "silent":
                client = stack.enter_context(api.tls.wrap_socket(client))
            if kind == "half a request":
                client.sendall(HALF_A_REQUEST)
            if number % 10 == 9:
                answers.append(api.ask("/healthz"))
        api.site.append(pod, b"late\n")

        assert answers == [(200, b"ok")] * 6
        assert (early, follower.readline()) == (b"early\n", b"late\n")


def test_known_callers_connections_are_bounded(tmp_path: Path) -> None:
    with served(tmp_path, connections=5) as api, contextlib.ExitStack() as stack:
        pod = api.site.running(content=b"early\n")
        followers = [stack.enter_context(api.asking(FOLLOW)) for _ in range(5)]
        with pytest.raises((ConnectionError, ssl.SSLError)):
            api.connect()
        api.site.end(pod)

        assert {follower.read() for follower in followers} == {b"early\n"}

        def answers() -> bool:
            try:
                return api.ask("/healthz") == (200, b"ok")
            except (ConnectionError, ssl.SSLError):
                return False

        until(answers)


def test_a_mistake_of_ours_is_a_500_without_its_traceback(
    api: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(node: str) -> NodeUsage:
        raise KeyError("something")

    monkeypatch.setattr(api.site, "usage", broken)

    status, text = api.ask("/stats/summary")

    assert status == 500
    assert b"Traceback" not in text
    assert b"something" not in text
    assert "KeyError: 'something'" in caplog.text
    assert api.ask("/healthz") == (200, b"ok")


def test_what_cannot_be_written_just_now_is_tried_again(api: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that renews the certificate must not end: nobody would see it for weeks."""

    def full() -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(api.kubelet, "_keep_certificate", full)
    api.kubelet._keep()
    monkeypatch.undo()

    ca = ca_of(api)
    assert api.kubelet._client_ca == ca.public
    assert api.kubelet.alive
