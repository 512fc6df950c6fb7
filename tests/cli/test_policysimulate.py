"""``batchgate policy simulate``: traces, logs and manifests, in every form, with what it tells of what it lacks."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from router.cli import commands
from router.simulate import words
from tests.cli.test_policydiff import HOSTILE, job, lines
from tests.policies import LARGE_GO_TO_HPC
from tests.simulate.test_play import SITE

EVERYBODY = SITE.replace("users: [ada]", 'users: ["*"]')
ALL = EVERYBODY + '  - {name: all, when: "true", hpc: [{queue: batch}]}\n'
WAITS = EVERYBODY + (
    "  - {name: busy, when: \"queues['batch'].queuedJobs > 0 && job.cpus <= 4\", cloud: true}\n"
    '  - {name: all, when: "true", hpc: [{queue: batch}]}\n'
)
HEADER = "; Version: 2.2\n; MaxNodes: 2\n; UnixStartTime: 1700000000\n"
CAPACITY = ("--capacity", "demo/batch=2")


def trace(*jobs: tuple[int, int, int, int]) -> str:
    """Submit time, run time, processors, requested time of each."""
    return HEADER + "".join(
        f"{number} {at} -1 {runs} -1 -1 -1 {processors} {limit} -1 1 7 3 -1 1 -1 -1 -1\n"
        for number, (at, runs, processors, limit) in enumerate(jobs, start=1)
    )


TRACE = trace((0, 3600, 8, 3600), (60, 1800, 8, 3600), (120, 600, 4, 900), (180, 600, 1, 900))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in (("all", ALL), ("waits", WAITS), ("large", LARGE_GO_TO_HPC)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "all.yaml").write_text(text)
    (tmp_path / "t.swf").write_text(TRACE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*options: str, given: str | None = None) -> Result:
    return CliRunner().invoke(commands, ["policy", "simulate", *options], input=given)


def rows(result: Result) -> list[list[str]]:
    return [re.split(r" {2,}", line) for line in result.output.splitlines() if re.match(r"(all|waits|large) ", line)]


def test_a_trace_is_played_by_both_policies(folder: Path) -> None:
    """Two nodes: the first Job runs for an hour, the second waits for it for 59 minutes, the others for the second."""
    result = run("all", "waits", "--swf", "t.swf", *CAPACITY, "--html", "page.html")

    assert result.exit_code == 0, result.output
    assert result.output.splitlines()[0] == "4 Jobs, 2023-11-14 to 2023-11-14, in a model of the queues"
    assert rows(result) == [
        ["all", "demo/batch", "4", "4", "13", "100%", "1h13m", "1h28m", "6.33", "9.80", "96%", "8"],
        ["all", "all", "4", "4", "13", "100%", "1h13m", "1h28m", "6.33", "9.80", "-", "8"],
        ["waits", "demo/batch", "2", "2", "12", "94%", "29m30s", "59m", "1.98", "2.97", "100%", "8"],
        ["waits", "cloud", "2", "2", "1", "6%", "0s", "0s", "1.00", "1.00", "-", "5"],
        ["waits", "all", "4", "4", "13", "100%", "0s", "59m", "1.00", "2.97", "-", "13"],
    ]
    told = result.output.splitlines()
    assert "nothing is drawn by chance, so the Jobs are played once" in told
    assert "all: from the first arrival to the last end: 1h40m" in told
    assert "nodes of demo/batch: 2, each with 4 cores, 8 GiB, 2 GPUs" in told
    assert words.MODEL in told
    page = (folder / "page.html").read_text()
    assert words.MODEL in page
    assert page.count("<svg") == 5
    assert "NaN" not in page
    assert re.findall(r'(?:src|href)="', page) == []


def test_a_policy_beside_itself_has_curves_of_its_own(folder: Path) -> None:
    """Two of cores in use for each, and one each of the cloud's share, of Pods that wait and of how long they do."""
    assert run("all", "all", "--swf", "t.swf", *CAPACITY, "--html", "page.html").exit_code == 0
    assert (folder / "page.html").read_text().count('<path class="area') == 10


