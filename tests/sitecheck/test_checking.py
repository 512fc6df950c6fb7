"""The whole check on an embedded queue with a local host: real probes, real files, nothing left."""

from __future__ import annotations

import getpass
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from router import names
from router.agent.lastcheck import CheckRecord
from router.controlplane import installing
from router.controlplane.plane import ControlPlane
from router.kube.client import connect
from tests.local.queue import EmbeddedQueue, until
from tests.processes import started

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[EmbeddedQueue]:
    made = EmbeddedQueue(tmp_path / "queue", tmp_path / "home")
    made.work.mkdir()
    made.define({"name": "workq", "nodes": 2, "cpusPerNode": 4, "memory": "8gb", "walltimeMax": 3600}, killDelay=2)
    yield made
    made.run("stop", "--delete")


def argv(queue: EmbeddedQueue, directory: Path, **changed: Any) -> list[str]:
    """The command, for a policy of one site that is changed so."""
    policy = directory / "policy"
    policy.mkdir(exist_ok=True)
    site = {
        "name": "here",
        "system": "local",
        "workDir": str(directory / "work"),
        "runtime": "host",
        "fsDelay": "20s",
        "queues": [{"name": "workq", "nodes": 2, "cpusPerNode": 4, "walltimeMax": "1h"}],
        **changed,
    }
    account = {"users": ["ada"], "as": getpass.getuser(), "account": "physics", "project": "sky"}
    rule = {"name": "all", "hpc": [{"queue": site["queues"][0]["name"]}]}
    (policy / "site.yaml").write_text(yaml.safe_dump({"sites": [site], "accounts": [account], "rules": [rule]}))
    words = ["--policy", str(policy), "--local-state", str(queue.directory), "-o", "json", "--no-record"]
    return [sys.executable, "-m", "router", "site", "check", "here", *words]


def checked(command: list[str]) -> tuple[int, dict[str, Any]]:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    lines: dict[str, Any] = {line["name"]: line for line in json.loads(done.stdout)["lines"]}
    return done.returncode, lines


def left(directory: Path) -> list[str]:
    """Files of probes that are still there."""
    found = (path for path in (directory / "work").rglob("*") if path.name != ".clock")
    return [str(path) for path in found if path.name != "here.preflight"]


def living(queue: EmbeddedQueue) -> str:
    return queue.ok("qselect").strip()


def test_every_line_is_right(queue: EmbeddedQueue, tmp_path: Path) -> None:
    code, lines = checked(argv(queue, tmp_path))

    marks = {name: line["verdict"] for name, line in lines.items()}
    names = [
        "work-directory", "clock-agent", "reach", "versions", "queue/workq", "launcher", "own-jobs", "others-jobs",
        "probe", "job-name", "account", "project", "links", "renames", "clock-nodes", "names-delay", "sizes-delay",
        "architecture", "runtime", "kill-delay", "history",
    ]  # fmt: skip
    assert (code, marks) == (0, dict.fromkeys(names, "ok")), lines
    assert (lines["account"]["seen"], lines["project"]["seen"]) == ("physics", "sky")
    assert (living(queue), left(tmp_path)) == ("", [])


@pytest.mark.parametrize(
    ("changed", "name", "seen", "change"),
    [
        pytest.param(
            {"runtime": "apptainer", "runtimePath": "/nowhere/apptainer"},
            "runtime",
            "no /nowhere/apptainer on",
            "runtimePath",
            id="runtime",
        ),
        pytest.param(
            {"queues": [{"name": "gone", "nodes": 1, "cpusPerNode": 1}]}, "queue/gone", "workq", "name", id="queue"
        ),
        pytest.param(
            {"mpi": [{"name": "none", "launcher": "openmpi", "path": "/nowhere/mpirun"}]},
            "launcher/none",
            "no launcher on",
            "MPI profile",
            id="launcher",
        ),
        pytest.param({"workDir": "/proc/1/nowhere"}, "work-directory", "/proc/1/nowhere", "workDir", id="directory"),
    ],
)
def test_what_is_broken_is_said(
    queue: EmbeddedQueue, tmp_path: Path, changed: dict[str, Any], name: str, seen: str, change: str
) -> None:
    code, lines = checked(argv(queue, tmp_path, **changed))

    assert (code, lines[name]["verdict"]) == (1, "must"), lines
    assert seen in lines[name]["seen"]
    assert change in lines[name]["change"]
    assert (living(queue), left(tmp_path)) == ("", [])


