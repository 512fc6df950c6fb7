"""How launches inside a container end: by signals, by time, by what is killed, and with what the text may do to them."""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.script.builders import container, text_of, workload
from tests.script.running import Pod, wait_for
from tests.script.test_mpirun import AS_ROOT, HOST, IMAGE, MPIRUN, where

pytestmark = [
    pytest.mark.mpi,
    pytest.mark.apptainer,
    pytest.mark.skipif(MPIRUN is None, reason="no mpirun on this machine"),
    pytest.mark.skipif(not IMAGE.exists(), reason="no image with Open MPI, as `make bed` makes it"),
]
MARK = "BATCHGATE_TEST_MARK"
"""A variable of the container, by which its processes are found."""
AT_ONCE = 200
"""Launches that there may be at once."""
NEVER = "ranks -w /no/such/file"
"""Ranks that wait until they are ended."""


@pytest.fixture(autouse=True)
def nodefile(pod: Pod) -> Iterator[None]:
    """Four places on this machine; and nothing of a Job is left when its test is over."""
    pod.environment.update(AS_ROOT, PBS_NODEFILE=str(pod.work / "nodefile"))
    (pod.work / "nodefile").write_text(f"{HOST}\n" * 4)
    yield
    await_nothing_left(pod)


def script(pod: Pod, text: str, **spec: Any) -> str:
    """The script of a Job whose text starts ranks."""
    main = container("bash", "-c", text, image="mpi:1", env=[{"name": MARK, "value": str(pod.path)}])
    return text_of(
        workload(main, annotations={"batchgate.dev/ranks": "4", "batchgate.dev/nodes": "2"}, **spec), where("apptainer")
    )


def processes(pod: Pod) -> dict[int, str]:
    """What runs of a Job, in its containers and outside of them."""
    marks = {f"{MARK}={pod.path}".encode(), f"BATCHGATE_DIR={pod.path}".encode()}
    found = {}
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            with contextlib.suppress(OSError):
                if marks & set((process / "environ").read_bytes().split(b"\0")):
                    found[int(process.name)] = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
    return found


def those(pod: Pod, pattern: str) -> list[int]:
    """The processes of a Job whose command lines look so."""
    return [pid for pid, words in processes(pod).items() if re.search(pattern, words)]


def await_nothing_left(pod: Pod) -> None:
    """Until no process is left, and no file of launches but those of a script that was killed: the agent takes them away."""
    wait_for(lambda: not processes(pod), f"for the end of {processes(pod)}")
    assert [path.name for path in pod.work.glob("batchgate.*")] == []
    assert not pod.exit() or not (pod.path / "launches").exists()


def await_ranks(pod: Pod, count: int = 4) -> None:
    wait_for(lambda: len(set(re.findall(r"rank=\d", pod.log()))) == count, "for the ranks")


def said(pod: Pod, word: str) -> int:
    return pod.log().splitlines().count(word)


ASKED = """
trap 'echo the text is asked; exit 7' TERM
mpirun -np 4 ranks -w /no/such/file -g 2 -s 6
mpirun -np 2 echo another
while :; do sleep 0.2; done
"""


def test_a_signal_gives_ranks_their_time_and_then_the_text(pod: Pod) -> None:
    job = pod.start(script(pod, ASKED, terminationGracePeriodSeconds=40))
    await_ranks(pod)

    job.terminate()

    assert job.wait(60) == 7
    assert len(re.findall(r"^rank=\d asked$", pod.log(), re.MULTILINE)) == 4
    assert len(re.findall(r"^rank=\d ready$", pod.log(), re.MULTILINE)) == 4
    assert (said(pod, "the text is asked"), said(pod, "another")) == (1, 0)
    assert pod.log().splitlines()[-1] == "the text is asked"


def test_the_deadline_gives_ranks_their_time_and_then_the_text(pod: Pod) -> None:
    text = script(pod, ASKED, terminationGracePeriodSeconds=40)
    job = pod.start(re.sub(r"^deadline=.*$", "deadline=12", text, flags=re.MULTILINE))
    await_ranks(pod)

    assert job.wait(90) == 7
    assert len(re.findall(r"^rank=\d ready$", pod.log(), re.MULTILINE)) == 4
    found = pod.exit()
    assert found is not None
    assert (found["code"], found["deadline"]) == (7, True)


def test_what_does_not_end_is_killed_after_the_grace_period(pod: Pod) -> None:
    text = "trap '' TERM; mpirun -np 4 ranks -w /no/such/file -g 600; sleep 600"
    job = pod.start(script(pod, text, terminationGracePeriodSeconds=2))
    await_ranks(pod)

    job.terminate()

    assert job.wait(60) == 137


@pytest.mark.parametrize("group", [True, False], ids=["all of the job", "the script alone"])
def test_a_killed_job_takes_its_launches_along(pod: Pod, group: bool) -> None:
    job = pod.start(script(pod, f"mpirun -np 2 {NEVER} & mpirun -np 2 {NEVER}; wait"))
    wait_for(lambda: pod.log().count("rank=") == 4, "for the ranks")

    (os.killpg if group else os.kill)(job.pid, signal.SIGKILL)

    job.wait(60)


