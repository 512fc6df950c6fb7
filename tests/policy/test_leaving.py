"""Which Jobs must reach the webhook: whole expressions, and that no other Job would have met more than a plain rule."""

from __future__ import annotations

import functools
from typing import Any

import pytest
from cel_expr_python import cel
from hypothesis import event, given
from hypothesis import strategies as st

from router.errors import PolicyError
from router.gate.judging import Gate, judge
from router.gate.updating import judge_update
from router.policy import leaving
from router.policy.decision import NO_QUEUE_STATES, Requester
from router.policy.formulas import size
from router.policy.leaving import match_condition
from router.policy.loading import load
from router.policy.matchcondition import MatchCondition
from router.policy.model import Policy
from router.policy.outcomes import MOST_LITERALS, outcomes
from router.policy.syntaxtree import Other, tree_of
from router.workload.cluster import UNKNOWN_CLUSTER
from tests.policy.given import ACCOUNTS, SITES, UNHURRIED, job, loaded

Json = dict[str, Any]
HPC = "hpc: [{queue: big}]"
GROUPS = "(has(request.userInfo.groups) ? request.userInfo.groups : [])"
NAME = "(has(object.metadata.name) ? object.metadata.name : has(object.metadata.generateName) ? object.metadata.generateName : '')"
PRESENT = "has(object.metadata.labels) && 'tier' in object.metadata.labels"
ABSENT = "!has(object.metadata.labels) || !('tier' in object.metadata.labels)"
WEB = "object.metadata.labels['tier'] == 'web'"
NO_WEB = "object.metadata.labels['tier'] != 'web'"


def rules(*lines: str) -> Policy:
    """A policy of rules ``r1``, ``r2``, …, each with its condition and what follows, and of a last one for the rest."""
    return loaded("".join(f"  - {{name: r{number}, when: {line}}}\n" for number, line in enumerate(lines, start=1)))


