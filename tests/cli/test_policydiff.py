"""``batchgate policy diff``: from decision logs, manifests and both, in every form, with its exit codes."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import yaml
from click.testing import CliRunner, Result

from router import policy
from router.cli import commands
from router.cli.cluster import Cluster
from router.cli.policydiff import policies_of
from router.cli.replayed import from_logs
from router.errors import ConfigError
from router.gate import review as admission
from router.gate.judging import Gate
from router.kube.client import Api
from router.policy.decision import QueueState, QueueStates
from router.replay import record
from router.replay.cases import Case
from router.webhook.decisionlog import append
from router.workload.cluster import UNKNOWN_CLUSTER
from tests.gates import review_of
from tests.policies import LARGE_GO_TO_HPC

NEW = LARGE_GO_TO_HPC.replace("job.cpus >= 2", "\"job.cpus >= 4 || queues['batch'].freeNodes > 2\"").replace(
    "rules:\n", "rules:\n  - {name: vast, when: job.cpus > 8, deny: too many cores}\n"
)
ROOT = Path(__file__).parent.parent.parent
NOON = int(datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp())
DAY = 86400
HOSTILE = "bob|`<script>alert(1)</script>\x1b[31m\u202e@all [x](javascript:1)"


def job(name: str, cores: int, **metadata: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "command": ["x"], "resources": {"requests": {"cpu": str(cores)}}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, **metadata},
        "spec": {
            "activeDeadlineSeconds": 7200,
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        },
    }


def lines(*asked: tuple[int, str, int], free_nodes: int | None = 1, **request: Any) -> str:
    """A log of decisions by the old policy: cores, user, days after the first of March."""
    checked = policy.load({"all.yaml": LARGE_GO_TO_HPC})
    state = QueueState("demo", "batch", up=True, free_nodes=free_nodes)
    made = []
    for number, (cores, user, days) in enumerate(asked):
        gate = Gate(checked, UNKNOWN_CLUSTER, QueueStates({("demo", "batch"): state}), None, NOON + days * DAY)
        answer = admission.review(review_of(job(f"j{number}", cores), user=user, **request), gate)
        assert answer.evidence is not None
        made.append(record.line(answer.record, answer.evidence) + "\n")
    return "".join(made)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in (("old", LARGE_GO_TO_HPC), ("new", NEW)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "all.yaml").write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*options: str, given: str | None = None) -> Result:
    return CliRunner().invoke(commands, ["policy", "diff", *options], input=given)


def table(result: Result) -> list[list[str]]:
    """The cells of its rows: two blanks part columns."""
    rows = [
        line for line in result.output.splitlines() if " (all.yaml:" in line and not line.startswith(("rules", " "))
    ]
    return [[cell.strip() for cell in row.split("  ") if cell.strip()] for row in rows if "such as" not in row]


def test_a_log_is_judged_by_both_policies(folder: Path) -> None:
    log = lines(
        (1, "ada", 0), (2, "ada", 0), (3, "ada", 1), (2, "admin", 3), (4, "ada", 4), (16, "ada", 5), (2, "eve", 5)
    )
    (folder / "log").write_text(log)

    result = run("old", "new", "--log", "log")

    assert result.exit_code == 0, result.output
    assert result.output.splitlines()[0] == "7 Jobs, 2026-03-01 to 2026-03-06: 5 would be decided otherwise"
    assert table(result) == [
        ["cloud to deny", "denied", "1", "1", "1", "32", "0", "1", "2026-03-06", "large (all.yaml:15)", "vast (all.yaml:15)", "-"],
        ["demo/batch to cloud", "target", "3", "2", "1", "14", "0", "3", "2026-03-04", "large (all.yaml:15)", "small (all.yaml:17)", "-"],
        ["cloud", "rule", "1", "1", "1", "4", "0", "1", "2026-03-06", "large (all.yaml:15)", "small (all.yaml:17)", "-"],
    ]  # fmt: skip
    assert "cloud to deny: such as default/j5 (log:6)\n" in result.output
    assert "  after:  too many cores\n" in result.output


def test_the_page_shows_what_is_printed(folder: Path) -> None:
    log = lines(
        (1, "ada", 0), (2, "ada", 0), (3, "ada", 1), (2, "admin", 3), (4, "ada", 4), (16, "ada", 5), (2, "eve", 5)
    )
    (folder / "log").write_text(log)
    page = (ROOT / "docs" / "trying-policies.md").read_text()

    shown = page.partition("```text\n")[2].partition("```")[0].splitlines()

    assert run("old", "new", "--log", "log").output.splitlines()[:5] == shown


def test_facts_that_are_missing_are_told(folder: Path) -> None:
    (folder / "log").write_text(lines((2, "ada", 0), (5, "ada", 0), free_nodes=None))

    result = run("old", "new", "--log", "log")

    assert [row[-1] for row in table(result)] == ["queues['batch'].freeNodes (1)"]
    told = "so that decisions may be others: queues['batch'].freeNodes (2 Jobs)"
    assert [line for line in result.output.splitlines() if line.endswith(told)] != []


def test_the_same_policy_changes_nothing_and_unmet_rules_are_named(folder: Path) -> None:
    (folder / "log").write_text(lines((1, "ada", 0)))

    result = run("new", "new", "--log", "log", "--fail-on", "any")

    assert (result.exit_code, result.output.splitlines()) == (
        0,
        [
            "1 Job, 2026-03-01 to 2026-03-01: 0 would be decided otherwise",
            "rules of new that no Job met: vast (all.yaml:15), large (all.yaml:16)",
            "rules of new that no Job met: vast (all.yaml:15), large (all.yaml:16)",
        ],
    )


@pytest.mark.parametrize(
    ("on", "code"), [("denied", 1), ("target", 0), ("rule", 1), ("missing", 0), ("any", 1), ("queue", 0)]
)
def test_the_exit_code_is_that_of_the_changes_that_were_named(folder: Path, on: str, code: int) -> None:
    (folder / "log").write_text(lines((16, "ada", 0), (2, "eve", 0)))

    assert run("old", "new", "--log", "log", "--fail-on", on).exit_code == code
    assert run("old", "new", "--log", "log").exit_code == 0


def test_a_job_of_an_unknown_maker_is_no_reason_to_pass(folder: Path) -> None:
    (folder / "jobs.yaml").write_text(yaml.safe_dump(job("one", 3)))
    (folder / "old" / "all.yaml").write_text(LARGE_GO_TO_HPC.replace("job.cpus >= 2", "job.cpus >= 4"))
    (folder / "new" / "all.yaml").write_text(LARGE_GO_TO_HPC)

    told, kept = (run(*both, "--jobs", "jobs.yaml", "--fail-on", "target") for both in (("old", "new"), ("new", "new")))

    assert [row[:4] for row in table(told)] == [["cloud to demo/batch or cloud", "target", "1", "unknown"]]
    assert (told.exit_code, kept.exit_code) == (1, 0)


def test_a_decision_that_stays_as_far_as_is_known_is_one_with_missing_facts(folder: Path) -> None:
    """The accounts change under the same rule: only for who made the Job is it another decision."""
    (folder / "jobs.yaml").write_text(yaml.safe_dump_all([job("one", 3), job("small", 1)]))
    (folder / "old" / "all.yaml").write_text(LARGE_GO_TO_HPC)
    (folder / "new" / "all.yaml").write_text(LARGE_GO_TO_HPC.replace("[admin, ada]", "[ben]"))
    asked = ("old", "new", "--jobs", "jobs.yaml", "--fail-on")

    shown, failed = run(*asked, "target"), run(*asked, "missing")
    suite = ET.fromstring(run(*asked, "missing", "-o", "junit").stdout)
    passed = ET.fromstring(run(*asked, "target", "-o", "junit").stdout)

    assert shown.output.splitlines()[0] == "2 Jobs: 0 would be decided otherwise"
    assert "decided the same as far as is known, as facts are missing: 1 Job" in shown.output.splitlines()
    assert (shown.exit_code, failed.exit_code) == (0, 1)
    assert json.loads(run("old", "new", "--jobs", "jobs.yaml", "-o", "json").stdout)["unsure"] == 1
    assert (suite.get("tests"), suite.get("failures"), len(suite.findall("testcase/failure"))) == ("1", "1", 1)
    assert (passed.get("tests"), passed.get("failures"), len(passed.findall("testcase/failure"))) == ("1", "0", 0)
    assert run("old", "old", "--jobs", "jobs.yaml", "--fail-on", "missing").exit_code == 0


def test_older_files_of_a_log_are_read_too_and_what_is_no_new_job_is_counted(folder: Path) -> None:
    (folder / "log.2").write_text(lines((2, "ada", 0)))
    (folder / "log.1").write_text(lines((2, "ada", 1)))
    (folder / "log").write_text(
        lines((2, "ada", 2)) + lines((2, "ada", 2), dryRun=True) + '{"format":1,"time"\n' + "[" * 60_000 + "\n"
    )

    result = run("old", "new", "--log", "log", "--since", "2026-03-02T00:00:00Z")

    assert result.exit_code == 0
    assert result.output.splitlines()[0] == "2 Jobs, 2026-03-02 to 2026-03-03: 2 would be decided otherwise"
    assert [line for line in result.output.splitlines() if line.startswith("left out")] == [
        "left out: 1 (before --since)",
        "left out: 1 (dry runs)",
        "left out: 2 (lines that cannot be read, such as log:3: is no line of JSON)",
    ]


def test_a_log_that_is_named_twice_counts_once_and_blank_lines_are_none(folder: Path) -> None:
    (folder / "log.1").write_text("\n" + lines((2, "ada", 0)))
    (folder / "log").write_text("\ufeff" + lines((2, "ada", 1)) + "\n")

    result = run("old", "new", "--log", "log", "--log", "log.1", "--log", "./log")

    assert result.output.splitlines()[0] == "2 Jobs, 2026-03-01 to 2026-03-02: 2 would be decided otherwise"
    assert "left out" not in result.output


def test_a_log_that_is_rotated_while_it_is_read_is_read_whole_and_once(folder: Path) -> None:
    path = folder / "log"
    for name, days in (("log.3", 0), ("log.2", 1), ("log.1", 2), ("log", 3)):
        (folder / name).write_text(lines((2, "ada", days)))
    found = from_logs([str(path)], 0)

    first = next(found)
    append(path, lines((2, "ada", 4)).rstrip(), 1)
    read = [first, *found]

    assert [one.requester.time for one in read if isinstance(one, Case)] == [NOON + days * DAY for days in range(4)]


def test_logs_in_pipes_are_opened_in_their_turn(folder: Path) -> None:
    """One process writes all of the first pipe before it opens the second."""
    for name in ("one", "two"):
        os.mkfifo(folder / name)
    whole = lines((2, "ada", 0)) * 200  # more than a pipe holds
    writer = threading.Thread(target=lambda: [(folder / name).write_text(whole) for name in ("one", "two")])
    writer.start()

    read = list(from_logs(["one", "two", "./one"], 0))
    writer.join()

    assert [one.requester.time for one in read if isinstance(one, Case)] == [NOON] * 400


def test_a_log_comes_from_a_pipe(folder: Path) -> None:
    argv = [sys.executable, "-m", "router", "policy", "diff", "old", "new", "--log", "-"]
    done = subprocess.run(argv, input=lines((2, "ada", 0)), cwd=folder, capture_output=True, text=True, check=False)

    assert done.stdout.splitlines()[:1] == ["1 Job, 2026-03-01 to 2026-03-01: 1 would be decided otherwise"], (
        done.stderr
    )


def test_what_is_no_job_to_judge_is_told(folder: Path) -> None:
    """A CronJob is of the time when it was made. A Job without a time is not later than any."""
    cron = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "c", "creationTimestamp": "2026-03-02T12:00:00Z"},
        "spec": {"schedule": "0 3 * * *", "jobTemplate": {"spec": job("j", 2)["spec"]}},
    }
    old, beta = job("old", 2, creationTimestamp="2026-02-01T12:00:00Z"), {**cron, "apiVersion": "batch/v1beta1"}
    (folder / "jobs.yaml").write_text(yaml.safe_dump_all([cron, old, beta, job("undated", 2)]))

    result = run("old", "new", "--jobs", "jobs.yaml", "--since", "2026-03-01T00:00:00Z")

    assert result.output.splitlines()[0].startswith("1 Job, 2026-03-02 to 2026-03-02: ")
    assert [line for line in result.output.splitlines() if line.startswith("left out")] == [
        "left out: 1 (before --since)",
        "left out: 1 (of another API version than batch/v1, such as jobs.yaml:42: batch/v1beta1)",
        "left out: 1 (the time of their creation is unknown, such as jobs.yaml:64)",
    ]


@pytest.mark.parametrize("words", ["retries: {onWalltime: true}", "deadline: total"])
def test_what_follows_the_end_of_a_pod_is_a_change(folder: Path, words: str) -> None:
    (folder / "new" / "all.yaml").write_text(
        LARGE_GO_TO_HPC.replace("hpc: [{queue: batch}]", f"{words}, hpc: [{{queue: batch}}]")
    )
    (folder / "log").write_text(lines((2, "ada", 0)))

    result = run("old", "new", "--log", "log", "--fail-on", "retries")

    assert result.exit_code == 1, result.output
    assert result.stderr == "Failed: 1 of 1 Jobs are what --fail-on names (retries)\n"


def test_the_same_jobs_print_the_same(folder: Path) -> None:
    """Facts that are missing for as many Jobs come in one order, whatever the seed of Python's hashes."""
    rules = LARGE_GO_TO_HPC.replace(
        "job.cpus >= 2", "\"request.user == 'x' || 'a' in request.groups || job.cpus >= 2\""
    )
    (folder / "new" / "all.yaml").write_text(rules)
    (folder / "jobs.yaml").write_text(yaml.safe_dump(job("j", 2)))
    argv = [sys.executable, "-m", "router", "policy", "diff", "old", "new", "--jobs", "jobs.yaml", "-o", "json"]

    seen = set()
    for seed in range(4):
        environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
        seen.add(subprocess.run(argv, cwd=folder, env=environment, capture_output=True, text=True, check=True).stdout)

    (found,) = seen
    assert list(json.loads(found)["missing"]) == ["request.user", "request.groups"]


