"""Completion in a real bash, by click's script and by kubectl's protocol for plugins."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from router.cli import COMMANDS

BIN = Path(sys.executable).parent
DRIVER = """
eval "$(_BATCHGATE_COMPLETE=bash_source batchgate)"
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_batchgate_completion "$1"
printf '%s\\n' "${COMPREPLY[@]}"
"""
COMPLETED = [
    (("",), sorted(COMMANDS)),
    (("po",), ["policy"]),
    (("policy", ""), ["apply", "check", "conditions", "diff", "report", "schema", "simulate", "test"]),
    (("policy", "test", "--co"), ["--coverage"]),
    (("policy", "test", "-o", "j"), ["json", "junit"]),
    (("route", "-o", "pa"), ["patch"]),
]


def run(*line: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": f"{BIN}:/usr/bin:/bin", "HOME": "/nonexistent"}
    return subprocess.run(line, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("words", "expected"), COMPLETED)
@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_in_bash(words: tuple[str, ...], expected: list[str]) -> None:
    done = run("bash", "-c", DRIVER, "bash", "batchgate", *words)

    assert (done.returncode, done.stderr, [one for one in done.stdout.splitlines() if one]) == (0, "", expected)


@pytest.mark.parametrize(("words", "expected"), COMPLETED)
def test_by_kubectl(words: tuple[str, ...], expected: list[str]) -> None:
    done = run(str(BIN / "kubectl_complete-batchgate"), *words)

    *found, directive = done.stdout.splitlines()
    assert (done.returncode, done.stderr, directive) == (0, "", ":4")
    assert [one.partition("\t")[0] for one in found] == expected


def test_kubectl_may_complete_files() -> None:
    done = run(str(BIN / "kubectl_complete-batchgate"), "explain", "-f", "")

    assert (done.returncode, done.stdout) == (0, ":0\n")


@pytest.mark.skipif(shutil.which("kubectl", path=f"{BIN}:/usr/bin:/usr/local/bin:/bin") is None, reason="needs kubectl")
def test_kubectl_finds_the_plugin() -> None:
    version = run("kubectl", "batchgate", "--version")
    usage = run("kubectl", "batchgate", "explain", "--help")
    completed = run("kubectl", "__complete", "batchgate", "po")

    assert version.stdout.startswith("batchgate ")
    assert usage.stdout.startswith("Usage: kubectl batchgate explain [OPTIONS]")
    assert completed.stdout.splitlines()[:1] == [
        "policy\tCheck, test, compare and apply policy files; print their schema."
    ]
