"""Signatures: what they prove, and what is said where they do not."""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from router import names
from router.errors import ConfigError, SignatureError
from router.placement import signing
from router.placement.signing import Claims, sign, verify
from router.pod import template as podtemplate

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
OTHER = Ed25519PrivateKey.from_private_bytes(bytes(32))
KEYS = {signing.key_id(KEY.public_key()): KEY.public_key()}
CLAIMS = Claims(
    issued_at=1_800_000_000,
    namespace="physics",
    requester="ada",
    site="hpc1",
    queue="workq",
    account='{"user":"ada","account":"phys"}',
    results=("out.dat", "plots/*.png"),
    script_sha256=signing.script_digest("#!/bin/sh\ntrue\n"),
    template_sha256=podtemplate.digest({"containers": [{"name": "c", "image": "busybox:1.36"}]}),
)


def changed(**values: Any) -> Claims:
    return dataclasses.replace(CLAIMS, **values)


JUDGED_BY = changed(groups_sha256=signing.groups_digest({names.KEY_GROUPS: "physics"}))


AROUND = changed(surroundings_sha256="5")
BOTH = dataclasses.replace(JUDGED_BY, surroundings_sha256="5")


@pytest.mark.parametrize("claims", [CLAIMS, JUDGED_BY, AROUND, BOTH])
def test_what_was_signed_is_verified_and_returned(claims: Claims) -> None:
    assert verify(sign(claims, KEY), claims, KEYS) == claims


def test_the_same_claims_have_the_same_signature() -> None:
    assert sign(CLAIMS, KEY) == sign(CLAIMS, KEY)


def test_a_signature_is_one_word_that_names_format_and_key() -> None:
    text = sign(CLAIMS, KEY)

    assert text.isascii()
    assert len(text.split()) == 1
    assert text.split(".")[:2] == ["v2", signing.key_id(KEY.public_key())]


def test_what_was_judged_by_groups_is_of_no_use_with_others_or_without_a_word_of_them() -> None:
    for signed, found in ((JUDGED_BY, CLAIMS), (CLAIMS, JUDGED_BY), (JUDGED_BY, changed(groups_sha256="0"))):
        with pytest.raises(SignatureError, match="groups_sha256 is signed as "):
            verify(sign(signed, KEY), found, KEYS)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({"namespace": "other"}, "namespace is signed as 'physics' and found as 'other'"),
        ({"requester": "eve"}, "requester is signed as 'ada' and found as 'eve'"),
        ({"template_sha256": "0"}, "its Job's Pod template is not the one that was signed"),
        ({"site": "hpc2"}, "site is signed as 'hpc1' and found as 'hpc2'"),
        ({"queue": "gpu"}, "queue is signed as 'workq' and found as 'gpu'"),
        ({"account": '{"user":"root"}'}, "account is signed as"),
        ({"results": ()}, "results is signed as ('out.dat', 'plots/*.png') and found as ()"),
        ({"results": ("out.dat\nplots/*.png",)}, "results is signed as"),
        ({"script_sha256": signing.script_digest("rm")}, "script_sha256 is signed as"),
        ({"issued_at": 1_800_000_301}, "it was issued 301 s from the Job's creation, more than 300 s"),
        ({"issued_at": 1_799_999_699}, "it was issued 301 s from the Job's creation, more than 300 s"),
    ],
)
def test_each_claim_that_differs_is_named(found: dict[str, Any], said: str) -> None:
    with pytest.raises(SignatureError) as caught:
        verify(sign(CLAIMS, KEY), changed(**found), KEYS)

    assert said in str(caught.value)


@pytest.mark.parametrize("created", [1_799_999_700, 1_800_000_300])
def test_issue_and_creation_may_be_five_minutes_apart(created: int) -> None:
    assert verify(sign(CLAIMS, KEY), changed(issued_at=created), KEYS) == CLAIMS


def test_a_signature_with_the_jobs_uid_holds_at_any_time_for_that_job_only() -> None:
    text = sign(changed(job_uid="u-1"), KEY)

    assert verify(text, changed(job_uid="u-1", issued_at=0), KEYS).job_uid == "u-1"
    with pytest.raises(SignatureError, match="job_uid is signed as 'u-1' and found as 'u-2'"):
        verify(text, changed(job_uid="u-2"), KEYS)


def test_a_signature_from_a_jobs_creation_holds_though_the_uid_is_known_now() -> None:
    assert verify(sign(CLAIMS, KEY), changed(job_uid="u-1"), KEYS).job_uid == ""


def test_keys_rotate_without_a_gap() -> None:
    both = signing.load_public(signing.public_pem([KEY.public_key(), OTHER.public_key()]))

    assert verify(sign(CLAIMS, KEY), CLAIMS, both) == CLAIMS
    assert verify(sign(CLAIMS, OTHER), CLAIMS, both) == CLAIMS
    with pytest.raises(SignatureError, match="which is not among the keys in force"):
        verify(sign(CLAIMS, OTHER), CLAIMS, KEYS)


@pytest.mark.parametrize(
    ("signed", "found"), [(AROUND, CLAIMS), (CLAIMS, AROUND), (AROUND, changed(surroundings_sha256="6"))]
)
def test_other_hooks_and_probes_than_the_signed_ones_are_refused(signed: Claims, found: Claims) -> None:
    with pytest.raises(SignatureError, match="hooks, probes or names of its Job's Pod template are not those"):
        verify(sign(signed, KEY), found, KEYS)


