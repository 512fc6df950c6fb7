"""Renewal of a token's file, against a real API server."""

from __future__ import annotations

import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from router.controlplane.plane import ControlPlane
from router.errors import ConfigError
from router.kube import credentials, renewal, tokens
from router.kube.client import Api, connect
from router.kube.renewal import Renewal
from tests.agent.agents import until

ACCOUNT = "renews"


@pytest.fixture
def account(plane: ControlPlane, namespace: str) -> str:
    """An account that may create tokens of itself, and nothing else."""
    rule = f"--resource-name={ACCOUNT}"
    plane.kubectl("create", "serviceaccount", ACCOUNT, "-n", namespace)
    plane.kubectl("create", "role", ACCOUNT, "-n", namespace, "--verb=create", "--resource=serviceaccounts/token", rule)
    plane.kubectl(
        "create",
        "rolebinding",
        ACCOUNT,
        "-n",
        namespace,
        f"--role={ACCOUNT}",
        f"--serviceaccount={namespace}:{ACCOUNT}",
    )
    return ACCOUNT


@pytest.fixture
def kubeconfig(plane: ControlPlane, namespace: str, account: str, tmp_path: Path) -> Path:
    """A kubeconfig beside the token that it names, by a path relative to itself."""
    token = plane.kubectl("create", "token", account, "-n", namespace, "--duration=1h").stdout
    (tmp_path / "token").write_text(token)
    document = yaml.safe_load(plane.kubeconfig().read_text())
    document["users"][0]["user"] = {"tokenFile": "token"}
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(document))
    return tmp_path / "kubeconfig"


@pytest.fixture
def started() -> Iterator[list[Renewal]]:
    running: list[Renewal] = []
    yield running
    for one in running:
        one.stop()


def _who(api: Api) -> str:
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = api.create("/apis/authentication.k8s.io/v1/selfsubjectreviews", review)
    return str(answer["status"]["userInfo"]["username"])


def test_a_token_past_half_its_life_is_replaced_and_works(
    kubeconfig: Path, namespace: str, started: list[Renewal]
) -> None:
    file = kubeconfig.with_name("token")
    first = file.read_text()
    late = time.time() + 1801
    found = Renewal(connect(str(kubeconfig)), file, 3600, clock=lambda: late)
    started.append(found)

    found.start()

    until(lambda: file.read_text() != first)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in sorted(kubeconfig.parent.iterdir())] == ["kubeconfig", "token"]
    assert _who(connect(str(kubeconfig))) == f"system:serviceaccount:{namespace}:{ACCOUNT}"
    until(lambda: found.expires == renewal.read(file).expires)
    assert (found.error, found.failures, found.warning, found.alive) == ("", 0, "", True)


def test_a_young_token_stays(kubeconfig: Path, started: list[Renewal]) -> None:
    file = kubeconfig.with_name("token")
    first = file.read_text()
    found = Renewal(connect(str(kubeconfig)), file, 3600)
    started.append(found)

    found.start()

    time.sleep(1)
    assert (file.read_text(), found.error) == (first, "")


def test_a_refused_renewal_is_told_before_the_end_and_mended_later(
    plane: ControlPlane, kubeconfig: Path, namespace: str, started: list[Renewal], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "PAUSE_SECONDS", 0.2)
    file = kubeconfig.with_name("token")
    first = file.read_text()
    plane.kubectl("delete", "rolebinding", ACCOUNT, "-n", namespace)
    own = (f"serviceaccounts/{ACCOUNT}", "--subresource=token", f"--as=system:serviceaccount:{namespace}:{ACCOUNT}")
    until(lambda: plane.run_kubectl("auth", "can-i", "create", *own, "-n", namespace).returncode)
    late = time.time() + 1801
    found = Renewal(connect(str(kubeconfig)), file, 3600, clock=lambda: late)
    started.append(found)

    found.start()

    until(lambda: found.error)
    ends = tokens.shown(tokens.claims(first).expires)
    assert found.warning.startswith(f"the agent's credential ends {ends} and is not renewed: POST /api/v1/namespaces/")
    assert "forbidden" in found.warning
    assert (file.read_text(), found.failures) == (first, 1)

    words = ("rolebinding", ACCOUNT, "-n", namespace, f"--role={ACCOUNT}", f"--serviceaccount={namespace}:{ACCOUNT}")
    plane.kubectl("create", *words)
    until(lambda: file.read_text() != first and not found.warning)


def test_a_token_that_somebody_else_has_replaced_is_used(
    plane: ControlPlane, kubeconfig: Path, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credentials, "_TOKEN_SECONDS", 0.0)
    api = connect(str(kubeconfig))
    assert _who(api) == f"system:serviceaccount:{namespace}:{ACCOUNT}"
    plane.kubectl("create", "serviceaccount", "other", "-n", namespace)

    other = plane.kubectl("create", "token", "other", "-n", namespace).stdout
    renewal.write(kubeconfig.with_name("token"), other.strip())

    assert _who(api) == f"system:serviceaccount:{namespace}:other"


@pytest.mark.parametrize(
    ("text", "words"),
    [(None, "the token cannot be read: No such file or directory"), ("x", "the token is no JSON web token")],
)
def test_a_file_without_a_token(tmp_path: Path, text: str | None, words: str) -> None:
    file = tmp_path / "token"
    if text is not None:
        file.write_text(text)

    with pytest.raises(ConfigError) as caught:
        renewal.read(file)
    assert str(caught.value).startswith(f"{file}: {words}")


def test_a_token_that_cannot_be_written(tmp_path: Path) -> None:
    file = tmp_path / "none" / "token"

    with pytest.raises(ConfigError) as caught:
        renewal.write(file, "t")
    assert str(caught.value) == f"{file}: the token cannot be written: No such file or directory"
