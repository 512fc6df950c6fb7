"""``batchgate describe cronjob/NAME``: shows a CronJob's runs and, with a policy, a forecast of the next one.

Shell. The CronJob controller creates the Jobs, so users do not see their warnings.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import click

from router.cli.cluster import Cluster
from router.cli.output import as_document, as_json
from router.cli.table import print_table
from router.errors import ConfigError, JobError
from router.kube.client import Json
from router.operating.cronjobs import CronStory, Run, cron_story

_AHEAD: Final = (
    "Next run, by the policy given, as if it were made now (LimitRanges, quotas and queues of the cluster do not count)"
)


def describe_cronjob(cluster: Cluster, name: str, policy: str | None, output: str) -> None:
    """Print the story of a CronJob. Raises ConfigError if it is missing or forbidden."""
    below = f"/apis/batch/v1/namespaces/{quote(cluster.namespace, safe='')}"
    found = cluster.one(f"CronJob {name}", f"{below}/cronjobs/{quote(name, safe='')}")
    if found is None:
        why = cluster.missed[-1] if cluster.missed else f"there is no CronJob {name!r} in namespace {cluster.namespace}"
        raise ConfigError(f"{why}; name its namespace with -n")
    told = cron_story(found, cluster.every("Jobs", f"{below}/jobs", dict) or ())
    ahead: list[str] = []
    if policy is not None:
        try:
            ahead = _next_run(cluster, found, Path(policy))
        except ConfigError as error:  # the rest of the story needs no policy
            cluster.without_policy("the next run", policy, error)
    cluster.say_missed()
    if output == "json":
        document: Any = as_document(told)
        click.echo(as_json({**document, "nextRun": ahead, "notLookedAt": cluster.missed}))
        return
    _print(told)
    if ahead:
        click.echo("\n".join(["", _AHEAD, *(f"  {line}" for line in ahead)]))


def _next_run(cluster: Cluster, cronjob: Json, directory: Path) -> list[str]:
    """The gate's decision about the next Job, as if the controller created it now.

    LimitRanges, quotas and queues of the cluster are not known here.
    """
    # Imported here, as only --policy needs it.
    from router import policy  # noqa: PLC0415
    from router.cli.judging import LEFT_ALONE  # noqa: PLC0415
    from router.gate import judging as gate  # noqa: PLC0415
    from router.policy.decision import NO_QUEUE_STATES  # noqa: PLC0415
    from router.policy.identity import cronjob_controller  # noqa: PLC0415
    from router.startup.policyfiles import read_directory  # noqa: PLC0415
    from router.workload import job_of  # noqa: PLC0415
    from router.workload.cluster import UNKNOWN_CLUSTER  # noqa: PLC0415

    checked = policy.load(read_directory(directory))
    namespace = cluster.one("the namespace's labels", f"/api/v1/namespaces/{quote(cluster.namespace, safe='')}")
    labels = None if namespace is None else namespace["metadata"].get("labels") or {}
    asking = cronjob_controller(checked.accounts, cluster.namespace, labels)
    opened = gate.Gate(checked, UNKNOWN_CLUSTER, NO_QUEUE_STATES, None, int(datetime.now(tz=UTC).timestamp()))
    made = job_of({**cronjob, "apiVersion": "batch/v1", "kind": "CronJob"}, opened.issued_at)
    if made is None:
        return []
    job, root = made
    try:
        judged = gate.judge(job, requester=asking, gate=opened, root=root)
    except JobError as error:
        return [f"denied: {error}"]
    if judged.decision is None:
        return [LEFT_ALONE]
    head = f"{judged.decision.target}, by rule {judged.decision.rule}, for {asking.user}: {judged.decision.reason}"
    return [head, *(text for text in judged.warnings if judged.decision.reason not in text), *judged.differences]


def _print(told: CronStory) -> None:
    state = ", suspended" if told.suspended else ""
    last = f"last made a Job at {told.last}" if told.last else "has made no Job yet"
    click.echo(f"{told.namespace}/{told.name}  (CronJob, {told.schedule}{state}; {last})")
    click.echo("\nIts Jobs that are kept" if told.runs else "\nNo Job of it is kept")
    if told.runs:
        head = ("JOB", "CREATED", "STATE", "MADE BY", "TARGET", "QUEUE", "RULE", "REASON")
        print_table(head, [_row(one) for one in told.runs])


def _row(run: Run) -> tuple[str, ...]:
    one = run.decision
    queue = f"{one.queue} ({one.site})" if one.queue else ""
    target = one.target or "not judged"
    made = "hand" if run.by_hand else "the schedule"
    return (run.name, run.created, str(run.state), made, target, queue, one.rule, one.reason)
