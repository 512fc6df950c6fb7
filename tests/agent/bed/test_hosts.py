"""What a site's machines and directories do to the agent: each is a sentence to be read, ends by itself, fails no Job."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bed.layout import SERVICE
from router import names
from tests.agent.bed.conftest import NODE, Cluster, Stack, reached
from tests.agent.bed.faults import hanging_sshd, without
from tests.agent.bed.jobs import SECONDS, apply, pod_of
from tests.agent.bed.site import BEN, LAYOUT, SUDO
from tests.agent.bed.tally import await_empty, await_ends, await_started, counted, let_go, lines, told, waiting
from tests.agent.whole.jobs import finished
from tests.agent.whole.kubectl import Kubectl
from tests.agent.whole.waiting import until

pytestmark = [pytest.mark.bed, pytest.mark.slurm, pytest.mark.apptainer, pytest.mark.timeout(1200)]
WORK = LAYOUT.work / BEN
SSHD = LAYOUT.ssh / "sshd_config"
LARGE = 400 << 20
"""Bytes of a result: seconds on their way, so that the way can be cut meanwhile."""


@pytest.fixture(scope="module")
def stack(cluster: Cluster) -> Iterator[Stack]:
    with reached(cluster, SUDO) as found:
        yield found


def run(*words: object) -> None:
    subprocess.run([str(word) for word in words], check=True, capture_output=True)


@contextmanager
def full() -> Iterator[None]:
    """The user's directory on the login node is another, small file system without any room."""
    run(
        "mount",
        "-t",
        "tmpfs",
        "-o",
        f"size=64k,mode=700,uid={WORK.stat().st_uid},gid={WORK.stat().st_gid}",
        "full",
        WORK,
    )
    try:
        (WORK / "rest").write_bytes(bytes(64 << 10))
        yield
    finally:
        run("umount", "--lazy", WORK)


@contextmanager
def read_only() -> Iterator[None]:
    """The user's directory can only be read on the login node; nodes write there."""
    run("mount", "--bind", WORK, WORK)
    try:
        run("mount", "-o", "remount,bind,ro", WORK)
        yield
    finally:
        run("umount", "--lazy", WORK)


@contextmanager
def another_host_key(stack: Stack) -> Iterator[None]:
    """The agent knows another key of the login node than that shows, which is as if it showed another."""
    known = stack.site.home / "known_hosts"
    true, other = known.read_text(), stack.site.home / "other"
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", other)
    with without("sshd"):
        known.write_text(f"{true.split()[0]} {' '.join(Path(f'{other}.pub').read_text().split()[:2])}\n")
    try:
        yield
    finally:
        known.write_text(true)


@contextmanager
def sessions(most: int) -> Iterator[None]:
    """The login node's sshd with so many sessions a connection for the agent's account."""
    text = SSHD.read_text()
    try:
        with without("sshd"):
            SSHD.write_text(f"{text}Match User {SERVICE}\n    MaxSessions {most}\n")
        yield
    finally:
        with without("sshd"):
            SSHD.write_text(text)


def waits(who: Kubectl, name: str) -> tuple[str, str]:
    """Reason and words of a Pod's container that waits."""
    (container,) = pod_of(who, name)["status"].get("containerStatuses", [{}])
    state = container.get("state", {}).get("waiting", {})
    return state.get("reason", ""), state.get("message", "")


def warnings(who: Kubectl, name: str) -> list[tuple[str, str]]:
    """Reason and words of the warnings about a Job's Pod."""
    pod = pod_of(who, name)["metadata"]["name"]
    chosen = ("get", "events", "--field-selector", f"involvedObject.name={pod},type=Warning", "-o", "json")
    return [(one["reason"], one["message"]) for one in json.loads(who.ok(*chosen))["items"]]


def unavailable(stack: Stack) -> str:
    """The words of the Node's condition that the site cannot be reached; empty while it can."""
    conditions = (stack.admin.get("node", NODE) or {}).get("status", {}).get("conditions", ())
    found = [one for one in conditions if one["type"] == names.CONDITION_HPC_UNAVAILABLE and one["status"] == "True"]
    return str(found[0]["message"]) if found else ""


def end_well(stack: Stack, *mine: str, others: tuple[str, ...] = ()) -> None:
    """Each of these Jobs ends well, and has run once."""
    assert await_ends(stack.ben, mine) == dict.fromkeys(mine, "Complete")
    assert await_ends(stack.ada, others) == dict.fromkeys(others, "Complete")
    every = (*mine, *others)
    assert {name: [line.event for line in lines(name)] for name in every} == {name: ["start", "end"] for name in every}
    await_empty(*every)


