"""Very many hostile Jobs are judged, and what was made of them is executed: nothing of theirs becomes a command.

``BATCHGATE_HOSTILE_JOBS`` says how many; ``BATCHGATE_HOSTILE_SEED`` where the numbers begin.
"""

from __future__ import annotations

import base64
import json
import os
import resource
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import jsonpatch
import pytest

from router.errors import ReviewError
from router.gate.judging import Gate
from router.gate.review import review
from router.names import KEY_SCRIPT
from router.policy import load
from router.script.completing import complete
from tests.gates import gate, review_of
from tests.hostile.executing import Executed, execute
from tests.hostile.jobs import CANARY, job
from tests.script.running import Pod, wait_for
from tests.test_corpus import PERMISSIVE

COUNT = int(os.environ.get("BATCHGATE_HOSTILE_JOBS", "400"))
SEED = int(os.environ.get("BATCHGATE_HOSTILE_SEED", "0"))
TOGETHER = 50
pytestmark = pytest.mark.timeout(300 + COUNT / 20)
WHOLE = 100
"""So many whole scripts run at most, with the real runtime and a container runtime that only notes its words."""
STUB = """#!/bin/bash
case $1 in
--version) echo apptainer version 1.3.4 ;;
*) printf '%s\\0' "$@" >>"$NOTED" ;;
esac
"""


def opened() -> Gate:
    return gate(policy=load({"all.yaml": PERMISSIVE}))


def own_part(sent: dict[str, Any], on: Gate) -> tuple[str, str]:
    """What becomes of a Job: its own part of the script, or else empty and why there is none."""
    try:
        response = review(json.loads(json.dumps(review_of(sent))), on).response["response"]
    except ReviewError as error:
        return "", f"no review: {error}"
    json.dumps(response).encode()
    if not response["allowed"]:
        return "", "denied"
    patch = json.loads(base64.b64decode(response["patch"])) if "patch" in response else []
    patched = jsonpatch.apply_patch(sent, patch)
    script = patched["spec"]["template"].get("metadata", {}).get("annotations", {}).get(KEY_SCRIPT)
    return (script, "hpc") if response["auditAnnotations"]["decision"] == "hpc" else ("", "cloud")


def intact(sent: dict[str, Any], found: Executed) -> bool:
    """Whether every literal word of the containers has arrived as it was. Words with Kubernetes' own $(…) are left out."""
    pod = sent["spec"]["template"]["spec"]
    containers = [*pod.get("initContainers", []), *pod["containers"]]
    words = [[*one.get("command", []), *one.get("args", [])] for one in containers]
    literal = [[word.encode() for word in some if "$" not in word] for some in words]
    came = [set(argv) for argv in found.argv]
    return found.later or all(set(some) <= arrived for some, arrived in zip(literal, came, strict=True))


def test_nothing_of_a_hostile_job_becomes_a_command(tmp_path: Path) -> None:
    on, became, waiting = opened(), Counter[str](), list[tuple[int, Path]]()
    memory = 0
    for number in range(SEED, SEED + COUNT):
        began = time.thread_time()
        script, why = own_part(job(number), on)
        assert time.thread_time() - began < 2, f"number {number} took long"
        became[why.partition(":")[0]] += 1
        if script:
            path = tmp_path / f"{number}.sh"
            path.write_text(script)
            waiting.append((number, path))
        if len(waiting) == TOGETHER or number == SEED + COUNT - 1:
            run_all(waiting, tmp_path)
            waiting = []
        if number == SEED + COUNT // 4:
            memory = grown()

    assert not Path(CANARY.split()[1]).exists()
    assert became["hpc"] > COUNT / 10, became
    assert grown() - memory < 64 * 2**20


def test_a_whole_script_of_a_hostile_job_ends(tmp_path: Path) -> None:
    on, ran = opened(), 0
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "apptainer").write_text(STUB)
    (tmp_path / "bin" / "apptainer").chmod(0o755)
    for number in range(SEED, SEED + COUNT, max(20, COUNT // WHOLE)):
        # With OnFailure, a container that cannot start is tried again until the deadline.
        some = (own_part(job(one), on)[0] for one in range(number, number + 20))
        first = next((script for script in some if "restart_policy=Never" in script), "")
        if not first:
            continue
        pod = Pod(tmp_path / str(number)).make()
        environment = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "NOTED": str(tmp_path / "noted")}
        pod.run(complete(first), **environment)
        pod.close()
        wait_for(partial(has_ended, pod), f"for the end of {pod.alive()}")
        assert list(tmp_path.rglob("pwned")) == []
        ran += 1

    assert not Path(CANARY.split()[1]).exists()
    assert ran > 5
    assert (tmp_path / "noted").read_bytes()


def has_ended(pod: Pod) -> bool:
    """Whether no process of its script is left; one cleans up for a moment longer."""
    return not pod.alive()


def run_all(waiting: list[tuple[int, Path]], folder: Path) -> None:
    """Execute own parts, and compare what came with what was sent."""
    executed, said = execute([path for _, path in waiting], folder)
    assert said == b"", said[:2000]
    assert len(executed) == len(waiting)
    for (number, path), found in zip(waiting, executed, strict=True):
        assert found.unknown == (), (number, found.unknown)
        assert intact(job(number), found), number
        path.unlink()


def grown() -> int:
    """The most memory that this process has had so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
