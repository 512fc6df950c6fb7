"""Turns the files of a policy directory into a Policy, or reports everything that is wrong with them.

Pure: takes texts by file name. Problems are in the order of the files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import replace

from pydantic import ValidationError

from router.errors import PolicyError, Problem
from router.policy import checks, containers, mapchecks, nodechecks, rulechecks, states, walltimes
from router.policy.decision import QueueState
from router.policy.identity import names_people
from router.policy.misspelt import nearest
from router.policy.model import CheckedRule, CheckedTest, Policy, queue_keys
from router.policy.reading import Placed, Reading, read, said
from router.policy.schema import PolicyTest, Rule
from router.site import globs
from router.site.schema import Site
from router.workload.model import GpuVendor


def load(files: Mapping[str, str]) -> Policy:
    """Check all files together and join them. Raises PolicyError with every problem that was found."""
    reading = read(files)
    problems = list(reading.problems)
    sites = tuple(placed.value for placed in reading.sites)
    doubts = [text for placed in reading.sites for text in _site_doubts(placed)]
    queues = queue_keys(sites)
    problems += checks.check_sites(reading)
    problems += [
        problem
        for placed in reading.sites
        for check in (mapchecks.check, nodechecks.check)
        for problem in check(placed)
    ]
    problems += checks.check_accounts(reading)
    rules, warnings, found = _rules(reading, queues)
    problems += found
    tests, found = _tests(reading, queues)
    problems += found
    if problems:
        raise PolicyError(sorted(dict.fromkeys(problems), key=lambda p: (p.file, p.line, p.column)))
    return Policy(
        sites=sites,
        accounts=tuple(placed.value for placed in reading.accounts),
        rules=tuple(rules),
        tests=tuple(tests),
        gpu_resources=_gpu_resources(reading),
        digest=_digest(files),
        controllers=frozenset(placed.value.managed_by for placed in reading.controllers),
        warnings=(
            *_strangers(reading),
            *doubts,
            *[words for placed in reading.sites for words in containers.shared_users(placed, reading.accounts)],
            *checks.shared_directories(reading),
            *warnings,
            *_nobody(reading, rules),
        ),
        queues=queues,
    )


def _site_doubts(placed: Placed[Site]) -> Iterator[str]:
    yield from walltimes.doubts(placed)
    yield from containers.doubts(placed)
    yield from nodechecks.doubts(placed)
    yield from mapchecks.doubts(placed)


def _digest(files: Mapping[str, str]) -> str:
    digest = hashlib.sha256()
    for name in sorted(files):
        for text in (name, files[name]):
            data = text.encode("utf-8", "surrogatepass")
            digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()


def _gpu_resources(reading: Reading) -> dict[str, GpuVendor]:
    return {name: vendor for placed in reading.sites for name, vendor in placed.value.gpu_resources.items()}


def _rules(reading: Reading, queues: rulechecks.Queues) -> tuple[list[CheckedRule], list[str], list[Problem]]:
    rules: list[CheckedRule] = []
    warnings = list(rulechecks.alike(reading.rules))
    problems = list(checks.unique(reading, "rules"))
    problems += rulechecks.unreachable(reading.rules)
    problems += _last(reading)
    sites_known = "sites" not in reading.broken
    for when, spot in reading.conditions:
        problems += rulechecks.compiled(when, spot)[1]
        problems += rulechecks.unknown_queues(when, spot, queues) if sites_known else ()
    for placed in reading.rules:
        checked, doubts, found = _rule(placed, queues, sites_known=sites_known)
        problems += found
        warnings += doubts
        if checked is not None:
            rules.append(_with_defaults(checked, reading))
    return rules, [*warnings, *rulechecks.denied_by_less(rules)], problems


def _with_defaults(checked: CheckedRule, reading: Reading) -> CheckedRule:
    """The rule with what ``ruleDefaults`` say about the keys that it leaves out."""
    if not reading.rule_defaults:
        return checked
    rule, given = checked.rule, reading.rule_defaults[0].value
    own = {key: getattr(rule.figures, key) for key in rule.figures.model_fields_set}
    figures = given.figures.model_copy(update=own)
    kueue = given.kueue if rule.kueue is None else rule.kueue
    return replace(checked, rule=rule.model_copy(update={"kueue": kueue, "figures": figures}))


def _last(reading: Reading) -> Iterator[Problem]:
    if reading.ends_read:
        yield from rulechecks.catch_all(reading.rules)
    elif not reading.rules and not reading.broken:
        yield Problem("the policy", 0, 0, "", "has no rules; the least is: rules: [{name: rest, cloud: true}]")


def _rule(
    placed: Placed[Rule], queues: rulechecks.Queues, *, sites_known: bool
) -> tuple[CheckedRule | None, list[str], list[Problem]]:
    problems = list(rulechecks.check_outcome(placed))
    condition, faults = rulechecks.compiled(placed.value.when, placed.spot)
    problems += faults
    found, unknown = rulechecks.candidates(placed, queues)
    if sites_known:
        problems += unknown
        problems += rulechecks.unknown_queues(placed.value.when, placed.spot, queues)
        problems += checks.rule_directives(placed, [candidate.site for candidate in found])
    if condition is None:
        return None, [], problems
    if sites_known:
        problems += rulechecks.impossible(placed, found)
        problems += walltimes.too_short_for(placed, found)
    doubts = [*rulechecks.doubts(placed, condition, found, queues), *walltimes.below_default(placed, found)]
    doubts += walltimes.doubts(placed)
    return CheckedRule(placed.value, condition, tuple(found), placed.spot.line), doubts, problems


def _tests(reading: Reading, queues: rulechecks.Queues) -> tuple[list[CheckedTest], list[Problem]]:
    problems = list(checks.check_tests(reading, queues))
    tests = []
    for placed in reading.tests:
        known, found = _test_states(placed, queues)
        problems += found
        test = placed.value
        job = test.job if test.job is not None else reading.manifests.get(test.file or "", {})
        tests.append(CheckedTest(test, job, known, placed.spot.line))
    return tests, problems


def _test_states(
    placed: Placed[PolicyTest], queues: rulechecks.Queues
) -> tuple[dict[tuple[str, str], QueueState], list[Problem]]:
    known: dict[tuple[str, str], QueueState] = {}
    problems = []
    for key, value in placed.value.queues.items():
        try:
            figures = states.figures(value)
        except ValidationError as error:
            for detail in error.errors(include_url=False):
                field = detail["loc"][0] if detail["loc"] else ""
                if detail["type"] == "extra_forbidden":
                    wrong = f"is not a figure of a queue{nearest(str(field), states.FIGURES)}"
                    problems.append(placed.spot.key_problem(f"queues: {key}: {field}: {wrong}", "queues", key, field))
                else:
                    wrong = said(detail)
                    problems.append(placed.spot.problem(f"queues: {key}: {field}: {wrong}", "queues", key, field))
            continue
        if key in queues:
            site, queue = queues[key]
            known[site.name, queue.name] = states.state_of(figures, site.name, queue.name)
    return known, problems


def _strangers(reading: Reading) -> Iterator[str]:
    """Warnings about Kubernetes objects among the files that have no meaning there."""
    for kind, spot in reading.others:
        words = f"is a {kind}, which is neither a policy file nor a Job for a test; it is ignored"
        yield str(spot.key_problem(words, "kind"))


def _nobody(reading: Reading, rules: list[CheckedRule]) -> Iterator[str]:
    """Warnings about sites to which rules send Jobs although no account matches them."""
    used = dict.fromkeys(candidate.site.name for rule in rules for candidate in rule.candidates)
    entries = [placed.value for placed in reading.accounts if placed.value.as_ is not None]
    for site in used:
        if not any(globs.matches((e.site,), site) and (names_people(e) or e.namespaces) for e in entries):
            yield f"no entry of accounts matches site {site}: every Job that rules send there stays in the cloud"
