"""The whole demo: a real control plane, the webhook, the agent, kubectl.

Shell: combines the other modules of this package, and prints.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import click

from router.controlplane import building, cloudnode, programs
from router.controlplane.credentials import ADMIN
from router.controlplane.options import ADA
from router.controlplane.start import control_plane
from router.demo import cluster, site
from router.demo.examples import Example, runnable
from router.demo.kubectl import Kubectl
from router.demo.outcome import Outcome
from router.demo.report import near, print_outcomes, print_verdict
from router.demo.stack import Places, Stack, stack
from router.demo.workplace import workplace
from router.errors import ConfigError
from router.site.schema import Runtime


def can_be_had() -> str:
    """Build the programs of a control plane and show progress; returns why that fails, or empty."""
    try:
        building.ensure(click.echo)
        programs.find()
    except ConfigError as error:
        return str(error)
    return ""


def demo(examples: Path, work: Path, machine: site.Machine) -> bool:
    """Run the demo; returns whether every outcome was the expected one."""
    found = runnable(examples)
    with workplace(work), _everything(examples, work, machine) as (running, cloud_runs):
        plane = running.plane
        admin, kubectl = (Kubectl(str(plane.programs.kubectl), plane.kubeconfig(who.name)) for who in (ADMIN, ADA))
        launcher = machine.mpi is not None
        applied = cluster.apply(kubectl, found, launcher=launcher)
        click.echo("\nFollowing the Jobs to their end:")
        jobs = cluster.follow(kubectl, applied, cloud_runs=cloud_runs)
        cluster.show(kubectl, admin)
        outcomes = cluster.outcomes(kubectl, applied, jobs, running.webhook.log, running.results)
        return _report(found, outcomes, running, launcher=launcher)


@contextmanager
def _everything(examples: Path, work: Path, machine: site.Machine) -> Iterator[tuple[Stack, bool]]:
    policy = work / "policy"
    site.prepare(examples, policy, machine, work)
    with ExitStack() as ends:
        # A socket's path may have about 100 characters, so the queue's state has a short path.
        state = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="batchgate-", ignore_cleanup_errors=True)))
        click.echo("Starting a control plane (etcd, kube-apiserver, kube-controller-manager, kube-scheduler) …")
        plane = ends.enter_context(control_plane(work / "control-plane"))
        node = cloudnode.join(plane, cloudnode.Kind.BEST)
        click.echo("Starting the webhook, the agent and the embedded queue …")
        running = ends.enter_context(stack(plane, Places(work, state / "queue", policy)))
        _introduce(machine, node)
        yield running, node.real


def _introduce(machine: site.Machine, node: cloudnode.CloudNode) -> None:
    if machine.runtime is Runtime.HOST:
        click.echo("No Apptainer or Singularity here: commands run without a container (runtime `host`).")
    else:
        click.echo(f"Containers run under {machine.runtime}, from an image made of this machine's own shell.")
    if machine.mpi is None:
        click.echo("No MPI here: the MPI example is judged, and not run.")
    if not node.real:
        click.echo(
            f"No real cloud node here ({node.obstacle}): Jobs that stay in the cloud are bound to a Node object, and do not run."
        )
    click.echo(f"You are {ADA.name}, who may edit the namespace {cluster.NAMESPACE}.\n")


def _report(found: Sequence[Example], outcomes: Sequence[Outcome], running: Stack, *, launcher: bool) -> bool:
    print_outcomes(outcomes)
    click.echo("Results and logs, as the agent brought them back:")
    for outcome in outcomes:
        for pod in outcome.pods:
            click.echo(f"  {outcome.job}: {near(Path(pod.directory))}")
    click.echo(f"Logs: {near(running.webhook.log)}, {near(running.agent.log)}")
    click.echo()
    return print_verdict(found, outcomes, launcher=launcher)
