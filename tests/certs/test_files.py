"""Certificates and keys: made, described, checked; and the commands."""

from __future__ import annotations

import errno
import json
import os
import ssl
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.x509.oid import ExtendedKeyUsageOID
from hypothesis import given
from hypothesis import strategies as st

from router.certs import checking, files, issuing
from router.certs.commands import certs
from router.errors import ConfigError
from router.placement import signing

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
CA = issuing.make_ca(NOW)
SERVER = issuing.make_server_certificate(CA, ["localhost", "127.0.0.1", "::1", "*.Example.org"], NOW)


def _certificate(pair: issuing.Pair) -> x509.Certificate:
    return checking.certificates_of(pair.public, "c.pem")[0]


def _check(pair: issuing.Pair, *names: str, key: bytes | None = None, now: datetime = NOW) -> None:
    private = checking.private_key_of(key or pair.private, "k.pem")
    checking.check_server(_certificate(pair), private, names, now, "certificate c.pem")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(certs, [str(argument) for argument in arguments])


# --- issuing ----------------------------------------------------------------------------------------------------


def test_a_server_certificate_says_what_it_should() -> None:
    described = checking.describe(_certificate(SERVER))

    assert described.host_names == ("localhost", "*.example.org", "127.0.0.1", "::1")
    assert described.not_before == NOW - timedelta(minutes=5)
    assert described.not_after == NOW + timedelta(days=90)
    assert described.subject == "CN=localhost"
    assert described.issuer == checking.describe(_certificate(CA)).subject
    assert not described.is_ca
    usages = _certificate(SERVER).extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usages) == [ExtendedKeyUsageOID.SERVER_AUTH]


def test_the_ca_signed_it_and_may_sign_no_other_ca() -> None:
    authority = _certificate(CA)

    _certificate(SERVER).verify_directly_issued_by(authority)
    constraints = authority.extensions.get_extension_for_class(x509.BasicConstraints)
    assert (constraints.critical, constraints.value.ca, constraints.value.path_length) == (True, True, 0)


def test_keys_are_of_the_kinds_that_are_read() -> None:
    assert isinstance(serialization.load_pem_private_key(SERVER.private, None), ec.EllipticCurvePrivateKey)
    signing = issuing.make_signing_keys()
    private = serialization.load_pem_private_key(signing.private, None)
    assert isinstance(private, ed25519.Ed25519PrivateKey)
    assert private.public_key() == serialization.load_pem_public_key(signing.public)


@pytest.mark.parametrize(
    "name", ["", "a b", "-a", "a..b", "a.*.b", "x" * 64, "a." * 130 + "a", "host:8443", "ä.org", "a.org\n"]
)
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="is neither a DNS name nor an IP address"):
        issuing.make_server_certificate(CA, [name], NOW)


def test_no_name_is_refused() -> None:
    with pytest.raises(ConfigError, match="needs a host name"):
        issuing.make_server_certificate(CA, [], NOW)


def test_a_certificate_does_not_outlive_its_ca() -> None:
    with pytest.raises(ConfigError, match="the CA ends on 2026-03-11, before a certificate of 11 days would"):
        issuing.make_server_certificate(issuing.make_ca(NOW, days=10), ["localhost"], NOW, days=11)


def test_a_name_too_long_for_a_common_name_is_still_a_host() -> None:
    name = "a." * 40 + "org"

    described = checking.describe(_certificate(issuing.make_server_certificate(CA, [name], NOW)))

    assert (described.subject, described.host_names) == ("CN=batchgate", (name,))


# --- checking ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("known", "wanted", "covered"),
    [
        (["a.org"], "a.org", True),
        (["a.org"], "A.Org", True),
        (["a.org"], "a.org.", True),
        (["a.org"], "b.a.org", False),
        (["*.a.org"], "b.a.org", True),
        (["*.a.org"], "c.b.a.org", False),
        (["*.a.org"], "a.org", False),
        (["127.0.0.1"], "127.0.0.1", True),
        (["127.0.0.1"], "127.0.0.2", False),
        (["*.0.0.1"], "127.0.0.1", False),
        (["::1"], "0:0:0:0:0:0:0:1", True),
        ([], "a.org", False),
    ],
)
def test_names_are_compared_as_tls_clients_do(known: list[str], wanted: str, covered: bool) -> None:
    assert checking.covers(known, wanted) is covered


