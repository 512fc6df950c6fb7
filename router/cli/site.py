"""``batchgate site check``.

Shell: reads the options, prints, tells the agents, sets the exit code. A signal ends the check, which then removes its
jobs and files.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from router import names
from router.cli import siteadd, siteinstall, siteuninstall
from router.cli.output import as_json
from router.cli.table import print_table
from router.errors import ApiError, ConfigError, NotFound
from router.pod.status import rfc3339
from router.preflight import Line, Mark, worst
from router.startup import signals
from router.startup.account import own_account
from router.startup.options import Duration, option

if TYPE_CHECKING:
    from router.agent.lastcheck import CheckRecord
    from router.policy import Policy
    from router.site.schema import Site

_option: Final = partial(option, "site")
_INTERRUPTED: Final = 130
T = TypeVar("T")


@click.group()
def site() -> None:
    """Bring an agent onto a login node, and check whether a site of the policy can do what Jobs need.

    \b
    Example:  batchgate site add hpc1                            # as an admin of the cluster
              batchgate site install hpc1 --from hpc1.join      # as root on the login node
              batchgate site check hpc1 --policy policies
    """


site.add_command(siteadd.add)
site.add_command(siteadd.remove)
site.add_command(siteinstall.install)
site.add_command(siteuninstall.uninstall)


@site.command()
@click.argument("name", metavar="SITE")
@click.option("--as", "users", multiple=True, metavar="USER", help="HPC users; else all whom accounts name.")
@_option("--policy", default="policies", type=click.Path(path_type=Path), metavar="DIR", help="Policy directory.")
@_option(
    "--policy-configmap",
    default="",
    metavar="NAME",
    also=("BATCHGATE_AGENT_POLICY_CONFIGMAP",),
    help="Instead of --policy: a ConfigMap in --namespace; the webhook's is batchgate-policies.",
)
@_option("--wait", default="10m", type=Duration(), help="How long a probe may stay queued.")
@_option(
    "--local-state",
    type=click.Path(path_type=Path),
    metavar="DIR",
    also=("BATCHGATE_LOCAL",),
    help="The embedded queue's directory.",
)
@_option("--local-commands", default="", metavar="WORDS", help="Before the embedded queue's commands.")
@_option(
    "--kubeconfig",
    metavar="FILE",
    also=("BATCHGATE_AGENT_KUBECONFIG",),
    help="The agent's; else $KUBECONFIG, else the cluster of this Pod. That cluster's agents are told of the result.",
)
@_option(
    "--namespace",
    default=names.SYSTEM_NAMESPACE,
    also=("BATCHGATE_AGENT_NAMESPACE",),
    metavar="NAME",
    help="The agents' namespace.",
)
@click.option("--no-record", is_flag=True, help="Do not tell the agents.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", help="For people, for programs.")
def check(name: str, users: tuple[str, ...], policy: Path, wait: int, output: str, **options: Any) -> None:
    """Submit probe jobs as the users of a site, and say what must be mended before Jobs are sent there.

    Run it as the agent's user, on the agent's machine. Agents of the site submit nothing while the last check has found
    a line that must be mended; a line about an MPI profile stops only MPI Jobs of that profile. docs/preflight.md
    explains each line.

    \b
    Exit codes: 0 all is well, 1 a line must be mended, 2 usage, configuration, policy or no cluster.
    Example:  batchgate site check hpc1 --policy policies --kubeconfig agent.kubeconfig
    """
    # Imported here, as usage errors can do without CEL and asyncssh.
    from dataclasses import replace  # noqa: PLC0415

    from router import policy as policies  # noqa: PLC0415
    from router.sitecheck import checking as preflight  # noqa: PLC0415

    checked = policies.load(_policy_texts(policy, options))
    own = own_account()
    wanted = preflight.with_queue(
        preflight.wanted_of(checked, name, users, own), options["local_state"], options["local_commands"]
    )
    record = None if options["no_record"] else _record(options["kubeconfig"], options["namespace"], name)
    stopping = threading.Event()
    signals.call_at((signal.SIGTERM, signal.SIGINT, signal.SIGHUP), stopping.set)
    lines = preflight.check(checked, replace(wanted, wait=float(wait)), stopping)
    if record is not None and not stopping.is_set():
        lines += _rights(options["kubeconfig"], checked, wanted.site)
    _show(name, lines, output)
    if stopping.is_set():
        click.echo("interrupted; the probes were deleted", err=True)
        sys.exit(_INTERRUPTED)
    if record is not None:
        _tell_agents(record, lines, wanted.users, whole=not users)
    sys.exit(1 if worst(lines) is Mark.MUST else 0)


def _rights(kubeconfig: str | None, policy: Policy, site: Site) -> tuple[Line, ...]:
    """Whether the agent has the rights in the cluster that the site's ``secrets`` and ``tokens`` need."""
    from router.cli import rights  # noqa: PLC0415 - as above
    from router.kube.client import connect  # noqa: PLC0415
    from router.policy.identity import namespaces_of  # noqa: PLC0415

    return tuple(rights.own_lines(connect(kubeconfig), site, namespaces_of(policy.accounts, site.name)))


