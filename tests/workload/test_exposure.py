"""Which values of Secrets would stand in a command line."""

from __future__ import annotations

from typing import Any

import pytest

from router.workload.exposure import Exposed, exposed, exposed_by
from tests.script.builders import container, workload

C0 = "spec.template.spec.containers[0]"
PASSWORD = {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}}
URL = {"name": "URL", "value": "postgres://ada:$(PASSWORD)@db/x"}
ALL = [{"secretRef": {"name": "db"}}]


def of(*command: str, **fields: Any) -> Any:
    return workload(container(*command, **fields)).containers[0]


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (of("a", "--password=$(PASSWORD)", env=[PASSWORD]), [("command[1]", "PASSWORD")]),
        (of("a", args=["x", "$(URL)"], env=[PASSWORD, URL]), [("args[1]", "URL")]),
        # a shell expands its own variables, which stand in no command line
        (of("sh", "-c", 'a "$PASSWORD" ${PASSWORD} $(cat x)', env=[PASSWORD]), []),
        (of("a", "$$(PASSWORD)", env=[PASSWORD]), []),
        # the last of a name counts
        (of("a", "$(PASSWORD)", env=[PASSWORD, {"name": "PASSWORD", "value": "none"}]), []),
        (of("a", "$(PASSWORD)", env=[{"name": "PASSWORD", "value": "none"}]), []),
        # before a variable of that name the text stays as written
        (of("a", "$(URL)", env=[URL, PASSWORD]), []),
        (of("sh", "-c", "echo $(date) $(API_TOKEN) $(KEY)", envFrom=ALL), [("command[2]", "API_TOKEN"), ("command[2]", "KEY")]),
        (of("a", "$(KEY)", envFrom=ALL, env=[{"name": "KEY", "value": "x"}]), []),
        (of("a", "$(URL)", envFrom=ALL, env=[URL]), [("command[1]", "URL")]),
        (of("a", "$(KEY)", envFrom=[{"configMapRef": {"name": "m"}}]), []),
        (of("a", env=[PASSWORD | {"name": "my.key"}]), [("env[0].name", "my.key")]),
        # hooks and probes get these by ``env``, as programs of the node heed them
        (of("a", env=[PASSWORD | {"name": one} for one in ("TZ", "TZ_1", "LD_AUDIT", "BASH_ENV")]), [("env[0].name", "TZ"), ("env[2].name", "LD_AUDIT"), ("env[3].name", "BASH_ENV")]),
        (of("a", env=[PASSWORD, {"name": "HOME", "value": "/home/$(PASSWORD)"}]), [("env[1].name", "HOME")]),
    ],
)  # fmt: skip
def test_what_is_exposed(one: Any, expected: list[tuple[str, str]]) -> None:
    assert exposed(one) == tuple(Exposed(f"{C0}.{path}", name) for path, name in expected)


def test_what_is_exposed_once_the_keys_are_known() -> None:
    env = [{"name": "B", "value": "x$(token)"}, {"name": "UID", "value": "$(B)"}]
    one = of("sh", "-c", "echo $(date) $(token)", args=["$(B)"], envFrom=ALL, env=env)

    assert exposed_by(one, ("token",)) == (
        Exposed(f"{C0}.env[1].name", "UID"),
        Exposed(f"{C0}.command[2]", "token"),
        Exposed(f"{C0}.args[0]", "B"),
    )
    assert exposed_by(one, ("other",)) == ()
