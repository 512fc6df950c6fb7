"""Who is answered reviews: the rule as a table, then real gunicorn with real certificates."""

from __future__ import annotations

import http.client
import json
import ssl
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from werkzeug.exceptions import HTTPException

from router.certs import issuing
from router.certs.files import write_all
from router.controlplane.credentials import Identity, make_client
from router.webhook.clients import Clients, common_name
from tests.gates import review_of
from tests.webhook.servers import ROOT, Pki, Server, exchange, serving, until

SERVER = "kube-apiserver-kubelet-client"


def certificate(*names: str) -> dict[str, object]:
    """As ``getpeercert`` gives it."""
    return {"subject": ((("organizationName", SERVER),), *((("commonName", name),) for name in names))}


@pytest.mark.parametrize(
    ("names", "shown", "code"),
    [
        ((), None, 401),
        ((), {}, 401),
        ((SERVER,), None, 401),
        ((), certificate("ben"), None),
        ((SERVER,), certificate(SERVER), None),
        (("other", SERVER), certificate(SERVER), None),
        ((SERVER,), certificate("ben"), 403),
        ((SERVER,), certificate(SERVER, "ben"), 403),  # the last one counts, as it does for the API server
        ((SERVER,), certificate(), 403),
        ((SERVER,), certificate(SERVER.upper()), 403),
    ],
)
def test_who_may_ask(names: tuple[str, ...], shown: dict[str, object] | None, code: int | None) -> None:
    found = None
    try:
        Clients(frozenset(names)).demand(shown)
    except HTTPException as error:
        found = error.code

    assert found == code


@given(st.lists(st.text()))
def test_nobody_asks_under_another_name(given_names: list[str]) -> None:
    assert (common_name(certificate(*given_names)) == SERVER) == (given_names[-1:] == [SERVER])


@pytest.fixture
def argv(pki: Pki) -> list[str]:
    words = ["router", "webhook", "--listen", "127.0.0.1:0", "--host-name", "localhost", "--cert", str(pki.certificate)]
    return [*words, "--key", str(pki.key), "--policy", str(ROOT / "examples" / "policies")]


def as_client(server: Server, directory: Path, ca: issuing.Pair, name: str) -> ssl.SSLContext:
    """A TLS context that shows a certificate of this name."""
    pair = make_client(ca, Identity(name), datetime.now(UTC))
    write_all(directory, {"client.crt": pair.public, "client.key": pair.private})
    context = ssl.create_default_context(cafile=str(directory / "certs" / "ca.crt"))
    context.load_cert_chain(directory / "client.crt", directory / "client.key")
    return context


def review(server: Server, context: ssl.SSLContext) -> tuple[int, str]:
    """The code, and the sentence where it is refused."""
    with closing(http.client.HTTPSConnection("localhost", server.port, context=context, timeout=30)) as connection:
        code, _, body = exchange(connection, "POST", "/mutate", json.dumps(review_of({})).encode())
    return code, json.loads(body).get("error", "")


def test_only_the_named_client_of_the_ca_is_answered_reviews(argv: list[str], pki: Pki, tmp_path: Path) -> None:
    ours, other = issuing.make_ca(datetime.now(UTC)), issuing.make_ca(datetime.now(UTC))
    write_all(tmp_path, {"clients.crt": ours.public})
    argv += ["--client-ca", str(tmp_path / "clients.crt"), "--client-name", SERVER]
    with serving(argv, pki, tmp_path / "log") as server:
        assert review(server, as_client(server, tmp_path, ours, SERVER)) == (200, "")
        assert review(server, server.tls) == (
            401,
            "reviews are answered to clients with a certificate of --client-ca only; see docs/operating.md",
        )
        assert review(server, as_client(server, tmp_path, ours, "ben")) == (
            403,
            "the certificate of 'ben' is none of --client-name; reviews are the API server's to ask",
        )
        with pytest.raises(OSError, match=r"(?i)unknown ca|reset|eof|broken pipe"):
            review(server, as_client(server, tmp_path, other, SERVER))
        assert [server.ask("GET", path)[0] for path in ("/livez", "/readyz", "/metrics")] == [200, 200, 200]
        counted = server.metrics()
        assert [counted[f'batchgate_refused_requests_total{{code="{code}"}}'] for code in (401, 403)] == [1, 1]
        assert [line["client"] for line in server.logged("refused a client")] == ["127.0.0.1"] * 2


def test_another_ca_of_clients_is_taken_up_and_who_came_by_the_old_one_has_to_leave(
    argv: list[str], pki: Pki, tmp_path: Path
) -> None:
    old, new = issuing.make_ca(datetime.now(UTC)), issuing.make_ca(datetime.now(UTC))
    write_all(tmp_path, {"clients.crt": old.public})
    argv += ["--client-ca", str(tmp_path / "clients.crt")]
    with serving(argv, pki, tmp_path / "log") as server:
        before = as_client(server, tmp_path, old, SERVER)
        body = json.dumps(review_of({})).encode()
        with closing(http.client.HTTPSConnection("localhost", server.port, context=before, timeout=30)) as kept:
            assert exchange(kept, "POST", "/mutate", body)[1].get("connection") != "close"

            write_all(tmp_path, {"clients.crt": old.public + new.public})
            after = as_client(server, tmp_path, new, SERVER)
            until(lambda: _answered(server, after))
            assert exchange(kept, "POST", "/mutate", body)[1]["connection"] == "close"

        write_all(tmp_path, {"clients.crt": new.public})
        until(lambda: not _answered(server, before))
        assert _answered(server, after)

        write_all(tmp_path, {"clients.crt": pki.certificate.read_bytes()})
        until(lambda: "which is no CA's" in server.ask("GET", "/readyz")[2].decode())
        assert _answered(server, after)


def _answered(server: Server, context: ssl.SSLContext) -> bool:
    try:
        return review(server, context)[0] == 200
    except OSError:
        return False


def test_metrics_on_a_port_of_their_own(argv: list[str], pki: Pki, tmp_path: Path) -> None:
    with serving([*argv, "--metrics-listen", "127.0.0.1:0"], pki, tmp_path / "log") as server:
        (line,) = server.logged("listening")
        port = int(line["metrics"].rpartition(":")[2])
        asked = [("POST", "/mutate"), ("GET", "/metrics"), ("GET", "/livez"), ("GET", "/readyz")]
        body = json.dumps(review_of({})).encode()
        found = {}
        for where in (server.port, port):
            for method, path in asked:
                with closing(http.client.HTTPSConnection("localhost", where, context=server.tls, timeout=30)) as one:
                    found[where, path] = exchange(one, method, path, body if method == "POST" else None)[0]

    assert [found[server.port, path] for _, path in asked] == [200, 404, 200, 200]
    assert [found[port, path] for _, path in asked] == [404, 200, 200, 200]
