"""``batchgate policy simulate``: plays Jobs through a policy and a model of its queues.

Shell: reads policies, traces and the options, prints, writes the page. ``router.cli.replayed`` reads other Jobs, and
``router.simulate`` plays and counts.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from router.cli.cluster import connecting_options, reach
from router.cli.output import as_json
from router.cli.policydiff import cases, jobs_options, policies_of
from router.cli.table import print_table
from router.errors import InputError
from router.startup.options import Duration, Number

if TYPE_CHECKING:
    from router.policy.model import Policy
    from router.replay.cases import Skipped
    from router.simulate.jobs import Assumed, Job
    from router.simulate.reports import Report
    from router.simulate.swf import Header

_UNIFORM: Final = "uniform"
_LARGEST_TRACE: Final = 1024**3


class _Fraction(click.ParamType[Any]):
    """``uniform``, or a part of the walltime above 0, at most 1."""

    name = "part"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """None for ``uniform``; fails with a usage error."""
        if value == _UNIFORM:
            return None
        try:
            part = float(value)
        except ValueError:
            part = 0.0
        if not 0 < part <= 1:
            self.fail(f"{value!r} is neither uniform nor a part of the walltime such as 0.4", param, ctx)
        return part


@click.command()
@click.argument("directories", nargs=-1, metavar="[POLICY] [OTHER]")
@click.option(
    "--swf",
    "traces",
    multiple=True,
    metavar="FILE",
    help="Jobs of a trace in the Standard Workload Format, also packed as .gz.",
)
@jobs_options
@click.option(
    "--capacity",
    multiple=True,
    metavar="SITE/QUEUE=NODES",
    help="How many nodes a queue has; repeatable, for each queue.",
)
@click.option("--cloud-cores", type=click.IntRange(1, 10**9), metavar="N", help="Cores of the cloud; else unlimited.")
@click.option(
    "--seeds", type=click.IntRange(1, 1000), default=5, show_default=True, metavar="N", help="How often to draw."
)
@click.option("--first-seed", type=int, default=1, show_default=True, metavar="N", help="The others follow it.")
@click.option(
    "--runtime", type=_Fraction(), default=_UNIFORM, show_default=True, metavar="uniform|PART",
    help="Of the walltime, where it is unknown how long a Job runs.",
)  # fmt: skip
@click.option("--assume-walltime", type=Duration(), metavar="TIME", help="For Jobs that ask for none; else left out.")
@click.option(
    "--faster", type=Number(0, 1000, min_open=True), default=1.0, show_default=True, metavar="TIMES",
    help="Jobs come so many times as fast.",
)  # fmt: skip
@click.option("--as-user", metavar="NAME", help="Whose Jobs those of a trace are; else userN, in the group groupN.")
@click.option("--as-group", multiple=True, metavar="NAME", help="A group of theirs; repeatable.")
@click.option("--as-namespace", default="default", show_default=True, metavar="NAME", help="The namespace of theirs.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.option("--html", metavar="FILE", help="Also write a page with plots over time there.")
@connecting_options
def simulate(directories: tuple[str, ...], connection: Mapping[str, Any], **options: Any) -> None:
    """Play Jobs through the policy and a model of its queues: waits, load, and what the cloud gets.

    POLICY and OTHER are directories; with both, each is played. Without any, it is the policy that the cluster's ConfigMap
    holds. It is a model: it compares policies, and promises no waiting time.

    \b
    Example:  batchgate policy simulate policies --log decisions.jsonl --capacity demo/batch=16
    """
    _demand_jobs(options)
    if len(directories) > 2:
        raise click.UsageError("at most two directories can be played: POLICY and OTHER")
    reached = reach(**connection) if options["live"] or not directories else None
    named = policies_of(directories, reached)
    trace = options["traces"][0] if options["traces"] else None
    report = _played(named, reached, {**options, "swf": trace, "namespace": connection["namespace"]})
    if reached is not None:
        reached.say_missed()
    if options["html"]:  # before the output, whose reader may end early
        from router.simulate.page import page  # noqa: PLC0415 - only for this option

        Path(options["html"]).write_text(page(report), encoding="utf-8")
    _print(report, options["output"])


def _demand_jobs(options: Mapping[str, Any]) -> None:
    """Raise a usage error if no Jobs are named, or more is said of those of a trace than there are traces."""
    traces = options["traces"]
    if not (options["logs"] or options["jobs"] or options["live"] or traces):
        raise click.UsageError("say which Jobs to play: --swf FILE, --log FILE, --jobs FILE or --cluster")
    if len(traces) > 1:
        raise click.UsageError(f"one trace can be played, and --swf names {len(traces)}")
    asked = click.get_current_context().get_parameter_source
    for name in ("as_user", "as_group", "as_namespace"):
        if not traces and asked(name) is not ParameterSource.DEFAULT:
            raise click.UsageError(f"--{name.replace('_', '-')} is for Jobs of a trace (--swf); others have their own")


def _played(named: tuple[tuple[str, Policy], ...], reached: Any, options: Mapping[str, Any]) -> Report:
    # Imported here, as only this command plays Jobs.
    from router.cli.replayed import progress  # noqa: PLC0415
    from router.replay.cases import Skipped, count  # noqa: PLC0415
    from router.simulate.capacity import pools  # noqa: PLC0415
    from router.simulate.jobs import Assumed, in_order  # noqa: PLC0415
    from router.simulate.play import World  # noqa: PLC0415
    from router.simulate.reports import Report  # noqa: PLC0415
    from router.simulate.side import draws, side  # noqa: PLC0415

    checked = [policy for _, policy in named]
    text, header = _trace(options["swf"])
    size = pools(options["capacity"], checked, _hint(header))
    assumed = Assumed(options["assume_walltime"], options["runtime"])
    skipped: dict[str, tuple[int, str]] = {}
    found: list[Job] = []
    for one in _jobs((checked[0], checked[-1]), reached, options, assumed, (text, header)):
        if isinstance(one, Skipped):
            count(skipped, one.why, one.example)
        else:
            found.append(one)
    jobs = in_order(found, options["faster"])
    if not jobs:
        left = "; ".join(f"{times} {why}" for why, (times, _) in skipped.items())
        raise InputError(f"there is no Job to play{f' (left out: {left})' if left else ''}")
    drawn = draws(jobs, assumed)
    first = options["first_seed"]
    seeds = tuple(range(first, first + options["seeds"])) if drawn else (first,)
    cloud = options["cloud_cores"]
    world = World(size, cloud and cloud * 1000, assumed)
    with progress(len(seeds) * len(named), "Playing") as bar:
        sides = [
            side(name, policy, jobs, world, seeds, second=number > 0, told=bar.update)
            for number, (name, policy) in enumerate(named)
        ]
    setting = tuple(_setting(options, size, header, sum(job.runtime is None for job in jobs)))
    return Report(tuple(sides), len(jobs), jobs[0].arrival, jobs[-1].arrival, seeds, drawn, setting, skipped)


def _jobs(
    both: tuple[Policy, Policy],
    reached: Any,
    options: Mapping[str, Any],
    assumed: Assumed,
    trace: tuple[list[str], Header | None],
) -> Iterator[Job | Skipped]:
    from router.replay.cases import Skipped  # noqa: PLC0415 - as above
    from router.simulate import jobs, swf  # noqa: PLC0415

    for one in cases(both, reached, options):
        yield one if isinstance(one, Skipped) else jobs.of_case(one, assumed)
    lines, header = trace
    if header is not None:
        owner = jobs.Owner(options["as_user"], options["as_group"], options["as_namespace"])
        records = swf.records(lines, options["swf"], header.begins or 0)
        yield from jobs.of_trace(records, both[0], owner, assumed, options["since"] or 0.0)


def _trace(file: str | None) -> tuple[list[str], Header | None]:
    """The lines of a trace and its header. Raises InputError if it is unreadable."""
    if file is None:
        return [], None
    from router.simulate.swf import header  # noqa: PLC0415 - as above

    try:
        with gzip.open(file) if file.endswith(".gz") else Path(file).open("rb") as stream:
            data = stream.read(_LARGEST_TRACE + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{file}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > _LARGEST_TRACE:
        raise InputError(f"{file}: is larger than {_LARGEST_TRACE // 1024**2} MiB unpacked")
    lines = data.decode("utf-8-sig", "replace").splitlines()  # comments may be of any encoding; jobs are digits
    return lines, header(lines)


def _hint(header: Header | None) -> str:
    if header is None or not (header.nodes or header.processors):
        return ""
    told = [f"{key}: {value}" for key, value in (("MaxNodes", header.nodes), ("MaxProcs", header.processors)) if value]
    return f" The trace's header says {', '.join(told)}."


def _setting(options: Mapping[str, Any], size: Any, header: Header | None, unknown: int) -> Iterator[str]:
    """What was assumed, as sentences."""
    for pool in size:
        memory = "" if pool.memory is None else f", {pool.memory / 1024**3:g} GiB"
        gpus = f", {pool.gpus} GPUs" if pool.gpus else ""
        yield f"nodes of {pool.name}: {pool.nodes}, each with {pool.cores} cores{memory}{gpus}"
    cores = options["cloud_cores"]
    yield f"cores of the cloud: {cores:,}" if cores else "cores of the cloud: as many as are asked for"
    if unknown:
        part = options["runtime"]
        told = "drawn evenly from 0 to 1" if part is None else f"{part:g}"
        yield f"of {unknown:,} it is unknown how long they run: for a part of their walltime, {told}"
    if options["faster"] != 1:
        yield f"Jobs come {options['faster']:g} times as fast as they did"
    if header is not None and header.begins is None:
        yield "the trace does not say when it begins (UnixStartTime), so it begins on 1970-01-01 at 00:00 UTC"


def _print(report: Report, output: str) -> None:
    from router.replay.texts import plain  # noqa: PLC0415 - as above
    from router.simulate import reports  # noqa: PLC0415

    if output == "json":
        click.echo(as_json(reports.document(report)).encode("utf-8", "replace").decode())
        return
    click.echo(reports.head_line(report))
    print_table(reports.HEAD, reports.rows(report))
    for note in reports.notes(report):
        click.echo(plain(note))