def test_a_state_of_queues_that_is_old_is_said_to_be_so(folder: Path) -> None:
    (folder / "queues.yaml").write_text("time: 2026-03-01T12:00:00Z\nqueues: []\n")
    (folder / "jobs.yaml").write_text(yaml.safe_dump(job("j", 2)))

    result = run("old", "new", "--jobs", "jobs.yaml", "--queues", "queues.yaml")

    assert result.stderr.startswith(
        "Warning: queues.yaml is of 2026-03-01T12:00:00Z, more than 10m ago; all Jobs are judged"
    )


def test_jobs_of_one_namespace_alone(folder: Path) -> None:
    (folder / "log").write_text(lines((2, "ada", 0)) + lines((2, "ada", 0), namespace="lab"))

    assert run("old", "new", "--log", "log", "-n", "lab").output.startswith("1 Job, ")
    assert run("old", "new", "--log", "log").output.startswith("2 Jobs, ")


def test_nothing_to_judge_is_an_error_in_junit_too(folder: Path) -> None:
    (folder / "log").write_text("")

    result = run("old", "new", "--log", "log", "-o", "junit")

    suite = ET.fromstring(result.stdout)
    assert (result.exit_code, suite.attrib["errors"]) == (2, "1")
    assert [one.attrib["message"] for one in suite.findall("testcase/error")] == [
        "no Job was judged, so nothing was shown"
    ]


