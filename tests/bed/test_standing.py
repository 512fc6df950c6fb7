"""A bed that stands, looked at from outside: as its users, over ssh, and in jobs."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bed import daemons, making, standing
from bed.accounts import LIMITED, MOST_QUEUED
from bed.layout import GPU_MAJOR, GPUS, HELPER, OPERATOR, SERVICE, USERS, Layout

pytestmark = [pytest.mark.bed, pytest.mark.timeout(600)]
ADA, BEN = USERS
SECONDS = 240
ENDED = {"COMPLETED", "FAILED", "OUT_OF_MEMORY", "CANCELLED", "TIMEOUT", "NODE_FAIL"}


def run(*argv: str | Path, user: str = ADA, cwd: Path | str = "/") -> subprocess.CompletedProcess[str]:
    words = ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", "env", "-i", "PATH=/usr/bin:/bin"]
    return subprocess.run(
        [*words, f"HOME=/home/{user}", *argv], cwd=cwd, capture_output=True, text=True, check=False, timeout=SECONDS
    )


def over_ssh(layout: Layout, user: str, *argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["ssh", "-F", layout.ssh / "ssh_config", user, *argv],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )


def until(holds: Callable[[], bool], what: Callable[[], object]) -> None:
    deadline = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < deadline, what()
        time.sleep(0.2)


def field(job: str, name: str) -> str:
    shown = run("scontrol", "show", "job", "-o", job, user="root").stdout
    found = re.search(rf"\b{name}=(\S+)", shown)
    return found[1] if found else ""


def finish(layout: Layout, *options: str, wrap: str, user: str = ADA) -> tuple[str, str]:
    """Run a job to its end: its state and what it printed."""
    work = layout.work / user
    done = run("sbatch", "--parsable", "--export=NONE", *options, "--wrap", wrap, user=user, cwd=work)
    assert done.returncode == 0, done.stderr
    job = done.stdout.strip()
    until(lambda: field(job, "JobState") in ENDED, lambda: run("scontrol", "show", "job", job, user="root").stdout)
    output = Path(field(job, "StdOut"))
    text = output.read_text()
    output.unlink()
    return field(job, "JobState"), text


def test_sixteen_ranks_over_four_nodes(layout: Layout) -> None:
    program = layout.image.with_name("ring")
    if not program.exists():
        pytest.skip("this bed has no image")
    wrap = f"export SLURM_EXPORT_ENV=ALL; mpirun {program}"

    state, text = finish(layout, "-p", "all", "-N", "4", "-n", "16", "--mem-per-cpu", "200", wrap=wrap)

    assert state == "COMPLETED", text
    ranks = sorted(int(rank) for rank in re.findall(r"rank=(\d+) size=16 .*sum=136 ", text))
    assert ranks == list(range(16)), text
    assert set(re.findall(r"node=(\w+)", text)) == {"node1", "node2", "node3", "node4"}


def test_the_image_runs_in_a_job_with_its_own_mpi(layout: Layout) -> None:
    if not layout.image.exists():
        pytest.skip("this bed has no image")

    state, text = finish(layout, "-p", "all", wrap=f"apptainer exec {layout.image} ring 0")

    assert (state, "container=yes" in text) == ("COMPLETED", True), text


def test_a_job_beyond_its_memory_is_killed(layout: Layout) -> None:
    program = "/usr/bin/python3 -c 'import time; x = b\"1\" * (500 << 20); time.sleep(30)'"

    state, _ = finish(layout, "-p", "all", "--mem", "60", wrap=program)

    assert state == ("OUT_OF_MEMORY" if standing.variant(layout).cgroups else "FAILED")


def test_gpus_are_character_devices(layout: Layout) -> None:
    if not standing.variant(layout).gpus:
        pytest.skip("this bed has no GPUs")
    for number in range(GPUS):
        found = Path(f"/dev/nvidia{number}").stat()
        assert stat.S_ISCHR(found.st_mode)
        assert (os.major(found.st_rdev), os.minor(found.st_rdev)) == (GPU_MAJOR, number)


def test_a_job_gets_the_gpu_it_was_given(layout: Layout) -> None:
    wrap = "echo visible=$CUDA_VISIBLE_DEVICES; for n in 0 1; do cat /dev/nvidia$n; done 2>&1; true"

    _, text = finish(layout, "-p", "gpu", "--gres", "gpu:1", wrap=wrap)

    given = re.findall(r"visible=([01])\n", text)
    assert len(given) == 1, text
    if standing.variant(layout).cgroups:
        refused = re.findall(r"/dev/nvidia([01]): Operation not permitted", text)
        assert refused == [str(1 - int(given[0]))], text


def test_users_see_neither_jobs_nor_files_of_each_other(layout: Layout) -> None:
    submitted = run("sbatch", "--parsable", "-H", "--wrap", "true", cwd=layout.work / ADA)
    job = submitted.stdout.strip()
    try:
        seen = {user: run("squeue", "-h", "-o", "%A", user=user).stdout.split() for user in (ADA, BEN, "root")}
        shown = run("scontrol", "show", "job", job, user=BEN)

        assert {user: job in jobs for user, jobs in seen.items()} == {ADA: True, BEN: False, "root": True}
        assert (shown.returncode, "Invalid job id" in shown.stderr) == (1, True)
        assert run("ls", layout.work / ADA, user=BEN).returncode != 0
    finally:
        run("scancel", job)


def test_the_operator_looks_and_does_nothing_else(layout: Layout) -> None:
    if not standing.variant(layout).accounting:
        pytest.skip("there are no operators without accounting")
    job = run("sbatch", "--parsable", "-H", "--wrap", "true", cwd=layout.work / ADA).stdout.strip()
    try:
        listed = over_ssh(layout, OPERATOR, "squeue", "-h", "-o", "%A")
        cancelled = over_ssh(layout, OPERATOR, "scancel", job)
        through_sudo = over_ssh(layout, SERVICE, "sudo", "-n", "-u", OPERATOR, "/usr/bin/squeue", "-h", "-o", "%A")
        acts = [("/usr/bin/scancel", job), ("/usr/bin/scontrol", "release", job)]
        refused = [over_ssh(layout, SERVICE, "sudo", "-n", "-u", OPERATOR, *words) for words in acts]

        assert job in listed.stdout.split()
        assert job in through_sudo.stdout.split()
        assert (cancelled.returncode, "may be run here" in cancelled.stderr) == (1, True)
        assert [(one.returncode, one.stderr.startswith("sudo: ")) for one in refused] == [(1, True)] * len(acts)
        assert field(job, "JobState") == "PENDING"
    finally:
        run("scancel", job)


def test_the_service_account_has_no_rights_of_its_own(layout: Layout) -> None:
    """It comes in, and sudo knows it: what fails is not permitted, and does not just fail."""
    assert over_ssh(layout, SERVICE, "id", "-un").stdout.strip() == SERVICE
    for command in (["/bin/sh"], ["/usr/bin/id"], ["/usr/bin/sbatch", "--wrap", "true"], [str(HELPER), "x"]):
        for user in (ADA, "root"):
            done = over_ssh(layout, SERVICE, "sudo", "-n", "-u", user, *command)
            assert (done.returncode, done.stdout) == (1, ""), done
            assert "sudo: a password is required" in done.stderr or "is not allowed to execute" in done.stderr
    assert over_ssh(layout, SERVICE, "sudo", "-n", "-u", "root", str(HELPER)).returncode == 1
    listed = over_ssh(layout, SERVICE, "ls", str(layout.work / ADA))
    assert (listed.returncode, "Permission denied" in listed.stderr) == (2, True)


def test_the_service_account_starts_the_helper_as_a_user(layout: Layout) -> None:
    """It is asked nothing, and ends when nobody asks any more."""
    for user in USERS:
        done = over_ssh(layout, SERVICE, "sudo", "-n", "-u", user, str(HELPER))
        assert (done.returncode, "sudo" in done.stderr) == (0, False), done


def test_a_submission_beyond_the_limit_is_refused(layout: Layout) -> None:
    if not standing.variant(layout).accounting:
        pytest.skip("there are no limits without accounting")
    words = ("sbatch", "--parsable", "-H", "-A", LIMITED, "--wrap", "true")
    done = [run(*words, cwd=layout.work / BEN, user=BEN) for _ in range(MOST_QUEUED + 1)]
    run("scancel", *[one.stdout.strip() for one in done if one.returncode == 0], user=BEN)

    assert [one.returncode for one in done] == [0] * MOST_QUEUED + [1]
    assert done[-1].stderr.startswith("sbatch: error: AssocMaxSubmitJobLimit")


def test_the_slow_mount_hides_new_names_and_nodes_see_them(layout: Layout) -> None:
    name = f"seen-{time.monotonic_ns()}"
    slow, direct = layout.slow / ADA / name, layout.work / ADA / name
    assert run("test", "-e", slow).returncode == 1
    try:
        run("touch", direct)

        # A look within the 60 s that the mount remembers what was not there.
        looked = time.monotonic()
        hidden = run("test", "-e", slow).returncode == 1
        soon = time.monotonic() - looked < 20
        state, text = finish(layout, "-p", "all", wrap=f"test -e {slow} && echo there")

        assert hidden or not soon
        assert (state, text) == ("COMPLETED", "there\n")
        assert run("ls", layout.slow / ADA, user=BEN).returncode != 0
    finally:
        run("rm", "-f", direct)


def test_a_certificate_of_the_user_ca_opens_the_login_node(layout: Layout, tmp_path: Path) -> None:
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    sign = ["ssh-keygen", "-q", "-s", str(layout.ssh / "user_ca"), "-I", "test", "-n", BEN, "-V", "-5m:+5m"]
    options = ["-i", str(key), "-p", str(layout.ssh_port), "-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes"]
    options += ["-o", f"UserKnownHostsFile={layout.ssh / 'known_hosts'}", "-F", "none"]

    def login(user: str) -> int:
        argv = ["ssh", *options, f"{user}@127.0.0.1", "true"]
        return subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode

    before = login(BEN)
    subprocess.run([*sign, f"{key}.pub"], check=True)

    assert (before, login(BEN), login(ADA)) == (255, 0, 255)


def test_only_loopback_is_listened_on(layout: Layout) -> None:
    pids = {pid for pid in making.status(layout).values() if pid}
    listening = subprocess.run(["ss", "-Hlntp"], capture_output=True, text=True, check=True).stdout.splitlines()
    ours = [line for line in listening if any(f"pid={pid}," in line for pid in pids)]

    assert len(ours) >= len(pids) - 1  # munged has a Unix socket only
    assert [line for line in ours if not line.split()[3].startswith("127.0.0.1:")] == []


def test_up_again_changes_nothing_that_runs(layout: Layout) -> None:
    before = making.status(layout)
    words = ["--no-image", f"--ssh-port={layout.ssh_port}", f"--first-port={layout.first_port}"]
    variant = standing.variant(layout)
    words += [f"--cores={variant.cores}", *([] if variant.accounting else ["--no-accounting"])]

    done = subprocess.run([sys.executable, "-m", "bed", "up", *words], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert "All daemons ran already." in done.stdout
    assert making.status(layout) == before


def test_a_daemon_that_died_is_started_again(layout: Layout) -> None:
    before = making.status(layout)
    daemons.stop(layout, daemons.controller())
    assert making.status(layout)["slurmctld"] is None

    done = subprocess.run([sys.executable, "-m", "bed", "start"], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    after = making.status(layout)
    assert after.pop("slurmctld") not in {None, before.pop("slurmctld")}
    assert after == before
