"""Images that jobs pull themselves: once for all, from a real registry, with real Apptainer; and what goes wrong."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.registry import Image, Registry, serving, shell
from tests.script.builders import container, site, text_of, workload
from tests.script.running import Pod, wait_for
from tests.script.test_mpirun import AS_ROOT, HOST, MPIRUN

pytestmark = [
    pytest.mark.apptainer,
    pytest.mark.skipif(shutil.which("apptainer") is None, reason="no apptainer on this machine"),
]


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with serving(tmp_path_factory.mktemp("registry")) as found:
        yield found


def text(*command: str, **fields: Any) -> str:
    return text_of(workload(container(*command)), site(pull="job", **fields))


def pods(work: Path, count: int) -> list[Pod]:
    for number in range(count):
        (work / str(number)).mkdir()
    return [Pod(work / str(number)).make() for number in range(count)]


def stage(pod: Pod, registry: Registry, digest: str, cache: Path, repository: str = "team/tool") -> Path:
    """What the agent tells the script. Where the image is to be."""
    path = cache / f"{digest.partition(':')[2]}.sif"
    words = [f"path={path}", f"source=docker://{registry.named(repository)}@{digest}", f"cache={cache}", "insecure=1"]
    (pod.path / "image").mkdir()
    (pod.path / "image" / "main").write_bytes(b"".join(word.encode() + b"\0" for word in words))
    return path


def pushed(registry: Registry, mark: str) -> tuple[str, tuple[str, ...]]:
    """An image of this mark: its digest, and its layers'."""
    (found,) = registry.push(
        "team/tool:1", Image([shell(), {"mark": mark.encode(), "etc/passwd": b"", "etc/group": b""}])
    )
    return found.digest, found.layers


def test_many_jobs_at_once_pull_once(tmp_path: Path, registry: Registry) -> None:
    digest, layers = pushed(registry, "many")
    registry.forget()
    several, cache = pods(tmp_path, 8), tmp_path / "cache"
    paths = {stage(pod, registry, digest, cache) for pod in several}

    jobs = [pod.start(text("cat", "/mark")) for pod in several]

    assert [job.wait(180) for job in jobs] == [0] * 8, [pod.log() for pod in several]
    assert [pod.log() for pod in several] == ["many"] * 8
    assert sorted(registry.fetched().count(layer) for layer in layers) == [1, 1]
    assert {*cache.iterdir()} - {cache / ".now"} == paths
    assert cache.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("tag", ["absent", "stopped"])
def test_what_cannot_be_pulled_is_said_and_asked_for_once(tmp_path: Path, registry: Registry, tag: str) -> None:
    several, cache = pods(tmp_path, 3), tmp_path / "cache"
    digest = f"sha256:{tag.encode().hex():0<64}"
    for pod in several:
        stage(pod, registry, digest, cache)
    if tag == "stopped":
        registry.stop()
    try:
        jobs = [pod.start(text("true")) for pod in several]
        assert [job.wait(180) for job in jobs] == [125] * 3
    finally:
        if tag == "stopped":
            registry.start()

    words = "connection refused" if tag == "stopped" else "manifest unknown"
    for pod in several:
        found = pod.exit()
        assert found is not None
        assert (found["code"], found["reason"]) == (125, "ErrImagePull")
        assert found["message"].startswith(f"docker://{registry.named('team/tool')}@{digest} could not be pulled on ")
        assert words in found["message"]
        assert words in pod.log()


def test_a_cache_that_cannot_be_written_is_said(tmp_path: Path, registry: Registry) -> None:
    digest, _ = pushed(registry, "nowhere")
    (pod,) = pods(tmp_path, 1)
    (tmp_path / "file").write_text("")
    stage(pod, registry, digest, tmp_path / "file" / "cache")

    assert pod.run(text("true")) == 125

    found = pod.exit()
    assert found is not None
    assert found["reason"] == "ErrImagePull"
    assert "where nothing can be written" in found["message"]


def test_the_pull_of_a_dead_job_is_taken_over(tmp_path: Path, registry: Registry) -> None:
    digest, _ = pushed(registry, "dead")
    (pod,) = pods(tmp_path, 1)
    path = stage(pod, registry, digest, tmp_path / "cache")
    claim = path.with_suffix(".claim")
    claim.parent.mkdir(mode=0o700)
    claim.write_text("of somebody\n{}\n")
    (claim.parent / f".{path.stem}.other.sif").write_text("half")
    job = pod.start(text("cat", "/mark"))
    time.sleep(4)
    assert job.poll() is None, "a claim that is alive was taken over"

    os.utime(claim, (time.time() - 200, time.time() - 200))

    assert job.wait(120) == 0, pod.log()
    assert pod.log() == "dead"
    assert {*claim.parent.iterdir()} - {claim.parent / ".now"} == {path}


def test_a_job_that_is_ended_while_it_pulls_leaves_no_claim(tmp_path: Path, registry: Registry) -> None:
    slow = tmp_path / "apptainer"
    slow.write_text(
        f'#!/bin/sh\n[ "$2" = pull ] || [ "$1" = pull ] && exec sleep 300\nexec {shutil.which("apptainer")} "$@"\n'
    )
    slow.chmod(0o755)
    digest, _ = pushed(registry, "slow")
    (pod,) = pods(tmp_path, 1)
    claim = stage(pod, registry, digest, tmp_path / "cache").with_suffix(".claim")
    job = pod.start(text("true", runtimePath=str(slow)))
    wait_for(claim.exists, "for the claim")

    job.terminate()

    assert job.wait(60) == 143
    assert not claim.exists()
    wait_for(lambda: not pod.alive(), "for the end of the pull")


@pytest.mark.mpi
@pytest.mark.skipif(MPIRUN is None, reason="no mpirun on this machine")
def test_ranks_are_started_when_their_image_is_there(tmp_path: Path, registry: Registry) -> None:
    late = tmp_path / "apptainer"
    late.write_text(f'#!/bin/sh\n[ "$1" != pull ] || sleep 15\nexec {shutil.which("apptainer")} "$@"\n')
    late.chmod(0o755)
    digest, _ = pushed(registry, "ranks")
    (pod,) = pods(tmp_path, 1)
    path = stage(pod, registry, digest, tmp_path / "cache")
    (tmp_path / "nodefile").write_text(f"{HOST}\n" * 2)
    profile = {"name": "open-mpi", "launcher": "openmpi"}
    words = text("mpirun", "-np", "2", "cat", "/mark", runtimePath=str(late), mpi=[profile])

    code = pod.run(words.replace("60 + ranks / 10", "12"), **AS_ROOT, PBS_NODEFILE=str(tmp_path / "nodefile"))

    assert (code, pod.log(), pod.exit() is not None) == (0, "ranksranks", True)
    assert path.exists()