def test_a_packed_trace_is_the_same(folder: Path) -> None:
    (folder / "t.swf.gz").write_bytes(gzip.compress(TRACE.encode()))

    packed, plain = (run("all", "--swf", file, *CAPACITY, "-o", "json") for file in ("t.swf.gz", "t.swf"))

    assert (packed.exit_code, packed.stdout) == (0, plain.stdout)


def test_the_document_has_all_figures(folder: Path) -> None:
    found = json.loads(run("waits", "--swf", "t.swf", *CAPACITY, "-o", "json").stdout)

    assert (found["jobs"], found["first"], found["last"]) == (4, "2023-11-14T22:13:20Z", "2023-11-14T22:16:20Z")
    assert (found["seeds"], found["drawn"], found["confidence"]) == ([1], False, None)
    assert found["model"]["statement"] == words.MODEL
    (policy,) = found["policies"]
    hpc, cloud, every = policy["destinations"]
    assert [hpc["to"], cloud["to"], every["to"]] == ["demo/batch", "cloud", "all"]
    assert hpc["coreHours"] == {"median": 12.0, "low": 12.0, "high": 12.0}
    assert (hpc["utilisation"]["median"], cloud["utilisation"]["median"]) == (1.0, None)
    assert policy["rules"] == {"all": 2, "busy": 2}
    over_time = {name: value for name, value in policy["overTime"].items() if isinstance(value, dict)}
    assert set(over_time) == {"coresOnHpc", "coresInCloud", "cloudShare", "waitingPods", "waitSeconds"}
    assert {len(one[edge]) for one in over_time.values() for edge in ("median", "low", "high")} == {120}


def test_running_times_that_are_unknown_are_drawn(folder: Path) -> None:
    (folder / "log").write_text(lines(*((cores, "ada", day) for cores in (1, 2, 8) for day in range(4))))
    options = ("large", "--log", "log", "--capacity", "demo/batch=4")

    found, again = (run(*options, "-o", "json").stdout for _ in range(2))
    other = json.loads(run(*options, "-o", "json", "--first-seed", "6", "--seeds", "3").stdout)
    half = json.loads(run(*options, "-o", "json", "--runtime", "0.5").stdout)

    document = json.loads(found)
    assert found == again
    assert (document["seeds"], document["confidence"], other["seeds"]) == ([1, 2, 3, 4, 5], 0.9375, [6, 7, 8])
    hours = document["policies"][0]["destinations"][-1]["coreHours"]
    assert hours["low"] < hours["median"] < hours["high"]
    # Twelve Jobs of 11 cores in each day's three, all of them for half of two hours.
    assert half["policies"][0]["destinations"][-1]["coreHours"]["median"] == 44
    assert "medians of 3 seeds" in run(*options, "--seeds", "3").output
    assert "one seed tells nothing of how far chance goes" in run(*options, "--seeds", "1").output


def test_manifests_and_a_trace_are_played_together(folder: Path) -> None:
    made: list[dict[str, Any]] = [job("a", 2, creationTimestamp="2023-11-14T22:14:00Z"), job("b", 2)]
    (folder / "jobs.yaml").write_text(yaml.safe_dump_all(made))

    result = run("all", "--swf", "t.swf", "--jobs", "jobs.yaml", *CAPACITY)

    assert result.exit_code == 0, result.output
    assert result.output.startswith("5 Jobs, ")
    assert "left out: 1 (the time of their creation is unknown, such as default/b (jobs.yaml:" in result.output


