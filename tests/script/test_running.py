"""What a script does when it is run by bash, with commands in place of containers (runtime host)."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from router.site.schema import Site
from tests.script.builders import container, site, text_of, workload
from tests.script.running import LONG, Pod, wait_for

HOST = site("local", runtime="host", margin=5)
WALLTIME = "batchgate.dev/walltime"


def sh(line: str, name: str = "main", **fields: Any) -> dict[str, object]:
    return container("/bin/sh", "-c", line, name=name, **fields)


def script(*containers: dict[str, object], where: Site = HOST, **fields: Any) -> str:
    return text_of(workload(*containers, **fields), where)


# --- what runs, and what it leaves ----------------------------------------------------------------------------------


def test_log_exit_code_and_notes_of_one_container(pod: Pod) -> None:
    before = int(time.time())

    status = pod.run(script(sh("echo out; echo err >&2; exit 3")))

    assert status == 3
    assert pod.log() == "out\nerr\n"
    found = pod.exit()
    assert found is not None
    assert (found["code"], found["signal"], found["deadline"], found["log"]) == (3, 0, False, len("out\nerr\n"))
    assert before <= found["started"] <= found["finished"] <= time.time()
    assert [(note["event"], note.get("container"), note.get("code")) for note in pod.notes()] == [
        ("started", None, None),
        ("running", "main", None),
        ("exited", "main", 3),
        ("ended", None, 3),
    ]
    assert {note["job"] for note in pod.notes()} == {"7.pbs"}


def test_nothing_is_left_behind_but_the_pod_s_files(pod: Pod) -> None:
    pod.run(script(sh("sleep 300 & echo done")))

    assert sorted(path.name for path in pod.work.iterdir()) == ["output.0", "pods", "script.0", "spool"]
    assert all(
        not path.name.startswith(".") for folder in pod.path.iterdir() if folder.is_dir() for path in folder.iterdir()
    )


def test_a_leftover_process_of_a_container_ends_with_it(pod: Pod) -> None:
    pod.run(
        script(sh("sleep 321 & echo $! >$PIDFILE; exit 0", env=[{"name": "PIDFILE", "value": str(pod.work / "pid")}]))
    )

    pid = int((pod.work / "pid").read_text())
    wait_for(lambda: not Path(f"/proc/{pid}").exists(), "for the end of the leftover")
    assert pod.code() == 0


def test_death_by_a_signal_is_128_and_its_number(pod: Pod) -> None:
    assert pod.run(script(sh("kill -SEGV $$$$"))) == 139

    found = pod.exit()
    assert found is not None
    assert (found["code"], found["signal"]) == (139, 11)


def test_containers_run_at_the_same_time_and_the_first_failure_is_the_exit_status(pod: Pod) -> None:
    meet = "until [ -e $DIR/{other} ]; do : >$DIR/{own}; sleep 0.05; done; : >$DIR/{own}; {end}"
    env = [{"name": "DIR", "value": str(pod.work)}]

    status = pod.run(
        script(
            sh(meet.format(own="a", other="b", end="exit 0"), "one", env=env),
            sh(meet.format(own="b", other="a", end="exit 4"), "two", env=env),
        )
    )

    assert status == 4
    assert (pod.code("one"), pod.code("two")) == (0, 4)


def test_init_containers_in_order_before_the_containers(pod: Pod) -> None:
    env = [{"name": "LIST", "value": str(pod.work / "list")}]

    status = pod.run(
        script(
            sh("echo main >>$LIST", env=env),
            initContainers=[
                sh("sleep 0.3; echo first >>$LIST", "first", env=env),
                sh("echo second >>$LIST", "second", env=env),
            ],
        )
    )

    assert status == 0
    assert (pod.work / "list").read_text().split() == ["first", "second", "main"]


def test_a_failed_init_container_ends_the_pod(pod: Pod) -> None:
    status = pod.run(script(sh("echo no"), initContainers=[sh("exit 9", "first"), sh("echo no", "second")]))

    assert status == 9
    assert (pod.code("first"), pod.code("second"), pod.code()) == (9, None, None)


SIDECAR = "trap 'echo end-$N >>$LIST; exit 0' TERM; echo start-$N >>$LIST; while :; do sleep 0.05; done"


def sidecar(name: str, list_file: Path) -> dict[str, object]:
    env = [{"name": "LIST", "value": str(list_file)}, {"name": "N", "value": name}]
    return sh(SIDECAR, name, restartPolicy="Always", env=env)


def test_sidecars_start_at_their_place_and_end_last_in_reverse(pod: Pod) -> None:
    listed = pod.work / "list"
    env = [{"name": "LIST", "value": str(listed)}]
    until = "until grep -q start-{0} $LIST; do sleep 0.05; done; echo {1} >>$LIST"

    status = pod.run(
        script(
            sh(until.format("b", "main"), env=env),
            initContainers=[sidecar("a", listed), sh(until.format("a", "init"), "init", env=env), sidecar("b", listed)],
        )
    )

    assert status == 0
    assert listed.read_text().split() == ["start-a", "init", "start-b", "main", "end-b", "end-a"]


def test_a_sidecar_that_ends_by_itself_is_started_again_and_its_code_does_not_count(pod: Pod) -> None:
    text = script(
        sh("until [ -e $DIR/log/side.1 ]; do sleep 0.05; done", env=[{"name": "DIR", "value": str(pod.path)}]),
        initContainers=[sh("exit 5", "side", restartPolicy="Always")],
    ).replace("delay=10", "delay=1")

    assert pod.run(text) == 0
    assert pod.code("side", 0) == 5


def test_on_failure_starts_again_after_the_back_off(pod: Pod) -> None:
    text = script(
        sh(
            "echo run; [ -e $DIR/second ] || { : >$DIR/second; exit 7; }", env=[{"name": "DIR", "value": str(pod.work)}]
        ),
        restartPolicy="OnFailure",
    )
    assert "delay=10" in text
    assert "delay < 150 ? 2 * delay : 300" in text

    status = pod.run(text.replace("delay=10", "delay=2"))

    assert status == 0
    first, second = pod.exit(restart=0), pod.exit(restart=1)
    assert first is not None
    assert second is not None
    assert (first["code"], second["code"]) == (7, 0)
    assert second["started"] - first["finished"] >= 1
    assert (pod.log(restart=0), pod.log(restart=1)) == ("run\n", "run\n")
    assert [note["restart"] for note in pod.notes() if note["event"] == "running"] == [0, 1]


# --- one Pod, one run -----------------------------------------------------------------------------------------------


def test_a_second_job_for_the_same_pod_runs_nothing(pod: Pod) -> None:
    text = script(sh("echo ran >>$DIR/ran; sleep 0.5", env=[{"name": "DIR", "value": str(pod.work)}]))
    first = pod.start(text, job_id="1.pbs")
    wait_for((pod.work / "ran").exists)

    second = pod.start(text, job_id="2.pbs").wait(LONG)

    assert second == 75
    assert "nothing is run" in pod.output(1)
    assert first.wait(LONG) == 0
    assert pod.start(text, job_id="3.pbs").wait(LONG) == 75
    assert (pod.work / "ran").read_text() == "ran\n"
    assert (pod.path / "claim").read_text().startswith("1.pbs.")
    assert len(list(pod.path.glob("claim.*"))) == 1


def test_many_jobs_at_once_run_the_pod_once(pod: Pod) -> None:
    text = script(sh("echo ran >>$DIR/ran", env=[{"name": "DIR", "value": str(pod.work)}]))

    jobs = [pod.start(text, job_id=f"{number}.pbs") for number in range(8)]

    assert sorted(job.wait(60) for job in jobs) == [0] + [75] * 7
    assert (pod.work / "ran").read_text() == "ran\n"


def test_a_claim_that_the_agent_has_cancelled_runs_nothing(pod: Pod) -> None:
    (pod.path / "claim").write_text("cancelled\n")

    assert pod.run(script(sh("echo ran"))) == 75
    assert pod.log() == ""


@pytest.mark.parametrize("directory", ["", "relative/directory", "missing"])
def test_without_the_pod_s_directory_nothing_runs_and_none_is_made(tmp_path: Path, directory: str) -> None:
    pod = Pod(tmp_path)
    given = str(tmp_path / "missing") if directory == "missing" else directory

    status = pod.run(script(sh("echo ran >ran")), BATCHGATE_DIR=given)

    assert status == 75
    assert sorted(path.name for path in tmp_path.iterdir()) == ["output.0", "script.0"]


def test_a_link_that_was_made_although_ln_failed_is_a_claim(pod: Pod, tmp_path: Path) -> None:
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    (bin_ / "ln").write_text('#!/bin/sh\n/bin/ln "$@"\nexit 1\n')
    (bin_ / "ln").chmod(0o755)

    assert pod.run(script(sh("true")), PATH=f"{bin_}:{os.environ['PATH']}") == 0


def test_a_job_whose_claim_became_another_s_ends_at_once(pod: Pod) -> None:
    text = script(sh("trap '' TERM; sleep 300"), annotations={WALLTIME: "1h"}).replace("pause 15", "pause 0.2")
    job = pod.start(text)
    wait_for(lambda: pod.notes()[-1:] and pod.notes()[-1]["event"] == "running")

    (pod.path / "claim.new").write_text("8.pbs.1\n")
    (pod.path / "claim.new").rename(pod.path / "claim")

    assert job.wait(LONG) == 75
    assert pod.exit() is None


def test_alive_is_touched_and_a_job_that_cannot_do_so_ends_itself(pod: Pod) -> None:
    text = script(sh("sleep 300"), annotations={WALLTIME: "1h"})
    assert "pause 15" in text
    assert "now - alive_at > 60" in text
    job = pod.start(text.replace("pause 15", "pause 0.2").replace("alive_at > 60", "alive_at > 10"))
    wait_for(lambda: pod.notes()[-1:] and pod.notes()[-1]["event"] == "running")
    first = (pod.path / "alive").stat().st_mtime_ns
    wait_for(lambda: (pod.path / "alive").stat().st_mtime_ns > first)

    pod.path.rename(pod.work / "away")

    assert job.wait(LONG) == 143
    assert "cannot be reached" in pod.output()


# --- time and signals -----------------------------------------------------------------------------------------------

TRAPS = "trap 'echo asked; sleep 1; echo ready; exit 6' TERM; echo up; while :; do sleep 0.05; done"
DEAF = "trap '' TERM; echo up; while :; do sleep 0.05; done"


@pytest.mark.parametrize(("word", "reason"), [(signal.SIGTERM, "signal"), (signal.SIGUSR1, "deadline")])
def test_a_signal_of_the_batch_system_reaches_the_container_with_its_grace_period(
    pod: Pod, word: int, reason: str
) -> None:
    """USR1 is Slurm's warning of the time limit. Long before the deadline it says that somebody has cut the limit."""
    job = pod.start(script(sh(TRAPS)))
    pod.awaits_log("up")

    job.send_signal(word)

    assert job.wait(LONG) == 6
    assert pod.log() == "up\nasked\nready\n"
    assert pod.exit()["deadline"] is (reason == "deadline")  # type: ignore[index]
    assert pod.notes()[-1]["reason"] == reason


