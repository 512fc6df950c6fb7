"""Starts the demo's two programs, the webhook behind TLS and the embedded queue, and always ends them.

Shell: processes, certificates.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from router.controlplane import ports
from router.demo.apiserver import is_ready
from router.errors import ConfigError
from router.hpc import Commands, local

START_SECONDS: Final = 30
STOP_SECONDS: Final = 20
TAIL_LINES: Final = 10


@dataclass(frozen=True, slots=True)
class Webhook:
    """A running webhook: its URL, and the CA that verifies its certificate."""

    url: str
    ca_file: Path


@contextmanager
def webhook(policy: Path, directory: Path) -> Iterator[Webhook]:
    """Start ``batchgate webhook`` with a certificate of its own; SIGTERM at the end."""
    batchgate("certs", "create", str(directory), "--host-name", "localhost", "--signing-key")
    (port,) = ports.free(1, "127.0.0.1")
    options = {
        "--listen": f"127.0.0.1:{port}",
        "--host-name": "localhost",
        "--cert": directory / "tls.crt",
        "--key": directory / "tls.key",
        "--signing-key": directory / "signing.key",
        "--policy": policy,
        "--log-format": "text",
    }
    log = directory / "webhook.log"
    words = [str(word) for pair in options.items() for word in pair]
    with log.open("wb") as output:
        process = subprocess.Popen([sys.executable, "-m", "router", "webhook", *words], stdout=output, stderr=output)
    try:
        found = Webhook(f"https://localhost:{port}", directory / "ca.crt")
        _await_ready(process, found, log)
        yield found
    finally:
        process.terminate()
        process.wait(STOP_SECONDS)


@contextmanager
def queue(directory: Path, definitions: str) -> Iterator[Commands]:
    """The embedded queue with its state in ``directory``; it is stopped at the end, with all running jobs."""
    commands = local.commands_of(str(directory), prefix=(sys.executable, "-m", "router.local"))
    _run(commands.argv("queues", "--define", "-"), stdin=definitions)
    try:
        yield commands
    finally:
        _run(commands.argv("stop", "--delete"))


def _await_ready(process: subprocess.Popen[bytes], found: Webhook, log: Path) -> None:
    until = time.monotonic() + START_SECONDS
    while not is_ready(f"{found.url}/readyz", found.ca_file):
        if process.poll() is not None or time.monotonic() > until:
            tail = "\n".join(log.read_text().splitlines()[-TAIL_LINES:])
            raise ConfigError(f"the webhook did not become ready; its log ends:\n{tail}")
        time.sleep(0.1)


def batchgate(*words: str) -> None:
    """Run a ``batchgate`` command. Raises ConfigError with its error if it fails."""
    _run((sys.executable, "-m", "router", *words))


def _run(argv: tuple[str, ...], stdin: str = "") -> None:
    done = subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False, timeout=START_SECONDS)
    if done.returncode:
        raise ConfigError(f"{' '.join(argv)}: exit code {done.returncode}: {done.stderr.strip()}")
