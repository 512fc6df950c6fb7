"""``batchgate policy diff``: judges Jobs that really were by two policies, and shows what would change.

Shell: reads policies, prints, writes the page, sets the exit code. ``router.cli.replayed`` reads the Jobs, and
``router.replay`` judges and counts.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from router import names
from router import policy as policies
from router.cli.cluster import Cluster, connecting_options, reach
from router.cli.manifests import read_text
from router.cli.output import as_json
from router.cli.table import print_table
from router.errors import ConfigError
from router.notation import durations
from router.policy.configmap import texts_of
from router.policy.decision import NO_QUEUE_STATES, QueueStates
from router.startup.options import Command
from router.startup.policyfiles import read_directory
from router.startup.settings import QUEUES_MAX_AGE

if TYPE_CHECKING:
    from router.cli.replayed import Found
    from router.policy.model import Policy
    from router.replay.tally import Report

_FAILING: Final = ("denied", "target", "queue", "account", "resources", "retries", "script", "rule", "missing", "any")

_NOT_IN_FORCE: Final = (
    "is not in force, as it does not check: webhook and agents keep the last good policy, which the cluster does not hold; "
    "name its directory, or mend the ConfigMap"
)


class Since(click.ParamType[float]):
    """A time before now (``7d``), or a moment; seconds since 1970."""

    name = "since"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read it; fails with a usage error if it is neither."""
        if isinstance(value, float):
            return value
        if not value.isdecimal():  # which leaves open of what: days are as likely as seconds
            with contextlib.suppress(ValueError):
                return datetime.now(tz=UTC).timestamp() - durations.seconds(value)
        try:
            return durations.moment(value)
        except ValueError:
            words = "is neither a time before now, such as 7d, nor a moment, such as 2026-03-01T12:00:00Z"
            self.fail(f"{value!r} {words}", param, ctx)


_JOBS: Final = (
    click.option(
        "--log", "logs", multiple=True, metavar="FILE", help="Jobs of a decision log and its older files; repeatable."
    ),
    click.option("--jobs", multiple=True, metavar="FILE|DIR|-", help="Jobs of manifests; repeatable."),
    click.option("--cluster", "live", is_flag=True, help="Jobs and CronJobs that are in the cluster."),
    click.option("--since", type=Since(), metavar="TIME", help="Only later Jobs: 7d, or 2026-03-01T12:00:00Z."),
)


def jobs_options(command: Command) -> Command:
    """The options that name Jobs, for ``cases``."""
    for option in reversed(_JOBS):
        option(command)
    return command


@click.command()
@click.argument("directories", nargs=-1, required=True, metavar="[OLD] NEW")
@jobs_options
@click.option("--queues", metavar="FILE", help="Queue state for Jobs that are not of a log; else it is unknown.")
@click.option("--scripts", is_flag=True, help="Compare the scripts as well, of Jobs that are not of a log.")
@click.option(
    "-o", "--output", type=click.Choice(["table", "json", "markdown", "junit"]), default="table", show_default=True
)
@click.option("--html", metavar="FILE", help="Also write a page with plots there.")
@click.option("--fail-on", multiple=True, type=click.Choice(_FAILING), help="Exit code 1 if this is found; repeatable.")
@connecting_options
def diff(directories: tuple[str, ...], connection: Mapping[str, Any], **options: Any) -> None:
    """Say which Jobs that really were the policy NEW would decide otherwise than OLD.

    Both are directories. Without OLD, it is the policy that the cluster's ConfigMap holds.

    Exit code 1 only for what --fail-on names, 2 if nothing could be judged.

    \b
    Example:  batchgate policy diff policies policies.new --log decisions.jsonl --since 7d
    """
    if not (options["logs"] or options["jobs"] or options["live"]):
        raise click.UsageError("say which Jobs to judge: --log FILE, --jobs FILE or --cluster")
    if len(directories) > 2:
        raise click.UsageError("two directories can be compared: OLD and NEW")
    manifests = options["jobs"] or options["live"]
    if options["queues"] and not manifests:
        raise click.UsageError("--queues is for Jobs of --jobs and --cluster: a log has the queues as they were")
    if options["scripts"] and not manifests:
        raise click.UsageError("--scripts is for Jobs of --jobs and --cluster: a log has no manifests")
    if "script" in options["fail_on"] and not options["scripts"]:
        raise click.UsageError("--fail-on script needs --scripts, which compares them")
    reached = reach(**connection) if options["live"] or len(directories) == 1 else None
    found = policies_of(directories, reached)
    before, after = found if len(found) > 1 else (*policies_of((), reached), *found)
    report = _judged(before, after, reached, {**options, "namespace": connection["namespace"]})
    if reached is not None:
        reached.say_missed()
    if options["html"]:  # before the output, whose reader may end early
        _write_page(Path(options["html"]), report, (before[1], after[1]))
    _print(report, options)
    _end(report, options["fail_on"])