# rules in order; the expression; and the rules for which Jobs are sent
DERIVED = [
    ((), "false", ()),
    ((f"request.namespace == 'lab', {HPC}",), "request.namespace == 'lab'", ("r1",)),
    ((f"request.namespace != 'lab', {HPC}",), "request.namespace != 'lab'", ("r1",)),
    ((f"\"request.namespace in ['a', 'b']\", {HPC}",), "request.namespace in ['a', 'b']", ("r1",)),
    ((f"\"!(request.namespace in ['a', 'b'])\", {HPC}",), "!(request.namespace in ['a', 'b'])", ("r1",)),
    ((f"request.namespace.startsWith('lab-') && job.cpus > 4, {HPC}",), "request.namespace.startsWith('lab-')", ("r1",)),
    ((f"\"!request.user.endsWith('@x') && job.mpi\", {HPC}",), "!request.userInfo.username.endsWith('@x')", ("r1",)),
    ((f"\"'hpc' in request.groups || request.user == 'ada'\", {HPC}",), f"'hpc' in {GROUPS} || request.userInfo.username == 'ada'", ("r1",)),
    ((f"job.name.contains('sim'), {HPC}",), f"{NAME}.contains('sim')", ("r1",)),
    ((f"request.user == job.name, {HPC}",), f"request.userInfo.username == {NAME}", ("r1",)),
    # rules that deny or only record send Jobs as well, but rules behind one that keeps Jobs in the cloud do not
    (("request.namespace == 'a', deny: never", "\"request.user == 'eve'\", mode: audit, cloud: true"), "request.namespace == 'a' || request.userInfo.username == 'eve'", ("r1", "r2")),
    (("request.namespace == 'prod', cloud: true", f"job.cpus > 4, {HPC}"), "request.namespace != 'prod'", ("r2",)),
    ((f"job.cpus > 4 && request.user == 'ada', {HPC}", "request.namespace == 'prod', cloud: true", "job.pods > 9, deny: never"), "request.userInfo.username == 'ada' || request.namespace != 'prod'", ("r1", "r3")),
    (("request.namespace == 'prod', cloud: true", f"request.namespace == 'prod' && job.cpus > 4, {HPC}"), "false", ()),
    (("request.namespace == 'a', cloud: true", "request.user == 'b', cloud: true", f"job.mpi, {HPC}"), "request.namespace != 'a' && request.userInfo.username != 'b'", ("r3",)),
    # a rule that may hold, but need not, keeps nothing away from the rules behind it
    (("request.namespace == 'prod' && job.cpus < 2, cloud: true", f"request.user == 'ada', {HPC}"), "request.userInfo.username == 'ada'", ("r2",)),
    # labels, which fail where they are missing
    ((f"\"'tier' in job.labels\", {HPC}",), PRESENT, ("r1",)),
    ((f"has(job.labels.tier), {HPC}",), PRESENT, ("r1",)),
    ((f"\"!('tier' in job.labels)\", {HPC}",), ABSENT, ("r1",)),
    ((f"\"'tier' in job.labels && job.labels['tier'] == 'web'\", {HPC}",), f"{PRESENT} && {WEB}", ("r1",)),
    ((f"has(job.labels.tier) && job.labels.tier == 'web', {HPC}",), f"{PRESENT} && {WEB}", ("r1",)),
    ((f"\"!('tier' in job.labels) || job.labels['tier'] == 'web'\", {HPC}",), f"{ABSENT} || {WEB}", ("r1",)),
    ((f"\"job.labels['tier'] == 'web'\", {HPC}",), f"{ABSENT} || {WEB}", ("r1",)),
    (("\"'tier' in job.labels && job.labels['tier'] == 'web'\", cloud: true", f"job.mpi, {HPC}"), f"{ABSENT} || {NO_WEB}", ("r2",)),
    (("\"job.labels['tier'] == 'web'\", cloud: true", f"job.mpi, {HPC}"), f"{ABSENT} || {NO_WEB}", ("r1", "r2")),
    (("\"job.labels['tier'] == 'web'\", cloud: true",), ABSENT, ("r1",)),
    # choices, constants, and both sides of an operator that absorbs errors
    ((f"\"'hpc' in request.groups ? job.mpi : request.user == 'ada'\", {HPC}",), f"'hpc' in {GROUPS} || request.userInfo.username == 'ada'", ("r1",)),
    ((f"\"request.user == 'ada' ? request.namespace == 'a' : job.cpus > 1 && request.namespace == 'b'\", {HPC}",), "request.userInfo.username == 'ada' && request.namespace == 'a' || request.userInfo.username != 'ada' && request.namespace == 'b'", ("r1",)),
    ((f"request.namespace == 'a' && true || false, {HPC}",), "request.namespace == 'a'", ("r1",)),
    ((f"job.cpus * 2 > 4 && request.namespace == 'a', {HPC}",), "request.namespace == 'a'", ("r1",)),
    (("request.namespace == 'a' || job.cpus * 2 > 4, cloud: true",), "request.namespace != 'a'", ("r1",)),
    # the text of literals
    ((f"\"job.name == 'it\\\\'s \\\\\\\\ \\\\u0007 ü'\", {HPC}",), rf"{NAME} == 'it\'s \\ \U00000007 ü'", ("r1",)),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "expression", "sending"), DERIVED)
def test_expressions(lines: tuple[str, ...], expression: str, sending: tuple[str, ...]) -> None:
    policy = rules(*lines)

    assert match_condition(policy) == MatchCondition(f"policy-{policy.digest[:12]}", expression, sending)


KNOWS = "the API server knows only namespace, user, groups, name and labels"
DEEP = functools.reduce(lambda inner, number: f"[1].exists(a{number}, {inner})", range(26), "job.mpi")
# rules of which one may hold for every Job, and why
FOR_ANY = [
    ((f"job.cpus > 4, {HPC}",), ("rule r1: it may hold for any Job: its condition reads job.cpus; " + KNOWS,)),
    ((f"job.name.matches('^a'), {HPC}",), ("rule r1: it may hold for any Job: its condition reads job.name in a way that the API server cannot be asked about",)),
    ((f"\"queues['big'].freeNodes > 0 || job.mpi\", {HPC}", "job.gpus > 1, mode: audit, deny: never"), (f"rule r1: it may hold for any Job: its condition reads queues['big'], job.mpi; {KNOWS}", f"rule r2: it may hold for any Job: its condition reads job.gpus; {KNOWS}")),
    (("job.cpus + job.gpus > 4, cloud: true",), (f"rule r1: the condition may fail for any Job: its condition reads job.cpus, job.gpus; {KNOWS}",)),
    (("request.namespace == 'a', deny: never", f"request.namespace != 'a' && job.mpi, {HPC}"), ("rules r1, r2: for any Job one of them may hold",)),
    # a key that is stripped before rules see the Job
    ((f"\"'x.batchgate.dev/a' in job.labels\", {HPC}",), ("rule r1: it may hold for any Job: its condition reads job.labels in a way that the API server cannot be asked about",)),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "reasons"), FOR_ANY)
