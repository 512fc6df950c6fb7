"""Tells what audit rules would do as the objects that viewers of policy reports read, one for each namespace.

Pure. ``PolicyReport`` (``wgpolicyk8s.io/v1alpha2``, github.com/kubernetes-sigs/wg-policy-prototypes) and its successor
``Report`` (``openreports.io/v1alpha1``, github.com/openreports/reports-api) have the same fields, but for one.

Viewers such as Policy Reporter take a result for a new one, and notify, if its scope, rule, result or message is another.
So a message says what the rule does, in words that stay; numbers are in the properties.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from router import names
from router.policy.model import CheckedRule, Policy
from router.replay.audits import NamespaceAudit, RuleAudit, Subject
from router.replay.texts import plain
from router.values import unchanging

Json = dict[str, Any]

NAME: Final = "batchgate-audit"
"""The name of each report."""
OWNER: Final = ("app.kubernetes.io/managed-by", "batchgate")
"""The label of our reports."""
SOURCE: Final = "batchgate"
CATEGORY: Final = "Job routing"
RESULTS: Final = ("pass", "fail", "warn", "error", "skip")
MOST_RESULTS: Final = 200
"""Results of a report. Each has at most 4 KiB, and etcd takes objects up to 1.5 MiB."""
_MOST_TEXT: Final = 500
_MOST_FACTS: Final = 10


@unchanging
class Form:
    """An API for reports. ``plural``: as in paths."""

    group: str
    version: str
    kind: str
    plural: str

    @property
    def path(self) -> str:
        """Of the group and version."""
        return f"/apis/{self.group}/{self.version}"

    def of(self, namespace: str) -> str:
        """The path of a namespace's report."""
        return f"{self.path}/namespaces/{namespace}/{self.plural}/{NAME}"


WGPOLICY: Final = Form("wgpolicyk8s.io", "v1alpha2", "PolicyReport", "policyreports")
OPENREPORTS: Final = Form("openreports.io", "v1alpha1", "Report", "reports")
FORMS: Final = (WGPOLICY, OPENREPORTS)
"""The one that is written where both are served comes first."""


def report(audit: NamespaceAudit, policy: Policy, form: Form) -> Json:
    """The report of one namespace."""
    results = _within_bounds([one for rule in audit.rules for one in _results(rule, audit)])
    counts = Counter(one["result"] for one in results)
    return {
        "apiVersion": f"{form.group}/{form.version}",
        "kind": form.kind,
        "metadata": {
            "name": NAME,
            "namespace": audit.namespace,
            "labels": dict([OWNER]),
            "annotations": {names.NODE_POLICY: policy.digest},
        },
        **({"source": SOURCE} if form is OPENREPORTS else {}),
        # Viewers take the scope for what a result without Jobs is about. It names its own namespace, as Policy Reporter
        # takes a result for one of the cluster where the scope has none.
        "scope": {"apiVersion": "v1", "kind": "Namespace", "name": audit.namespace, "namespace": audit.namespace},
        "summary": {one: counts[one] for one in RESULTS},
        "results": results,
    }


# --- results ----------------------------------------------------------------------------------------------------


def _results(found: RuleAudit, where: NamespaceAudit) -> Iterator[Json]:
    """One result of a rule; two if its condition holds for some Jobs and cannot be evaluated for others."""
    if found.held:
        message = _does(found.rule)
        if "deny" in dict(found.targets) and not found.denied:
            message = f"{_PERHAPS}{message}"
        yield _result(found, "fail" if found.denied else "warn", message, where, found.held, found.newest)
    if found.failed:
        yield _result(found, "error", _fails(found.rule), where, found.failed, found.newest_failed)
    if not found.held and not found.failed:
        result, message = ("skip", _UNSURE) if found.uncertain else ("pass", _NONE)
        yield _result(found, result, message, where)


_NONE: Final = "This rule holds for no Job here, so it would change nothing."
_UNSURE: Final = (
    "This rule holds for no Job here as far as is known: facts on which it rests are unknown (property unknown)."
)

_PERHAPS: Final = "As far as is known, as facts on which it rests are unknown (property unknown): "


def _does(checked: CheckedRule) -> str:
    rule = checked.rule
    if rule.deny is not None:
        return f"This rule would deny these Jobs: {_cut(rule.deny)}"
    if rule.hpc is None:
        return "This rule would keep these Jobs in the cloud."
    queues = " or ".join(dict.fromkeys(f"{one.site.name}/{one.queue.name}" for one in checked.candidates))
    rest = "would be denied" if rule.if_not_routable == "deny" else "would stay in the cloud"
    return f"This rule would send these Jobs to HPC, to {_cut(queues)}. Those that cannot go there {rest}."


def _fails(checked: CheckedRule) -> str:
    end = "would deny them" if checked.rule.deny is not None else "would keep them in the cloud"
    return f"The condition of this rule cannot be evaluated for these Jobs; in force, it {end}. See: batchgate explain"


