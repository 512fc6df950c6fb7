"""``batchgate page`` where it cannot serve: one sentence, exit code 2."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from router.cli import commands
from tests.page.objects import silent_cluster


def run(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(commands, ["page", *words])
    return done.exit_code, done.output


@pytest.fixture
def kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    silent_cluster(tmp_path)
    return str(tmp_path / "kubeconfig")


MANY = ["--viewer-tokens", "--listen", "127.0.0.1:0", "--host-name", "page.example"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (lambda file: ["--kubeconfig", f"{file}.none"], "Invalid kube-config file"),
        (lambda file: ["--kubeconfig", file, "--context", "other"], "other"),
        (lambda file: ["--kubeconfig", file, "--policy", f"{file}.none"], "there is no such policy directory"),
        (lambda file: ["--kubeconfig", file, "--host-name", "x"], "--host-name is for --viewer-tokens"),
        (lambda file: ["--kubeconfig", file, "--viewer-tokens"], "--viewer-tokens needs --listen"),
        (lambda file: ["--kubeconfig", file, *MANY, "--cert", file], "--cert and --key go together"),
        (lambda _file: MANY, "name a kubeconfig file that says where the API server is"),
    ],
)
def test_what_cannot_be_served(kubeconfig: str, words: Callable[[str], list[str]], sentence: str) -> None:
    code, output = run(*words(kubeconfig))

    assert (code, sentence in output, "Traceback" in output) == (2, True, False), output


def test_a_port_that_is_taken(kubeconfig: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, output = run("--kubeconfig", kubeconfig, "--port", port)

    assert (code, f"cannot listen on 127.0.0.1:{port}: address already in use; choose another --port" in output) == (
        2,
        True,
    )