def test_what_a_trace_lacks_is_told(folder: Path) -> None:
    bad = ("1 0 -1 -1 -1 -1 -1 1 60 -1 5 1 1 -1 1 -1 -1 -1", "2 0 -1 9 1 -1 -1 1 60 -1 3 1 1 -1 1 -1 -1 -1",
           "3 0 -1 9 -1 -1 -1 -1 60 -1 1 1 1 -1 1 -1 -1 -1", "4 5 -1 9 1 -1 -1 1 -1 -1 1 1 1 -1 1 -1 -1 -1",
           "5 0 -1 90 1 -1 -1 1 60 -1 1 1 1 -1 1 -1 -1 -1", "6 0 -1 9 64 -1 -1 1024 60 -1 1 1 1 -1 1 -1 -1 -1")  # fmt: skip
    (folder / "t.swf").write_text("\n".join(bad))

    result = run("all", "--swf", "t.swf", *CAPACITY)

    assert result.exit_code == 0, result.output
    for told in (
        "left out: 1 (cancelled before they ran, such as t.swf:1)",
        "left out: 1 (parts of jobs that were stopped and went on, such as t.swf:2)",
        "left out: 1 (name no processors, such as t.swf:3)",
        "left out: 1 (ask for no walltime; --assume-walltime gives them one, such as t.swf:4)",
        "Pods that their walltime or deadline ended: 1",
        "stay though rule all wants them on HPC: 1 Job, such as default/6 (t.swf:6): ",
        "the trace does not say when it begins (UnixStartTime), so it begins on 1970-01-01 at 00:00 UTC",
    ):
        assert told in result.output
    assert "3 Jobs, " in run("all", "--swf", "t.swf", *CAPACITY, "--assume-walltime", "1h").output


def test_records_of_a_trace_before_since_are_counted(folder: Path) -> None:
    result = run("all", "--swf", "t.swf", *CAPACITY, "--since", "2023-11-14T22:15:20Z")

    assert result.exit_code == 0, result.output
    assert result.output.startswith("2 Jobs, ")
    assert "left out: 2 (before --since, such as t.swf:4)" in result.output


@pytest.mark.parametrize(
    ("options", "code", "told"),
    [
        (("all",), 2, "say which Jobs to play: --swf FILE, --log FILE, --jobs FILE or --cluster"),
        (("all", "waits", "large", "--swf", "t.swf"), 2, "at most two directories can be played"),
        (("all", "--swf", "t.swf"), 2, "how many nodes has demo/batch? The policy's key nodes says only what one job may use. Give its size, such as: --capacity demo/batch=2 (queues that share nodes: --capacity SITE/A,SITE/B=NODES). The trace's header says MaxNodes: 2."),
        (("all", "--swf", "none.swf", *CAPACITY), 2, "none.swf: cannot be read: No such file or directory"),
        (("all", "--swf", "bad.swf.gz", *CAPACITY), 2, "bad.swf.gz: cannot be read: Not a gzipped file"),
        (("all", "--swf", "short.swf", *CAPACITY), 2, "short.swf:2: has 3 fields, and a job of the Standard Workload Format has 18"),
        (("all", "--swf", "t.swf", *CAPACITY, "--since", "2024-01-01T00:00:00Z"), 2, "there is no Job to play (left out: 4 before --since)"),
        (("all", "--swf", "torn.swf.gz", *CAPACITY), 2, "torn.swf.gz: cannot be read: Error -3 while decompressing data: invalid block type"),
        (("all", "--swf", "far.swf", *CAPACITY), 2, "far.swf:4: field 2 (submit time) is 9007199254740992, which with UnixStartTime 1700000000 is after 9999-12-30"),
        (("all", "--swf", "late.swf", *CAPACITY), 2, "late.swf:4: field 2 (submit time) is 0, which with UnixStartTime 999999999999999 is after 9999-12-30"),
        (("all", "--swf", "t.swf", *CAPACITY, "--faster", "nan"), 2, "'nan' is no number, and it needs one such as 2"),
        (("all", "--swf", "t.swf", *CAPACITY, "--faster", "1e-10"), 2, "a Job comes after 9999-12-30 if Jobs come 1e-10 times as fast, and no rule can read such a time"),
        (("all", "--swf", "t.swf", *CAPACITY, "--runtime", "1.5"), 2, "'1.5' is neither uniform nor a part of the walltime such as 0.4"),
        (("all", "--swf", "t.swf", *CAPACITY, "--assume-walltime", "long"), 2, "'long' is not a duration"),
        (("none", "--swf", "t.swf", *CAPACITY), 2, "none"),
    ],
)  # fmt: skip
def test_errors(folder: Path, options: tuple[str, ...], code: int, told: str) -> None:
    (folder / "bad.swf.gz").write_text("no gzip")
    (folder / "short.swf").write_text(";\n1 2 3\n")
    packed = bytearray(gzip.compress(TRACE.encode()))
    packed[10:12] = b"\xff\xff"  # behind the head of gzip, RFC 1952
    (folder / "torn.swf.gz").write_bytes(packed)
    (folder / "far.swf").write_text(trace((2**53, 60, 1, 60)))
    (folder / "late.swf").write_text(TRACE.replace("1700000000", "9" * 15))

    result = run(*options)

    assert result.exit_code == code, result.output
    assert told in result.output
    assert "Traceback" not in result.output


