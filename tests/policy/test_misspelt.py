"""An unknown key of a policy is told with the key that was meant."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from router.policy.misspelt import keys, nearest
from router.policy.schema import Account, Rule
from router.site.schema import Queue, Site

MEANT: list[tuple[type[BaseModel], str, str]] = [
    (Site, "work_dir", "did you mean 'workDir'?"),
    (Site, "IgnoreNodeLabels", "did you mean 'ignoreNodeLabels'?"),
    (Site, "secret", "did you mean 'secrets'?"),
    (Site, "hosts", "did you mean 'host'?"),
    (Site, "nodeLabels", "it is a key of a queue"),
    (Site, "walltimeMax", "it is a key of a queue"),
    (Site, "queue", "did you mean 'queues'?"),
    (Site, "workdirs", "did you mean 'workDir'?"),
    (Site, "runtimeVerson", "did you mean 'runtimeVersion'?"),
    (Queue, "workDir", "it is a key of a site"),
    (Queue, "cores", "did you mean 'cpusPerNode'?"),
    (Queue, "mem", "did you mean 'memoryPerNode'?"),
    (Queue, "gpus", "did you mean 'gpusPerNode'?"),
    (Queue, "time_limit", "did you mean 'walltimeMax'?"),
    (Queue, "partition", "did you mean 'name'?"),
    (Queue, "gpuPerNode", "did you mean 'gpusPerNode'?"),
    (Rule, "if", "did you mean 'when'?"),
    (Rule, "queue", "did you mean 'hpc'?"),
    (Rule, "then", "did you mean 'hpc'?"),
    (Rule, "retry", "did you mean 'retries'?"),
    (Rule, "ifnotroutable", "did you mean 'ifNotRoutable'?"),
    (Account, "user", "did you mean 'users'?"),
    (Account, "run_as", "did you mean 'as'?"),
    (Account, "forbidHints", "it is a key of a rule"),
    (Account, "moonPhase", "there are users, groups, namespaces"),
]


@pytest.mark.parametrize(("model", "key", "told"), MEANT, ids=[f"{model.__name__}.{key}" for model, key, _ in MEANT])
def test_the_key_that_was_meant(model: type[BaseModel], key: str, told: str) -> None:
    assert nearest(key, keys(model)).startswith(f"; {told}")


def test_a_key_that_is_right_has_itself() -> None:
    found = {key: nearest(key, keys(Queue)) for key in keys(Queue)}

    assert found == {key: f"; did you mean {key!r}?" for key in keys(Queue)}
