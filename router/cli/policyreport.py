"""``batchgate policy report``: tells what audit rules would do with the Jobs of each namespace, as policy reports.

Shell: reads the policy and the Jobs, prints, writes to the API with the caller's rights, sets the exit code.
``router.replay`` judges, counts and says what to write.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click

from router.cli.cluster import Cluster, connecting_options, reach
from router.cli.output import as_json, as_yaml
from router.cli.policydiff import Since, policies_of
from router.cli.table import print_table
from router.errors import ApiError, ApiUnavailable, ConfigError, Conflict, NotFound
from router.notation import durations

if TYPE_CHECKING:
    from router.kube.client import Api
    from router.policy.model import Policy
    from router.replay.audits import Judged, NamespaceAudit
    from router.replay.cases import Case, Skipped
    from router.replay.policyreports import Form

Json = dict[str, Any]

_A_DAY: Final = 86400
_FEW: Final = 50
"""Reports of a page."""
_MANAGER: Final = "batchgate-policy-reports"
_CLAIMS: Final = ("persistentvolumeclaims", "persistentvolumes")
_ENDING: Final = "NamespaceTerminating"
"""Why the API server lets nothing be made in a namespace that is being deleted, as it says (k8s.io/api, core/v1)."""
_HEAD: Final = ("NAMESPACE", "RULE", "RESULT", "JOBS", "UNCERTAIN", "NEWEST", "MESSAGE")
_NOT_SERVED: Final = (
    "the cluster serves neither PolicyReports (wgpolicyk8s.io/v1alpha2) nor Reports (openreports.io/v1alpha1), so none "
    "was written: install the CRDs of either, or switch policyReports.enabled of the chart off"
)


@click.command()
@click.argument("directory", required=False, metavar="[POLICY]")
@click.option(
    "--log", "logs", multiple=True, metavar="FILE",
    help="Jobs of a decision log and its older files, instead of those in the cluster; repeatable.",
)  # fmt: skip
@click.option("--since", type=Since(), metavar="TIME", help="Only later Jobs: 7d. [default: of a log, 1d]")
@click.option("--write", is_flag=True, help="Write the reports to the cluster, and delete ours that are out of date.")
@click.option("--if-served", is_flag=True, help="With --write: no failure where the cluster has no API for reports.")
@click.option("-o", "--output", type=click.Choice(["table", "yaml", "json"]), default="table", show_default=True)
@connecting_options
def report(directory: str | None, connection: Mapping[str, Any], **options: Any) -> None:
    """Say what audit rules would do with the Jobs of each namespace, as PolicyReport objects.

    POLICY is a directory; without it, it is the policy that the cluster's ConfigMap holds. The Jobs are those in the
    cluster, of namespaces that the webhook judges.

    Exit code 1 if not all reports were written.

    \b
    Example:  batchgate policy report
              batchgate policy report --write
    """
    if options["write"] and options["output"] != "table":
        raise click.UsageError("-o yaml and -o json only print: leave out either them or --write")
    if options["if_served"] and not options["write"]:
        raise click.UsageError("--if-served is for --write")
    offline = directory is not None and options["logs"] and not options["write"]
    reached = None if offline else reach(**connection)
    forms = _served(reached.api) if reached is not None else ()
    if options["write"] and not forms:
        click.echo(f"Warning: {_NOT_SERVED}", err=True)
        sys.exit(0 if options["if_served"] else 1)
    ((_, policy),) = policies_of((directory,) if directory else (), reached)
    audits = _audits(policy, reached, {**options, "namespace": connection["namespace"]})
    if reached is not None:
        reached.say_missed()
    if reached is None or not options["write"]:
        _print(audits, policy, forms, options["output"])
        return
    _demand_whole(reached)
    sys.exit(0 if _write(audits, policy, reached, forms) else 1)


# --- reading ----------------------------------------------------------------------------------------------------


def _audits(policy: Policy, reached: Cluster | None, options: Mapping[str, Any]) -> tuple[NamespaceAudit, ...]:
    """What the audit rules find, by namespace; what is left out is told on standard error. Raises ApiError, InputError."""
    # Imported here and below, as only this command of the group judges Jobs so.
    from router.replay.audits import AuditTally, audit_rules  # noqa: PLC0415
    from router.replay.cases import Skipped, count  # noqa: PLC0415

    if not audit_rules(policy):
        click.echo("The policy has no rule with mode: audit, so there is nothing to report.", err=True)
        return ()
    tally, skipped = AuditTally(policy), dict[str, tuple[int, str]]()
    for one in _judged(policy, reached, options):
        if isinstance(one, Skipped):
            count(skipped, one.why, one.example)
        else:
            tally.add(one)
    _tell_skipped(skipped)
    return tally.namespaces()


def _tell_skipped(skipped: Mapping[str, tuple[int, str]]) -> None:
    from router.replay.texts import plain  # noqa: PLC0415 - as above

    for why, (times, example) in skipped.items():
        click.echo(f"Left out, {why}: {times}{f', such as {plain(example)}' if example else ''}", err=True)


def _judged(policy: Policy, reached: Cluster | None, options: Mapping[str, Any]) -> Iterator[Judged | Skipped]:
    if options["logs"]:
        yield from _of_logs(policy, options)
    elif reached is not None:
        yield from _of_cluster(policy, reached, options)


def _of_logs(policy: Policy, options: Mapping[str, Any]) -> Iterator[Judged | Skipped]:
    """The Jobs of logs. All were judged by the webhook, so that their namespaces need no look."""
    from router.cli import replayed  # noqa: PLC0415 - as above
    from router.replay.audits import Subject, judged  # noqa: PLC0415
    from router.replay.cases import Skipped  # noqa: PLC0415

    since = options["since"]
    if since is None:
        since = datetime.now(tz=UTC).timestamp() - _A_DAY
    for one in replayed.from_logs(options["logs"], since):
        if isinstance(one, Skipped):
            yield one
        elif options["namespace"] in {None, one.requester.namespace}:
            name = one.name.partition("/")[2]
            yield judged(policy, one, Subject("Job", name, "", int(one.requester.time or 0)))


def _of_cluster(policy: Policy, reached: Cluster, options: Mapping[str, Any]) -> Iterator[Judged | Skipped]:
    """The Jobs in the cluster, of namespaces that the webhook judges."""
    from router.cli import replayed  # noqa: PLC0415 - as above
    from router.policy.decision import NO_QUEUE_STATES  # noqa: PLC0415
    from router.replay.audits import Subject, judged  # noqa: PLC0415
    from router.replay.cases import Skipped  # noqa: PLC0415
    from router.replay.manifests import Known  # noqa: PLC0415
    from router.replay.outcomes import maps_claims  # noqa: PLC0415
    from router.workload.cluster import UNKNOWN_CLUSTER  # noqa: PLC0415

    known = Known((policy, policy), UNKNOWN_CLUSTER, NO_QUEUE_STATES, options["since"] or 0.0)
    known = replayed.with_facts(reached, known, () if maps_claims(policy) else _CLAIMS)

    def keep(value: Mapping[str, Any], case: Case | Skipped) -> Judged | Skipped:
        metadata = value["metadata"]
        if isinstance(case, Skipped):
            return case
        created = int(durations.moment(metadata["creationTimestamp"]))
        return judged(policy, case, Subject(value["kind"], metadata["name"], metadata["uid"], created))

    yield from replayed.each_in_cluster(reached, known, keep)


# --- printing ---------------------------------------------------------------------------------------------------


def _print(audits: Sequence[NamespaceAudit], policy: Policy, forms: Sequence[Form], output: str) -> None:
    from router.replay import policyreports  # noqa: PLC0415 - as above

    form = next(iter(forms), policyreports.WGPOLICY)
    reports = [policyreports.report(one, policy, form) for one in audits]
    if output == "json":
        click.echo(as_json({"apiVersion": "v1", "kind": "List", "items": reports}))
    elif output == "yaml":
        click.echo(as_yaml(reports), nl=False)
    elif reports:
        print_table(_HEAD, [row for one in reports for row in _rows(one)])


def _rows(report: Json) -> Iterator[tuple[str, ...]]:
    for one in report["results"]:
        properties = one.get("properties", {})
        newest = next((f"{job['kind']}/{job['name']}" for job in one.get("resources", ())), "-")
        numbers = (properties.get("jobs", "-"), properties.get("jobs-uncertain", "0"))
        yield (report["metadata"]["namespace"], one.get("rule", "-"), one["result"], *numbers, newest, one["message"])


# --- writing ----------------------------------------------------------------------------------------------------


def _served(api: Api) -> tuple[Form, ...]:
    """The APIs for reports that the cluster has. Raises ApiError."""
    from router.replay.policyreports import FORMS  # noqa: PLC0415 - as above

    return tuple(
        form
        for form in FORMS
        if any(one["name"] == form.plural for one in (api.find(form.path) or {}).get("resources") or ())
    )


def _demand_whole(reached: Cluster) -> None:
    """Raise ConfigError if something could not be read: then reports would be wrong, and right ones be deleted."""
    lacking = [one for one in reached.missed if not one.startswith(_CLAIMS)]
    if lacking:
        raise ConfigError(
            f"{'; '.join(lacking)}. Nothing was written, as a report must rest on all Jobs and their facts"
        )


def _write(audits: Sequence[NamespaceAudit], policy: Policy, reached: Cluster, forms: Sequence[Form]) -> bool:
    """Bring the cluster's reports up to date; returns whether all are. Raises ApiError."""
    from router.replay import policyreports  # noqa: PLC0415 - as above

    form = forms[0]
    found = {one: tuple(_existing(reached, one)) for one in forms}
    todo = policyreports.plan([policyreports.report(one, policy, form) for one in audits], form, found)
    problems = [
        f"{namespace}: the {form.kind} {policyreports.NAME} there is somebody else's, as it lacks the label "
        f"{'='.join(policyreports.OWNER)}; it was left as it is: delete or rename it"
        for namespace in todo.foreign
    ]
    steps = [(one, partial(_apply, reached.api, form, one)) for one in todo.apply]
    steps += [(one, partial(_delete, reached.api, old, one)) for old, one in todo.delete]
    problems += [problem for one, step in steps if (problem := _tried(one["metadata"]["namespace"], step))]
    for one in problems:
        click.echo(f"Warning: {one}", err=True)
    click.echo(f"{form.kind} objects that were up to date: {todo.unchanged}")
    return not problems


