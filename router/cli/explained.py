"""What both forms of ``batchgate explain``, text and document, say of a judgement in the same words.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator

from router.notation import durations
from router.policy import Policy
from router.policy.decision import Decision, Route
from router.policy.sizes import counted_in
from router.site.allocation import is_mpi
from router.site.schema import Site
from router.workload.inside import started_by, starts_ranks
from router.workload.launchfigures import largest, show_ranks
from router.workload.model import Container, Figure, Known, Launch, Workload


def counted(workload: Workload, decision: Decision, policy: Policy) -> Workload:
    """The Workload with the figures that the rule which decided counts by."""
    return counted_in(workload, policy, decision.rule)


def sites_tried(workload: Workload, decision: Decision, policy: Policy) -> tuple[Site, ...]:
    """The sites whose MPI profiles count: the route's, or for an MPI Job that stays, all candidates of the rule."""
    if decision.route is not None:
        return (decision.route.site,) if workload.mpi or decision.route.profile else ()
    if not workload.mpi or not decision.wanted:
        return ()
    chosen = [rule.candidates for rule in policy.rules if rule.name == decision.rule]
    return tuple({one.site.name: one.site for found in chosen for one in found}.values())


def launch_lines(workload: Workload, route: Route | None) -> list[str]:
    """Each launcher with its place, the ranks of the container that holds it, and what is not looked into."""
    implied = route is not None and route.profile is not None and route.profile.implies_mpi
    how = _how(workload, route) if route is not None else ""
    return [line for one in workload.main_containers for line in _started(one, how, implied=implied)]


def _how(workload: Workload, route: Route) -> str:
    """How the launchers inside a container start ranks; empty if it has none."""
    if not is_mpi(workload, route.profile):
        return ""
    if route.allocation.nodes == 1:
        return "runs once; what it launches starts ranks in the container, on one node"
    return "runs once; the site's launcher starts the ranks that it launches, over all nodes"


def _started(container: Container, how: str, *, implied: bool) -> Iterator[str]:
    if lifted := container.launcher:
        limit = f", at most {durations.show(lifted.time_limit)}" if lifted.time_limit else ""
        yield f"{lifted.source}: {lifted.program}{_ranks(lifted.ranks)}{limit}; the site's own takes its place"
    started = started_by(container) if implied and container.launcher is None else container.started
    if started is None:
        return
    if how and starts_ranks(container):
        yield f"{container.path}: {how}"
    yield from (_launch(launch) for launch in started.launches)
    if started.launches:
        _, most = largest(started.launches, container.cpu)
        yield f"together {show_ranks(most.value)}: {most.origin}"
    yield from (f"{unread.place}: not read, as the text {unread.what}" for unread in started.unread)
    yield from (f"{script.place}: {script.what}: its text is not looked into" for script in started.scripts)


def _launch(launch: Launch) -> str:
    how = f" ({launch.known})" if launch.known is Known.VALUES else ""
    unknown = f"; it {launch.unknown}" if launch.unknown else ""
    return f"{launch.place}: {launch.program}{_ranks(launch.ranks)}{how}{unknown}"


def _ranks(figure: Figure | None) -> str:
    return f", {show_ranks(figure.value)}" if figure else ""