def test_jobs_of_manifests_are_asked_as_who_made_them(folder: Path) -> None:
    made = job("made", 3, uid="u", creationTimestamp="2026-03-01T12:00:00Z")
    made["spec"]["template"]["metadata"] = {"annotations": {"batchgate.dev/requester": "ada"}}
    owned = job("owned", 3, ownerReferences=[{"kind": "CronJob", "name": "c", "controller": True}])
    cron = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "nightly", "namespace": "lab"},
        "spec": {"schedule": "@daily", "jobTemplate": {"spec": job("x", 3)["spec"]}},
    }
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "lab", "labels": {"a": "b"}}}
    text = yaml.safe_dump_all([{"kind": "List", "items": [made, owned]}, cron, space, job("unknown", 3)])

    result = run("old", "new", "--jobs", "-", "-o", "json", given=text)

    document = json.loads(result.stdout)
    assert [
        (one["kind"], one["before"], one["after"], one["users"], one["namespaces"], one["missing"])
        for one in document["changes"]
    ] == [
        (
            "target",
            "demo/batch or cloud",
            "cloud",
            {"": 1},
            {"default": 1},
            {"queues['batch'].freeNodes": 1, "request.user": 1},
        ),
        ("target", "demo/batch", "cloud", {"ada": 1}, {"default": 1}, {"queues['batch'].freeNodes": 1}),
        (
            "rule",
            "cloud",
            "cloud",
            {"system:serviceaccount:kube-system:cronjob-controller": 2},
            {"default": 1, "lab": 1},
            {"queues['batch'].freeNodes": 2},
        ),
    ]
    assert (document["judged"], document["changed"]) == (4, 4)


