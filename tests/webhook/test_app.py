"""What is answered to whom, over real TLS."""

from __future__ import annotations

import json
import socket
import ssl
from contextlib import closing
from datetime import datetime

import pytest

from tests.webhook.servers import Server, exchange

GOOD = b'{"uid": "1"}'


def test_a_review_is_answered(shared_server: Server) -> None:
    status, headers, body = shared_server.ask("POST", "/mutate", GOOD)

    assert (status, headers["content-type"], json.loads(body)) == (200, "application/json", {"response": {"uid": "1"}})


@pytest.mark.parametrize(
    ("body", "content_type", "status", "sentence"),
    [
        (b"not JSON", "application/json", 400, "the body is not JSON: Expecting value at line 1 column 1"),
        (b"", "application/json", 400, "the body is not JSON: Expecting value at line 1 column 1"),
        (b'{"uid": "\xff"}', "application/json", 400, "the body is not UTF-8: byte 9 is no part of it"),
        ('{"uid": "1"}'.encode("utf-16"), "application/json", 400, "the body is not UTF-8: byte 0 is no part of it"),
        (b'{"uid": NaN}', "application/json", 400, "the body is not JSON: NaN is no number there"),
        (b'{"uid": -Infinity}', "application/json", 400, "the body is not JSON: -Infinity is no number there"),
        (b"[" * 200_000, "application/json", 400, "the body is nested too deep to be a review"),
        (b"[]", "application/json", 400, "request.uid is missing"),
        (GOOD, "text/plain", 415, "content type 'text/plain'; reviews are application/json"),
        (GOOD, "", 415, "content type '(none)'; reviews are application/json"),
        (
            b'{"uid": "' + b"x" * (10 * 1024 * 1024) + b'"}',
            "application/json",
            413,
            "the body is larger than 7340032 bytes, the most that is read of a review",
        ),
    ],
    ids=["rubbish", "empty", "utf-8", "utf-16", "nan", "infinity", "deep", "list", "text", "no-type", "10MB"],
)
def test_what_is_no_review_is_one_sentence(
    shared_server: Server, body: bytes, content_type: str, status: int, sentence: str
) -> None:
    got, headers, answer = shared_server.ask("POST", "/mutate", body, content_type)

    assert (got, json.loads(answer), answer.count(b"\n")) == (status, {"error": sentence}, 1)
    assert headers["content-type"] == "application/json"


def test_a_number_that_python_refuses_is_no_bug(shared_server: Server) -> None:
    status, _, answer = shared_server.ask("POST", "/mutate", b'{"uid": ' + b"9" * 5000 + b"}")

    assert status == 400
    assert "the body is not JSON that we read" in json.loads(answer)["error"]


def test_a_content_type_may_name_its_character_set(shared_server: Server) -> None:
    assert shared_server.ask("POST", "/mutate", GOOD, "application/json; charset=utf-8")[0] == 200


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_mutate_takes_post_only(shared_server: Server, method: str) -> None:
    status, headers, _ = shared_server.ask(method, "/mutate")

    assert (status, headers["allow"]) == (405, "POST")


def test_other_paths_are_not_there(shared_server: Server) -> None:
    status, _, answer = shared_server.ask("GET", "/nothing")

    assert (status, json.loads(answer)) == (404, {"error": "no such path; reviews go to POST /mutate"})


def test_a_chunked_body_is_a_body(shared_server: Server) -> None:
    with closing(shared_server.connect()) as connection:
        connection.request(
            "POST",
            "/mutate",
            iter([b'{"uid"', b': "chunked"}']),
            {"Content-Type": "application/json"},
            encode_chunked=True,
        )
        response = connection.getresponse()

        assert (response.status, json.loads(response.read())) == (200, {"response": {"uid": "chunked"}})


def test_a_chunked_body_is_bounded_too(shared_server: Server) -> None:
    with closing(shared_server.connect()) as connection:
        chunks = iter([b"[" + b"1," * 500_000] * 9)
        try:
            connection.request("POST", "/mutate", chunks, {"Content-Type": "application/json"}, encode_chunked=True)
        except (BrokenPipeError, ConnectionResetError, ssl.SSLError):
            return  # the answer went out before all was sent, and the connection ended

        assert connection.getresponse().status == 413


def test_a_body_of_exactly_the_limit_is_read(shared_server: Server) -> None:
    limit = 7 * 1024 * 1024
    head, tail = b'{"uid": "', b'"}'

    fits = shared_server.ask("POST", "/mutate", head + b"x" * (limit - len(head) - len(tail)) + tail)
    too_large = shared_server.ask("POST", "/mutate", head + b"x" * (limit - len(head) - len(tail) + 1) + tail)

    assert (fits[0], too_large[0]) == (200, 413)


