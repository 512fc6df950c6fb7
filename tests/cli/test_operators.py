"""``batchgate status``, ``describe`` and ``forget`` where no cluster answers: one sentence, exit code 2."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from router.cli import commands
from router.cli.output import as_document


@pytest.fixture
def kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of a cluster that is not there; nothing of the machine is read."""
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "none", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "ada", "user": {"token": "x"}}],
        "contexts": [{"name": "none", "context": {"cluster": "none", "user": "ada", "namespace": "physics"}}],
        "current-context": "none",
    }
    file = tmp_path / ".kube" / "config"
    file.parent.mkdir()
    file.write_text(yaml.safe_dump(config))
    return file


@pytest.mark.parametrize("words", [["status"], ["describe", "large"], ["forget", "demo"]])
def test_a_cluster_that_does_not_answer(kubeconfig: Path, words: list[str]) -> None:
    done = CliRunner().invoke(commands, words)

    assert done.exit_code == 2
    assert done.output.startswith("Error: GET /api")
    assert "no answer" in done.output


@pytest.mark.parametrize("words", [["status"], ["describe", "large"], ["forget", "demo"]])
def test_no_kubeconfig(kubeconfig: Path, words: list[str]) -> None:
    kubeconfig.unlink()

    done = CliRunner().invoke(commands, words)

    assert (done.exit_code, "no Kubernetes cluster" in done.output) == (2, True)


def test_a_context_that_is_not_there(kubeconfig: Path) -> None:
    done = CliRunner().invoke(commands, ["status", "--kubeconfig", str(kubeconfig), "--context", "other"])

    assert (done.exit_code, "other" in done.output, "Traceback" in done.output) == (2, True, False)


def test_the_keys_of_documents() -> None:
    @dataclass(frozen=True)
    class Inner:
        free_nodes: int

    @dataclass(frozen=True)
    class Outer:
        site: str
        all_of_it: tuple[Inner, ...]
        by_key: dict[str, Inner]

    found = json.loads(json.dumps(as_document(Outer("demo", (Inner(1),), {"a_b": Inner(2)}))))

    assert found == {"site": "demo", "allOfIt": [{"freeNodes": 1}], "byKey": {"a_b": {"freeNodes": 2}}}
