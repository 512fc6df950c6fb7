"""Jobs that arrive all the time, as a program: ``python -m tests.kindcluster.arriving KUBECONFIG NAMESPACE RATE FILE``.

It creates Jobs as a dry run of the server, which asks webhooks and guards like any creation, at a steady rate until it
gets SIGTERM. Each Job is one line of the file, an ``Arrival`` as JSON. A Job that is due while all threads are busy comes
late; none is left out.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, TextIO

from router import names
from router.errors import ApiError
from router.kube.client import Api, connect

THREADS: Final = 16


@dataclass(frozen=True, slots=True)
class Arrival:
    """One Job: when it was sent, in seconds of ``time.time``, how many seconds its answer took, and what came.

    ``target`` is empty if the Job was not judged, ``error`` if it was created.
    """

    sent: float
    took: float
    target: str
    error: str


def read(path: Path) -> list[Arrival]:
    """What has arrived so far."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [Arrival(**json.loads(line)) for line in lines if line.endswith("}")]


def job(number: int) -> dict[str, Any]:
    """A Job that the examples' policy sends to HPC."""
    container = {"name": "main", "image": "busybox:1.36", "command": ["true"], "resources": {"requests": {"cpu": "2"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": f"arrives-{number}"},
        "spec": {"template": template},
    }


def arrive(api: Api, namespace: str, number: int) -> Arrival:
    """Create one Job."""
    sent, target, error = time.time(), "", ""
    try:
        made = api.create(f"/apis/batch/v1/namespaces/{namespace}/jobs", job(number), dryRun="All")
        target = made["metadata"].get("labels", {}).get(names.KEY_TARGET, "")
    except ApiError as failed:
        error = str(failed)
    return Arrival(sent, time.time() - sent, target, error)


def main(kubeconfig: str, namespace: str, rate: str, file: str) -> None:
    """Create Jobs until SIGTERM."""
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    api, lock = connect(kubeconfig), threading.Lock()
    with Path(file).open("w") as out, ThreadPoolExecutor(THREADS) as pool:
        for number in _due(float(rate), ended):
            pool.submit(_note, out, lock, api, namespace, number)


def _note(out: TextIO, lock: threading.Lock, api: Api, namespace: str, number: int) -> None:
    found = arrive(api, namespace, number)
    with lock:
        out.write(json.dumps(asdict(found)) + "\n")
        out.flush()


def _due(rate: float, ended: threading.Event) -> Iterator[int]:
    """Numbers, each when its Job is due."""
    begun, number = time.monotonic(), 0
    while not ended.wait(max(0.0, begun + number / rate - time.monotonic())):
        yield number
        number += 1


if __name__ == "__main__":
    main(*sys.argv[1:])
