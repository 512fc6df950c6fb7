"""``batchgate policy apply``: checks and tests a policy, replaces the cluster's, waits until it is in force.

Shell: files, the API with the caller's own rights, the clock.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from router import names
from router import policy as policies
from router.cli.cluster import kubeconfig_of
from router.errors import ApiError, ConfigError, Conflict, PolicyError, Problem
from router.kube.client import Api, connect
from router.kube.clock import server_time
from router.operating.overview import condition, place_of
from router.operating.policies import Holder, holders
from router.policy import inforce, matchcondition, rollout
from router.policy.configmap import demand_fits
from router.policy.model import Policy
from router.startup.options import Duration
from router.startup.policyfiles import read_directory
from router.workload.cluster import UNKNOWN_CLUSTER

_MANAGER: Final = "batchgate"
_PAUSE: Final = 1.0
_FORBIDDEN: Final = 403


@click.command()
@click.argument("directory", default="policies", envvar="BATCHGATE_POLICY")
@click.option("--kubeconfig", metavar="FILE", help="Else $KUBECONFIG, ~/.kube/config, the cluster whose Pod this is.")
@click.option("--context", metavar="NAME", help="Of the kubeconfig; its current one by default.")
@click.option(
    "-n", "--namespace", default=names.SYSTEM_NAMESPACE, show_default=True, metavar="NAME", help="Of the ConfigMap."
)
@click.option("--dry-run", is_flag=True, help="Check, test and show the difference, and have the cluster check it too.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--wait", type=Duration(), default="3m", show_default=True, help="For webhook and agents to have it.")
def apply(
    directory: str, kubeconfig: str | None, context: str | None, namespace: str, wait: int, **flags: bool
) -> None:
    """Check and test the files of a directory, and put them into the cluster as its policy.

    Shows the difference to the ConfigMap batchgate-policies, asks, and replaces it unless it has changed meanwhile. Then
    waits until the webhook's replicas and the agents have the policy in force.

    Refuses a policy that the registered match condition of another policy does not fit.

    Exit code 1 if a test fails, or if not all have it in time; 2 if nothing could be applied.

    \b
    Example:  batchgate policy apply policies --dry-run
    """
    texts = _files(Path(directory))
    checked = policies.load(texts)
    for warning in checked.warnings:
        click.echo(f"Warning: {warning}", err=True)
    _demand_tests(checked)
    target = _Target(connect(kubeconfig_of(kubeconfig), context), namespace)
    found = target.read()
    changes = rollout.difference(found, texts)
    click.echo(changes, nl=False)
    _demand_fitting_conditions(target.api, checked)
    if flags["dry_run"] and changes:
        target.write(found, texts, dry_run=True)
        click.echo(f"{target.place}: the cluster would take this; nothing was changed")
    if flags["dry_run"]:
        return
    if changes:
        _demand_consent(target, rollout.keeper(found), asked=not flags["yes"])
        target.write(found, texts)
        click.echo(f"{target.place}: has policy {inforce.shown(checked.digest)} now")
    else:
        click.echo(f"{target.place}: has these files already, policy {inforce.shown(checked.digest)}")
    sys.exit(0 if _await(target, checked.digest, wait) else 1)


def _files(directory: Path) -> Mapping[str, str]:
    """The texts of the directory. Raises PolicyError, ConfigError if a ConfigMap cannot hold them."""
    texts = read_directory(directory)
    inside = sorted(one.name for one in directory.iterdir() if one.is_dir() and not one.name.startswith("."))
    if inside:
        words = "is a directory, which a ConfigMap cannot hold; move its files up, or take it elsewhere"
        raise PolicyError([Problem(name, 0, 0, "", words) for name in inside])
    demand_fits(texts)
    return texts


def _demand_tests(checked: Policy) -> None:
    """End with exit code 1 if a test of the policy fails."""
    results = policies.run_tests(checked, UNKNOWN_CLUSTER)
    failed = [result for result in results if not result.passed]
    for result in failed:
        click.echo(
            f"FAIL  {result.name}\n      {result.place}\n      expected {result.expected}\n      got      {result.got}",
            err=True,
        )
    if failed:
        click.echo(f"Error: {len(failed)} of {len(results)} tests fail; nothing was changed", err=True)
        sys.exit(1)
    if not results:
        click.echo("Warning: the policy has no tests; write some under tests: (docs/policies.md)", err=True)


def _demand_fitting_conditions(api: Api, checked: Policy) -> None:
    """Raise ConfigError if the API server would keep from the webhook Jobs that this policy sends."""
    try:
        registration = api.find(matchcondition.PATH)
    except ApiError as error:
        if error.status != _FORBIDDEN:
            raise
        words = f"whether {matchcondition.PLACE} leaves out Jobs by another policy cannot be looked at"
        click.echo(f"Warning: {words}: {error.message}", err=True)
        return
    if not matchcondition.registered(registration):
        return
    if wrong := matchcondition.misfits(registration, policies.match_condition(checked)):
        which = ", ".join(one.name for one in wrong)
        raise ConfigError(
            f"{matchcondition.PLACE} has a match condition of another policy ({which}): the webhook would not be asked about Jobs "
            "that this policy may send to HPC, deny or record. Nothing was changed. Take the condition out "
            "(registration.matchConditions of the chart), apply the policy, then put in what batchgate policy "
            "conditions prints for it"
        )


def _demand_consent(target: _Target, keeper: str, *, asked: bool) -> None:
    if keeper:
        words = f"{keeper} keeps {target.place} as it is elsewhere, in a repository or in values, and will undo this: change it there"
        click.echo(f"Warning: {words}", err=True)
    if not asked:
        return
    if not sys.stdin.isatty():
        raise click.UsageError("this is no terminal on which to ask: give --yes, or --dry-run to only look")
    click.confirm(f"Replace {target.place} on {target.api.host}?", abort=True, err=True)


@dataclass(frozen=True, slots=True)
class _Target:
    """The ConfigMap of a cluster."""

    api: Api
    namespace: str

    @property
    def place(self) -> str:
        return f"ConfigMap {self.namespace}/{names.POLICIES_CONFIG_MAP}"

    @property
    def _all(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/configmaps"

    @property
    def _path(self) -> str:
        return f"{self._all}/{names.POLICIES_CONFIG_MAP}"

    def read(self) -> dict[str, Any] | None:
        return self.api.find(self._path)

    def write(self, before: Mapping[str, Any] | None, texts: Mapping[str, str], *, dry_run: bool = False) -> None:
        """Replace it in the version that was read. Raises ConfigError if there is another now; ApiError."""
        wanted = rollout.config_map(self.namespace, names.POLICIES_CONFIG_MAP, before, texts)
        query: dict[str, Any] = {"fieldManager": _MANAGER} | ({"dryRun": "All"} if dry_run else {})
        try:
            if before is None:
                self.api.create(self._all, wanted, **query)
            else:
                self.api.replace(self._path, wanted, **query)
        except Conflict:
            now = self.read()
            click.echo(rollout.difference(before, (now or {}).get("data") or {}), nl=False, err=True)
            writer = rollout.last_writer(now)
            by = f" (by {writer})" if writer else ""
            raise ConfigError(
                f"{self.place} has been changed meanwhile{by}, as shown above; nothing was changed. Look, and run this again"
            ) from None

    def seen(self) -> tuple[Holder, ...]:
        """Which policy each replica and each ready agent has in force. Raises ApiError."""
        state = self.api.find(f"{self._all}/{names.POLICY_STATE_CONFIG_MAP}") or {}
        pages = self.api.pages("/api/v1/nodes", labelSelector=names.NODE_KIND)
        nodes = [node for page, _ in pages for node in page if condition(node, "Ready").get("status") == "True"]
        placed = [(place[0], node) for node in nodes if (place := place_of(node))]
        return holders(state.get("data") or {}, placed, server_time(self.api))


def _await(target: _Target, digest: str, seconds: int) -> bool:
    """Wait until everybody who can be seen has the policy in force; returns whether they have."""
    end = time.monotonic() + seconds
    while True:
        try:
            found = target.seen()
        except ApiError as error:
            if error.status != _FORBIDDEN:
                raise
            click.echo(f"Warning: who has it in force cannot be looked at: {error.message}", err=True)
            return True
        behind = [one for one in found if one.digest != digest]
        if not behind:
            _tell_done(found)
            return True
        if time.monotonic() > end:
            for one in behind:
                why = f": {one.error}" if one.error else ""
                click.echo(f"{one.program} {one.name} still has {inforce.shown(one.digest)} in force{why}", err=True)
            return False
        time.sleep(_PAUSE)


def _tell_done(found: Sequence[Holder]) -> None:
    if not found:
        click.echo("Nobody says which policy is in force: no webhook that watches the cluster runs, and no agent")
    for one in found:
        click.echo(f"{one.program} {one.name} has it in force")
