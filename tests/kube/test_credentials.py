"""Who we are to a real API server: by client certificate, token, file, program, and as a Pod."""

from __future__ import annotations

import base64
import json
import stat
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes.config import incluster_config

from router.certs.issuing import make_ca
from router.controlplane.plane import ControlPlane
from router.errors import ApiError, ApiUnavailable, ConfigError
from router.kube import client
from router.kube.client import Api, connect
from router.kube.credentials import namespace_of
from tests.kube.wire import await_true

Write = Callable[..., str]


@pytest.fixture(autouse=True)
def nothing_of_the_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No kubeconfig, no proxy, and an empty directory for temporary files."""
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))


@pytest.fixture
def token(plane: ControlPlane, namespace: str) -> Callable[[str], str]:
    """A fresh token of a service account in the test's namespace."""

    def create(account: str) -> str:
        plane.kubectl("create", "serviceaccount", account, "-n", namespace)
        return str(plane.kubectl("create", "token", account, "-n", namespace).stdout.strip())

    return create


@pytest.fixture
def written(plane: ControlPlane, tmp_path: Path) -> Write:
    """Write a kubeconfig of the plane with this user, and with changes of its cluster; its path."""

    def write(user: Mapping[str, Any], **cluster: Any) -> str:
        config = yaml.safe_load(plane.kubeconfig().read_text())
        config["users"][0]["user"] = dict(user)
        config["clusters"][0]["cluster"].update(cluster)
        path = tmp_path / "config.yaml"
        path.write_text(yaml.safe_dump(config))
        return str(path)

    return write


def whoami(api: Api) -> str:
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = api.create("/apis/authentication.k8s.io/v1/selfsubjectreviews", review)
    return str(answer["status"]["userInfo"]["username"])


def test_a_client_certificate(plane: ControlPlane) -> None:
    assert whoami(connect(str(plane.kubeconfig("ada")))) == "ada"


def test_the_variable_names_a_kubeconfig_and_an_argument_wins(
    plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(plane.kubeconfig("ben")))

    assert whoami(connect(None)) == "ben"
    assert whoami(connect(str(plane.kubeconfig("ada")))) == "ada"