@pytest.mark.parametrize("more", [[], [signal.SIGTERM]])
def test_slurm_s_warning_which_comes_up_to_a_minute_early_takes_no_time_from_the_container(
    pod: Pod, more: list[int]
) -> None:
    """After it TERM still is what it was."""
    job = pod.start(
        script(sh(f"echo up; while [ ! -e {pod.work}/go ]; do sleep 0.05; done"), annotations={WALLTIME: "85"})
    )
    pod.awaits_log("up")

    job.send_signal(signal.SIGUSR1)
    for word in more:
        job.send_signal(word)
    if not more:
        time.sleep(2.5)  # two turns of its main loop
        (pod.work / "go").touch()

    assert job.wait(LONG) == (143 if more else 0)
    assert pod.exit()["deadline"] is False  # type: ignore[index]
    assert pod.notes()[-1]["reason"] == ("signal" if more else "")


def test_a_signal_to_all_of_a_job_s_session_leaves_the_container_its_grace_period_too(pod: Pod) -> None:
    job = pod.start(script(sh(TRAPS)))
    pod.awaits_log("up")
    session = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit() and _session(path) == job.pid]

    for pid in session:
        with contextlib.suppress(ProcessLookupError):  # one of its short sleeps
            os.kill(pid, signal.SIGTERM)

    assert job.wait(LONG) == 6
    assert pod.log() == "up\nasked\nready\n"


