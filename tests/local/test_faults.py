"""The faults, each as a whole command and as the agent's parsers see it."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest

from router.errors import BatchError, ConfigError, Unavailable
from router.hpc import local
from router.local import faults
from router.local.faults import NO_FAULTS, Faults
from tests.local.queue import EmbeddedQueue, Run, until


def _judged(command: str, run: Run) -> BatchError | None:
    return local.failure(("batchgate", "local", command), run.rc, run.err)


@pytest.mark.parametrize(
    ("before", "words", "after"),
    [
        (NO_FAULTS, (), NO_FAULTS),
        (NO_FAULTS, ("unreachable=on", "delay=1.5"), Faults(unreachable=True, delay=1.5)),
        (Faults(unreachable=True, delay=2), ("unreachable=off",), Faults(delay=2)),
        (Faults(list_empty=True), ("none", "jobs-unknown=on"), Faults(jobs_unknown=True)),
    ],
)
def test_words(before: Faults, words: tuple[str, ...], after: Faults) -> None:
    changed = faults.changed(before, words)

    assert changed == after
    assert faults.faults_of(json.loads(json.dumps(faults.document_of(changed)))) == after


@pytest.mark.parametrize(
    "word", ["unreachable", "unreachable=yes", "nosuch=on", "delay=-1", "delay=nan", "delay=1e9", "delay=", "on", ""]
)
def test_words_that_are_none(word: str) -> None:
    with pytest.raises(ConfigError):
        faults.changed(NO_FAULTS, (word,))


@pytest.mark.parametrize("document", [[], {"nosuch": True}, {"delay": "1"}, None])
def test_files_that_are_none(document: object) -> None:
    with pytest.raises(ConfigError):
        faults.faults_of(document)


def test_a_wrong_word_changes_nothing_and_is_explained(queue: EmbeddedQueue) -> None:
    refused = queue.run("faults", "list-empty=on", "unreachable=maybe")

    assert refused.rc != 0
    assert "unreachable=maybe: is neither on nor off" in refused.err
    assert "Traceback" not in refused.err
    assert not any(json.loads(queue.ok("faults", "-o", "json")).values())


def test_unreachable(queue: EmbeddedQueue) -> None:
    running = queue.submit("until test -e $GO; do sleep 0.05; done; exit 3", "-v", f"GO={queue.work / 'go'}")
    queue.runs(running)
    queue.ok("faults", "unreachable=on")
    down = "Connection refused\n{}: cannot connect to server local (errno=15010)\n"

    for words, rc in (
        (["qstat"], 255),
        (["qsub", "-h"], 162),
        (["qselect", "-x"], 162),
        (["qsig", running], 162),
        (["qhold", running], 162),
    ):
        run = queue.run(*words)
        assert run == Run(rc, "", down.format(words[0]))
        assert isinstance(_judged(words[0], run), Unavailable)
    gone = queue.run("qdel", running)
    assert gone == Run(162, "", "Connection refused\nCouldn't connect to cluster: local\n")
    assert isinstance(_judged("qdel", gone), Unavailable)
    details = queue.run("qstat", "-x", "-f", "-F", "json", running)
    assert details.rc == 255
    assert "Jobs" not in json.loads(details.out)
    assert isinstance(_judged("qstat", details), Unavailable)

    (queue.work / "go").touch()  # what runs goes on
    os.kill(queue.daemon(), signal.SIGKILL)
    assert queue.run("qstat").rc == 255  # and the fault outlives the process
    eyes = EmbeddedQueue(queue.directory, queue.work, {"BATCHGATE_LOCAL_FAULTS": "ignore"})
    assert eyes.ended(running) == (3, 93)
    queue.ok("faults", "none")
    assert queue.job(running)["Exit_status"] == 3


def test_answers_that_are_lost(queue: EmbeddedQueue) -> None:
    queue.ok("faults", "answers-lost=on")

    lost = queue.run("qsub", "-h", "-N", "tagged", stdin="true\n")

    assert lost == Run(67, "", "qsub: End of File\n")
    assert isinstance(_judged("qsub", lost), Unavailable)
    queue.ok("faults", "none")
    assert queue.ok("qselect", "-N", "tagged") == "0.local\n"


def test_a_history_that_is_lost(queue: EmbeddedQueue) -> None:
    old = queue.submit("exit 3")
    queue.ended(old)
    waiting = queue.submit("true", "-h")

    queue.ok("faults", "history-lost=on")

    until(lambda: queue.ok("qselect", "-x"), lambda ids: ids == f"{waiting}\n")
    unknown = queue.run("qstat", "-x", "-f", "-F", "json", old)
    assert (unknown.rc, unknown.err) == (153, f"qstat: Unknown Job Id {old}\n")
    assert local.unknown_ids(unknown.err) == {old}
    queue.ok("qrls", waiting)
    until(lambda: queue.run("qstat", "-x", waiting).rc, lambda rc: rc == 153)
    deleted = queue.submit("true", "-h")
    queue.ok("qdel", deleted)
    assert queue.run("qstat", "-x", deleted).rc == 153
    queue.ok("faults", "none")
    assert queue.ok("qselect", "-x") == ""
    assert queue.submit("true", "-h") == "3.local"  # no number is given twice


def test_a_history_that_ends_by_itself(queue: EmbeddedQueue) -> None:
    queue.ended(queue.submit("true"))
    queue.define({"name": "workq", "nodes": 1, "cpusPerNode": 1}, historySeconds=0.5)  # now that its end was seen
    queue.ok("stop")

    until(lambda: queue.ok("qselect", "-x") + queue.ok("stop"), lambda ids: ids == "")
    assert list((queue.directory / "jobs").iterdir()) == []


def test_a_list_that_is_empty_though_jobs_live(queue: EmbeddedQueue) -> None:
    job_id = queue.submit("true", "-h")
    queue.ok("faults", "list-empty=on")

    assert queue.ok("qselect", "-x") == queue.ok("qselect", "-N", "script.sh") == queue.ok("qstat") == ""
    assert "Jobs" not in json.loads(queue.ok("qstat", "-f", "-F", "json"))
    assert queue.job(job_id)["job_state"] == "H"


def test_jobs_that_the_server_says_it_does_not_know(queue: EmbeddedQueue) -> None:
    job_id = queue.submit("true", "-h")
    queue.ok("faults", "jobs-unknown=on")

    assert queue.run("qstat", "-x", "-f", job_id) == Run(153, "", f"qstat: Unknown Job Id {job_id}\n")
    assert queue.run("qdel", job_id) == Run(153, "", f"qdel: Unknown Job Id {job_id}\n")
    assert queue.ok("qselect") == f"{job_id}\n"


def test_answers_that_are_late(queue: EmbeddedQueue) -> None:
    queue.ok("faults", "delay=1")
    begun = time.monotonic()

    assert queue.run("qsub", "-h", stdin="true\n") == Run(0, "0.local\n", "")

    assert time.monotonic() - begun >= 1
    assert queue.ok("faults", "none") is not None
    assert queue.ok("qselect") == "0.local\n"


def test_an_answer_is_late_when_its_command_is_gone(queue: EmbeddedQueue) -> None:
    """What the command asked for was done; the daemon goes on."""
    queue.ok("faults", "delay=3600")
    with queue.started("qsub", "-h", "-N", "tagged") as process:
        eyes = EmbeddedQueue(queue.directory, queue.work, {"BATCHGATE_LOCAL_FAULTS": "ignore"})
        until(lambda: eyes.ok("qselect", "-N", "tagged"))
        process.kill()

    queue.ok("faults", "none")
    assert queue.ok("qselect") == "0.local\n"
