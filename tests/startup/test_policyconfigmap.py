"""The policy from a ConfigMap: its keys as files, and a real one watched with the agent's own rights."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from router import names, policy
from router.controlplane import installing
from router.controlplane.plane import ControlPlane
from router.errors import ConfigError, PolicyError
from router.kube.client import ApiError, connect
from router.policy.configmap import texts_of
from router.startup.policyconfigmap import PolicyConfigMap
from router.startup.policyfiles import read_directory
from router.startup.policysource import PolicySource
from tests.kube.wire import await_true, wire_to
from tests.policymap import BAD, GOOD, OTHER, PLACE, PolicyMap, policy_map

CONFIG_MAPS = f"/api/v1/namespaces/{names.SYSTEM_NAMESPACE}/configmaps"


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


@pytest.mark.parametrize(
    ("found", "texts"),
    [
        ({"data": {"a.yaml": GOOD, "b.yml": OTHER}}, {"a.yaml": GOOD, "b.yml": OTHER}),
        ({"data": {"a.yaml": GOOD, "README.md": "x", ".hidden.yaml": "x", "c.yaml.bak": "x"}}, {"a.yaml": GOOD}),
        ({"data": {"a.yaml": "\ufeff" + GOOD}}, {"a.yaml": GOOD}),
        ({"binaryData": {"a.yaml": _base64(GOOD.encode())}}, {"a.yaml": GOOD}),
        ({"data": {"a.yaml": GOOD}, "binaryData": {"logo.png": _base64(b"\xff")}}, {"a.yaml": GOOD}),
    ],
)
def test_keys_are_files(found: Mapping[str, Any], texts: Mapping[str, str]) -> None:
    assert texts_of(found, PLACE) == texts


@pytest.mark.parametrize("found", [{}, {"data": None}, {"data": {"README.md": "x"}}])
def test_without_a_policy_file(found: Mapping[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"^{PLACE}: holds no policy file "):
        texts_of(found, PLACE)


def test_every_key_that_is_no_text_is_named() -> None:
    latin = _base64("# gut\n# für\n".encode("latin-1"))

    with pytest.raises(PolicyError) as raised:
        texts_of({"binaryData": {"b.yaml": latin, "a.yaml": latin}, "data": {"c.yaml": GOOD}}, PLACE)

    words = "line 2 is not UTF-8 (byte 0xfc); save the file as UTF-8"
    assert str(raised.value) == f"a.yaml: {words}\nb.yaml: {words}"


@pytest.fixture
def config_map(plane: ControlPlane) -> Iterator[PolicyMap]:
    with policy_map(plane) as found:
        yield found


@contextmanager
def followed(kubeconfig: str, told: list[str]) -> Iterator[PolicyConfigMap]:
    """The policy as an agent sees it; ``told`` gets every error, or "" for a policy that came into force."""

    def report(source: PolicySource) -> None:
        told.append(source.error)

    api = connect(kubeconfig)
    found = PolicyConfigMap(api, names.SYSTEM_NAMESPACE, names.POLICIES_CONFIG_MAP, on_reload=report)
    found.start()
    try:
        yield found
    finally:
        found.stop()
        found._watch.await_end(30)


def test_it_follows_the_config_map(plane: ControlPlane, config_map: PolicyMap, tmp_path: Path) -> None:
    told: list[str] = []
    missing = f"there is no {PLACE}; kubectl create configmap, or batchgate policy apply, makes it"
    broken = "a.yaml:2:18: rule rest: unknown key 'clod'; did you mean 'cloud'?"
    with followed(str(installing.agent(plane)), told) as found:
        await_true(lambda: found.error, "an error")
        assert (found.error, found.policy, found.digest, found.failures) == (missing, None, "", 1)

        config_map.put({"a.yaml": BAD})
        await_true(lambda: found.error != missing, "another error")
        assert found.error.startswith(broken)
        assert (found.policy, found.failures, found.generation) == (None, 2, 0)

        config_map.change({"a.yaml": GOOD})
        await_true(lambda: not found.error, "the policy")
        (tmp_path / "a.yaml").write_text(GOOD)
        assert found.digest == policy.load(read_directory(tmp_path)).digest
        assert (found.generation, found.failures) == (1, 2)

        good = found.policy
        config_map.change({"a.yaml": BAD})
        await_true(lambda: found.error, "the error")
        assert (found.policy, found.generation, found.failures) == (good, 1, 3)

        config_map.change({"a.yaml": OTHER})
        await_true(lambda: found.generation == 2, "the repaired policy")
        await_true(lambda: not found.error, "no error")

        config_map.delete()
        await_true(lambda: found.error, "that it is gone")
        assert (found.error, found.generation, found.failures) == (missing, 2, 4)
        found.check()
        assert found.alive
    assert [words.partition("\n")[0] for words in told] == [missing, broken, "", broken, "", missing]


def _checked(found: PolicyConfigMap) -> str:
    found.check()
    return found.error


def test_the_last_good_one_stays_while_the_api_server_is_away(
    plane: ControlPlane, config_map: PolicyMap, tmp_path: Path
) -> None:
    config_map.put({"a.yaml": GOOD})
    told: list[str] = []
    with (
        wire_to(installing.agent(plane), tmp_path) as (wire, kubeconfig),
        followed(kubeconfig, told) as found,
    ):
        await_true(lambda: found.policy, "the policy")
        found.check()
        assert (found.error, told) == ("", [""])

        wire.refuses = True
        wire.cut()
        await_true(lambda: _checked(found), "an error")
        assert found.generation == 1
        config_map.change({"a.yaml": OTHER})

        wire.refuses = False
        await_true(lambda: found.generation == 2, "what was missed")
        await_true(lambda: not _checked(found), "no error")


def test_an_agent_may_follow_no_other_config_map(plane: ControlPlane) -> None:
    api = connect(str(installing.agent(plane)))

    for selector in ("", "metadata.name=batchgate-checks"):
        with pytest.raises(ApiError) as raised:
            api.get(CONFIG_MAPS, fieldSelector=selector)
        assert raised.value.status == 403