def policies_of(directories: Sequence[str], reached: Cluster | None) -> tuple[tuple[str, Policy], ...]:
    """Name and policy of each directory; without any, of the ConfigMap in the cluster. Raises ConfigError."""
    if directories:
        return tuple([(one, policies.load(read_directory(Path(one)))) for one in directories])
    assert reached is not None  # noqa: S101 - without a directory there is a cluster
    path = f"/api/v1/namespaces/{reached.system}/configmaps/{names.POLICIES_CONFIG_MAP}"
    place = f"ConfigMap {reached.system}/{names.POLICIES_CONFIG_MAP}"
    found = reached.api.find(path)
    if found is None:
        raise ConfigError(f"{place}: there is none, so no policy is in force; name the policy's directory")
    try:
        return ((place, policies.load(texts_of(found, place))),)
    except ConfigError as error:
        raise ConfigError(f"{place}: {_NOT_IN_FORCE}:\n{error}") from None


def _judged(
    before: tuple[str, Policy], after: tuple[str, Policy], reached: Cluster | None, options: Mapping[str, Any]
) -> Report:
    # Imported here, as only this command of the group judges Jobs.
    from router.replay.cases import Skipped  # noqa: PLC0415
    from router.replay.tally import Tally  # noqa: PLC0415

    tally = Tally(before[1], after[1], (before[0], after[0]), with_scripts=options["scripts"])
    for one in cases((before[1], after[1]), reached, options):
        if isinstance(one, Skipped):
            tally.skip(one)
        else:
            tally.add(one)
    return tally.report()


def cases(both: tuple[Policy, Policy], reached: Cluster | None, options: Mapping[str, Any]) -> Found:
    """The Jobs that the options name; ``namespace`` is that of all of them, or None for any."""
    from router.replay.cases import Skipped  # noqa: PLC0415 - as above

    for one in _of_sources(both, reached, options):
        if isinstance(one, Skipped) or options["namespace"] in {None, one.requester.namespace}:
            yield one


def _of_sources(both: tuple[Policy, Policy], reached: Cluster | None, options: Mapping[str, Any]) -> Found:
    from router.cli import replayed  # noqa: PLC0415 - as above
    from router.replay.manifests import Known  # noqa: PLC0415
    from router.workload.cluster import UNKNOWN_CLUSTER  # noqa: PLC0415

    since = options["since"] or 0.0
    queues = options.get("queues")
    states = _states(queues) if queues else NO_QUEUE_STATES
    known = Known(both, UNKNOWN_CLUSTER, states, since)
    if options["logs"]:
        yield from replayed.from_logs(options["logs"], since)
    if options["jobs"]:
        yield from replayed.from_files(options["jobs"], known)
    if options["live"] and reached is not None:
        yield from replayed.from_cluster(reached, known)


def _states(file: str) -> QueueStates:
    """The queues' state of a file, which counts as that of all Jobs, however old it is: then that is said."""
    states = policies.queue_states(read_text(file), file)
    if problem := policies.age_problem(states, now=datetime.now(tz=UTC).timestamp(), most=QUEUES_MAX_AGE):
        click.echo(f"Warning: {file} {problem}; all Jobs are judged as if the queues were so", err=True)
    return states


def _print(report: Report, options: Mapping[str, Any]) -> None:
    from router.replay import reports, rows, texts  # noqa: PLC0415 - as above

    match options["output"]:
        case "json":
            click.echo(as_json(reports.document(report)).encode("utf-8", "replace").decode())
        case "markdown":
            click.echo(reports.markdown(report), nl=False)
        case "junit":
            click.echo(reports.junit(report, options["fail_on"]), nl=False)
        case _:
            click.echo(rows.head_line(report))
            if report.groups:
                print_table(rows.HEAD, rows.rows(report))
            for note in (*rows.examples(report), *rows.notes(report)):
                click.echo(texts.plain(note))


def _write_page(file: Path, report: Report, both: tuple[Policy, Policy]) -> None:
    from router.replay.page import page  # noqa: PLC0415 - as above

    file.write_text(page(report, *both), encoding="utf-8")


def _end(report: Report, on: Sequence[str]) -> None:
    from router.replay import reports  # noqa: PLC0415 - as above

    if not report.judged:
        click.echo(f"Error: {reports.NOTHING_JUDGED}", err=True)
        sys.exit(2)
    failing = [group.jobs for group in report.groups if reports.fails(group, on)]
    unsure = report.unsure if reports.fails_unsure(report, on) else 0
    if failing or unsure:
        told = f"{sum(failing) + unsure:,} of {report.judged:,} Jobs"
        click.echo(f"Failed: {told} are what --fail-on names ({', '.join(on)})", err=True)
        sys.exit(1)