def _session(process: Path) -> int:
    try:
        return int((process / "stat").read_text().rpartition(")")[2].split()[3])
    except (OSError, IndexError):
        return 0


def test_after_the_grace_period_the_container_is_killed(pod: Pod) -> None:
    job = pod.start(script(sh(DEAF), terminationGracePeriodSeconds=2))
    pod.awaits_log("up")
    asked = time.monotonic()

    job.terminate()

    assert job.wait(LONG) == 137
    assert time.monotonic() - asked >= 1.5
    assert (pod.exit() or {}).get("signal") == 9


def test_a_program_that_hears_term_and_exits_0_is_no_success(pod: Pod) -> None:
    job = pod.start(script(sh("trap 'exit 0' TERM; echo up; while :; do sleep 0.05; done")))
    pod.awaits_log("up")

    job.terminate()

    assert job.wait(LONG) == 143
    assert pod.code() == 0


def test_at_the_deadline_term_then_kill_and_the_exit_file_says_so(pod: Pod) -> None:
    job = pod.start(script(sh(DEAF), annotations={WALLTIME: "2"}, terminationGracePeriodSeconds=1))

    assert job.wait(LONG) == 137
    found = pod.exit()
    assert found is not None
    assert found["deadline"] is True
    assert 2 <= found["finished"] - found["started"] <= 25, "with a usual grace period it were more"
    assert pod.notes()[-1]["reason"] == "deadline"


