"""The decision log: whole lines within the bound, by several processes at once, and a disk that fails."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import resource
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from router.cli import commands
from router.errors import ConfigError
from router.gate import review as admission
from router.gate.evidence import Evidence, Refusal
from router.startup.settings import log_files
from router.webhook.decisionlog import MOST_BYTES, MOST_WAITING, DecisionLog, append, demand_writable
from router.webhook.metrics import Metrics
from tests import gates
from tests.policies import LARGE_GO_TO_HPC
from tests.webhook.servers import ROOT, Pki, serving, until

JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "j"},
    "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}},
}


@dataclass
class Answer:
    evidence: Evidence | None
    record: dict[str, Any] = field(default_factory=dict)
    response: dict[str, Any] = field(default_factory=dict)
    refusal: Refusal | None = None


def _answer(uid: str = "u") -> Answer:
    answer = admission.review(gates.review_of(JOB), gates.gate())
    return Answer(answer.evidence, {**answer.record, "uid": uid})


def _lines(path: Path) -> list[str]:
    """Of all files, the oldest first."""
    return [line for one in reversed(log_files(path)) if one.exists() for line in one.read_text().splitlines()]


def test_a_full_file_is_numbered_and_the_oldest_goes(tmp_path: Path) -> None:
    path = tmp_path / "log"
    for number in range(50):
        append(path, f"line {number:02}", 80)

    assert [[line[-2:] for line in one.read_text().splitlines()] for one in log_files(path)] == [
        ["40", "41", "42", "43", "44", "45", "46", "47", "48", "49"],
        ["30", "31", "32", "33", "34", "35", "36", "37", "38", "39"],
        ["20", "21", "22", "23", "24", "25", "26", "27", "28", "29"],
        ["10", "11", "12", "13", "14", "15", "16", "17", "18", "19"],
    ]
    assert sorted(one.name for one in tmp_path.iterdir()) == ["log", "log.1", "log.2", "log.3"]
    assert (path.stat().st_mode & 0o777) | 0o640 == 0o640


def test_a_line_that_is_longer_than_a_file_is_written_alone(tmp_path: Path) -> None:
    path = tmp_path / "log"
    append(path, "x" * 100, 50)
    append(path, "y" * 100, 50)

    assert _lines(path) == ["x" * 100, "y" * 100]


WRITER = """
import sys
from pathlib import Path
from router.webhook.decisionlog import append
for number in range(400):
    append(Path(sys.argv[1]), sys.argv[2] + " " + str(number) + " " + "x" * (number % 90), 30_000)
"""


def test_several_processes_write_one_log_without_loss(tmp_path: Path) -> None:
    path = tmp_path / "log"
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, path, str(who)], cwd=ROOT) for who in range(3)]
    assert [one.wait() for one in writers] == [0, 0, 0]

    lines = [line.split(" ") for line in _lines(path)]
    assert Counter(line[0] for line in lines) == {"0": 400, "1": 400, "2": 400}
    for who in "012":
        own = [line for line in lines if line[0] == who]
        assert [line[1:] for line in own] == [[str(number), "x" * (number % 90)] for number in range(400)]


@contextlib.contextmanager
def _largest_file(size: int) -> Iterator[None]:
    """The kernel refuses to make a file larger, as on a full disk: with half a line written before."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_leaves_no_half_of_a_line(tmp_path: Path) -> None:
    path = tmp_path / "log"
    append(path, "whole", 1000)
    with _largest_file(20), pytest.raises(OSError, match="File too large"):
        append(path, "x" * 30, 1000)
    append(path, "next", 1000)

    assert path.read_text() == "whole\nnext\n"


def test_what_cannot_be_written_waits_and_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "gone" / "log"
    decisions = DecisionLog(path, 4_000_000, Metrics(), logging.getLogger("test"))
    with caplog.at_level(logging.ERROR):
        for uid in ("a", "b"):
            decisions.put(_answer(uid), 1000)
        decisions.close()
        assert (decisions.error, decisions.failures) == (f"{path} cannot be written: No such file or directory", 1)
        assert [one.message for one in caplog.records] == ["the decision log"]
        path.parent.mkdir()
        decisions.close()

    assert (decisions.error, [json.loads(line)["uid"] for line in _lines(path)]) == ("", ["a", "b"])


SECRET = "hunter2"
OWNER = {"kind": "Workflow", "name": "w", "controller": True}
DENIAL = {
    "format": 1,
    "time": "2027-01-15T08:00:00Z",
    "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
    "operation": "CREATE",
    "namespace": "default",
    "name": "j",
    "user": "ada",
    "groups": ["system:authenticated"],
    "groups_left_out": 0,
    "dry_run": False,
    "allowed": False,
    "target": "invalid",
    "rule": "",
    "reason": "the Job is invalid",
    "site": "",
    "queue": "",
    "audited": [],
    "kind": "Job",
    "generate_name": "",
    "owner": "Workflow/w",
    "place": "",
    "hpc_user": "",
    "policy": gates.checked().digest,
    "namespace_labels": None,
    "job": {},
    "queues": {},
    "left_out": "the Job is invalid",
}


def _invalid(metadata: Any, **request: Any) -> dict[str, Any]:
    job: dict[str, Any] = json.loads(json.dumps(JOB | {"metadata": metadata}))
    job["spec"]["parallelism"] = SECRET
    return gates.review_of(job, **request)


