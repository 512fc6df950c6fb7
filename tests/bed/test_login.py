"""The login node's configuration, as text; the operator's forced command, as a program."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bed import login
from bed.layout import LOOK, Layout

LAYOUT = Layout(state=Path("/s"), running=Path("/r"), shared=Path("/f"), ssh_port=2200)


def test_sshd_listens_on_loopback_and_takes_keys_only() -> None:
    lines = login.sshd_config(LAYOUT).splitlines()

    assert {"ListenAddress 127.0.0.1", "Port 2200", "PasswordAuthentication no", "PermitRootLogin no"} <= set(lines)
    assert "AllowUsers hpc-ada hpc-ben hpc-agent hpc-watch" in lines
    assert lines[lines.index("Match User hpc-watch") + 1].strip() == f"ForceCommand {LOOK}"


def test_known_hosts_leaves_the_comment_out() -> None:
    assert login.known_hosts(LAYOUT, "ssh-ed25519 AAAA host_key\n") == "[127.0.0.1]:2200 ssh-ed25519 AAAA\n"


def test_people_reach_each_user_by_name() -> None:
    text = login.ssh_config(LAYOUT)

    assert "Host hpc-ada\n    User hpc-ada\n    IdentityFile /s/keys/hpc-ada\n" in text
    assert "StrictHostKeyChecking yes" in text


def test_slow_mounts_believe_everything_for_a_minute() -> None:
    options = dict(
        option.split("=", 1) for option in login.mount_options(LAYOUT, Path("/k")).split(",") if "=" in option
    )

    timeouts = {key: value for key, value in options.items() if "timeout" in key}
    assert set(timeouts.values()) == {"60"}
    assert {"attr_timeout", "entry_timeout", "negative_timeout", "dcache_timeout"} <= set(timeouts)
    assert options["StrictHostKeyChecking"] == "yes"


@pytest.mark.parametrize(
    "command",
    [
        "",
        "scancel 1",
        "/usr/bin/scontrol",
        "scontrol update job=1",
        "scontrol -o show job",
        "sh -c squeue",
        "squeue; id",
        "squeue 'unclosed",
        "/tmp/squeue",
        "scontrol showx job",
    ],
)
def test_the_operator_runs_nothing_but_questions(tmp_path: Path, command: str) -> None:
    script = tmp_path / "look"
    script.write_text(login.look_script().replace("/usr/bin/", f"{tmp_path}/"))
    for name in ("squeue", "scontrol", "scancel"):
        _print_arguments(tmp_path / name)

    done = subprocess.run(
        [sys.executable, script], env={"SSH_ORIGINAL_COMMAND": command}, capture_output=True, text=True, check=False
    )

    if command == "squeue; id":  # a program of that name does not exist
        assert "may be run here" in done.stderr
    assert (done.returncode, done.stdout) == (1, "")


@pytest.mark.parametrize(
    ("command", "arguments"),
    [("squeue -h -o '%A|%j'", ["-h", "-o", "%A|%j"]), ("scontrol show job '$(id)'", ["show", "job", "$(id)"])],
)
def test_the_operator_asks_without_a_shell(tmp_path: Path, command: str, arguments: list[str]) -> None:
    script = tmp_path / "look"
    script.write_text(login.look_script().replace("/usr/bin/s", f"{tmp_path}/s"))
    for name in ("squeue", "scontrol"):
        _print_arguments(tmp_path / name)

    done = subprocess.run(
        [sys.executable, script], env={"SSH_ORIGINAL_COMMAND": command}, capture_output=True, text=True, check=False
    )

    assert done.stdout.splitlines() == arguments


def _print_arguments(path: Path) -> None:
    path.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    path.chmod(0o755)