def test_why_no_job_can_be_left_out(lines: tuple[str, ...], reasons: tuple[str, ...]) -> None:
    found = match_condition(rules(*lines))

    assert (found.expression, found.reasons) == ("true", reasons)


def test_a_policy_that_sends_every_job() -> None:
    policy = load({"a.yaml": SITES, "b.yaml": f"rules: [{{name: all, {HPC}}}]", "c.yaml": ACCOUNTS})

    assert match_condition(policy).reasons == ("rule all: it may hold for any Job: its condition is true",)


def _alternating(count: int) -> Policy:
    """Rules that keep a user's Jobs in the cloud and that send those of a namespace, in turn."""
    kept = [f"request.user == 'u{number}', cloud: true" for number in range(count)]
    sent = [f"request.namespace == 'n{number}' && job.mpi, {HPC}" for number in range(count)]
    return rules(*(line for pair in zip(kept, sent, strict=True) for line in pair))


def test_rules_that_are_too_many_for_an_expression() -> None:
    most = match_condition(_alternating(leaving.DEEPEST // 2))
    wide = match_condition(rules(*(f"request.user == 'u{number}', {HPC}" for number in range(leaving.MOST_LITERALS))))
    too_deep = match_condition(_alternating(leaving.DEEPEST // 2 + 1))
    too_wide = match_condition(
        rules(*(f"request.user == 'u{number}', {HPC}" for number in range(leaving.MOST_LITERALS + 1)))
    )

    assert [one.expression.count("request.") for one in (most, wide)] == [leaving.DEEPEST, leaving.MOST_LITERALS]
    words = ("the rules together make too many comparisons for one expression",)
    assert [(one.expression, one.reasons) for one in (too_deep, too_wide)] == [("true", words)] * 2


def test_choices_within_choices_end_at_what_may_be() -> None:
    choice = "request.user == 'u'"
    for number in range(12):
        choice = f"({choice}) ? request.user == 'a{number}' : request.namespace == job.labels['b{number}']"
    found = outcomes(tree_of(choice))

    assert [max(map(size, (found.true, found.false, found.fails))) <= MOST_LITERALS, found.fails] == [True, True]


# conditions of rules that keep Jobs in the cloud, and whether they may fail
FAILING = {
    "job.cpus < 2 && has(job.memory) && !job.mpi": False,
    "job.images.exists(i, i.startsWith('a'))": False,
    "job.images.exists(i, job.images.exists(k, k < i))": True,  # as many turns as CEL allows
    "request.groups.exists(g, g == 'a')": True,
    "['a', 'b'].exists(p, request.namespace.startsWith(p))": False,
    "request.namespace.matches('^a')": False,
    "request.namespace.matches(job.name)": True,
    "job.memory > quantity('1Gi') || job.walltime in [1, 2]": False,
    "[1, 'a'].exists(x, x < job.cpus)": True,
    "job.cpus in [job.gpus, 1]": True,
    "request.time.getHours('Europe/Berlin') < 6 || request.time.getDayOfWeek() == 0": False,
    "request.time.getHours(queues['big'].timeZone) < 6": False,
    "request.time.getHours(job.name) < 6": True,
    "queues['big'].freeNodes > 0": False,
    "queues.big.freeNodes > 0": True,
    "request.namespaceLabels['a'] == 'b'": True,
    "'a' in request.namespaceLabels": False,
    "job.cpus * 2 > 4": True,
    "1 / job.cpus == 2": True,
    "dyn(job.cpus) < 1": True,
    "int(job.name) == 1": True,
    DEEP: True,
}


@pytest.mark.parametrize(("condition", "fails"), FAILING.items())
def test_what_may_fail(condition: str, fails: bool) -> None:
    found = match_condition(loaded(f"  - name: r1\n    when: >-\n      {condition}\n    cloud: true\n"))

    assert found.expression == ("true" if fails else "false")


def test_a_tree_that_is_too_deep_is_unknown() -> None:
    assert tree_of(DEEP) == Other()


# --- no Job that is left out would have met more than a rule that keeps it in the cloud ------------------------------

NAMESPACES, USERS, KEYS, VALUES = ("lab", "prod", "lab-2"), ("ada", "eve"), ("tier", "team"), ("web", "batch")
_NAMES = st.sampled_from([*NAMESPACES, *USERS, *VALUES, "hpc", "staff", ""])
_TEXTS = st.sampled_from(
    ["request.namespace", "request.user", "job.name", *(f"job.labels['{key}']" for key in KEYS)]
) | _NAMES.map(lambda name: f"'{name}'")
_ATOMS = st.one_of(
    st.builds("{} {} {}".format, _TEXTS, st.sampled_from(["==", "!="]), _TEXTS),
    st.builds("{}.{}({})".format, _TEXTS, st.sampled_from(["startsWith", "endsWith", "contains"]), _TEXTS),
    st.builds("{} in [{}, {}]".format, _TEXTS, _TEXTS, _TEXTS),
    st.builds("{} in request.groups".format, _TEXTS),
    st.builds("'{}' in job.labels".format, st.sampled_from(KEYS)),
    st.builds("has(job.labels.{})".format, st.sampled_from(KEYS)),
    st.builds("job.cpus {} {}".format, st.sampled_from(["<", ">="]), st.integers(0, 6)),
    st.sampled_from(
        ["true", "false", "job.mpi", "request.groups == []", "job.cpus / job.pods > 2", "1 / job.gpus > 0"]
    ),
    st.sampled_from(["request.namespaceLabels['a'] == 'b'", "request.groups.exists(g, g == 'hpc')"]),
)
_CONDITIONS = st.recursive(
    _ATOMS,
    lambda inner: st.one_of(
        st.builds("!({})".format, inner),
        st.builds("({}) {} ({})".format, inner, st.sampled_from(["&&", "||"]), inner),
        st.builds("({}) ? ({}) : ({})".format, inner, inner, inner),
    ),
    max_leaves=6,
)
_OUTCOMES = st.sampled_from(
    ["cloud: true", "cloud: true", HPC, f"{HPC}, ifNotRoutable: deny", "deny: never", "deny: never, mode: audit", "cloud: true, mode: audit"]
)  # fmt: skip


def _rules(pairs: list[tuple[str, str]]) -> str:
    lines = (f'  - {{name: r{number}, when: "{when}", {what}}}\n' for number, (when, what) in enumerate(pairs))
    return "".join(lines)


_POLICIES = st.lists(st.tuples(_CONDITIONS, _OUTCOMES), min_size=1, max_size=5).map(_rules)
_LABELS = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES), max_size=2)
_GROUPS = st.lists(st.sampled_from(["hpc", "staff"]), max_size=2, unique=True)


@st.composite
def _jobs(draw: st.DrawFn) -> Json:
    metadata: Json = draw(st.sampled_from([{"name": "web"}, {"name": "lab"}, {"generateName": "sim-"}]))
    labels = draw(st.none() | _LABELS)
    cpus = draw(st.sampled_from([None, "1", "4", "6"]))
    made: Json = job(None if cpus is None else {"cpu": cpus}, parallelism=draw(st.integers(0, 3)))
    return {**made, "metadata": metadata if labels is None else {**metadata, "labels": labels}}


_SERVER = cel.NewEnv(variables={name: cel.Type.Map(cel.Type.STRING, cel.Type.DYN) for name in ("request", "object")})
"""As the API server: both are maps, of which empty fields are missing."""


def _sent(policy: Policy, sent: Json, requester: Requester) -> object:
    user: Json = {"username": requester.user} | ({"groups": list(requester.groups)} if requester.groups else {})
    values = {"request": {"namespace": requester.namespace, "userInfo": user}, "object": sent}
    return _SERVER.compile(match_condition(policy).expression).eval(_SERVER.Activation(values)).value()


@UNHURRIED
@given(
    text=_POLICIES,
    new=_jobs(),
    stored=_jobs(),
    requester=st.builds(Requester, st.sampled_from(USERS), _GROUPS.map(tuple), st.sampled_from(NAMESPACES)),
)
def test_a_job_that_is_left_out_stays_in_the_cloud_without_a_word(
    text: str, new: Json, stored: Json, requester: Requester
) -> None:
    try:
        policy = loaded(text)
    except PolicyError:
        event("no policy")
        return
    sent = _sent(policy, new, requester)
    event(f"sent: {sent}")

    assert isinstance(sent, bool)
    if sent:
        return
    gate = Gate(policy, UNKNOWN_CLUSTER, NO_QUEUE_STATES, None, 1_700_000_000)
    created, changed = (
        judge(new, requester=requester, gate=gate),
        judge_update(stored, new, requester=requester, gate=gate),
    )
    assert created.decision is not None
    assert (created.decision.target, created.decision.audited, created.warnings) == ("cloud", (), ())
    assert (changed.decision, changed.warnings) == (None, ())
