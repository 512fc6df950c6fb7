from __future__ import annotations

import base64
import ipaddress
from datetime import UTC, datetime
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from router.kubelet import csr
from router.kubelet.csr import Issued, Turned, Waiting


def test_a_request_is_what_the_signer_asks_for() -> None:
    key = csr.new_key()

    request = csr.request(key, "batch.demo.batchgate", ["10.0.0.7", "login.example.org"])

    signed = x509.load_pem_x509_csr(base64.b64decode(request["spec"].pop("request")))
    name = request["metadata"].pop("name")
    assert request == {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {},
        "spec": {"signerName": "kubernetes.io/kubelet-serving", "usages": ["digital signature", "server auth"]},
    }
    assert signed.is_signature_valid
    assert signed.subject.rfc4514_string() == "CN=system:node:batch.demo.batchgate,O=system:nodes"
    names = signed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.IPAddress) == [ipaddress.ip_address("10.0.0.7")]
    assert names.get_values_for_type(x509.DNSName) == ["login.example.org"]
    assert signed.public_key() == serialization.load_pem_private_key(key, None).public_key()
    assert name.startswith("batchgate-kubelet-")


def test_one_key_is_one_request_and_another_key_another() -> None:
    one, two = csr.new_key(), csr.new_key()

    names = [csr.request(key, "node", ["10.0.0.7"])["metadata"]["name"] for key in (one, one, two)]

    assert names[0] == names[1] != names[2]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (None, Waiting(approved=False)),
        ({}, Waiting(approved=False)),
        ({"conditions": [{"type": "Approved"}]}, Waiting(approved=True)),
        (
            {"conditions": [{"type": "Approved"}], "certificate": base64.b64encode(b"PEM").decode()},
            Issued(b"PEM"),
        ),
        ({"conditions": [{"type": "Denied", "message": "not here"}]}, Turned("denied: not here")),
        ({"conditions": [{"type": "Denied", "reason": "ByAdmin", "message": ""}]}, Turned("denied: ByAdmin")),
        ({"conditions": [{"type": "Approved"}, {"type": "Failed"}]}, Turned("failed: no reason given")),
    ],
)
def test_what_becomes_of_a_request(status: Any, expected: object) -> None:
    assert csr.outcome({"status": status} if status is not None else {}) == expected


def test_another_is_asked_for_well_before_the_end() -> None:
    start, end = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 5, tzinfo=UTC)

    assert csr.renewal(start, end) == datetime(2026, 1, 4, tzinfo=UTC)