def _existing(reached: Cluster, form: Form) -> Iterator[Json]:
    """The reports with our name. The role allows no other: an account restricted to a name may list it alone."""
    from router.replay.policyreports import NAME  # noqa: PLC0415 - as above

    below = f"/namespaces/{reached.namespace}" if reached.named else ""
    pages = reached.api.pages(f"{form.path}{below}/{form.plural}", limit=_FEW, fieldSelector=f"metadata.name={NAME}")
    for page, _ in pages:
        yield from page


def _tried(namespace: str, write: Callable[[], None]) -> str:
    """What kept a report from being written or deleted; empty if nothing did. Raises ApiUnavailable."""
    try:
        write()
    except ApiUnavailable:
        raise
    except ApiError as error:
        if not isinstance(error, NotFound | Conflict) and error.cause != _ENDING:
            return str(error)
        words = "left as it is, as the namespace or the report was just deleted or changed; the next run looks again"
        click.echo(f"{namespace}: {words}")
    return ""


def _apply(api: Api, form: Form, report: Json) -> None:
    api.apply(form.of(report["metadata"]["namespace"]), report, _MANAGER)
    click.echo(f"{report['metadata']['namespace']}: written")


def _delete(api: Api, form: Form, report: Json) -> None:
    metadata = report["metadata"]
    api.delete(form.of(metadata["namespace"]), uid=metadata["uid"])
    click.echo(f"{metadata['namespace']}: deleted, as it is out of date")