def test_a_broken_chunk_is_no_bug_of_ours(shared_server: Server) -> None:
    with closing(shared_server.connect()) as connection:
        connection.putrequest("POST", "/mutate")
        connection.putheader("Content-Type", "application/json")
        connection.putheader("Transfer-Encoding", "chunked")
        connection.endheaders(b"zz\r\nrubbish\r\n")

        response = connection.getresponse()
        assert (response.status, b"the body broke off" in response.read()) == (400, True)


def test_no_content_length_is_an_empty_body(shared_server: Server) -> None:
    with closing(shared_server.connect()) as connection:
        connection.putrequest("POST", "/mutate")
        connection.putheader("Content-Type", "application/json")
        connection.endheaders()

        assert connection.getresponse().status == 400


def test_a_connection_is_kept(shared_server: Server) -> None:
    with closing(shared_server.connect()) as connection:
        before = connection.sock
        answers = [exchange(connection, "POST", "/mutate", GOOD) for _ in range(5)]
        answers.append(exchange(connection, "POST", "/mutate", b"rubbish"))
        answers.append(exchange(connection, "GET", "/livez"))

        assert [status for status, _, _ in answers] == [200] * 5 + [400, 200]
        assert connection.sock is before


def test_a_bug_of_ours_is_500_and_tells_nothing(shared_server: Server) -> None:
    status, answer = shared_server.review(uid="bug-1", bug="secret-inside")

    number = answer["error"].rpartition("bug=")[2]
    lines = [line for line in shared_server.logged("a bug in Batchgate") if line["bug"] == number]
    assert status == 500
    assert "secret-inside" not in answer["error"]
    assert len(lines) == 1
    assert "KeyError: 'secret-inside'" in lines[0]["traceback"]


def test_a_decision_is_one_line(shared_server: Server) -> None:
    shared_server.review(uid="line-1", user="ada\nlovelace", dry_run=True)

    (line,) = [line for line in shared_server.logged("decision") if line["uid"] == "line-1"]
    assert line.pop("time").endswith("Z")
    assert 0 < line.pop("ms") < 10_000
    assert line == {
        "level": "info",
        "message": "decision",
        "uid": "line-1",
        "user": "ada\nlovelace",
        "target": "hpc",
        "rule": "one",
        "dry_run": True,
        "audited": [],
    }


def test_metrics_count_what_happened(shared_server: Server) -> None:
    dry = 'batchgate_decisions_total{dry_run="true",rule="one",target="hpc"}'
    wet = 'batchgate_decisions_total{dry_run="false",rule="one",target="hpc"}'
    without = 'batchgate_decisions_total{dry_run="false",rule="",target="hpc"}'
    audit = 'batchgate_audit_matches_total{rule="watched"}'
    refused = 'batchgate_refused_requests_total{code="404"}'
    before = shared_server.metrics()

    shared_server.review(uid="1", dry_run=True)
    shared_server.review(uid="2", audited=["watched"])
    shared_server.review(uid="3")
    shared_server.review(uid="4", rule=None)
    shared_server.ask("GET", "/nothing")
    after = shared_server.metrics()

    grown = {name: after[name] - before.get(name, 0) for name in (dry, wet, without, audit, refused)}
    assert grown == {dry: 1, wet: 2, without: 1, audit: 1, refused: 1}
    assert after["batchgate_review_seconds_count"] - before["batchgate_review_seconds_count"] == 4
    assert after["batchgate_reviews_in_flight"] == 0
    assert after["batchgate_policy_generation"] == 1
    assert after["batchgate_policy_loaded_timestamp_seconds"] == 1767312000
    assert after['batchgate_reload_failures_total{source="certificate"}'] == 0
    assert after["process_resident_memory_bytes"] > 1_000_000


def test_livez_and_readyz(shared_server: Server) -> None:
    assert json.loads(shared_server.ask("GET", "/livez")[2]) == {"alive": True}
    shown = json.loads(shared_server.ask("GET", "/readyz")[2])
    expiry = datetime.fromisoformat(shown.pop("certificate")["notAfter"])
    assert expiry.timestamp() == shared_server.metrics()["batchgate_certificate_expiry_timestamp_seconds"]
    assert shown == {
        "ready": True,
        "draining": False,
        "synced": True,
        "policy": {"generation": 1, "digest": "ab" * 32, "loadedAt": "2026-01-02T00:00:00+00:00"},
        "errors": {},
    }


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated")
def test_tls_below_1_2_is_refused(shared_server: Server) -> None:
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname = False
    old.verify_mode = ssl.CERT_NONE
    old.set_ciphers("ALL:@SECLEVEL=0")
    old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1

    with socket.create_connection(("127.0.0.1", shared_server.port)) as raw, pytest.raises((ssl.SSLError, OSError)):
        old.wrap_socket(raw)