def test_whoever_is_unknown_is_not_counted_as_one_person(folder: Path) -> None:
    (folder / "jobs.yaml").write_text(yaml.safe_dump_all([job("one", 2), job("two", 2)]))

    shown = run("old", "new", "--jobs", "jobs.yaml").output
    suite = ET.fromstring(run("old", "new", "--jobs", "jobs.yaml", "-o", "junit").stdout)

    assert [row[3] for row in table(run("old", "new", "--jobs", "jobs.yaml"))] == ["unknown"]
    assert "no account at site demo is for an unknown user in namespace default\n" in shown
    assert "2 Jobs (users: unknown, " in str(suite.findtext("testcase/system-out"))


def test_the_state_of_queues_can_be_given_for_manifests(folder: Path) -> None:
    (folder / "queues.yaml").write_text("queues: [{site: demo, queue: batch, up: true, freeNodes: 9}]\n")
    made = job("made", 3, uid="u")
    made["spec"]["template"]["metadata"] = {"annotations": {"batchgate.dev/requester": "ada"}}
    (folder / "job.json").write_text(json.dumps(made))

    result = run("old", "new", "--jobs", "job.json", "--queues", "queues.yaml", "--fail-on", "any")

    assert (result.exit_code, result.output.splitlines()[0]) == (0, "1 Job: 0 would be decided otherwise")


