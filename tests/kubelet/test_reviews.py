from __future__ import annotations

from datetime import UTC, datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from router.certs import issuing
from router.errors import ApiError, RequestError
from router.kubelet import reviews
from router.kubelet.access import Access, accesses
from router.kubelet.reviews import Caller, Reviews
from tests.kubelet.site import NODE, TOKEN, Cluster, client_pair

ASKED = accesses("GET", "/pods", NODE)
TOKEN_ONLY = Caller(None, f"Bearer {TOKEN}")


class Clock:
    """Seconds that the test sets."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def reviewed() -> tuple[Reviews, Cluster, Clock]:
    cluster, clock = Cluster(None), Clock()
    return Reviews(cluster, clock), cluster, clock


def refusal(known: Reviews, caller: Caller, asked: tuple[Access, ...] = ASKED) -> tuple[int, str]:
    with pytest.raises(RequestError) as refused:
        known.check(caller, asked)
    return refused.value.status, refused.value.text


def certificate_of(name: str) -> bytes:
    pair = client_pair(issuing.make_ca(datetime.now(UTC)), name)
    return x509.load_pem_x509_certificate(pair.public).public_bytes(serialization.Encoding.DER)


def test_the_finer_right_is_asked_for_first_and_the_whole_is_enough() -> None:
    known, cluster, _ = reviewed()

    known.check(TOKEN_ONLY, ASKED)

    assert cluster.asked == ["TokenReview", "SubjectAccessReview", "SubjectAccessReview"]


def test_the_finer_right_alone_is_enough() -> None:
    known, cluster, _ = reviewed()
    cluster.rights = {("prometheus", "get", "pods", NODE)}

    known.check(TOKEN_ONLY, ASKED)

    assert cluster.asked == ["TokenReview", "SubjectAccessReview"]


def test_a_certificate_goes_before_a_token() -> None:
    known, cluster, _ = reviewed()

    known.check(Caller(certificate_of("kube-apiserver"), "Bearer unknown"), ASKED)

    assert "TokenReview" not in cluster.asked


def test_a_certificate_without_a_name_leaves_the_word_to_the_token() -> None:
    known, _, _ = reviewed()

    known.check(Caller(certificate_of(""), f"Bearer {TOKEN}"), ASKED)
    assert refusal(known, Caller(certificate_of(""), None)) == (401, "Unauthorized")


@pytest.mark.parametrize("header", [None, "", "Bearer unknown", "Basic YWRh", "Bearer"])
def test_nobody_may_nothing(header: str | None) -> None:
    known, cluster, _ = reviewed()

    assert refusal(known, Caller(None, header)) == (401, "Unauthorized")
    assert "SubjectAccessReview" not in cluster.asked


def test_a_certificate_alone_opens_nothing() -> None:
    known, _, _ = reviewed()

    assert refusal(known, Caller(certificate_of("somebody"), None)) == (
        403,
        "Forbidden (user=somebody, verb=get, resource=nodes, subresource(s)=[pods proxy])",
    )


def test_a_right_on_one_node_is_none_on_another_nor_on_all() -> None:
    known, _, _ = reviewed()

    assert refusal(known, TOKEN_ONLY, accesses("GET", "/pods", "long.demo.batchgate"))[0] == 403
    assert refusal(known, TOKEN_ONLY, accesses("GET", "/pods", ""))[0] == 403


def test_answers_are_remembered_for_a_while() -> None:
    known, cluster, clock = reviewed()
    known.check(TOKEN_ONLY, ASKED)
    cluster.asked.clear()

    clock.now += reviews.NO_SECONDS - 1
    known.check(TOKEN_ONLY, ASKED)
    assert cluster.asked == []

    cluster.rights.clear()
    cluster.tokens.clear()
    clock.now += reviews.YES_SECONDS
    assert refusal(known, TOKEN_ONLY) == (401, "Unauthorized")


def test_a_right_that_was_just_given_is_soon_seen() -> None:
    known, cluster, clock = reviewed()
    rights, cluster.rights = cluster.rights, set()
    assert refusal(known, TOKEN_ONLY)[0] == 403
    cluster.rights = rights
    assert refusal(known, TOKEN_ONLY)[0] == 403

    clock.now += reviews.NO_SECONDS
    known.check(TOKEN_ONLY, ASKED)


def test_what_cannot_be_found_out_is_no_yes_and_is_not_remembered() -> None:
    known, cluster, _ = reviewed()
    cluster.down()
    assert refusal(known, TOKEN_ONLY) == (
        503,
        "who you are cannot be found out now: the API server does not answer",
    )
    assert refusal(known, Caller(certificate_of("kube-apiserver"), None))[0] == 503
    cluster.trouble = ApiError(403, "Forbidden", "may not create", "POST tokenreviews")
    assert refusal(known, TOKEN_ONLY) == (
        500,
        "who you are cannot be found out: the API server refuses the agent's question (Forbidden)",
    )
    cluster.trouble = None

    known.check(TOKEN_ONLY, ASKED)


def test_tokens_that_are_tried_out_take_no_memory() -> None:
    known, cluster, _ = reviewed()
    known.check(TOKEN_ONLY, ASKED)
    for number in range(reviews.MOST + 1):
        refusal(known, Caller(None, f"Bearer guess-{number}"))
    cluster.asked.clear()

    known.check(TOKEN_ONLY, ASKED)

    assert cluster.asked == ["TokenReview"]
    assert len(known._users._answers) == reviews.MOST
