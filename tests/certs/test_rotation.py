"""Rotation leaves no gap, whatever the order of two runs, wherever one stalls or ends, however their clocks differ.

``Simulated`` is an API server in memory, whose every call may let another run go first, let time pass, or end the run.
After each change ``check`` asks what must hold at every moment.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from router import names
from router.certs import checking, ensuring, objects, signingkeys
from router.certs.ensuring import Target
from router.certs.objects import Json
from router.certs.rotation import Lives, Rules
from router.errors import Conflict
from router.placement import signing

NAMESPACE = "batchgate-system"
START = datetime(2026, 3, 1, 12, tzinfo=UTC)
LIVES = Lives(timedelta(days=3), timedelta(days=1), timedelta(days=2))
HOSTS = ensuring.host_names("batchgate", NAMESPACE)
TARGET = Target(Rules(NAMESPACE, HOSTS, lives=LIVES))
SECRETS = f"/api/v1/namespaces/{NAMESPACE}/secrets"
MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
HOOKS = f"{ensuring.MUTATING}/batchgate"

KUBELET = timedelta(minutes=2, seconds=5)
"""How long a replica or an agent may use what was there before."""
WATCHED = timedelta(seconds=10)
"""How long an API server may use the registration before."""
JUMPS = [timedelta(0), timedelta(seconds=20), timedelta(minutes=3), timedelta(minutes=12), timedelta(hours=13)]
SKEW = [timedelta(0), timedelta(seconds=50), timedelta(seconds=-50)]


class Crash(Exception):
    """A process ends here."""


@dataclass
class Simulated:
    """``script`` says what happens at each call: numbers, as below; nothing once it is used up."""

    script: Iterator[int] = field(default_factory=lambda: iter(()))
    now: datetime = START
    store: dict[str, Json] = field(default_factory=dict)
    history: dict[str, list[tuple[datetime, Json]]] = field(default_factory=dict)
    jobs: list[tuple[datetime, str, Json]] = field(default_factory=list)
    depth: int = 0
    checked: bool = False
    versions: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def find(self, path: str, _seconds: float = 0) -> Json | None:
        self._happen()
        return copy.deepcopy(self.store.get(path))

    def create(self, path: str, body: Json, _seconds: float = 0) -> Json:
        self._happen()
        place = f"{path}/{body['metadata']['name']}"
        if place in self.store:
            raise Conflict(409, "AlreadyExists", "", place)
        return self._put(place, body)

    def replace(self, path: str, body: Json, _seconds: float = 0) -> Json:
        self._happen()
        if body["metadata"]["resourceVersion"] != self.store[path]["metadata"]["resourceVersion"]:
            raise Conflict(409, "Conflict", "", path)
        return self._put(path, body)

    def pages(self, path: str, **_query: object) -> Iterator[tuple[list[Json], str]]:
        self._happen()
        yield [job for _, job in self.living()] if "jobs" in path else [], "1"

    def living(self) -> list[tuple[str, Json]]:
        """The Jobs of the last day, and the ids of the keys with which they were signed."""
        return [(key, job) for born, key, job in self.jobs if self.now - born < timedelta(days=1)]

    def _put(self, place: str, body: Json) -> Json:
        assert "PRIVATE" not in str(body["metadata"])
        metadata = {**body["metadata"], "resourceVersion": str(next(self.versions))}
        self.store[place] = copy.deepcopy({**body, "metadata": metadata})
        self.history.setdefault(place, []).append((self.now, self.store[place]))
        self.check()
        return self.store[place]

    def _happen(self) -> None:
        match next(self.script, 99):
            case 0:
                raise Crash
            case 1 | 2 | 3 if self.depth < 2:
                self.run()
                self.run()
            case number if 4 <= number < 4 + len(JUMPS):
                self.pass_time(JUMPS[number - 4])
            case 20:
                self.pass_time(timedelta(minutes=12))
                if self.depth < 2:
                    self.run()

    def pass_time(self, jump: timedelta) -> None:
        self.now += jump
        signers = self.signers() if self.checked else {}
        self.jobs += [(self.now, one, _job(key, self.now)) for one, key in signers.items()]
        self.check()

    def run(self) -> None:
        """One `certs ensure`, with a clock of its own, until it ends or crashes."""
        skew = SKEW[next(self.script, 0) % len(SKEW)]
        self.depth += 1
        try:
            ensuring.ensure(self, TARGET, lambda _: None, clock=lambda: self.now + skew)  # type: ignore[arg-type]
        except Crash:
            pass
        finally:
            self.depth -= 1

    def recent(self, place: str, lag: timedelta) -> list[Json]:
        """The versions of an object that may be in use somewhere."""
        versions = self.history[place]
        ends = [moment for moment, _ in versions[1:]]
        return [one for (_, one), end in itertools.zip_longest(versions, ends) if end is None or self.now - end < lag]

    def signers(self) -> dict[str, Ed25519PrivateKey]:
        found = [
            objects.value_of(one, "signing.key") for one in self.recent(f"{SECRETS}/{names.WEBHOOK_SIGNING}", KUBELET)
        ]
        keys = [signing.load_signer(one).key for one in found]
        return {signing.key_id(one.public_key()): one for one in keys}

    def check(self) -> None:
        if not self.checked:
            return
        served = [objects.value_of(one, "tls.crt") for one in self.recent(f"{SECRETS}/{names.WEBHOOK_TLS}", KUBELET)]
        for registration in self.recent(HOOKS, WATCHED):
            (bundle,) = objects.bundles_of(registration)
            assert all(covered(one, bundle) for one in set(served))
        signers = self.signers()
        for published in self.recent(f"{MAPS}/{names.PUBLIC_KEYS_CONFIG_MAP}", KUBELET):
            trusted = signing.load_public(published["data"]["signing.pub"].encode())
            assert signers.keys() <= trusted.keys()
            assert {key for key, _ in self.living()} <= trusted.keys()
        for secret in self.recent(f"{SECRETS}/{names.WEBHOOK_SIGNING}", KUBELET):
            assert signers.keys() <= signing.load_signer(objects.value_of(secret, "signing.key")).believed.keys()


def covered(certificate: bytes, bundle: bytes) -> bool:
    found = x509.load_pem_x509_certificate(certificate)
    for one in x509.load_pem_x509_certificates(bundle):
        try:
            found.verify_directly_issued_by(one)
        except (ValueError, InvalidSignature):
            continue
        return True
    return False


def _job(key: Ed25519PrivateKey, born: datetime, **claims: str) -> Json:
    """A Job whose signature is of the moment at which it was created, unless the claims say otherwise."""
    signed = signing.Claims(
        **{  # type: ignore[arg-type]
            "issued_at": int(born.timestamp()),
            "namespace": "physics",
            "requester": "ada",
            "site": "demo",
            "queue": "batch",
            "account": '{"user":"ada"}',
            "results": (),
            "script_sha256": "x",
            "template_sha256": "y",
            **claims,
        }
    )
    annotations = {names.KEY_SIGNATURE: signing.sign(signed, key)}
    created = born.strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "metadata": {"namespace": "physics", "uid": "u-1", "creationTimestamp": created},
        "spec": {"template": {"metadata": {"annotations": annotations}}},
    }


KEY = Ed25519PrivateKey.generate()
KEYS = {signing.key_id(KEY.public_key()): KEY.public_key()}
ENDED = {"status": {"conditions": [{"type": "Complete", "status": "True"}]}}


def _forged() -> Json:
    """With the id of a key that its maker has not."""
    job = _job(Ed25519PrivateKey.generate(), START)
    annotations = job["spec"]["template"]["metadata"]["annotations"]
    pieces = annotations[names.KEY_SIGNATURE].split(".")
    annotations[names.KEY_SIGNATURE] = ".".join([pieces[0], *KEYS, *pieces[2:]])
    return job


def _created(job: Json, moment: datetime) -> Json:
    return {**job, "metadata": {**job["metadata"], "creationTimestamp": moment.strftime("%Y-%m-%dT%H:%M:%SZ")}}


def _pod(job: Json, node: str = "batch.demo.batchgate", namespace: str = "physics") -> Json:
    metadata = {"namespace": namespace, **job["spec"]["template"]["metadata"]}
    return {"metadata": metadata, "spec": {"nodeName": node}}


@pytest.mark.parametrize(
    ("jobs", "pods", "counts"),
    [
        ([_job(KEY, START)], [], True),
        ([_job(KEY, START, job_uid="u-1")], [], True),
        ([_created(_job(KEY, START, job_uid="u-1"), START + timedelta(days=9))], [], True),
        ([], [_pod(_job(KEY, START))], True),
        ([_job(KEY, START) | ENDED], [], False),
        ([_job(KEY, START) | ENDED], [_pod(_job(KEY, START))], True),
        # Without the key, or copied from another Job: nobody needs the key for it, as no agent takes it.
        ([_forged()], [_pod(_forged())], False),
        ([_created(_job(KEY, START), START + timedelta(hours=1))], [], False),
        ([_job(KEY, START, namespace="chemistry")], [], False),
        ([_job(KEY, START, job_uid="u-2")], [], False),
        ([], [_pod(_job(KEY, START), namespace="chemistry")], False),
        ([], [_pod(_job(KEY, START), node="worker-1")], False),
        ([{}, {"spec": {"template": {"metadata": {"annotations": {names.KEY_SIGNATURE: 3}}}}}], [{}], False),
    ],
)
def test_a_key_is_used_by_what_it_has_signed(jobs: list[Json], pods: list[Json], counts: bool) -> None:
    assert signingkeys.used_by(jobs, pods, KEYS) == (frozenset(KEYS) if counts else frozenset())


def installed() -> Simulated:
    """After the first run, with a webhook that is registered."""
    api = Simulated()
    api.create(
        ensuring.MUTATING,
        {"kind": "MutatingWebhookConfiguration", "metadata": {"name": "batchgate"}, "webhooks": [{"clientConfig": {}}]},
    )
    api.run()
    api.checked = True
    api.history = {place: versions[-1:] for place, versions in api.history.items()}
    return api


MOMENTS = st.lists(st.one_of(st.integers(0, 20), st.just(99), st.just(99)), min_size=20, max_size=400)


@settings(max_examples=60)
@given(MOMENTS)
def test_at_no_moment_is_anything_used_that_is_not_trusted(script: list[int]) -> None:
    api = installed()
    api.script = iter(script)
    for jump in itertools.islice(itertools.cycle(JUMPS), 40):
        api.pass_time(jump)
        api.run()


def test_everything_is_replaced_in_time_and_nothing_old_is_left() -> None:
    api = installed()
    first = {place: api.store[place] for place in api.store}
    for _ in range(24 * 30):
        api.pass_time(timedelta(hours=1))
        api.run()
        tls = api.store[f"{SECRETS}/{names.WEBHOOK_TLS}"]
        server = checking.certificates_of(objects.value_of(tls, "tls.crt"), "")[0]
        assert server.not_valid_after_utc - api.now > timedelta(hours=6)

    certificates = {one["data"]["tls.crt"] for _, one in api.history[f"{SECRETS}/{names.WEBHOOK_TLS}"]}
    authorities = {one["data"]["ca.crt"] for _, one in api.history[f"{SECRETS}/{names.WEBHOOK_CA}"]}
    keys = {
        signing.key_id(signing.load_signer(objects.value_of(one, "signing.key")).key.public_key())
        for _, one in api.history[f"{SECRETS}/{names.WEBHOOK_SIGNING}"]
    }
    assert first.keys() == api.store.keys()
    thirds = timedelta(days=30) * 3 / 2
    assert thirds / LIVES.server <= len(certificates) <= thirds / LIVES.server + len(authorities) + 1
    assert thirds / LIVES.authority - 1 <= len(authorities) <= thirds / LIVES.authority + 1
    assert LIVES.signing is not None
    assert thirds / LIVES.signing - 1 <= len(keys) <= thirds / LIVES.signing + 1
    api.pass_time(timedelta(hours=1))
    api.run()
    assert (
        len(signing.load_public(api.store[f"{MAPS}/{names.PUBLIC_KEYS_CONFIG_MAP}"]["data"]["signing.pub"].encode()))
        <= 3
    )