def test_names_of_users_are_data(folder: Path) -> None:
    (folder / "large" / "all.yaml").write_text(LARGE_GO_TO_HPC.replace("[admin, ada]", "[admin]"))
    (folder / "log").write_text(lines((4, HOSTILE, 0)))

    result = run("large", "--log", "log", "--capacity", "demo/batch=4", "--html", "page.html")

    assert result.exit_code == 0, result.output
    assert "\x1b" not in result.output
    assert "<script>" not in (folder / "page.html").read_text()


def test_jobs_may_come_faster_and_be_somebodys(folder: Path) -> None:
    (folder / "large" / "all.yaml").write_text(LARGE_GO_TO_HPC)
    options = ("large", "--swf", "t.swf", "--capacity", "demo/batch=4", "-o", "json")

    nobody, ada = (json.loads(run(*options, *more).stdout) for more in ((), ("--as-user", "ada", "--faster", "2")))

    assert [one["to"] for one in nobody["policies"][0]["destinations"]] == ["cloud", "all"]
    assert "no account" in nobody["policies"][0]["kept"][0]["example"]
    assert "Jobs come 2 times as fast as they did" in ada["assumed"]
    assert (nobody["last"], ada["last"]) == ("2023-11-14T22:16:20Z", "2023-11-14T22:14:50Z")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--swf", "t.swf", "--swf", "t.swf"], "one trace can be played, and --swf names 2"),
        (
            ["--jobs", "jobs.yaml", "--as-user", "ada"],
            "--as-user is for Jobs of a trace (--swf); others have their own",
        ),
        (["--jobs", "jobs.yaml", "--as-namespace", "lab"], "--as-namespace is for Jobs of a trace (--swf)"),
    ],
)
def test_options_that_would_do_nothing_are_refused(folder: Path, options: list[str], told: str) -> None:
    result = run("all", *options, *CAPACITY)

    assert result.exit_code == 2
    assert told in result.stderr


def test_a_cronjob_is_played_at_the_time_when_it_was_made_and_a_mark_of_bytes_is_no_field(folder: Path) -> None:
    cron = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "c", "creationTimestamp": "2023-11-14T22:13:20Z"},
        "spec": {"schedule": "0 3 * * *", "jobTemplate": {"spec": job("j", 2)["spec"]}},
    }
    (folder / "jobs.yaml").write_text(yaml.safe_dump(cron))
    (folder / "t.swf").write_text("\ufeff" + TRACE)

    result = run("all", "--jobs", "jobs.yaml", "--swf", "t.swf", *CAPACITY)

    assert result.output.splitlines()[0] == "5 Jobs, 2023-11-14 to 2023-11-14, in a model of the queues", result.output