def test_scripts_are_compared_on_wish(folder: Path) -> None:
    (folder / "new" / "all.yaml").write_text(LARGE_GO_TO_HPC.replace("workDir:", "modules: [tools/2]\n    workDir:"))
    made = job("made", 3, uid="u")
    made["spec"]["template"]["metadata"] = {"annotations": {"batchgate.dev/requester": "ada"}}
    (folder / "job.json").write_text(json.dumps(made))

    without = run("old", "new", "--jobs", "job.json", "--fail-on", "any")
    found = run("old", "new", "--jobs", "job.json", "--scripts", "--fail-on", "script")

    assert (without.exit_code, without.output.splitlines()[0]) == (0, "1 Job: 0 would be decided otherwise")
    assert (found.exit_code, found.output.splitlines()[0]) == (1, "1 Job: 1 would be decided otherwise")
    assert [line.strip() for line in found.output.splitlines() if "tools/2" in line] == ["+modules=(tools/2)"]


def test_the_script_is_that_of_the_job_with_what_the_cluster_fills_in(folder: Path) -> None:
    """Without the LimitRange's cores and the claim's class neither policy would write one."""
    mapped = LARGE_GO_TO_HPC.replace("workDir:", "volumes: [{storageClass: fast, path: /fast}]\n    workDir:")
    (folder / "old" / "all.yaml").write_text(mapped)
    (folder / "new" / "all.yaml").write_text(mapped.replace("workDir:", "modules: [tools/2]\n    workDir:"))
    made = job("made", 3, namespace="lab", annotations={"batchgate.dev/requester": "ada"})
    (container,) = made["spec"]["template"]["spec"]["containers"]
    del container["resources"]
    container["volumeMounts"] = [{"name": "v", "mountPath": "/v"}]
    made["spec"]["template"]["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    sizes = {"limits": [{"type": "Container", "defaultRequest": {"cpu": "3"}}]}
    facts = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "lab"}},
        {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l", "namespace": "lab"}, "spec": sizes},
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data", "namespace": "lab"},
            "spec": {"storageClassName": "fast"},
        },
    ]
    (folder / "jobs.yaml").write_text(yaml.safe_dump_all([*facts, made]))

    found = run("old", "new", "--jobs", "jobs.yaml", "--scripts", "--fail-on", "script")

    assert (found.exit_code, [row[:2] for row in table(found)]) == (1, [["demo/batch", "script"]])
    assert [line.strip() for line in found.output.splitlines() if "tools/2" in line] == ["+modules=(tools/2)"]


def _hostile(folder: Path) -> None:
    (folder / "log").write_text(lines((2, HOSTILE, 0), (16, HOSTILE, 0)))