def test_of_several_files_those_that_are_missing_do_not_matter(
    plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", f"/nonexistent/config:{plane.kubeconfig('ben')}")

    assert whoami(connect(None)) == "ben"


def test_no_private_key_is_left_in_a_file(plane: ControlPlane, tmp_path: Path) -> None:
    config = yaml.safe_load(plane.kubeconfig("ada").read_text())
    assert "client-key-data" in config["users"][0]["user"]

    first = connect(str(plane.kubeconfig("ada")))
    second = connect(str(plane.kubeconfig("ada")))

    assert list((tmp_path / "temporary").iterdir()) == []
    assert [whoami(first), whoami(second)] == ["ada", "ada"]


def test_certificate_and_key_in_files_of_their_own(plane: ControlPlane, written: Write, tmp_path: Path) -> None:
    user = yaml.safe_load(plane.kubeconfig("ada").read_text())["users"][0]["user"]
    for name in ("client-certificate", "client-key"):
        (tmp_path / name).write_bytes(base64.b64decode(user[f"{name}-data"]))

    path = written({"client-certificate": "client-certificate", "client-key": "client-key"})  # beside the kubeconfig

    assert whoami(connect(path)) == "ada"


def test_a_token(written: Write, token: Callable[[str], str], namespace: str) -> None:
    assert whoami(connect(written({"token": token("robot")}))) == f"system:serviceaccount:{namespace}:robot"


def test_a_token_in_a_file_that_changes(
    written: Write, token: Callable[[str], str], namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_RELOAD_SECONDS", 0.0)
    file = tmp_path / "token"
    file.write_text(token("first"))
    api = connect(written({"tokenFile": str(file)}))
    assert whoami(api).endswith(":first")

    file.write_text("revoked")
    fresh = connect(str(written({"tokenFile": str(file)})))
    with pytest.raises(ApiError, match="401 Unauthorized"):
        whoami(fresh)
    file.write_text(token("second"))

    assert whoami(fresh) == f"system:serviceaccount:{namespace}:second"


def test_credentials_that_are_refused_are_read_again_once_in_a_while(
    written: Write, tmp_path: Path, plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_RELOAD_SECONDS", 3600.0)
    calls = tmp_path / "calls"
    api = connect(written(plugin(f"open({str(calls)!r}, 'a').write('x'); token = 'wrong'")))
    assert calls.read_text() == "x"

    for _ in range(5):
        with pytest.raises(ApiError, match="401 Unauthorized"):
            whoami(api)

    assert calls.read_text() == "x"


def plugin(program: str) -> dict[str, Any]:
    """A user of a kubeconfig whose token a program says, in the variable ``token``."""
    answer = (
        "import json, os; info = json.loads(os.environ['KUBERNETES_EXEC_INFO']); "
        "print(json.dumps({**{key: info[key] for key in ('apiVersion', 'kind')}, 'status': {'token': token}}))"
    )
    command = {"command": sys.executable, "args": ["-c", f"{program}; {answer}"]}
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never", **command}}


def test_a_program_gives_the_token(written: Write, token: Callable[[str], str], namespace: str) -> None:
    path = written(plugin(f"token = {token('cloud')!r}"))

    assert whoami(connect(path)) == f"system:serviceaccount:{namespace}:cloud"


def test_a_program_that_fails_later_makes_the_server_unavailable(
    written: Write, tmp_path: Path, token: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_RELOAD_SECONDS", 0.0)
    file = tmp_path / "token"
    file.write_text("wrong")
    api = connect(written(plugin(f"token = open({str(file)!r}).read()")))
    file.unlink()

    with pytest.raises(ApiUnavailable, match="credentials were refused, and cannot be read again"):
        whoami(api)

    file.write_text(token("robot"))
    await_true(lambda: whoami(api).endswith(":robot"), "the program gives a token again")


def read_only(*_: object, **__: object) -> str:
    """A Pod's file system, where nothing can be written."""
    raise FileNotFoundError("No usable temporary directory found")


def test_a_pod_uses_its_service_account(
    plane: ControlPlane,
    token: Callable[[str], str],
    namespace: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client, "_RELOAD_SECONDS", 0.0)
    host, port = plane.server.removeprefix("https://").split(":")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
    file = tmp_path / "token"
    file.write_text(token("pod"))
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(file))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(plane.ca_file))
    monkeypatch.setattr(tempfile, "mkdtemp", read_only)

    api = connect(None)
    assert whoami(api) == f"system:serviceaccount:{namespace}:pod"

    plane.kubectl("delete", "serviceaccount", "pod", "-n", namespace)
    file.write_text(token("renewed"))
    # The API server keeps a token's verdict for some seconds.
    await_true(lambda: answer(api).endswith(":renewed"), "the renewed token is read")


def answer(api: Api) -> str:
    try:
        return whoami(api)
    except ApiError as error:
        return str(error)


def test_another_ca_is_not_trusted(written: Write) -> None:
    other = base64.b64encode(make_ca(datetime.now(UTC)).public).decode()
    api = connect(written({"token": "x"}, **{"certificate-authority-data": other}))

    with pytest.raises(ApiUnavailable, match="certificate verify failed"):
        api.get("/version")


def test_a_name_for_tls_only(written: Write) -> None:
    right = connect(written({"token": "x"}, **{"tls-server-name": "localhost"}))
    wrong = connect(written({"token": "x"}, **{"tls-server-name": "example.org"}))

    with pytest.raises(ApiError, match="401 Unauthorized"):
        right.get("/version")
    with pytest.raises(ApiUnavailable, match="Hostname mismatch"):
        wrong.get("/version")


def test_a_proxy_that_is_none(written: Write) -> None:
    with pytest.raises(ConfigError, match="proxy gopher://x"):
        connect(written({"token": "x"}, **{"proxy-url": "gopher://x"}))

    with pytest.raises(ApiUnavailable):
        connect(written({"token": "x"}, **{"proxy-url": "http://127.0.0.1:1"})).get("/version")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "file is empty"),
        ("{", "expected the node content"),
        ("[]", "kubeconfig"),
        ("apiVersion: v1\nkind: Config\n", "Expected key current-context"),
        (
            "current-context: a\ncontexts: [{name: b, context: {cluster: c}}]\nclusters: []\n",
            "Expected object with name a",
        ),
        ("current-context: a\ncontexts: null\nclusters: null\n", "kubeconfig"),
    ],
)
def test_a_kubeconfig_that_is_none_is_named(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)

    with pytest.raises(ConfigError) as caught:
        connect(str(path))

    assert str(path) in str(caught.value)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_credentials_that_cannot_be_used_are_named(written: Write, caplog: pytest.LogCaptureFixture) -> None:
    broken = base64.b64encode(b"no key").decode()
    for user, words in (
        ({}, "its user has no credentials"),
        (plugin("raise SystemExit('not today')"), "its user has no credentials"),
        ({"client-certificate-data": broken, "client-key-data": broken}, "certificate or key cannot be used"),
        ({"client-certificate": "none", "client-key": "none"}, "File does not exist"),
        ({"tokenFile": "/nonexistent/token"}, "/nonexistent/token"),
    ):
        path = written(user)
        with pytest.raises(ConfigError) as caught:
            connect(path)
        assert words in str(caught.value)
        assert path in str(caught.value)
    assert "not today" in caplog.text


