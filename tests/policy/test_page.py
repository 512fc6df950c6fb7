"""The page for admins: every example in it is run, every key and variable stands in it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from pydantic import BaseModel

from router import policy
from router.errors import PolicyError
from router.notation import documents
from router.policy import conditions, variables
from router.policy import schema as rules
from router.policy.conditions import Condition
from router.policy.decision import QueueState
from router.site import schema as site
from tests.policy.given import job

PAGE = (Path(__file__).parents[2] / "docs" / "policies.md").read_text()
BLOCKS = re.findall(r"```(\w+)( bad)?\n(.*?)```", PAGE, re.DOTALL)
KUSTOMIZATION = "# kustomization.yaml"
GOOD = [text for kind, bad, text in BLOCKS if kind == "yaml" and not bad and not text.startswith(KUSTOMIZATION)]
BAD = [text for kind, bad, text in BLOCKS if kind == "yaml" and bad]
MODELS = [
    model for module in (site, rules) for model in vars(module).values()
    if isinstance(model, type) and issubclass(model, BaseModel) and model not in {BaseModel, site.Entry}
]  # fmt: skip
TYPES = {
    "int": "whole number",
    "bytes": "bytes",
    "seconds": "seconds",
    "bool": "true or false",
    "maybe": "true, false or unset",
    "text": "text",
    "texts": "list of text",
    "labels": "map of text",
    "time": "timestamp",
}


def _policy() -> policy.Policy:
    """All examples together, but the least policy, which would decide everything."""
    files = {f"{index}.yaml": text for index, text in enumerate(GOOD[1:])}
    return policy.load({**files, "job.yaml": json.dumps(job({"cpu": "16"}))})


def test_the_examples_are_one_policy_that_checks() -> None:
    checked = _policy()

    assert [len(part) for part in (checked.sites, checked.accounts, checked.rules, checked.tests)] == [2, 9, 5, 2]
    assert checked.warnings == ()


def test_the_least_policy_checks() -> None:
    assert [rule.name for rule in policy.load({"p": GOOD[0]}).rules] == ["rest"]


def test_the_tests_among_the_examples_pass() -> None:
    assert [result for result in policy.run_tests(_policy()) if not result.passed] == []


def test_the_errors_look_as_they_are_shown() -> None:
    (bad,) = BAD
    (shown,) = [text for kind, _, text in BLOCKS if kind == "text"]
    sites = next(text for text in GOOD if text.startswith("sites:"))

    with pytest.raises(PolicyError) as caught:
        policy.load({"10-sites.yaml": sites, "30-rules.yaml": bad})

    assert str(caught.value) == shown.rstrip("\n")


def test_the_match_condition_is_that_of_the_rules_above_it() -> None:
    shown = dict(re.findall(r"```yaml (rules|values)\n(.*?)```", PAGE, re.DOTALL))
    sites = next(text for text in GOOD if text.startswith("sites:"))
    found = policy.match_condition(policy.load({"10-sites.yaml": sites, "30-rules.yaml": shown["rules"]}))

    (condition,) = yaml.safe_load(shown["values"])["registration"]["matchConditions"]
    assert condition == {"name": found.name, "expression": found.expression}


def test_queue_state_reads_as_it_is_shown() -> None:
    (text,) = [text for kind, _, text in BLOCKS if kind == "json"]

    assert policy.queue_states(text, "page").states == {
        ("hpc1", "workq"): QueueState(
            "hpc1", "workq", up=True, free_nodes=2, queued_jobs=0, running_jobs=6, wait_seconds=0
        )
    }


CONDITIONS = [
    text.replace(r"\|", "|")
    for row in re.findall(r"^\| [^`\n]+ \| (`.*`) \|$", PAGE.partition("### Variables")[0].partition("## Conditions")[2], re.MULTILINE)
    for text in re.findall(r"`([^`]+)`", row)
]  # fmt: skip


@pytest.mark.parametrize("source", CONDITIONS)
def test_conditions_compile_as_they_stand_in_yaml(source: str) -> None:
    (document,) = documents.parse(f"rules:\n  - name: r\n    when: {source}\n    cloud: true\n", "page")

    assert isinstance(conditions.compile_condition(document.value["rules"][0]["when"]), Condition)


def test_conditions_were_found() -> None:
    assert len(CONDITIONS) == 13


def test_every_variable_is_documented() -> None:
    rows = re.findall(r"^\| `((?:job|request|queues\['q'\])\.\w+)` \| (.*?) \| (.*?) \|$", PAGE, re.MULTILINE)
    roots = (("job", variables.JOB), ("request", variables.REQUEST), ("queues['q']", variables.QUEUE))

    assert rows == [
        (f"{root}.{variable.name}", TYPES[variable.kind], variable.meaning)
        for root, known in roots
        for variable in known
    ]


@pytest.mark.parametrize("model", MODELS, ids=[model.__name__ for model in MODELS])
def test_every_key_is_documented(model: type[BaseModel]) -> None:
    keys = [info.alias or name for name, info in model.model_fields.items()]

    assert [key for key in keys if f"`{key}`" not in PAGE] == []


def test_the_schema_has_the_keys_of_the_files() -> None:
    made = policy.json_schema()

    assert sorted(made["properties"]) == ["accounts", "controllers", "ruleDefaults", "rules", "sites", "tests"]  # type: ignore[call-overload]
    assert made["additionalProperties"] is False
    assert json.loads(json.dumps(made)) == made