def test_a_launcher_on_two_nodes(queue: EmbeddedQueue, tmp_path: Path) -> None:
    launcher = tmp_path / "mpirun"
    version = "[[ $1 != --version ]] || { echo Twice 1.0; exit; }"
    launcher.write_text(f'#!/bin/bash\n{version}\nwhile [[ $1 != /bin/bash ]]; do shift; done\n"$@" && "$@"\n')
    launcher.chmod(0o755)
    profile = {"name": "twice", "launcher": "openmpi", "path": str(launcher)}

    code, lines = checked(argv(queue, tmp_path, mpi=[profile]))

    assert (code, lines["launcher/twice"]["verdict"], lines["work-directory-on-nodes"]["verdict"]) == (0, "ok", "ok"), (
        lines
    )
    assert lines["launcher/twice"]["seen"].startswith(f"{launcher} (Twice 1.0): exit code 0")


def test_a_launchers_own_words_are_said_of_its_profile_alone(queue: EmbeddedQueue, tmp_path: Path) -> None:
    """Open MPI frames its sentence with rulers; the other profile's launcher is well."""
    good, bad = tmp_path / "good", tmp_path / "bad"
    good.write_text('#!/bin/bash\nwhile [[ $1 != /bin/bash ]]; do shift; done\n"$@" && "$@"\n')
    ruler = "-" * 74
    bad.write_text(
        f"#!/bin/bash\ncat >&2 <<'X'\n{ruler}\nThere are not enough slots\navailable:\n\n  x\n{ruler}\nX\nexit 1\n"
    )
    for one in (good, bad):
        one.chmod(0o755)
    profiles = [{"name": one.name, "launcher": "openmpi", "path": str(one)} for one in (bad, good)]

    code, lines = checked(argv(queue, tmp_path, mpi=profiles))

    verdicts = {name: lines[f"launcher/{name}"]["verdict"] for name in ("bad", "good")}
    assert (code, verdicts) == (1, {"bad": "must", "good": "ok"}), lines
    assert [name for name, line in lines.items() if line["verdict"] == "must"] == ["launcher/bad"]
    assert lines["launcher/bad"]["change"] == (
        "fix MPI profile bad (options, env): There are not enough slots available: x"
    )
    assert (living(queue), left(tmp_path)) == ("", [])