def test_a_good_certificate_passes() -> None:
    _check(SERVER, "localhost", "127.0.0.1", "a.example.org")
    _check(SERVER)


def test_each_fault_is_one_sentence() -> None:
    other = issuing.make_server_certificate(CA, ["localhost"], NOW)
    cases = [
        (
            lambda: _check(SERVER, now=NOW + timedelta(days=91)),
            "certificate c.pem expired at 2026-05-30 12:00:00 UTC; renew it",
        ),
        (
            lambda: _check(SERVER, now=NOW - timedelta(days=1)),
            "certificate c.pem is valid only from 2026-03-01 11:55:00 UTC; check the clock",
        ),
        (
            lambda: _check(SERVER, key=other.private),
            "certificate c.pem and its private key do not belong together; give the key it was made with",
        ),
        (
            lambda: _check(SERVER, "localhost", "elsewhere.org"),
            (
                "certificate c.pem is for localhost, *.example.org, 127.0.0.1, ::1, not for elsewhere.org; "
                "make one with that name in its subjectAltName"
            ),
        ),
        (
            lambda: _check(CA, "localhost"),
            "certificate c.pem is for no host at all, not for localhost; make one with that name in its subjectAltName",
        ),
    ]
    for check, sentence in cases:
        with pytest.raises(ConfigError) as caught:
            check()
        assert str(caught.value) == sentence


def test_a_certificate_for_clients_is_refused() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(NOW)
        .not_valid_after(NOW + timedelta(days=1))
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )

    with pytest.raises(ConfigError, match="not for TLS servers: its extendedKeyUsage lacks serverAuth"):
        checking.check_server(certificate, key, (), NOW, "c.pem")


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "c.pem is empty; it must hold a certificate in PEM form"),
        (b" \n", "c.pem is empty; it must hold a certificate in PEM form"),
        (b"rubbish", "c.pem holds no certificate in PEM form (it must have a line -----BEGIN CERTIFICATE-----)"),
        (SERVER.private, "c.pem holds no certificate in PEM form (it must have a line -----BEGIN CERTIFICATE-----)"),
        (
            SERVER.public[:200],
            "c.pem holds no certificate in PEM form (it must have a line -----BEGIN CERTIFICATE-----)",
        ),
    ],
)
def test_what_is_no_certificate_is_one_sentence(data: bytes, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        checking.certificates_of(data, "c.pem")
    assert str(caught.value) == sentence


def test_what_is_no_key_is_one_sentence() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    sealed = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"x")
    )
    none = "k.pem holds no private key in PEM form (it must have a line -----BEGIN PRIVATE KEY-----)"
    cases = [
        (b"", "k.pem is empty; it must hold a private key in PEM form"),
        (b"rubbish", none),
        (SERVER.public, none),
        (sealed, "k.pem is encrypted; the webhook cannot ask for a passphrase"),
    ]
    for data, sentence in cases:
        with pytest.raises(ConfigError) as caught:
            checking.private_key_of(data, "k.pem")
        assert str(caught.value) == sentence


@given(st.binary(max_size=300))
def test_no_bytes_are_more_than_a_sentence(data: bytes) -> None:
    for read in (checking.certificates_of, checking.private_key_of):
        with pytest.raises(ConfigError):
            read(data, "x.pem")
        with pytest.raises(ConfigError):
            read(SERVER.public[:60] + data, "x.pem")


# --- files ------------------------------------------------------------------------------------------------------


def test_files_are_for_their_owner_only(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        files.write_all(tmp_path / "a" / "b", {"x": b"1", "y": b"2"})
    finally:
        os.umask(old)

    assert stat.S_IMODE((tmp_path / "a" / "b").stat().st_mode) == 0o700
    assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "a" / "b").iterdir()} == {
        "x": 0o600,
        "y": 0o600,
    }


