from __future__ import annotations

import errno
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from router.certs import checking, issuing
from router.certs.issuing import Pair
from router.errors import ApiUnavailable, Conflict
from router.kubelet import certificate, csr
from router.kubelet.certificate import ServingCertificate
from tests.kubelet.site import NODE, Cluster

ADDRESSES = ("127.0.0.1",)


@pytest.fixture
def ca() -> Pair:
    return issuing.make_ca(datetime.now(UTC))


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(None)


def asking(
    cluster: Cluster, directory: Path | None = None, addresses: tuple[str, ...] = ADDRESSES
) -> ServingCertificate:
    return ServingCertificate(cluster, NODE, addresses, directory)  # type: ignore[arg-type]  # answers as an Api does


def now() -> datetime:
    return datetime.now(UTC)


def issued(serving: ServingCertificate, cluster: Cluster, ca: Pair, days: float = 1) -> Pair:
    """What comes of a request that is approved."""
    assert serving.step(now()) is None
    assert serving.waiting in cluster.requests
    cluster.sign(ca, serving.waiting, days)
    pair = serving.step(now())
    assert pair is not None
    return pair


def test_a_certificate_is_asked_for_once_and_awaited(
    cluster: Cluster, ca: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    serving = asking(cluster)
    for _ in range(3):
        assert serving.step(now()) is None

    (name,) = cluster.requests
    assert serving.waiting == name
    assert caplog.text.count(f"kubectl certificate approve {name}") == 1
    cluster.requests[name]["status"] = {"conditions": [{"type": "Approved"}]}
    assert serving.step(now()) is None
    assert serving.waiting == ""

    cluster.sign(ca, name)
    pair = serving.step(now())
    assert pair is not None
    one = checking.certificates_of(pair.public, "it")[0]
    assert checking.host_names_of(one) == ADDRESSES
    assert checking.key_fits(one, checking.private_key_of(pair.private, "it"))
    assert serving.step(now()) is None
    assert len(cluster.requests) == 1


def test_a_certificate_is_taken_also_where_its_asked_key_cannot_be_removed(
    cluster: Cluster, ca: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the one before would be served until this one is due for renewal."""

    def fails(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "no")

    serving = asking(cluster, tmp_path)
    assert serving.step(now()) is None
    cluster.sign(ca, serving.waiting)
    monkeypatch.setattr(Path, "unlink", fails)

    assert serving.step(now()) is not None


def test_a_request_that_waits_is_told_again_and_again(
    cluster: Cluster, ca: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    serving = asking(cluster)
    begun = now()
    for wait in (timedelta(), certificate.REMINDER - timedelta(seconds=1), certificate.REMINDER):
        serving.step(begun + wait)

    told = f"kubectl certificate approve {serving.waiting}"
    assert caplog.text.count(told) == 2
    cluster.sign(ca, serving.waiting, days=10)
    assert serving.step(begun + certificate.REMINDER) is not None
    for _ in range(2):
        serving.step(begun + 2 * certificate.REMINDER)
    assert caplog.text.count("kubectl certificate approve") == 2
    serving.step(begun + timedelta(days=8))
    assert f"kubectl certificate approve {serving.waiting}" in caplog.text
    assert caplog.text.count("kubectl certificate approve") == 3


def test_a_restart_tells_of_the_request_that_still_waits(
    cluster: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    asking(cluster, tmp_path).step(now())
    again = asking(cluster, tmp_path)
    again.load(now())
    caplog.clear()

    again.step(now())

    assert caplog.text.count(f"kubectl certificate approve {again.waiting}") == 1


def test_another_is_asked_for_before_the_end(cluster: Cluster, ca: Pair) -> None:
    serving = asking(cluster)
    first = issued(serving, cluster, ca, days=10)

    assert serving.step(now() + timedelta(days=7)) is None
    assert len(cluster.requests) == 1
    assert serving.step(now() + timedelta(days=8)) is None
    assert len(cluster.requests) == 2
    cluster.sign(ca, serving.waiting)
    second = serving.step(now())
    assert second is not None
    assert second.private != first.private


@pytest.mark.parametrize("condition", ["Denied", "Failed"])
def test_after_a_no_another_request_follows_later(
    cluster: Cluster, condition: str, caplog: pytest.LogCaptureFixture
) -> None:
    serving = asking(cluster)
    serving.step(now())
    (name,) = cluster.requests
    cluster.requests[name]["status"] = {"conditions": [{"type": condition, "message": "not here"}]}

    assert serving.step(now()) is None
    assert f"{condition.lower()}: not here" in caplog.text
    assert serving.step(now()) is None
    assert list(cluster.requests) == [name]
    serving.step(now() + certificate.AGAIN)
    assert len(cluster.requests) == 2


def test_a_request_that_was_cleaned_away_is_made_again(cluster: Cluster) -> None:
    """The controller-manager removes requests that wait for a day."""
    serving = asking(cluster)
    serving.step(now())
    (name,) = cluster.requests
    cluster.requests.clear()

    serving.step(now())

    assert list(cluster.requests) == [name]


def test_an_answer_that_was_lost_is_no_second_request(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    serving = asking(cluster)
    cluster.down()
    with pytest.raises(ApiUnavailable):
        serving.step(now())
    cluster.trouble = None
    serving.step(now())
    (name,) = cluster.requests
    with monkeypatch.context() as patched:
        patched.setattr(cluster, "find", lambda path, seconds: None)  # not seen yet
        with pytest.raises(Conflict):
            cluster.create(csr.PATH, cluster.requests[name])
        assert serving.step(now()) is None

    assert list(cluster.requests) == [name]


def test_a_certificate_for_another_address_is_not_used(
    cluster: Cluster, ca: Pair, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    asking(cluster, tmp_path).step(now())
    (name,) = cluster.requests
    cluster.sign(ca, name)

    moved = asking(cluster, tmp_path, ("127.0.0.2",))
    assert moved.load(now()) is None
    assert moved.step(now()) is None
    assert "is for 127.0.0.1, not for 127.0.0.2" in caplog.text
    assert not (tmp_path / certificate.CERTIFICATE).exists()


def test_a_restart_finds_the_certificate_and_the_request(cluster: Cluster, ca: Pair, tmp_path: Path) -> None:
    asking(cluster, tmp_path).step(now())
    waiting = asking(cluster, tmp_path)
    assert waiting.load(now()) is None
    pair = issued(waiting, cluster, ca)
    assert len(cluster.requests) == 1

    again = asking(cluster, tmp_path)
    assert again.load(now()) == pair
    assert again.step(now()) is None
    assert len(cluster.requests) == 1
    assert {path.name for path in tmp_path.iterdir()} == {"kubelet.crt", "kubelet.key"}
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


@pytest.mark.parametrize("spoil", ["expired", "no PEM", "another key", "no key"])
def test_what_was_left_and_does_not_hold_is_asked_for_anew(
    cluster: Cluster, ca: Pair, tmp_path: Path, spoil: str
) -> None:
    issued(asking(cluster, tmp_path), cluster, ca)
    key = tmp_path / certificate.KEY
    if spoil == "no PEM":
        (tmp_path / certificate.CERTIFICATE).write_bytes(b"no certificate")
    elif spoil == "another key":
        key.write_bytes(csr.new_key())
    elif spoil == "no key":
        key.unlink()

    serving = asking(cluster, tmp_path)

    assert serving.load(now() + timedelta(days=2 if spoil == "expired" else 0)) is None
    issued(serving, cluster, ca)


@pytest.mark.parametrize("left", [b"", b"no key", issuing.make_signing_keys().private])
def test_a_key_that_is_none_is_not_asked_with(cluster: Cluster, tmp_path: Path, left: bytes) -> None:
    (tmp_path / certificate.ASKED_KEY).write_bytes(left)
    serving = asking(cluster, tmp_path)

    assert serving.load(now()) is None
    assert serving.step(now()) is None
    assert serving.waiting in cluster.requests