def test_a_server_that_keeps_no_history_is_warned_of(queue: EmbeddedQueue, tmp_path: Path) -> None:
    """OpenPBS' default. The words are those that it was recorded to say."""
    queue.ok("faults", "history-lost=on")
    commands = tmp_path / "commands"
    commands.write_text(
        "#!/bin/bash\n"
        'for word in "$@"; do\n'
        '\t[[ $word != -x ]] || { echo "$1: PBS is not configured to maintain job history" >&2; exit 0; }\n'
        "done\n"
        f'exec {sys.executable} -m router.local "$@"\n'
    )
    commands.chmod(0o755)

    code, lines = checked([*argv(queue, tmp_path), "--local-commands", str(commands)])

    assert {name: line["verdict"] for name, line in lines.items() if line["verdict"] != "ok"} == {"history": "warning"}
    assert (code, lines["account"]["seen"], lines["project"]["seen"]) == (0, "physics", "sky")
    assert (living(queue), left(tmp_path)) == ("", [])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_interrupted_check_leaves_nothing(queue: EmbeddedQueue, tmp_path: Path, number: signal.Signals) -> None:
    with started(argv(queue, tmp_path), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        until(lambda: list((tmp_path / "work").rglob("grows")), seconds=120)
        until(lambda: living(queue), seconds=120)
        process.send_signal(number)
        _, complaint = process.communicate(timeout=300)

    assert (process.returncode, b"interrupted" in complaint) == (130, True), complaint
    assert (living(queue), left(tmp_path)) == ("", [])


@pytest.mark.parametrize(
    ("words", "error"),
    [(["nowhere"], "the policy has no site 'nowhere'"), (["here", "--as", "somebody"], "")],
    ids=["site", "user"],
)
def test_usage(queue: EmbeddedQueue, tmp_path: Path, words: list[str], error: str) -> None:
    command = argv(queue, tmp_path)
    at = command.index("here")

    done = subprocess.run([*command[:at], *words, *command[at + 1 :]], capture_output=True, text=True, check=False)

    assert (done.returncode, error in done.stderr) == ((2, True) if error else (1, True)), done
    assert error or "runs everything as" in done.stdout


def recorded(command: list[str], *words: str) -> list[str]:
    """The command, by which agents are told."""
    return [*(word for word in command if word != "--no-record"), *words]


def test_agents_are_told_of_a_check(plane: ControlPlane, queue: EmbeddedQueue, tmp_path: Path) -> None:
    """With the agent's own rights; an interrupted check tells them nothing."""
    kubeconfig = str(installing.agent(plane))
    record = CheckRecord(connect(kubeconfig), names.SYSTEM_NAMESPACE, "here")
    bad, good = argv(queue, tmp_path, workDir="/proc/1/nowhere"), ("--kubeconfig", kubeconfig)
    try:
        done = subprocess.run(recorded(bad, *good), capture_output=True, text=True, check=False)

        assert (done.returncode, json.loads(done.stdout)["verdict"]) == (1, "must"), done
        assert done.stderr == (
            "Kept in ConfigMap batchgate-system/batchgate-checks: agents of site here submit nothing until a check "
            "finds these mended: work-directory\n"
        )
        kept = record.read()
        assert kept.broken == {getpass.getuser(): ("work-directory",)}
        assert [line.name for line in kept.lines] == ["work-directory"]

        mended = recorded(argv(queue, tmp_path), *good)
        with started(mended, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
            until(lambda: list((tmp_path / "work").rglob("grows")), seconds=120)
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=300)
        assert (process.returncode, record.read()) == (130, kept)

        done = subprocess.run(mended, capture_output=True, text=True, check=False)
        assert (done.returncode, "agents of site here may submit" in done.stderr) == (0, True), done
        assert (record.read().names, set(record.read().times)) == ((), {getpass.getuser()})
    finally:
        place = f"/api/v1/namespaces/{names.SYSTEM_NAMESPACE}/configmaps/{names.CHECKS_CONFIG_MAP}"
        connect(str(plane.kubeconfig())).patch(place, {"data": {"here.json": None}})


def test_who_cannot_tell_agents_knows_it_before_anything_is_submitted(
    plane: ControlPlane, namespace: str, queue: EmbeddedQueue, tmp_path: Path
) -> None:
    elsewhere = ("--kubeconfig", str(plane.kubeconfig()), "--namespace", namespace)
    stranger = ("--kubeconfig", str(installing.webhook(plane)))
    refusals = []
    for words in (elsewhere, stranger):
        done = subprocess.run(recorded(argv(queue, tmp_path), *words), capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (2, "")
        refusals.append(done.stderr)

    assert f"there is no ConfigMap {namespace}/batchgate-checks; manifests/base has it" in refusals[0]
    assert "no agent can be told of this check" in refusals[1]
    assert all("--no-record only looks" in words for words in refusals)
    assert not (tmp_path / "work").exists() or left(tmp_path) == []


def test_without_a_cluster_it_says_that_nobody_is_told(queue: EmbeddedQueue, tmp_path: Path) -> None:
    kept = {key: value for key, value in os.environ.items() if "KUBE" not in key}
    bad = recorded(argv(queue, tmp_path, workDir="/proc/1/nowhere"))

    done = subprocess.run(bad, capture_output=True, text=True, check=False, env=kept)

    assert (done.returncode, done.stderr.startswith("Warning: no agent is told of this check")) == (1, True), done


def test_a_probe_that_stays_queued_decides_nothing(queue: EmbeddedQueue, tmp_path: Path) -> None:
    """A busy site is no broken one."""
    queue.reached(queue.submit("sleep 600\n", "-l", "select=2:ncpus=4"), "R")

    code, lines = checked([*argv(queue, tmp_path), "--wait", "1s"])

    assert (code, lines["probe"]["verdict"]) == (0, "warning"), lines
    assert "still queued after 1 s" in lines["probe"]["seen"]
    assert left(tmp_path) == []
