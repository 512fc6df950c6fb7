"""Completion in a real bash, zsh and fish, by click's scripts, and by kubectl's protocol for plugins."""

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
FISH = '_BATCHGATE_COMPLETE=fish_source batchgate | source; complete -C "$argv"'
ZSH = r"""
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell 'autoload -Uz compinit; compinit -D -u; eval "$(_BATCHGATE_COMPLETE=zsh_source batchgate)"'
zpty -w shell 'batchgate() { print -r -- "RAN" "$@" "END" }'
zpty -w -n shell "$1"$'\t\n'
zpty -r -m shell line '*RAN * END*'
print -r -- "${${line##*RAN }%% END*}"
zpty -d shell
"""
"""An interactive zsh in which a line is typed, completed by Tab and run: a function of that name shows the words."""
COMPLETED = [
    (("",), sorted(COMMANDS)),
    (("po",), ["policy"]),
    (("policy", ""), ["apply", "check", "conditions", "diff", "report", "schema", "simulate", "test"]),
    (("policy", "test", "--co"), ["--coverage"]),
    (("policy", "test", "-o", "j"), ["json", "junit"]),
    (("route", "-o", "pa"), ["patch"]),
]


def run(*line: str, home: Path = Path("/nonexistent")) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": f"{BIN}:/usr/bin:/bin", "HOME": str(home)}
    return subprocess.run(line, env=environment, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize(("words", "expected"), COMPLETED)
@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_in_bash(words: tuple[str, ...], expected: list[str]) -> None:
    done = run("bash", "-c", DRIVER, "bash", "batchgate", *words)

    assert (done.returncode, done.stderr, [one for one in done.stdout.splitlines() if one]) == (0, "", expected)


@pytest.mark.parametrize(("words", "expected"), COMPLETED)
@pytest.mark.skipif(shutil.which("fish") is None, reason="needs fish")
def test_in_fish(tmp_path: Path, words: tuple[str, ...], expected: list[str]) -> None:
    done = run("fish", "-c", FISH, " ".join(("batchgate", *words)), home=tmp_path)

    assert (done.returncode, done.stderr) == (0, "")
    assert [one.partition("\t")[0] for one in done.stdout.splitlines()] == expected


@pytest.mark.skipif(shutil.which("fish") is None, reason="needs fish")
def test_in_fish_a_description_is_whole(tmp_path: Path) -> None:
    done = run("fish", "-c", FISH, "batchgate po", home=tmp_path)

    assert done.stdout == f"policy\t{COMMANDS['policy'][2]}\n"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("batchgate po", "policy"),
        ("batchgate policy test --co", "policy test --coverage"),
        ("batchgate policy test -o j", "policy test -o j"),
        ("batchgate route -o pa", "route -o patch"),
    ],
)
@pytest.mark.skipif(shutil.which("zsh") is None, reason="needs zsh")
def test_in_zsh(tmp_path: Path, line: str, expected: str) -> None:
    """Where several words fit, as of json and junit, the line stays as it is."""
    done = run("zsh", "-f", "-c", ZSH, "zsh", line, home=tmp_path)

    assert (done.returncode, done.stdout.strip()) == (0, expected), done.stderr


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