def test_the_deadline_ends_the_back_off(pod: Pod) -> None:
    job = pod.start(script(sh("exit 7"), restartPolicy="OnFailure", annotations={WALLTIME: "2"}))

    assert job.wait(LONG) == 7
    assert pod.exit(restart=1) is None


def test_a_job_that_is_killed_takes_its_containers_along(pod: Pod) -> None:
    job = pod.start(script(sh("echo $$$$; exec sleep 300")))
    pid = int(pod.awaits_log("\n"))

    os.killpg(job.pid, signal.SIGKILL)

    wait_for(lambda: not Path(f"/proc/{pid}").exists(), "for the end of the container")


def test_a_script_that_alone_is_killed_starts_nothing_again(pod: Pod) -> None:
    text = script(sh("echo $$$$; exec sleep 300"), restartPolicy="OnFailure").replace("delay=10", "delay=1")
    job = pod.start(text, TMPDIR=str(pod.work))
    pid = int(pod.awaits_log("\n"))

    job.kill()
    job.wait()

    wait_for(lambda: not Path(f"/proc/{pid}").exists(), "for the end of the container")
    wait_for(lambda: not list(pod.work.glob("batchgate.*")), "for the end of the temporary files")
    wait_for(lambda: processes_of(pod) == [], "for the end of the heartbeat")
    assert not (pod.path / "log" / "main.1").exists()


