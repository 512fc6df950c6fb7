"""Contents of Secrets in a running script: in no command line, and gone with the containers."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from router import script
from tests.script.builders import container, route, site, workload
from tests.script.running import Pod, wait_for

SECRET = {"name": "S", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
LOOKS = "for p in /proc/[0-9]*/cmdline; do tr '\\0' ' ' <$p; echo; done 2>/dev/null"
STAGED = ("argv", "env", "files", "credentials")


def _text(command: str, *, host: bool = True, secret: bool = True) -> str:
    job = workload(container("/bin/bash", "-c", command, env=[SECRET] if secret else []))
    where = site("local", runtime="host" if host else "apptainer", secrets="stage")
    return script.render(job, route(job, where)).text


def _left(pod: Pod) -> list[str]:
    return [name for name in STAGED if (pod.path / name).exists()]


@pytest.fixture
def staged(pod: Pod) -> Pod:
    made = pod.make(env={"main": [b"S=open sesame", b"T=two\nlines"]})
    (made.path / "files" / "v").mkdir()
    (made.path / "files" / "v" / "key").write_text("open sesame")
    (made.path / "credentials").touch()
    return made


def test_the_program_sees_the_value_and_no_command_line_does(staged: Pod) -> None:
    assert staged.run(_text(f'echo "S is $S, T is $T"; {LOOKS}')) == 0

    assert "S is open sesame, T is two\nlines\n" in staged.log()
    assert staged.log().count("open sesame") == 1
    assert _left(staged) == []
    assert (staged.path / "exit" / "main.0").exists()


def test_a_value_is_never_computed(tmp_path: Path) -> None:
    names = ("RANDOM", "SRANDOM", "HISTCMD", "OPTIND")
    given = [f"{name}=x[$(touch {tmp_path}/ran)]".encode() for name in names]
    pod = Pod(tmp_path).make(env={"main": given})

    text = _text("env").replace("/bin/bash -c env", "env")  # a shell would have integers of its own in their place

    assert pod.run(text) == 0
    assert not (tmp_path / "ran").exists()
    assert {line.encode() for line in pod.log().splitlines()} >= set(given)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_what_ends_the_script_takes_them_away_unless_it_is_killed(staged: Pod, number: signal.Signals) -> None:
    process = staged.start(_text("echo here; sleep 100"))
    wait_for(lambda: staged.log() == "here\n")
    assert _left(staged) == list(STAGED)

    process.send_signal(number)
    process.wait(60)

    assert _left(staged) == (list(STAGED) if number == signal.SIGKILL else [])


def test_a_second_job_of_the_pod_leaves_them_to_the_first(staged: Pod) -> None:
    text = _text("echo here; sleep 100")
    first = staged.start(text)
    wait_for(lambda: staged.log() == "here\n")

    assert staged.start(text, job_id="8.pbs").wait(60) == 75
    assert _left(staged) == list(STAGED)
    (staged.path / "claim").write_text("9.pbs.1\n")  # taken by another
    assert first.wait(60) == 75
    assert _left(staged) == list(STAGED)


def test_a_job_without_secrets_has_no_part_for_them() -> None:
    assert [" credentials" in _text("true", host=host, secret=False) for host in (True, False)] == [False, False]
    assert [_text("true", host=host).count("\nwipe() {") for host in (True, False)] == [1, 1]
