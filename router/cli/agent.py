"""``batchgate agent``: reads the options, runs the agent.

Shell. It checks only the form of values; the agent, which is imported only when it runs, checks the rest.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import click
from click.core import ParameterSource

from router.agent import settings as defaults
from router.agent.settings import AgentSettings
from router.errors import ConfigError
from router.notation import durations
from router.startup.options import Command, Duration, option
from router.startup.settings import Address, LogFormat, parse_address

FILE: Final = click.Path(path_type=Path)
_CLUSTER: Final = re.compile(r"[0-9a-f]{8}")
_option: Final = partial(option, "agent")


def _seconds(name: str, default: int, help_text: str) -> Callable[[Command], Command]:
    return _option(name, default=durations.show(default), type=Duration(), help=help_text)


@click.command()
@_option("--site", required=True, metavar="NAME", help="The site of the policy whose Pods are run.")
@_option("--policy", default="policies", type=FILE, metavar="DIR", help="Policy directory.")
@_option(
    "--policy-configmap",
    default="",
    metavar="NAME",
    help="Instead of --policy: a ConfigMap in --namespace, watched; the webhook's is batchgate-policies.",
)
@_option("--public-key", required=True, type=FILE, metavar="FILE", help="Verifies the webhook's signatures.")
@_option("--kubeconfig", metavar="FILE", help="Else $KUBECONFIG, else the cluster whose Pod this is.")
@_option(
    "--renew-token",
    type=Duration(),
    metavar="LIFE",
    help="Renew the token in the kubeconfig's tokenFile, at half its life, and ask for this one.",
)
@_option(
    "--listen",
    default=":10250",
    metavar="HOST:PORT",
    help="For the kubelet API of the first queue's Node; further queues' Nodes take the next ports. 0: free ones.",
)
@_option("--address", metavar="IP", help="Where the API server reaches --listen; the Nodes publish it.")
@_option("--metrics", default=":8080", metavar="HOST:PORT", help="For /livez, /readyz and /metrics, plain HTTP.")
@_option("--self-signed", is_flag=True, help="Make the kubelet API's certificate instead of asking the cluster.")
@_option("--certificates", type=FILE, metavar="DIR", help="Keeps the certificate that the cluster has issued.")
@_option("--namespace", default=defaults.NAMESPACE, metavar="NAME", help="Of Batchgate's Leases and ConfigMaps.")
@_option("--identity", default="", metavar="NAME", help="Shown as the leader's; the host's name by default.")
@_option("--cluster-id", metavar="DIGITS", help="Eight hex digits in jobs' names; by default from kube-system's uid.")
@_option("--local-state", type=FILE, metavar="DIR", also=("BATCHGATE_LOCAL",), help="The embedded queue's directory.")
@_option("--local-commands", default="", metavar="WORDS", help="Before the embedded queue's commands.")
@_seconds("--lease-seconds", defaults.LEASE_SECONDS, "Time after which a silent leader is replaced.")
@_seconds("--node-lease-seconds", defaults.NODE_LEASE_SECONDS, "Of the Nodes' Leases.")
@_seconds("--cycle-seconds", defaults.CYCLE_SECONDS, "Time between two queries to the batch system.")
@_seconds("--quick-seconds", defaults.QUICK_SECONDS, "The same, for a minute after the agent's own changes.")
@_seconds("--command-seconds", defaults.COMMAND_SECONDS, "Time limit of a command of the batch system.")
@_seconds("--orphan-seconds", defaults.ORPHAN_SECONDS, "A job without a Pod is cancelled after this time.")
@_seconds("--idle-seconds", defaults.IDLE_SECONDS, "The connection of a user without Jobs is closed after this time.")
@_seconds("--lost-seconds", defaults.LOST_SECONDS, "Time between two answers that prove a job to be lost.")
@_option("--hands", default=defaults.HANDS, type=click.IntRange(1, 64), help="Submissions that are made at once.")
@_option("--log-format", default="json", type=click.Choice([str(one) for one in LogFormat]), help="Of log lines.")
def agent(**options: Any) -> None:
    """Run the Pods of a site's virtual nodes as batch jobs, and report their states.

    Several agents may run for one site; one of them leads, the others wait. Each option is also read from the
    environment: --public-key from BATCHGATE_AGENT_PUBLIC_KEY, else from BATCHGATE_PUBLIC_KEY. Policy and keys are read
    again when they change. An agent with --policy-configmap waits until the ConfigMap holds a valid policy. The site's access in the policy says how the agent acts for the site's HPC users.
    Never runs as root (except for the embedded queue).

    \b
    Example: batchgate agent --site local --policy policies --public-key certs/signing.pub \\
             --address 10.0.0.7 --local-state ~/.local/state/batchgate/local
    """
    _demand_one_policy(options["policy_configmap"])
    settings = _settings(options)
    # Imported here, as `batchgate agent --help` and a usage error can do without CEL and the Kubernetes client.
    from router.agent.leader.program import run  # noqa: PLC0415

    run(settings)


def _demand_one_policy(config_map: str) -> None:
    context = click.get_current_context()
    if config_map and context.get_parameter_source("policy") is not ParameterSource.DEFAULT:
        raise click.UsageError("--policy and --policy-configmap each say where the policy is; give one of them")


def _settings(options: dict[str, Any]) -> AgentSettings:
    listen = parse_address(options["listen"])
    cluster = options["cluster_id"]
    if cluster is not None and not _CLUSTER.fullmatch(cluster):
        raise ConfigError(f"--cluster-id {cluster!r}: eight hex digits were expected, like 0a1b2c3d")
    if options["quick_seconds"] > options["cycle_seconds"]:
        raise ConfigError("--quick-seconds is more than --cycle-seconds; quick means more often")
    return AgentSettings(
        site=options["site"],
        policy=options["policy"],
        policy_configmap=options["policy_configmap"],
        public_key=options["public_key"],
        listen=listen,
        metrics=parse_address(options["metrics"]),
        address=_address(options["address"], listen),
        kubeconfig=options["kubeconfig"],
        renew_token=options["renew_token"] or 0,
        namespace=options["namespace"],
        identity=options["identity"],
        cluster=cluster,
        lease_seconds=options["lease_seconds"],
        cycle_seconds=options["cycle_seconds"],
        quick_seconds=options["quick_seconds"],
        node_lease_seconds=options["node_lease_seconds"],
        command_seconds=options["command_seconds"],
        orphan_seconds=options["orphan_seconds"],
        idle_seconds=options["idle_seconds"],
        lost_seconds=options["lost_seconds"],
        hands=options["hands"],
        local_state=options["local_state"].absolute() if options["local_state"] else None,
        local_commands=options["local_commands"],
        self_signed=options["self_signed"],
        certificates=options["certificates"],
        log_format=LogFormat(options["log_format"]),
    )


def _address(text: str | None, listen: Address) -> str:
    """The IP that Nodes publish: the one of --address, else the one of --listen."""
    wanted = text if text is not None else listen.host
    try:
        found = ipaddress.ip_address(wanted)
    except ValueError:
        found = None
    if found is None or found.is_unspecified:
        raise ConfigError(
            f"--address {text!r} is no IP address of this machine" if text is not None
            else "name the IP under which the API server reaches this machine: --address IP"
        )  # fmt: skip
    return str(found)