def test_a_hostile_name_is_text_in_markdown(folder: Path) -> None:
    _hostile(folder)

    text = run("old", "new", "--log", "log", "-o", "markdown").output

    rows = [line for line in text.splitlines() if line.startswith("| `")]
    assert [row.count("|") for row in rows] == [13, 13]
    outside = "".join(part for line in text.splitlines() for part in line.split("`")[::2])
    assert not {"<", "@", "]", "\x1b", "\u202e"} & set(outside)
    assert not {"\x1b", "\u202e"} & set(text)


def test_a_hostile_name_is_text_in_html_and_nothing_is_loaded(folder: Path) -> None:
    _hostile(folder)

    result = run("old", "new", "--log", "log", "--html", "page.html")

    text = (folder / "page.html").read_text()
    assert result.exit_code == 0
    assert "<script" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert not {"\x1b", "\u202e"} & set(text)
    assert "http" not in text.replace('http-equiv="Content-Security-Policy"', "")
    assert text.count("<svg") == text.count("</svg>") == 2
    assert "before: rule large, cpus &gt;= 2" in text
    assert "after: rule vast, cpus &gt; 8" in text


def test_borders_of_all_pods_are_drawn_and_said_to_be_of_one_pod(folder: Path) -> None:
    """A rule by totalCpus holds at its number for a Job of one Pod; the axis is of the cores of a Pod."""
    (folder / "log").write_text(lines((2, "ada", 0), (16, "ada", 0)))
    (folder / "new" / "all.yaml").write_text(NEW.replace("job.cpus > 8", "job.totalCpus > 8"))

    assert run("old", "new", "--log", "log", "--html", "page.html").exit_code == 0

    text = (folder / "page.html").read_text()
    upright = dict(re.findall(r'd="M([0-9.]+) 0V360.0"><title>(after: [^<]*)', text))
    assert sorted(upright.values()) == ["after: rule large, cpus &gt;= 4", "after: rule vast, totalCpus &gt; 8"]
    assert "those of totalCpus are where they lie for a Job of one Pod" in text


def test_the_page_is_written_though_the_reader_of_the_output_has_ended(folder: Path) -> None:
    (folder / "log").write_text(lines((2, "ada", 0)))
    reader, writer = os.pipe()
    os.close(reader)
    argv = [sys.executable, "-m", "router", "policy", "diff", "old", "new", "--log", "log", "--html", "page.html"]

    run = subprocess.run(
        argv, stdout=writer, stderr=subprocess.PIPE, env=os.environ | {"PYTHONPATH": str(ROOT)}, check=False
    )
    os.close(writer)

    assert (run.stderr, (folder / "page.html").read_text()[:15]) == (b"", "<!doctype html>")


def test_a_hostile_name_does_not_reach_the_terminal(folder: Path) -> None:
    _hostile(folder)

    assert not {"\x1b", "\u202e"} & set(run("old", "new", "--log", "log").output)


def test_junit_fails_for_the_changes_that_were_named(folder: Path) -> None:
    _hostile(folder)

    result = run("old", "new", "--log", "log", "-o", "junit", "--fail-on", "denied")

    suite = ET.fromstring(result.stdout)
    assert result.exit_code == 1
    assert suite.attrib == {"name": "batchgate policy diff", "tests": "2", "failures": "1", "errors": "0"}
    assert [(case.attrib["classname"], case[0].tag) for case in suite.findall("testcase")] == [
        ("policy diff.denied", "failure"),
        ("policy diff.rule", "system-out"),
    ]