def test_one_key_cannot_sign_in_anothers_name() -> None:
    version, _, payload, proof = sign(CLAIMS, OTHER).split(".")

    with pytest.raises(SignatureError, match="not signed by key"):
        verify(".".join((version, next(iter(KEYS)), payload, proof)), CLAIMS, KEYS)


def test_another_format_is_refused_before_anything_is_read() -> None:
    with pytest.raises(SignatureError, match="has format 'v5', not v4"):
        verify(sign(CLAIMS, KEY).replace("v2.", "v5.", 1), CLAIMS, KEYS)


def test_one_format_is_not_read_as_the_other() -> None:
    for claims, written, other in (
        (CLAIMS, "v2.", "v3."),
        (JUDGED_BY, "v3.", "v2."),
        (AROUND, "v4.", "v3."),
        (BOTH, "v4.", "v2."),
    ):
        with pytest.raises(SignatureError, match="the signature or its claims were altered"):
            verify(sign(claims, KEY).replace(written, other, 1), claims, KEYS)


@pytest.mark.parametrize(
    ("annotations", "digest"),
    [
        ({}, ""),
        ({names.KEY_GROUPS: 3}, ""),
        ({names.KEY_GROUPS: ""}, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
        ({names.KEY_GROUPS: "a\nb"}, hashlib.sha256(b"a\nb").hexdigest()),
    ],
)
def test_no_groups_and_no_word_of_groups_are_two_things(annotations: dict[str, Any], digest: str) -> None:
    assert signing.groups_digest(annotations) == digest


@given(st.none() | st.lists(st.text().filter(lambda name: name and "\n" not in name)))
def test_recorded_groups_are_read_as_they_were(groups: list[str] | None) -> None:
    annotations = {} if groups is None else {names.KEY_GROUPS: signing.groups_text(groups)}

    assert signing.groups_in(annotations) == (None if groups is None else tuple(groups))


def test_a_group_with_a_line_break_is_not_written_as_two() -> None:
    assert signing.groups_text(["b", "a", "b c"]) == "b\na\nb c"
    with pytest.raises(ValueError, match=r"the name of group 'b\\nphysics' holds a line break"):
        signing.groups_text(["a", "b\nphysics"])


@pytest.mark.parametrize("text", ["", "v1", "a.b.c", "v1.k.c.s.x", "é.é.é.é", "x" * 100_000], ids=lambda text: text[:8])
def test_what_is_no_signature_is_said_to_be_none(text: str) -> None:
    with pytest.raises(SignatureError, match="is not a signature of Batchgate"):
        verify(text, CLAIMS, KEYS)


@pytest.mark.parametrize("character", "AaBQgwZz09-_=.!é")
def test_no_character_of_a_signature_can_be_exchanged(character: str) -> None:
    text = sign(CLAIMS, KEY)
    for position in range(len(text)):
        altered = text[:position] + character + text[position + 1 :]
        if altered != text:
            with pytest.raises(SignatureError):
                verify(altered, CLAIMS, KEYS)


@given(st.text(alphabet=st.characters(exclude_categories=())), st.text(), st.lists(st.text(), max_size=3))
def test_claims_of_any_text_come_back_as_they_were(requester: str, queue: str, results: list[str]) -> None:
    claims = changed(requester=requester, queue=queue, results=tuple(results))

    assert verify(sign(claims, KEY), claims, KEYS) == claims


def test_keys_are_read_from_pem() -> None:
    assert signing.load_private(signing.private_pem(KEY)).private_bytes_raw() == bytes(range(32))
    assert signing.load_public(signing.public_pem([KEY.public_key()])).keys() == KEYS.keys()


EC = ec.generate_private_key(ec.SECP256R1())
EC_PRIVATE = EC.private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
)
EC_PUBLIC = EC.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
LOCKED = KEY.private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"x")
)
BROKEN = b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"


@pytest.mark.parametrize(
    ("pem", "said"),
    [
        (b"", "holds no private key in PEM"),
        (b"\xff\x00", "holds no private key in PEM"),
        (EC_PRIVATE, "the private key is not an Ed25519 key"),
        (LOCKED, "holds no private key in PEM without a passphrase"),
        (signing.public_pem([KEY.public_key()]), "holds no private key in PEM"),
    ],
    ids=["empty", "binary", "another kind", "with a passphrase", "a public key"],
)
def test_a_file_without_a_signing_key_is_a_mistake_in_the_configuration(pem: bytes, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        signing.load_private(pem)

    assert "batchgate certs create" in str(caught.value)


@pytest.mark.parametrize(
    ("pem", "said"),
    [
        (b"", "holds no public key in PEM"),
        (EC_PUBLIC, "a public key is not an Ed25519 key"),
        (signing.private_pem(KEY), "no public key in PEM"),
        (signing.public_pem([KEY.public_key()]) + BROKEN, "no public key in PEM"),
    ],
    ids=["empty", "another kind", "a private key", "one good, one broken"],
)
def test_a_file_without_public_keys_is_a_mistake_in_the_configuration(pem: bytes, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        signing.load_public(pem)


@pytest.mark.parametrize(
    ("identity", "text"),
    [
        (("ada", None, None), '{"user":"ada"}'),
        (("ada", "phys", "fusion"), '{"user":"ada","account":"phys","project":"fusion"}'),
        (("ada", 'a","project":"b', None), '{"user":"ada","account":"a\\",\\"project\\":\\"b"}'),
    ],
)
def test_an_identity_reads_back_without_doubt(identity: tuple[str, str | None, str | None], text: str) -> None:
    assert signing.identity_text(*identity) == text
