"""The webhook's transport with a review that does what its body says, so that tests can be slow, or hit a bug.

Run as ``python -m tests.webhook.fake CERT KEY [--exchange SECONDS] [--linger SECONDS] [--watch SECONDS] [--threads N]
[--connections N]``.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import logging
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gunicorn.workers import gthread

from router.errors import ReviewError
from router.gate.evidence import Evidence, Refusal
from router.policy.model import CheckedRule
from router.startup import logs
from router.startup.settings import LogFormat, WebhookSettings, parse_address
from router.startup.sources import FileSource, watch
from router.webhook import serve, tls
from router.webhook.budget import Budget
from router.webhook.metrics import Metrics
from router.webhook.service import Service
from router.webhook.worker import GateWorker


@dataclass
class FakeAnswer:
    response: dict[str, Any]
    record: dict[str, Any] = field(default_factory=dict)
    evidence: Evidence | None = None
    refusal: Refusal | None = None


@dataclass
class FakePolicy:
    generation: int = 1
    digest: str = "ab" * 32
    loaded_at: datetime | None = datetime(2026, 1, 2, tzinfo=UTC)
    rules: tuple[CheckedRule, ...] = ()


def _loops() -> None:
    while True:
        pass


def _swallows() -> None:
    """As code that catches everything: twice, so that the third interruption is the one that ends it."""
    for _ in range(2):
        with contextlib.suppress(BaseException):
            _loops()
    _loops()


def _in_c() -> None:
    """Minutes of a call into C that lets others run."""
    hashlib.pbkdf2_hmac("sha256", b"", b"", (1 << 31) - 1)


def _in_c_alone() -> None:
    """The same of one that lets nobody run: an expression that backtracks."""
    re.match("(a+)+$", "a" * 40 + "b")


_SPINS: dict[str, Callable[[], None]] = {
    "loops": _loops,
    "swallows": _swallows,
    "in C": _in_c,
    "in C alone": _in_c_alone,
}


def over_budget(body: object, step: str, path: str, seconds: float) -> FakeAnswer:
    assert isinstance(body, dict)
    response = {"response": {"uid": body["uid"], "allowed": False, "over": [step, path, seconds]}}
    return FakeAnswer(response, {"uid": body["uid"], "target": "invalid", "rule": ""})


def review(body: object, traceparent: str = "") -> FakeAnswer:
    if not isinstance(body, dict) or "uid" not in body:
        raise ReviewError("request.uid is missing")
    if "until" in body:  # a file is there
        logging.getLogger(logs.LOGGER).info("began", extra={"fields": {"uid": body["uid"]}})
        while not Path(body["until"]).exists():
            time.sleep(0.02)
    if "spin" in body:
        logging.getLogger(logs.LOGGER).info("began", extra={"fields": {"uid": body["uid"]}})
        _SPINS[body["spin"]]()
    if "bug" in body:
        raise KeyError(body["bug"])
    record = {
        "uid": body["uid"],
        "user": body.get("user"),
        "target": "hpc",
        "rule": body.get("rule", "one"),
        "dry_run": body.get("dry_run"),
    }
    return FakeAnswer({"response": {"uid": body["uid"]}}, record | {"audited": body.get("audited", [])})


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("certificate", type=Path)
    parser.add_argument("key", type=Path)
    parser.add_argument("--listen", default="127.0.0.1:0")
    parser.add_argument("--exchange", type=float, default=600)  # of the clock, and a test's machine may be busy
    parser.add_argument("--linger", type=float, default=gthread.STOP_KEEPALIVE_LINGER)
    parser.add_argument("--watch", type=float, default=0.1)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--connections", type=int, default=serve.CONNECTIONS)
    parser.add_argument("--log-format", default="json")
    parser.add_argument("--budget", type=float, default=30)
    parser.add_argument("--heartbeat", type=int, default=serve.HEARTBEAT_SECONDS)
    asked = parser.parse_args()
    GateWorker.exchange_seconds = asked.exchange
    gthread.STOP_KEEPALIVE_LINGER = asked.linger
    serve.HEARTBEAT_SECONDS = asked.heartbeat
    serve.CONNECTIONS = asked.connections  # type: ignore[misc]  # smaller than a test's own limit of open files
    settings = WebhookSettings(
        parse_address(asked.listen), ("localhost",), asked.certificate, asked.key, Path("none"), threads=asked.threads
    )
    log = logs.configure(LogFormat(asked.log_format))
    certificate = FileSource(
        "certificate",
        (asked.certificate, asked.key),
        lambda: tls.load(asked.certificate, asked.key, ("localhost",)),
        log,
    )

    def load() -> Service:
        files = watch((certificate,), asked.watch)
        return Service(
            review=review,
            over_budget=over_budget,
            budget=Budget(log, asked.budget),
            policy=FakePolicy(),
            metrics=Metrics(),
            log=log,
            sources=(certificate,),
            certificate_expiry=lambda: certificate.value.not_after,
            watching=lambda: files.alive,
        )

    serve.run(settings, serve.bind_all(settings), load, certificate)


if __name__ == "__main__":
    main()
