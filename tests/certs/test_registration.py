"""Only what the chart registers is registered, whatever the ConfigMap says."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml

from router import names
from router.certs.registration import webhooks_of
from router.errors import ConfigError
from tests.chart.rendering import NEEDED, objects

Json = dict[str, Any]
WHERE = "ConfigMap x/y, webhooks.yaml"
SERVICE: Json = {"name": "batchgate", "namespace": "x", "path": "/mutate"}
JOBS: Json = {
    "apiGroups": ["batch"],
    "apiVersions": ["v1"],
    "operations": ["CREATE", "UPDATE"],
    "resources": ["jobs"],
    "scope": "Namespaced",
}
GOOD: Json = {"name": "jobs.batchgate.dev", "clientConfig": {"service": SERVICE}, "rules": [JOBS]}


def client(**changed: object) -> str:
    return yaml.safe_dump([GOOD | {"clientConfig": {"service": SERVICE | changed}}])


def rule(**changed: object) -> str:
    return yaml.safe_dump([GOOD | {"rules": [JOBS, JOBS | changed]}])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: [", ", line 1: no YAML: "),
        ("{}", ": must be a list of webhooks"),
        ("[]", ": must be a list of webhooks"),
        ("[3]", ": [0]: must be a webhook"),
        ("[{clientConfig: {}}]", ": [0].name: must be jobs.batchgate.dev"),
        ("[{name: secrets.batchgate.dev}]", ": [0].name: must be jobs.batchgate.dev"),
        ("[{name: jobs.batchgate.dev}]", ": [0].clientConfig: must be service: {name: batchgate, namespace: x, path: "),
        ("[{name: jobs.batchgate.dev, objectSelector: {}}]", ": [0].objectSelector: is nothing that Batchgate registers"),
        ("[{name: jobs.batchgate.dev, clientConfig: {caBundle: x}}]", ": [0].clientConfig.caBundle: leave it out"),
        ("[{name: jobs.batchgate.dev, clientConfig: {url: 'https://192.0.2.1/'}}]", ": [0].clientConfig: must be service"),
        (client(name="other"), ": [0].clientConfig: must be service: {name: batchgate, namespace: x, path: /mutate}, as"),
        (client(namespace="other"), ": [0].clientConfig: must be service: "),
        (client(path="/policy"), ": [0].clientConfig: must be service: "),
        (client(port=8443), ": [0].clientConfig: must be service: "),
        (yaml.safe_dump([GOOD | {"rules": []}]), ": [0].rules: must be a list of rules"),
        (yaml.safe_dump([GOOD | {"rules": "jobs"}]), ": [0].rules: must be a list of rules"),
        (yaml.safe_dump([GOOD | {"rules": [3]}]), ": [0].rules[0]: must be about apiGroups [batch]"),
        (rule(apiGroups=["*"]), ": [0].rules[1]: must be about apiGroups [batch]"),
        (rule(apiGroups=["", "batch"]), ": [0].rules[1]: must be about "),
        (rule(apiVersions=["*"]), ": [0].rules[1]: must be about "),
        (rule(resources=["jobs", "pods"]), ": [0].rules[1]: must be about "),
        (rule(resources=["jobs/status"]), ": [0].rules[1]: must be about "),
        (rule(operations=["*"]), ": [0].rules[1]: must be about "),
        (rule(operations=["CREATE", "DELETE"]), ": [0].rules[1]: must be about "),
        (rule(operations=[]), ": [0].rules[1]: must be about "),
        (rule(scope="*"), ": [0].rules[1]: must be about "),
        (yaml.safe_dump([GOOD, GOOD | {"name": "pods.batchgate.dev"}]), ": [1].name: must be jobs.batchgate.dev"),
    ],
)  # fmt: skip
def test_what_the_chart_does_not_register_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        webhooks_of(text, WHERE, "batchgate", "x")

    assert str(caught.value).startswith(f"{WHERE}{problem}")


REGISTRATIONS: list[Json] = [
    {},
    {"namespaces": "opt-out", "failurePolicy": "Ignore", "timeoutSeconds": 3},
    {"matchConditions": [{"name": "large", "expression": "object.spec.?parallelism.orValue(1) > 1"}]},
]


@pytest.mark.parametrize("key", ["webhooks.yaml", "switching.yaml"])
@pytest.mark.parametrize("values", REGISTRATIONS, ids=str)
def test_what_the_chart_makes_is_taken(values: Json, key: str) -> None:
    by_kind = {one["kind"]: one for one in objects(NEEDED | {"registration": values}, ["registration"])}
    text = by_kind["ConfigMap"]["data"][key]

    assert webhooks_of(text, WHERE, names.SERVICE, names.SYSTEM_NAMESPACE) == yaml.safe_load(text)


def test_a_list_of_one_is_taken_as_it_is() -> None:
    assert webhooks_of(yaml.safe_dump([GOOD]), WHERE, "batchgate", "x") == [copy.deepcopy(GOOD)]