def processes_of(pod: Pod) -> list[str]:
    """The command lines in which the Pod's work directory stands, or that wait for its next start."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_bytes()
            if str(pod.work).encode() in words:
                found.append(words.decode())
    return found


def test_a_job_that_was_suspended_goes_on(pod: Pod) -> None:
    """The batch system stops all processes; to them it is as if the clock had jumped."""
    text = script(sh("echo up; sleep 4; echo done"), annotations={WALLTIME: "100"})
    shifted = text.replace("now=${now%%.*}", "now=${now%%.*}\n  [[ ! -e $dir/resumed ]] || now=$((now + 1000))")
    assert shifted != text
    job = pod.start(shifted)
    pod.awaits_log("up\n")

    (pod.path / "resumed").touch()

    assert job.wait(LONG) == 0
    assert pod.log() == "up\ndone\n"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_that_cannot_be_written_runs_nothing(pod: Pod) -> None:
    (pod.path / "exit").chmod(0o500)

    assert pod.run(script(sh("echo ran"))) == 75
    assert "cannot be written" in pod.output()
    assert not (pod.path / "log" / "main.0").exists()


def test_an_end_that_cannot_be_written_is_no_success(pod: Pod) -> None:
    (pod.path / "exit" / "main.0").mkdir()  # mv -T does not replace a directory by a file

    assert pod.run(script(sh("true"))) == 1
    assert "how container main ended (0) cannot be written" in pod.output()


def test_a_container_has_the_signals_of_a_fresh_process(pod: Pod) -> None:
    """No signal is ignored but those that whoever started all this ignores: a shell cannot undo that."""
    pod.run(script(sh("grep SigIgn /proc/self/status")))

    python_s_own = 1 << signal.SIGPIPE - 1 | 1 << signal.SIGXFSZ - 1
    inherited = ignored(Path("/proc/self/status").read_text()) & ~python_s_own
    assert ignored(pod.log()) & ~inherited == 0


def ignored(status: str) -> int:
    """The set of ignored signals, a bit each."""
    (found,) = re.findall(r"^SigIgn:\s*([0-9a-f]+)$", status, re.MULTILINE)
    return int(found, 16)


# --- logs -----------------------------------------------------------------------------------------------------------


def test_a_log_ends_at_the_site_s_limit_and_says_so(pod: Pod) -> None:
    where = site("local", runtime="host", logLimit=1000)

    status = pod.run(script(sh("head -c 5000 /dev/zero | tr '\\0' x; echo still here; exit 2"), where=where))

    assert status == 2
    head, _, last = pod.log().partition("\n")
    assert head == "x" * 1000
    assert last == "batchgate: the log ends here: it has reached the limit of this site, 1000 bytes\n"


def test_a_log_of_exactly_the_limit_is_whole(pod: Pod) -> None:
    pod.run(script(sh("head -c 1000 /dev/zero"), where=site("local", runtime="host", logLimit=1000)))

    assert (pod.path / "log" / "main.0").read_bytes() == bytes(1000)


def test_output_is_in_the_log_at_once_and_byte_for_byte(pod: Pod) -> None:
    job = pod.start(script(sh(r"printf 'a\000\377b'; while [ ! -e $DIR/go ]; do sleep 0.05; done",
                              env=[{"name": "DIR", "value": str(pod.work)}])))  # fmt: skip
    path = pod.path / "log" / "main.0"

    wait_for(lambda: path.exists() and path.read_bytes() == b"a\0\xffb")

    (pod.work / "go").touch()
    assert job.wait(LONG) == 0


def test_an_exit_file_appears_whole(pod: Pod) -> None:
    text = script(sh("true"))

    assert re.search(r'>"\$dir/exit/\.\$file" && mv -T', text)


# --- the site's lines -----------------------------------------------------------------------------------------------


def test_lines_of_the_site_before_and_after(pod: Pod) -> None:
    where = site("local", runtime="host", pre=["export LD_LIBRARY_PATH=/from/pre", "echo pre"], post=["echo post"])

    assert pod.run(script(sh("echo $LD_LIBRARY_PATH; exit 3"), where=where)) == 3
    assert pod.log() == "/from/pre\n"
    assert pod.output().split() == ["pre", "post"]


def test_a_job_that_is_told_to_end_during_the_lines_after_has_not_come_to_its_end(pod: Pod) -> None:
    """They may bring results away, and PBS tells what runs in them to end as well."""
    where = site("local", runtime="host", post=["kill -TERM $$", "echo post"])

    assert pod.run(script(sh("true"), where=where)) == 143
    assert (pod.code(), pod.output().split()) == (0, ["post"])
    assert pod.notes()[-1] == pod.notes()[-1] | {"event": "ended", "code": 143, "reason": "signal"}


def test_modules_are_loaded_by_a_function_that_a_profile_defines(pod: Pod) -> None:
    home = pod.work / "modules"
    (home / "init").mkdir(parents=True)
    (home / "init" / "bash").write_text('module() { [ "$2" != bad ] && export LD_LIBRARY_PATH="/from/$1/$2"; }\n')

    good = site("local", runtime="host", modules=["gcc/12"])
    assert pod.run(script(sh("echo $LD_LIBRARY_PATH"), where=good), MODULESHOME=str(home)) == 0
    assert pod.log() == "/from/load/gcc/12\n"


def test_a_module_that_does_not_load_is_the_only_line_of_the_log(pod: Pod) -> None:
    where = site("local", runtime="host", modules=["no/such"])

    assert pod.run(script(sh("echo ran"), where=where)) == 1
    assert "module load no/such failed" in pod.log()
    assert pod.code() == 1