def test_junit_has_the_figures_of_the_table(folder: Path) -> None:
    asked = job("made", 16, creationTimestamp="2026-03-02T12:00:00Z")
    asked["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] = {"nvidia.com/gpu": "2"}
    unsized = job("unsized", 16, namespace="lab", creationTimestamp="2026-03-04T12:00:00Z")
    del unsized["spec"]["activeDeadlineSeconds"]
    for one in (asked, unsized):
        one["spec"]["template"]["metadata"] = {"annotations": {"batchgate.dev/requester": "ada"}}
    (folder / "jobs.yaml").write_text(yaml.safe_dump_all([asked, unsized]))

    suite = ET.fromstring(run("old", "new", "--jobs", "jobs.yaml", "-o", "junit", "--fail-on", "denied").stdout)

    (failure,) = suite.findall("testcase/failure")
    assert failure.attrib["message"] == (
        "2 Jobs (users: 1, namespaces: 2), 32 core-hours, 4 GPU-hours, 1 Job without walltime; "
        "on 2 days, last on 2026-03-04: denied now, and was not"
    )


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["old", "new"], "say which Jobs to judge: --log FILE, --jobs FILE or --cluster"),
        (["old", "new", "third", "--log", "log"], "two directories can be compared: OLD and NEW"),
        (["old", "new", "--log", "gone"], "gone: there is no such decision log; the webhook's option --decision-log writes one"),
        (["old", "new", "--log", "old/all.yaml"], "old/all.yaml:2: is no line of JSON"),
        (["old", "new", "--log", "empty"], "no Job was judged, so nothing was shown"),
        (["old", "new", "--log", "later"], "later:1: has format 2, and this release reads 1; use the webhook's own release"),
        (["old", "new", "--log", "log", "--since", "noon"], "'noon' is neither a time before now, such as 7d, nor a moment"),
        (["old", "new", "--log", "log", "--since", "7"], "'7' is neither a time before now, such as 7d, nor a moment"),
        (["old", "new", "--log", "log.gz"], "log.gz:1: is no text in UTF-8 but packed by gzip: unpack it"),
        (["old", "new", "--log", "log", "--scripts"], "--scripts is for Jobs of --jobs and --cluster: a log has no manifests"),
        (["old", "new", "--log", "log", "--queues", "q"], "--queues is for Jobs of --jobs and --cluster: a log has the queues as they were"),
        (["old", "new", "--jobs", "j", "--fail-on", "script"], "--fail-on script needs --scripts, which compares them"),
        (["old", "gone", "--log", "log"], "gone: there is no such policy directory"),
        (["old", "new", "--jobs", "broken.yaml"], "broken.yaml:2:1: is not YAML"),
    ],
)  # fmt: skip
def test_bad_input_is_named(folder: Path, options: Sequence[str], told: str) -> None:
    (folder / "log").write_text(lines((2, "ada", 0)))
    (folder / "later").write_text(lines((2, "ada", 0)).replace('"format":1', '"format":2'))
    (folder / "log.gz").write_bytes(gzip.compress(lines((2, "ada", 0)).encode()))
    (folder / "empty").write_text("")
    (folder / "broken.yaml").write_text("a: [\n")

    result = run(*options)

    assert result.exit_code == 2
    assert told in " ".join(result.stderr.split())
    assert "Traceback" not in result.output


class Holding(Api):
    """Answers with one ConfigMap; it reaches nobody."""

    def __init__(self, data: dict[str, str]) -> None:
        self._data = data

    def find(self, path: str, seconds: float = 30) -> dict[str, Any]:
        return {"metadata": {"name": path.rpartition("/")[2]}, "data": self._data}


@pytest.mark.parametrize(
    ("data", "told"), [({"all.yaml": "rules: 1\n"}, "all.yaml:1:8: "), ({}, "holds no policy file (a key *.yaml)")]
)
def test_a_policy_of_the_cluster_that_does_not_check_says_what_to_name(data: dict[str, str], told: str) -> None:
    """Webhook and agents have the last good policy then, which no ConfigMap holds."""
    reached = Cluster(Holding(data), "default", named=False, system="batchgate-system")

    with pytest.raises(ConfigError) as error:
        policies_of((), reached)

    first, *rest = str(error.value).splitlines()
    assert first == (
        "ConfigMap batchgate-system/batchgate-policies: is not in force, as it does not check: webhook and agents keep the "
        "last good policy, which the cluster does not hold; name its directory, or mend the ConfigMap:"
    )
    assert told in rest[0]


def test_a_job_that_the_same_policy_decided_otherwise_then_is_told(folder: Path) -> None:
    log = lines((2, "ada", 0)).replace('"target":"hpc"', '"target":"cloud"').replace('"queue":"batch"', '"queue":""')
    (folder / "log").write_text(log)

    result = run("old", "old", "--log", "log")

    (note,) = [line for line in result.output.splitlines() if "by the same policy then" in line]
    assert note.endswith("such as default/j0 (log:1): cloud by rule large, now demo/batch by rule large")


def test_since_counts_back_from_now(folder: Path) -> None:
    days = (datetime.now(tz=UTC) - timedelta(days=1) - datetime.fromtimestamp(NOON, UTC)).days
    (folder / "log").write_text(lines((2, "ada", 0), (2, "ada", days)))

    assert run("old", "new", "--log", "log", "--since", "7d").output.startswith("1 Job, ")