def _cut(text: str) -> str:
    found = plain(text)
    return found if len(found) <= _MOST_TEXT else f"{found[: _MOST_TEXT - 1]}…"


def _result(
    found: RuleAudit,
    result: str,
    message: str,
    where: NamespaceAudit,
    jobs: int = 0,
    subjects: Sequence[Subject] = (),
) -> Json:
    """A result. Its time is that of the newest Job on which it rests, so that it stays as long as nothing changes."""
    checked = found.rule
    denies = checked.rule.deny is not None or checked.rule.if_not_routable == "deny"
    resources = [_resource(one, where.namespace) for one in subjects]
    return {
        "source": SOURCE,
        "policy": names.POLICIES_CONFIG_MAP,
        "rule": checked.name,
        "category": CATEGORY,
        "severity": "medium" if denies else "low",
        "result": result,
        "scored": denies and result != "warn",
        "message": message,
        "timestamp": {"seconds": subjects[0].created if subjects else where.newest, "nanos": 0},
        "properties": _properties(found, result, jobs),
        **({"resources": resources} if resources else {}),
    }


def _properties(audit: RuleAudit, result: str, jobs: int) -> dict[str, str]:
    found: dict[str, str] = {"jobs": str(jobs), "place": _cut(audit.rule.place)}
    if result in {"fail", "warn"}:
        found |= {f"jobs-{target}": str(count) for target, count in audit.targets}
    if audit.uncertain:
        more = len(audit.unknown) - _MOST_FACTS
        facts = [*audit.unknown[:_MOST_FACTS], *([f"{more} more"] if more > 0 else [])]
        found |= {"jobs-uncertain": str(audit.uncertain), "unknown": ", ".join(facts)}
    return found


def _resource(one: Subject, namespace: str) -> dict[str, str]:
    found = {"apiVersion": "batch/v1", "kind": one.kind, "namespace": namespace, "name": one.name}
    return found | ({"uid": one.uid} if one.uid else {})


def _within_bounds(results: list[Json]) -> list[Json]:
    """As many as a report may have, those first that need somebody; the last one says how many are left out."""
    if len(results) <= MOST_RESULTS:
        return results
    order = ("fail", "error", "warn", "skip", "pass")
    kept = sorted(results, key=lambda one: order.index(one["result"]))[: MOST_RESULTS - 1]
    words = f"{len(results) - len(kept)} more results are left out: a report holds {MOST_RESULTS}."
    left = {"source": SOURCE, "policy": names.POLICIES_CONFIG_MAP, "category": CATEGORY, "result": "skip"}
    return [*kept, left | {"message": words}]


# --- what to write ----------------------------------------------------------------------------------------------


@unchanging
class Plan:
    """What to do so that the cluster has these reports and no older one of ours.

    :param apply: reports that are missing or others than they should be
    :param delete: ours that are no longer wanted, each with the form by which it is written
    :param unchanged: how many are there as they should be
    :param foreign: namespaces where somebody else's report has our name
    """

    apply: tuple[Json, ...]
    delete: tuple[tuple[Form, Json], ...]
    unchanged: int
    foreign: tuple[str, ...]


def plan(wanted: Iterable[Json], form: Form, found: Mapping[Form, Iterable[Json]]) -> Plan:
    """What to do.

    :param form: of the wanted reports
    :param found: the reports with our name that are in the cluster, by the forms that it serves
    """
    by_namespace = {one["metadata"]["namespace"]: one for one in wanted}
    here = {one["metadata"]["namespace"]: one for one in found[form]}
    foreign = tuple(sorted(key for key in by_namespace if key in here and not _ours(here[key])))
    changed, unchanged = [], 0
    for key, one in by_namespace.items():
        if key in foreign:
            continue
        if key in here and _is_as(here[key], one):
            unchanged += 1
        else:
            changed.append(one)
    old = tuple(
        (other, one)
        for other, reports in found.items()
        for one in reports
        if _ours(one) and (other != form or one["metadata"]["namespace"] not in by_namespace)
    )
    return Plan(tuple(changed), old, unchanged, foreign)


def _ours(found: Json) -> bool:
    key, value = OWNER
    return (found["metadata"].get("labels") or {}).get(key) == value


def _is_as(found: Json, wanted: Json) -> bool:
    """Whether a report in the cluster says what is wanted. What others add to its metadata is theirs."""
    annotations = found["metadata"].get("annotations") or {}
    return all(found.get(key) == value for key, value in wanted.items() if key not in _METADATA) and all(
        annotations.get(key) == value for key, value in wanted["metadata"]["annotations"].items()
    )


_METADATA: Final = frozenset({"apiVersion", "kind", "metadata"})
"""What a list leaves out of its objects, and what is not compared as a whole."""