def _policy_texts(directory: Path, options: Mapping[str, Any]) -> Mapping[str, str]:
    """The policy files of the directory or, where one is named, of the ConfigMap. Raises ConfigError."""
    from router.kube.client import connect  # noqa: PLC0415 - as above
    from router.policy.configmap import texts_of  # noqa: PLC0415
    from router.startup.policyfiles import read_directory  # noqa: PLC0415

    name, namespace = options["policy_configmap"], options["namespace"]
    if not name:
        return read_directory(directory)
    place = f"ConfigMap {namespace}/{name}"
    try:
        found = connect(options["kubeconfig"]).find(f"/api/v1/namespaces/{namespace}/configmaps/{name}")
    except ApiError as error:
        raise ConfigError(f"the policy cannot be read: {error}") from error
    if found is None:
        raise ConfigError(f"there is no {place}; batchgate policy apply makes it")
    return texts_of(found, place)


def _record(kubeconfig: str | None, namespace: str, site: str) -> CheckRecord | None:
    """The record of the last check, which agents read; None without a cluster.

    It is read now, so that missing rights or a wrong cluster are reported before the probes are submitted.
    """
    from router.agent.lastcheck import CheckRecord  # noqa: PLC0415 - as above
    from router.kube.client import connect  # noqa: PLC0415

    if not (kubeconfig or os.environ.get("KUBECONFIG") or os.environ.get("KUBERNETES_SERVICE_HOST")):
        click.echo(
            "Warning: no agent is told of this check: name the agent's --kubeconfig, or say --no-record", err=True
        )
        return None
    record = CheckRecord(connect(kubeconfig), namespace, site)
    _asked(record, record.look)
    return record


def _tell_agents(record: CheckRecord, lines: tuple[Line, ...], users: tuple[str, ...], *, whole: bool) -> None:
    now = rfc3339(int(time.time()))
    kept = _asked(record, partial(record.keep, lines, users, now, whole=whole))
    site = record.site
    if kept.profiles:
        words = f"no MPI Job of profile {', '.join(kept.profiles)} is submitted until a check finds it mended"
        click.echo(f"Kept in {record.place}: {words}", err=True)
    if kept.names:
        words = f"agents of site {site} submit nothing until a check finds these mended: {', '.join(kept.names)}"
    else:
        words = f"agents of site {site} may submit"
    click.echo(f"Kept in {record.place}: {words}", err=True)


def _asked(record: CheckRecord, ask: Callable[[], T]) -> T:
    """The API server's answer. Turns its errors into a ConfigError that says what to do."""
    try:
        return ask()
    except NotFound as error:
        words = f"there is no {record.place}; manifests/base has it ({error}). --no-record only looks"
        raise ConfigError(words) from error
    except ApiError as error:
        raise ConfigError(f"no agent can be told of this check: {error}. --no-record only looks") from error


def _show(name: str, lines: tuple[Line, ...], output: str) -> None:
    if output == "json":
        rows = [
            {
                "name": line.name,
                "user": line.user,
                "verdict": str(line.mark),
                "seen": line.seen,
                "expected": line.expected,
                "change": line.change,
            }
            for line in lines
        ]
        click.echo(as_json({"site": name, "verdict": str(worst(lines)), "lines": rows}))
        return
    head = ("NAME", "USER", "VERDICT", "SEEN", "EXPECTED", "CHANGE")
    print_table(head, [(x.name, x.user, str(x.mark), x.seen, x.expected, x.change) for x in lines])