def test_a_directory_that_cannot_be_made_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(ConfigError, match="cannot write into"):
        files.write_all(tmp_path / "file" / "certs", {"x": b"1"})

    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_file_that_cannot_be_written_leaves_none(tmp_path: Path) -> None:
    (tmp_path / "y").mkdir()
    (tmp_path / "y" / "full").write_text("")

    with pytest.raises(ConfigError, match="cannot write into"):
        files.write_all(tmp_path, {"y": b"2"})

    assert [path.name for path in tmp_path.iterdir()] == ["y"]


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda path: None, "{} does not exist; it must hold a thing"),
        (lambda path: path.mkdir(), "{} is a directory; name the file that holds a thing"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_sentence(make: object, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "x"
    make(path)  # type: ignore[operator]

    with pytest.raises(ConfigError) as caught:
        files.read(path, "a thing")
    assert str(caught.value) == sentence.format(path)


# --- commands ---------------------------------------------------------------------------------------------------


def test_create_makes_all_and_a_client_trusts_it(tmp_path: Path) -> None:
    result = run("create", tmp_path / "c", "--host-name", "localhost", "--signing-key")

    assert result.exit_code == 0, result.output
    names = ["ca.crt", "ca.key", "tls.crt", "tls.key", "signing.key", "signing.pub"]
    assert result.output.splitlines() == [str(tmp_path / "c" / name) for name in names]
    assert {stat.S_IMODE((tmp_path / "c" / name).stat().st_mode) for name in names} == {0o600}
    assert sorted(path.name for path in (tmp_path / "c").iterdir()) == sorted(names)
    _handshake(tmp_path / "c", "localhost")


def _handshake(directory: Path, host: str) -> None:
    """A handshake in memory between a server with the directory's certificate and a client that verifies it."""
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(directory / "tls.crt", directory / "tls.key")
    client_side = ssl.create_default_context(cafile=directory / "ca.crt")
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = server_side.wrap_bio(to_server, to_client, server_side=True)
    client = client_side.wrap_bio(to_client, to_server, server_hostname=host)
    done = {client: False, server: False}
    for _ in range(6):
        for side in done:
            try:
                side.do_handshake()
                done[side] = True
            except ssl.SSLWantReadError:
                pass
    assert all(done.values())


def test_nothing_is_overwritten_unasked(tmp_path: Path) -> None:
    run("create", tmp_path, "--host-name", "localhost", "--signing-key")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    result = run("create", tmp_path, "--host-name", "localhost", "--signing-key")

    assert isinstance(result.exception, ConfigError)
    assert str(result.exception) == (
        f"{tmp_path} already has ca.crt, ca.key, tls.crt, tls.key, signing.key, signing.pub; "
        "--force overwrites, --renew keeps the CA"
    )
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_force_makes_all_anew(tmp_path: Path) -> None:
    run("create", tmp_path, "--host-name", "localhost")
    before = (tmp_path / "ca.crt").read_bytes()

    assert run("create", tmp_path, "--host-name", "localhost", "--force").exit_code == 0

    assert (tmp_path / "ca.crt").read_bytes() != before
    _handshake(tmp_path, "localhost")


def test_renew_keeps_the_ca_and_the_signing_key(tmp_path: Path) -> None:
    run("create", tmp_path, "--host-name", "localhost", "--signing-key")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    assert run("create", tmp_path, "--host-name", "other.org", "--renew", "--days", 30).exit_code == 0

    changed = {path.name for path in tmp_path.iterdir() if path.read_bytes() != before[path.name]}
    assert changed == {"tls.crt", "tls.key"}
    _handshake(tmp_path, "other.org")


def test_renew_does_not_overwrite_a_signing_key(tmp_path: Path) -> None:
    run("create", tmp_path, "--host-name", "localhost", "--signing-key")

    result = run("create", tmp_path, "--host-name", "localhost", "--renew", "--signing-key")

    assert "already has signing.key, signing.pub" in str(result.exception)


def test_renew_without_a_ca_says_so(tmp_path: Path) -> None:
    result = run("create", tmp_path, "--host-name", "localhost", "--renew")

    assert str(result.exception) == f"{tmp_path / 'ca.crt'} does not exist; it must hold the CA's certificate"


def test_a_signing_key_alone(tmp_path: Path) -> None:
    assert run("create", tmp_path, "--signing-key").exit_code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["signing.key", "signing.pub"]


def test_create_without_a_host_is_a_usage_error(tmp_path: Path) -> None:
    result = run("create", tmp_path)

    assert (result.exit_code, "--host-name" in result.output) == (2, True)


def test_show_as_json(tmp_path: Path) -> None:
    run("create", tmp_path, "--host-name", "localhost", "--host-name", "10.0.0.1")

    result = run("show", tmp_path, "-o", "json")

    authority, server = json.loads(result.output)["certificates"]
    certificate = x509.load_pem_x509_certificate((tmp_path / "tls.crt").read_bytes())
    assert result.exit_code == 0
    assert (authority["isCA"], authority["keyFits"], authority["hostNames"]) == (True, True, [])
    assert server == {
        "file": str(tmp_path / "tls.crt"),
        "subject": "CN=localhost",
        "issuer": authority["subject"],
        "hostNames": ["localhost", "10.0.0.1"],
        "notBefore": f"{certificate.not_valid_before_utc:%Y-%m-%dT%H:%M:%SZ}",
        "notAfter": f"{certificate.not_valid_after_utc:%Y-%m-%dT%H:%M:%SZ}",
        "expired": False,
        "fingerprintSHA256": certificate.fingerprint(hashes.SHA256()).hex(),
        "isCA": False,
        "keyFits": True,
    }


def test_show_tells_what_is_wrong(tmp_path: Path) -> None:
    old = datetime.now(UTC) - timedelta(days=20)
    ca = issuing.make_ca(old)
    server = issuing.make_server_certificate(ca, ["localhost"], old, days=10)
    files.write_all(tmp_path, {"tls.crt": server.public, "tls.key": CA.private})

    result = run("show", tmp_path)

    assert result.exit_code == 1
    assert "(EXPIRED)" in result.output
    assert "key fits     NO" in result.output


def test_show_one_file_and_none(tmp_path: Path) -> None:
    (tmp_path / "mine.pem").write_bytes(SERVER.public)

    assert "key fits     no key beside it" in run("show", tmp_path / "mine.pem").output
    assert "holds no tls.crt" in str(run("show", tmp_path).exception)


def test_show_tells_whether_the_signing_key_fits(tmp_path: Path) -> None:
    run("create", tmp_path, "--signing-key")
    key_id = signing.key_id(signing.load_private((tmp_path / "signing.key").read_bytes()).public_key())

    right = run("show", tmp_path)
    document = json.loads(run("show", tmp_path, "-o", "json").output)

    assert right.exit_code == 0
    assert right.output == (
        f"{tmp_path}/signing.pub\n  key ids      {key_id}\n  signs        {key_id}\n  key fits     yes\n"
    )
    assert document == {
        "certificates": [],
        "signing": {"file": str(tmp_path / "signing.pub"), "keyIDs": [key_id], "signs": key_id, "keyFits": True},
    }


def test_show_of_a_signing_key_that_was_replaced_alone(tmp_path: Path) -> None:
    run("create", tmp_path, "--host-name", "localhost", "--signing-key")
    older = (tmp_path / "signing.pub").read_bytes()
    run("create", tmp_path, "--signing-key", "--force")
    newer = (tmp_path / "signing.pub").read_bytes()
    (tmp_path / "signing.pub").write_bytes(older)

    result = run("show", tmp_path)

    assert result.exit_code == 1
    assert "key fits     NO: nothing that signing.key signs will be run" in result.output
    assert json.loads(run("show", tmp_path, "-o", "json").output)["signing"]["keyFits"] is False
    (tmp_path / "signing.pub").write_bytes(older + newer)  # while keys are exchanged both are in force
    assert run("show", tmp_path).exit_code == 0


def test_show_of_half_a_pair_and_of_no_keys(tmp_path: Path) -> None:
    run("create", tmp_path, "--signing-key")
    (tmp_path / "signing.key").rename(tmp_path / "elsewhere")

    half = run("show", tmp_path)

    assert (half.exit_code, "key fits     no signing.key beside it" in half.output) == (0, True)
    (tmp_path / "signing.key").write_bytes(SERVER.private)
    assert f"{tmp_path}/signing.key: the private key is not an Ed25519 key" in str(run("show", tmp_path).exception)
    (tmp_path / "signing.pub").unlink()
    assert f"{tmp_path}/signing.pub does not exist" in str(run("show", tmp_path).exception)


def test_nothing_is_left_of_a_file_for_which_there_is_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)

    with pytest.raises(ConfigError, match="No space left on device"):
        files.write_all(tmp_path, {"tls.crt": b"c", "tls.key": b"k"})
    assert list(tmp_path.iterdir()) == []
