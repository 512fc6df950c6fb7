"""Defines the keys of a policy file, with types and limits: frozen models, and the JSON Schema made from them.

Pure. After validation, times are whole seconds and sizes whole bytes, in whatever units they were written. Unknown keys
are errors. ``router.policy.checks`` judges what needs several files or entries (duplicates, references).
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, StringConstraints

from router.notation import durations
from router.site.schema import (
    Count,
    Defaults,
    Entry,
    Figures,
    Flag,
    Name,
    Positive,
    QueueName,
    Seconds,
    Site,
    Text,
    UserName,
)
from router.workload.model import OWN_CONTROLLER


def _no_number(value: object) -> object:
    # 1 equals True in Python and not in YAML.
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _condition(value: object) -> object:
    # Most admins write `when: true` without quotes for the last rule.
    if isinstance(value, bool):
        return str(value).lower()
    return "" if isinstance(value, str) and not value.strip() else value


Moment = Annotated[float, BeforeValidator(durations.moment, json_schema_input_type=str | int)]


class Account(Entry):
    """Which requesters run as which HPC user. The first entry that matches is used; without a match, no HPC."""

    users: tuple[Text, ...] = Field((), description="Globs over the requester's user name.")
    groups: tuple[Text, ...] = Field((), description="Globs over the requester's groups.")
    namespaces: tuple[Text, ...] = Field(
        (), description="Globs. Alone: everyone in them. With users, groups, service accounts: these only there."
    )
    service_accounts: tuple[Text, ...] = Field((), description="Globs over 'namespace/name'.")
    controller: Flag = Field(
        False, description="These users create Jobs for others: identity comes from the namespace."
    )
    shared: Flag = Field(
        False, description="Confirms that everyone with 'edit' in the namespace may run as this account."
    )
    site: Text = Field("*", description="Glob over sites.")
    as_: UserName | None = Field(
        None, alias="as", description="The HPC user. '{user}' is not expanded: write an entry for each person."
    )
    account: Text | None = Field(None, description="-A of the batch system.")
    project: Text | None = Field(None, description="-P of OpenPBS.")
    directives: dict[str, str] = Field(default_factory=dict)


def _other_controller(value: object) -> object:
    if value == OWN_CONTROLLER:
        raise ValueError("is Kubernetes' own Job controller, whose Jobs are always judged")
    return value


class Controller(Entry):
    """A controller that runs Jobs in place of Kubernetes' own. Its Jobs are left to it, unjudged."""

    managed_by: Annotated[
        str,
        StringConstraints(pattern=r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?/[A-Za-z0-9._~/-]+$", max_length=63),
        BeforeValidator(_other_controller, json_schema_input_type=str),
    ] = Field(description="The value of spec.managedBy in its Jobs, e.g. 'kueue.x-k8s.io/multikueue'.")


class Choice(Entry):
    """A queue that a rule may choose."""

    queue: QueueName
    site: Name | None = Field(None, description="Needed if several sites have a queue of that name.")
    max_nodes: Positive | None = Field(None, description="Most nodes for a Job of this rule, below the queue's.")
    max_walltime: Seconds | None = Field(
        None,
        description="Longest walltime for Jobs of this rule; what they ask for and their grace period must fit.",
    )


class Retries(Entry):
    """Which ends of a Pod are retried without counting as failures."""

    disruptions: Count = Field(
        5,
        description="Times that a lost node, an eviction or a batch job that never began is retried without counting.",
    )
    on_walltime: Flag = Field(False, description="Retry after a walltime kill.")
    on_memory: Flag = Field(False, description="Retry after a memory kill.")
    on_deletion: Flag = Field(False, description="Retry after a user or admin has deleted the batch job.")


Hint = Literal["walltime", "ranks", "ranks-per-node", "nodes", "launcher", "results", "route"]


class Rule(Entry):
    """One rule. Exactly one of hpc, cloud, deny."""

    name: Name
    when: Annotated[Text, BeforeValidator(_condition, json_schema_input_type=str | bool)] = Field(
        "true", description="CEL; see docs/policies.md for the variables."
    )
    mode: Literal["enforce", "audit"] = "enforce"
    hpc: tuple[Choice, ...] | None = Field(None, min_length=1)
    cloud: Annotated[Literal[True] | None, BeforeValidator(_no_number)] = None
    deny: Text | None = None
    if_not_routable: Literal["cloud", "deny"] = "cloud"
    deadline: Literal["run", "total"] = "run"
    retries: Retries = Retries()
    forbid_hints: tuple[Hint, ...] = ()
    defaults: Defaults = Defaults()
    figures: Figures = Figures()
    mpi: Flag = Field(False, description="All its Jobs are MPI programs, such as scripts that start a launcher.")
    kueue: Flag | None = Field(
        None, description="Also takes Jobs that wait in a Kueue LocalQueue; if unset, as ruleDefaults say."
    )
    directives: dict[str, str] = Field(default_factory=dict)


class RuleDefaults(Entry):
    """What holds for every rule that does not say otherwise."""

    kueue: Flag = Field(False, description="Rules with hpc also take Jobs that wait in a Kueue LocalQueue.")
    figures: Figures = Field(Figures(), description="By which of a Pod's two amounts rules count.")


class TestRequest(Entry):
    """The requester in a test."""

    user: str = "test-user"
    groups: tuple[str, ...] = ()
    namespace: str | None = None
    namespace_labels: dict[str, str] | None = None
    time: Moment | None = Field(None, description="E.g. '2026-03-01T12:00:00Z'. Needed if a rule reads request.time.")


class Expectation(Entry):
    """What a test expects. Fields that are left out are not compared."""

    target: Literal["cloud", "hpc", "deny", "untouched"]
    rule: Name | None = None
    site: Name | None = None
    queue: QueueName | None = None
    reason: str | None = Field(None, description="Words that the reason contains.")


class PolicyTest(Entry):
    """A Job and the decision it must meet. Exactly one of job (inline) and file (beside the policy)."""

    __test__ = False

    name: Text
    job: dict[str, object] | None = None
    file: Text | None = None
    request: TestRequest = TestRequest()
    queues: dict[str, dict[str, object]] = Field(
        default_factory=dict, description="Queue state: 'queue' or 'site/queue' to figures."
    )
    expect: Expectation


class PolicyFile(Entry):
    """One file. Files of a directory are read in the order of their names and joined."""

    sites: tuple[Site, ...] = ()
    accounts: tuple[Account, ...] = ()
    controllers: tuple[Controller, ...] = ()
    rule_defaults: RuleDefaults | None = None
    rules: tuple[Rule, ...] = ()
    tests: tuple[PolicyTest, ...] = ()


def json_schema() -> dict[str, object]:
    """JSON Schema (2020-12) of a policy file, for editors. It checks each entry alone, without references."""
    schema: dict[str, object] = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    schema.update(PolicyFile.model_json_schema(by_alias=True, mode="validation"))
    schema["title"] = "Batchgate policy file"
    return schema
