from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from router.kubelet.access import (
    Access,
    User,
    access_review,
    accesses,
    bearer_token,
    forbidden,
    is_allowed,
    token_review,
    user_of_certificate,
    user_of_review,
)

NODE = "batch.demo.batchgate"


def certificate_of(*names: tuple[x509.ObjectIdentifier, str]) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(kind, value) for kind, value in names])
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
        .public_bytes(serialization.Encoding.DER)
    )


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (
            [(NameOID.COMMON_NAME, "kube-apiserver")],
            User("kube-apiserver", ("system:authenticated",)),
        ),
        (
            [
                (NameOID.ORGANIZATION_NAME, "system:masters"),
                (NameOID.COMMON_NAME, "ada"),
                (NameOID.ORGANIZATION_NAME, "hpc"),
            ],
            User("ada", ("system:masters", "hpc", "system:authenticated")),
        ),
        ([(NameOID.ORGANIZATION_NAME, "system:masters")], None),
        ([], None),
    ],
)
def test_a_certificate_names_its_user(names: list[tuple[x509.ObjectIdentifier, str]], expected: User | None) -> None:
    assert user_of_certificate(certificate_of(*names)) == expected


# Subresources as kubelet 1.36 asks for them, with the whole as the last resort.
@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", "/containerLogs/n/p/c", [Access("get", "proxy", NODE)]),
        ("POST", "/exec/n/p/c", [Access("create", "proxy", NODE)]),
        ("GET", "/exec/n/p/c", [Access("create", "proxy", NODE)]),  # a WebSocket; a kubelet is content with get
        ("GET", "/attach/n/p/c", [Access("create", "proxy", NODE)]),
        ("PUT", "/x", [Access("update", "proxy", NODE)]),
        ("PATCH", "/x", [Access("patch", "proxy", NODE)]),
        ("DELETE", "/x", [Access("delete", "proxy", NODE)]),
        ("BREW", "/x", [Access("", "proxy", NODE)]),
        ("GET", "/pods", [Access("get", "pods", NODE), Access("get", "proxy", NODE)]),
        ("GET", "/pods/", [Access("get", "pods", NODE), Access("get", "proxy", NODE)]),
        ("GET", "/podsx", [Access("get", "proxy", NODE)]),
        ("GET", "/healthz", [Access("get", "healthz", NODE), Access("get", "proxy", NODE)]),
        ("GET", "/stats/summary", [Access("get", "stats", NODE), Access("get", "proxy", NODE)]),
        ("GET", "/metrics/resource", [Access("get", "metrics", NODE), Access("get", "proxy", NODE)]),
        ("GET", "/logs/x", [Access("get", "proxy", NODE)]),
        ("GET", "/", [Access("get", "proxy", NODE)]),
    ],
)
def test_what_must_be_allowed(method: str, path: str, expected: list[Access]) -> None:
    assert accesses(method, path, NODE) == tuple(expected)


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("Bearer abc", "abc"),
        ("bearer  abc", "abc"),
        ("Bearer abc def", "abc"),
        ("Bearer", None),
        ("Bearer ", None),
        ("Basic abc", None),
        ("", None),
        (None, None),
    ],
)
def test_the_token_of_a_header(header: str | None, expected: str | None) -> None:
    assert bearer_token(header) == expected


ADA = User("ada", ("hpc", "system:authenticated"), "u1", (("scopes", ("a", "b")), ("zone", ("c",))))


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (
            {
                "authenticated": True,
                "user": {
                    "username": "ada",
                    "uid": "u1",
                    "groups": ["hpc", "system:authenticated"],
                    "extra": {"zone": ["c"], "scopes": ["a", "b"]},
                },
            },
            ADA,
        ),
        ({"authenticated": True, "user": {"username": "ada"}}, User("ada", ("system:authenticated",))),
        ({"authenticated": False, "user": {"username": "ada"}}, None),
        ({"authenticated": "true", "user": {"username": "ada"}}, None),
        ({"authenticated": True, "user": {"username": ""}}, None),
        ({"authenticated": True}, None),
        ({"user": {"username": "ada"}}, None),
        ({"error": "no such token"}, None),
        (None, None),
    ],
)
def test_a_token_is_somebodys_only_where_the_answer_says_so(status: Any, expected: User | None) -> None:
    assert user_of_review({"status": status}) == expected


def test_the_questions_are_whole_objects() -> None:
    assert token_review("secret") == {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": "secret"},
    }
    assert access_review(ADA, Access("get", "proxy", NODE)) == {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": "ada",
            "uid": "u1",
            "groups": ["hpc", "system:authenticated"],
            "extra": {"scopes": ["a", "b"], "zone": ["c"]},
            "resourceAttributes": {
                "verb": "get",
                "version": "v1",
                "resource": "nodes",
                "subresource": "proxy",
                "name": NODE,
            },
        },
    }


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"allowed": True}, True),
        ({"allowed": True, "denied": True}, False),
        ({"allowed": False}, False),
        ({"allowed": 1}, False),
        ({}, False),
        (None, False),
    ],
)
def test_only_yes_is_yes(status: Any, expected: bool) -> None:
    assert is_allowed({"status": status}) is expected


def test_the_refusal_is_the_kubelets() -> None:
    assert forbidden(ADA, accesses("GET", "/pods", NODE)) == (
        "Forbidden (user=ada, verb=get, resource=nodes, subresource(s)=[pods proxy])"
    )