def test_a_full_disk_holds_up_that_users_jobs_and_says_so(stack: Stack) -> None:
    with full():
        name, other = apply(stack.ben, counted()), apply(stack.ada, counted())
        until(
            lambda: waits(stack.ben, name),
            lambda found: found[0] == "SiteStorage" and "no space is left on that file system" in found[1],
            seconds=SECONDS,
        )
        assert await_ends(stack.ada, [other]) == {other: "Complete"}
        assert not finished(stack.ben.get("job", name) or {})

    end_well(stack, name, others=(other,))


def test_a_read_only_home_is_said_of_what_waits_and_of_what_has_ended_unseen(stack: Stack) -> None:
    runs = apply(stack.ben, waiting(counted()))
    await_started(runs)
    with read_only():
        comes = apply(stack.ben, counted())
        let_go(runs)
        until(
            lambda: waits(stack.ben, comes),
            lambda found: found[0] == "SiteStorage" and "mounted read-only" in found[1],
            seconds=SECONDS,
        )
        until(
            lambda: warnings(stack.ben, runs),
            lambda found: any(reason == "SiteStorage" and "mounted read-only" in words for reason, words in found),
            seconds=SECONDS,
        )
        assert told(runs, "end") == 1
        assert not any(finished(stack.ben.get("job", name) or {}) for name in (runs, comes))

    end_well(stack, runs, comes)


def test_another_host_key_is_an_outage_with_the_line_to_write(stack: Stack) -> None:
    runs = apply(stack.ben, waiting(counted()))
    await_started(runs)
    with another_host_key(stack):
        comes = apply(stack.ada, counted())
        let_go(runs)
        words = until(lambda: unavailable(stack), lambda words: "shows another host key" in words, seconds=SECONDS)
        assert "ssh-ed25519 " in words
        until(lambda: told(runs, "end"), seconds=SECONDS)
        assert told(comes, "start") == 0
        assert not finished(stack.ben.get("job", runs) or {})

    end_well(stack, runs, others=(comes,))
    until(lambda: unavailable(stack), lambda words: not words, seconds=SECONDS)


def test_a_login_node_without_sessions_is_an_outage_and_one_a_connection_is_enough(stack: Stack) -> None:
    runs = apply(stack.ben, waiting(counted()))
    await_started(runs)
    with sessions(0):
        comes = apply(stack.ada, counted())
        until(lambda: unavailable(stack), lambda words: "see MaxSessions" in words, seconds=SECONDS)
        assert told(comes, "start") == 0
    with sessions(1):
        let_go(runs)
        more = apply(stack.ben, counted())
        end_well(stack, runs, more, others=(comes,))
        assert unavailable(stack) == ""


def test_a_login_node_that_hangs_is_an_outage_and_what_was_asked_meanwhile_is_not_done_twice(stack: Stack) -> None:
    runs = apply(stack.ben, waiting(counted()))
    await_started(runs)
    with hanging_sshd():
        comes = apply(stack.ada, counted())
        let_go(runs)
        until(lambda: unavailable(stack), lambda words: "no answer within" in words, seconds=SECONDS)
        until(lambda: told(runs, "end"), seconds=SECONDS)
        assert told(comes, "start") == 0
        assert not finished(stack.ben.get("job", runs) or {})

    end_well(stack, runs, others=(comes,))
    until(lambda: unavailable(stack), lambda words: not words, seconds=SECONDS)


def test_results_whose_copying_was_cut_off_come_whole(stack: Stack) -> None:
    made = counted(f"head -c {LARGE} /dev/urandom >/out/data; sha256sum </out/data >/out/sum")
    made["metadata"]["annotations"] = {names.HINT_RESULTS: "out"}
    spec = made["spec"]["template"]["spec"]
    spec["containers"][0]["volumeMounts"].append({"name": "out", "mountPath": "/out"})
    spec["volumes"].append({"name": "out", "emptyDir": {}})
    results = stack.site.results
    name = apply(stack.ben, made)
    until(lambda: [one for one in results.rglob("*/results/out/data") if size(one)], pause=0.01, seconds=SECONDS)

    with without("sshd"):
        until(
            lambda: warnings(stack.ben, name),
            lambda found: any("results are not brought yet" in words for _, words in found),
            seconds=SECONDS,
        )

    end_well(stack, name)
    (manifest,) = until(lambda: [one for one in results.rglob("manifest.json") if name in one.parts], seconds=SECONDS)
    found = json.loads(manifest.read_text())
    assert (found["complete"], found["left"]) == (True, [])
    data = manifest.parent / "results" / "out" / "data"
    with data.open("rb") as file:
        assert hashlib.file_digest(file, "sha256").hexdigest() in (data.parent / "sum").read_text()
    shutil.rmtree(manifest.parent)


def size(path: Path) -> int:
    """Bytes of a file that may just have gone."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