def test_a_text_that_ends_takes_its_launches_along(pod: Pod) -> None:
    text = f"for i in 1 2 3; do mpirun -np 1 {NEVER} >/tmp/log.$i & done; until [ $(cat /tmp/log.* | wc -l) = 3 ]; do sleep 0.1; done; exit 4"

    assert pod.run(script(pod, text)) == 4


@pytest.mark.parametrize(
    ("pattern", "code"),
    [(r"^/bin/sh /usr/bin/\S*(mpirun|orterun)", 137), (r"^/usr/bin/mpirun ", 137), (r"^\S*/ranks ", 137)],
    ids=["cover", "launcher", "rank"],
)
def test_what_is_killed_of_a_launch_ends_it_and_the_text_goes_on(pod: Pod, pattern: str, code: int) -> None:
    text = f"mpirun -np 4 {NEVER}; echo status $?; until [ -e /tmp/go ]; do sleep 0.1; done; mpirun -np 2 echo another; exit 5"
    job = pod.start(script(pod, text))
    await_ranks(pod)

    os.kill(those(pod, pattern)[0], signal.SIGKILL)

    pod.awaits_log(f"status {code}")
    wait_for(lambda: not those(pod, r"^\S*/ranks "), "for the end of the ranks")
    wait_for(lambda: not list((pod.path / "launches").iterdir()), "for its files")
    (pod.path / "main.tmp" / "go").touch()
    assert job.wait(60) == 5
    assert said(pod, "another") == 2


@pytest.mark.parametrize(
    ("words", "status"),
    [("-s TERM 10", 124), ("-s INT 10", 124), ("-k 1 10", 137)],  # on a busy machine ranks take seconds to start
    ids=lambda value: str(value).replace(" ", ""),
)
def test_a_timeout_in_the_text_ends_the_launch(pod: Pod, words: str, status: int) -> None:
    grace = 600 if "-k" in words else 1
    text = f"timeout {words} mpirun -np 4 ranks -w /no/such/file -g {grace}; echo status $?; mpirun -np 2 echo another"

    assert pod.run(script(pod, text)) == 0
    assert re.findall(r"^status \d+$", pod.log(), re.MULTILINE) == [f"status {status}"]
    assert (pod.log().count(" asked"), said(pod, "another")) == (4, 2)


def test_ranks_that_start_at_once_do_not_make_the_same_directory(pod: Pod) -> None:
    """The launcher's own directory lies below /tmp, which is the Pod's: the runtime made its place for each rank."""
    assert pod.run(script(pod, "for i in $(seq 12); do mpirun -np 4 true || exit; done")) == 0, pod.log()


ROOM = "echo 77777 >/run/batchgate/requests; until [ -p /run/batchgate/77777/ready ]; do sleep 0.1; done; cd /run/batchgate/77777; "
"""A text that asks for pipes as a launcher does."""
FORGED = {
    "nothing can be made": (
        "cd /run/batchgate; mkdir a || mkfifo b || ln -s /etc/passwd c || rm requests || cd /; mpirun -np 1 pwd",
        "/\n",
    ),
    "nothing can be exchanged": (
        f"{ROOM} rm out || ln -sf /etc/passwd in || mv call ask || cd /; mpirun -np 1 pwd",
        "/\n",
    ),
    "requests that are none": (
        "for i in $(seq 10000); do echo ../../$i; done >/run/batchgate/requests; mpirun -np 1 echo a",
        "a\n",
    ),
    "words without an end": (
        "yes | tr -d '\\n' | head -c 3000000 >/run/batchgate/requests; echo >/run/batchgate/requests; mpirun -np 1 echo a",
        "a\n",
    ),
    "a call that says too little": (f"{ROOM} printf '9\\0a\\0' >call; cd /; mpirun -np 1 echo a", "a\n"),
    "a call without an end": (f"{ROOM} cat /dev/urandom >call & cd /; sleep 2; mpirun -np 1 echo a", "a\n"),
    "a call that nobody hears the end of": (
        f"{ROOM} printf '1\\0mpirun\\0echo\\0/\\0' >call; exec 7<>ask; cd /; mpirun -np 1 echo a",
        "a\n",
    ),
    "pipes that are asked for twice": (f"{ROOM} echo 77777 >../requests; cd /; mpirun -np 1 echo a", "a\n"),
}
"""What a text does to the way to its launches, and what it prints without standard error."""


@pytest.mark.parametrize("row", FORGED)
def test_a_text_harms_nothing_but_itself(pod: Pod, row: str) -> None:
    text, log = FORGED[row]

    assert pod.run(script(pod, f"exec 2>/dev/null; {text}")) == 0
    assert pod.log() == log


def test_a_text_that_asks_for_thousands_of_launches_waits_until_it_is_ended(pod: Pod) -> None:
    text = "for i in $(seq 100000 110000); do echo $i; done >/run/batchgate/requests & sleep 20; mpirun -np 1 echo a"
    job = pod.start(script(pod, f"echo start; {text}", terminationGracePeriodSeconds=1))
    pod.awaits_log("start")
    wait_for(lambda: len(list(pod.work.glob("batchgate.*/launches/1*"))) == AT_ONCE, "for as many as there may be")

    job.terminate()

    assert job.wait(60) in {137, 143}
    assert said(pod, "a") == 0