def test_without_any_cluster_it_is_said_what_to_give() -> None:
    with pytest.raises(ConfigError, match="neither --kubeconfig nor KUBECONFIG is given"):
        connect(None)
    with pytest.raises(ConfigError, match="kubeconfig /nonexistent: cannot be read"):
        connect("/nonexistent")


def test_a_kubeconfig_is_never_written_to(written: Write) -> None:
    path = Path(written(plugin("token = 'x'")))
    before = path.read_bytes(), stat.S_IMODE(path.stat().st_mode)

    connect(str(path))

    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == before


def test_threads_renew_a_token_one_after_the_other(written: Write, tmp_path: Path, token: Callable[[str], str]) -> None:
    """A token that is as good as expired is asked for again, by one thread at a time."""
    file, calls = tmp_path / "token", tmp_path / "calls"
    file.write_text(token("robot"))
    program = f"open({str(calls)!r}, 'a').write('x')"
    user = plugin(f"{program}; token = open({str(file)!r}).read()")
    user["exec"]["args"][1] = user["exec"]["args"][1].replace(
        "{'token': token}", "{'token': token, 'expirationTimestamp': '2000-01-01T00:00:00Z'}"
    )
    api = connect(written(user))
    seen: list[str] = []
    threads = [threading.Thread(target=lambda: seen.append(answer(api))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert [name.rpartition(":")[2] for name in seen] == ["robot"] * 4
    assert len(calls.read_text()) == 1 + 4


def test_json_of_a_program_is_really_read(written: Write, tmp_path: Path) -> None:
    seen = tmp_path / "info.json"
    connect(
        written(
            plugin(
                f"import os, pathlib; pathlib.Path({str(seen)!r}).write_text(os.environ['KUBERNETES_EXEC_INFO']); token = 'x'"
            )
        )
    )

    assert json.loads(seen.read_text())["kind"] == "ExecCredential"


@pytest.fixture
def two_contexts(tmp_path: Path) -> str:
    """A kubeconfig of two clusters, neither of which is there; the first is the current one."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": f"http://{name}.invalid"}} for name in ("one", "two")],
        "users": [{"name": "ada", "user": {"token": "x"}}],
        "contexts": [
            {"name": "one", "context": {"cluster": "one", "user": "ada"}},
            {"name": "two", "context": {"cluster": "two", "user": "ada", "namespace": "physics"}},
        ],
        "current-context": "one",
    }
    path = tmp_path / "two.yaml"
    path.write_text(yaml.safe_dump(config))
    return str(path)


def test_a_context_names_cluster_and_namespace(two_contexts: str) -> None:
    assert [connect(two_contexts, context).host for context in (None, "one", "two")] == [
        "http://one.invalid",
        "http://one.invalid",
        "http://two.invalid",
    ]
    assert [namespace_of(two_contexts, context) for context in (None, "one", "two")] == [
        "default",
        "default",
        "physics",
    ]
    assert namespace_of(None) == "default"


def test_a_context_that_is_not_there_is_named(two_contexts: str) -> None:
    with pytest.raises(ConfigError, match="three"):
        connect(two_contexts, "three")
    with pytest.raises(ConfigError, match="has no context 'three'; see 'kubectl config get-contexts'"):
        namespace_of(two_contexts, "three")
    with pytest.raises(ConfigError, match=r"none\.yaml"):
        namespace_of("/nonexistent/none.yaml")