def test_a_denial_without_a_rule_has_a_line_without_what_the_user_wrote(tmp_path: Path) -> None:
    decisions = DecisionLog(tmp_path / "log", 4_000_000, Metrics(), logging.getLogger("test"))
    owned = _invalid({"name": "j", "ownerReferences": [OWNER]})
    denied = [
        admission.review(owned, gates.gate()),
        admission.over_budget(owned, gates.gate(), "rule large", "spec.template", 1.0),
        admission.review(_invalid({"generateName": "j-"}), gates.gate()),
        admission.review(_invalid(SECRET), gates.gate()),
        admission.review(gates.review_of(JOB, operation="DELETE"), gates.gate()),
    ]
    for answer in denied:
        decisions.put(answer, 1000)
    decisions.close()

    over = {"reason": "the review took more than its budget", "left_out": "the review took more than its budget"}
    assert [json.loads(line) for line in _lines(tmp_path / "log")] == [
        DENIAL,
        DENIAL | over,
        DENIAL | {"name": "j-*", "generate_name": "j-", "owner": ""},
        DENIAL | {"name": "", "owner": ""},
    ]
    assert SECRET not in (tmp_path / "log").read_text()


def test_when_too_many_wait_the_others_are_counted(tmp_path: Path) -> None:
    metrics = Metrics()
    decisions = DecisionLog(tmp_path / "log", 4_000_000, metrics, logging.getLogger("test"))
    answer = _answer()
    for _ in range(MOST_WAITING + 3):
        decisions.put(answer, 1000)
    decisions.put(Answer(None), 1000)
    decisions.close()

    assert b"batchgate_decisions_not_logged_total 3.0" in metrics.text()
    assert len(_lines(tmp_path / "log")) == MOST_WAITING


def test_large_reviews_that_wait_are_bounded_by_their_bytes(tmp_path: Path) -> None:
    """Whoever may create Jobs could fill the webhook's memory with them while the disk is full or slow."""
    metrics = Metrics()
    decisions = DecisionLog(tmp_path / "log", 4_000_000, metrics, logging.getLogger("test"))
    for _ in range(2):
        for size in (MOST_BYTES // 2, MOST_BYTES // 2, 1):
            decisions.put(_answer(), size)
        decisions.close()

    assert b"batchgate_decisions_not_logged_total 2.0" in metrics.text()
    assert len(_lines(tmp_path / "log")) == 4


def test_a_log_that_cannot_be_written_ends_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(ConfigError, match="the decision log cannot be written: Not a directory"):
        demand_writable(tmp_path / "file" / "log")


def test_a_file_of_something_else_is_no_decision_log(tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("buy milk")

    with pytest.raises(ConfigError, match="is no decision log, and stays as it is"):
        demand_writable(notes)
    (tmp_path / "empty").touch()
    for name in ("empty", "new", "log"):
        append(tmp_path / "log", '{"format":1}', 1000)
        demand_writable(tmp_path / name)

    assert notes.read_text() == "buy milk"


@pytest.mark.timeout(60)
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    """Such as ``/dev/stdout`` of a container."""
    os.mkfifo(tmp_path / "pipe")

    demand_writable(tmp_path / "pipe")


def test_half_a_line_of_a_process_that_was_killed_spoils_no_other(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text('{"format":1,"time":"20')

    append(log, '{"format":1,"line":2}', 1000)
    append(log, '{"format":1,"line":3}', 1000)

    assert log.read_text() == '{"format":1,"time":"20\n{"format":1,"line":2}\n{"format":1,"line":3}\n'


def test_two_webhooks_write_one_log_that_policy_diff_reads(pki: Pki, tmp_path: Path) -> None:
    for name, cores in (("old", 2), ("new", 4)):
        (tmp_path / name).mkdir()
        text = LARGE_GO_TO_HPC.replace("job.cpus >= 2", f"job.cpus >= {cores}")
        (tmp_path / name / "all.yaml").write_text(text)
    log = tmp_path / "decisions"
    argv = ["router", "webhook", "--listen", "127.0.0.1:0", "--host-name", "localhost", "--cert", str(pki.certificate)]
    argv += ["--key", str(pki.key), "--policy", str(tmp_path / "old"), "--decision-log", str(log)]
    with serving(argv, pki, tmp_path / "one") as one, serving(argv, pki, tmp_path / "two") as two:
        for number in range(12):
            job = json.loads(json.dumps(JOB))
            container = job["spec"]["template"]["spec"]["containers"][0]
            container |= {"command": ["x"], "resources": {"requests": {"cpu": str(number % 6)}}}
            status, _ = (one, two)[number % 2].review(**gates.review_of(job, uid=f"uid-{number}"))
            assert status == 200
        status, answer = one.review(**_invalid({"name": "j"}, uid="uid-12"))
        assert (status, answer["response"]["allowed"]) == (200, False)
        until(lambda: log.exists() and len(_lines(log)) >= 13)
    assert sorted(json.loads(line)["uid"] for line in _lines(log)) == sorted(f"uid-{number}" for number in range(13))

    both = [str(tmp_path / "old"), str(tmp_path / "new")]
    result = CliRunner().invoke(commands, ["policy", "diff", *both, "--log", str(log), "-o", "json"])

    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert (told["judged"], [(one["before"], one["after"], one["jobs"]) for one in told["changes"]]) == (
        12,
        [("demo/batch", "cloud", 4)],
    )
    assert [(one["what"], one["count"]) for one in told["leftOut"]] == [
        ("denied without a rule, and not judged again", 1)
    ]
