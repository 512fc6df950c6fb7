"""``batchgate local queues``, ``faults`` and ``stop``: commands of the embedded queue that OpenPBS does not have.

Shell: reads files, sends requests to the background process, prints.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from router.errors import ConfigError
from router.local import client
from router.local.records import config_of
from router.local.state import State


def _asked(ask: Callable[[str, dict[str, Any]], dict[str, Any]], root: str, request: dict[str, Any]) -> dict[str, Any]:
    """The background process' answer. Raises ConfigError if it refuses or does not answer."""
    try:
        answer = ask(root, request)
    except client.Unusable as error:
        raise ConfigError(str(error)) from error
    if answer["rc"]:
        raise ConfigError(answer["err"])
    return answer


@click.command()
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.option(
    "--define", type=click.File("r"), metavar="FILE", help="Declare the queues: JSON, '-' for standard input."
)
@click.pass_obj
def queues(root: str, output: str, define: Any) -> None:
    """Show the queues and how busy they are, or declare them.

    \b
    {"queues": [{"name": "workq", "nodes": 2, "cpusPerNode": 4, "memory": "8gb", "gpus": 0,
                 "walltimeMax": 3600, "walltimeDefault": 600, "site": "local",
                 "enabled": true, "started": true, "hostPerNode": false,
                 "maxQueued": 1000, "maxQueuedPerUser": 100, "maxQueuedCpusPerUser": 400}],
     "killDelay": 10, "idleSeconds": 300, "historySeconds": 1209600,
     "enforceMemory": true, "operators": []}

    Nodes and slots are as declared, independent of the machine. Only name, nodes and cpusPerNode are needed. Memory and
    gpus are per node, times are in seconds. The three limits on waiting and running jobs may also be given beside
    "queues", for all queues together.

    With hostPerNode, PBS_NODEFILE has the nodes' names (workq-n1, …) instead of this machine's. An MPI launcher then
    sees several hosts. Tell it to start its daemons on them without a network (HYDRA_LAUNCHER_EXEC,
    OMPI_MCA_plm_rsh_agent).

    With enforceMemory, a job that has more in memory than it asked for is killed. Operators see and change the jobs of
    all users. Other commands read the output of `-o json` with `--queues FILE`.

    \b
    Example:  batchgate local queues -o json > queues.json
    """
    if define is not None:
        try:
            document = json.load(define)
        except ValueError as error:  # includes invalid UTF-8
            raise ConfigError(f"{define.name}: not JSON: {error}") from error
        define_queues(root, document)
        return
    shown = _asked(client.ask, root, {"op": "queues"})["queues"]
    if output == "json":
        click.echo(json.dumps({"queues": shown}, indent=2))
        return
    for queue in shown:
        click.echo(
            f"{queue['queue']:<16} {'up' if queue['up'] else 'down':<5} free nodes {queue['freeNodes']:<4} "
            f"queued {queue['queuedJobs']:<4} running {queue['runningJobs']}"
        )


def define_queues(root: str, document: object) -> None:
    """Declare a directory's queues, also while its daemon runs. Raises ConfigError for an invalid document."""
    state = State(Path(root))
    state.make()
    before = state.root / "config.json"
    old = before.read_bytes() if before.exists() else None
    state.save_config(config_of(document))
    try:
        _asked(client.ask_running, root, {"op": "reload"})
    except client.NotServed:
        return
    except ConfigError:
        before.write_bytes(old) if old is not None else before.unlink()
        raise


@click.command()
@click.argument("words", nargs=-1, metavar="[none | NAME=on|off|SECONDS]...")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.pass_obj
def faults(root: str, words: tuple[str, ...], output: str) -> None:
    """Show the simulated faults, or switch faults on and off, from the next command on.

    \b
    * unreachable    commands cannot reach the queue; jobs start, run and end as usual
    * answers-lost   commands do their work and then fail with "End of File"
    * history-lost   finished jobs are forgotten for ever
    * others-hidden  users see only their own jobs (query_other_jobs is False)
    * list-empty     lists without ids are empty, with exit code 0
    * jobs-unknown   queries by id fail with "Unknown Job Id"
    * delay          answers are late by this many seconds
    * none           switches all faults off

    Faults do not affect a command with BATCHGATE_LOCAL_FAULTS=ignore in its environment.

    \b
    Example:  batchgate local faults unreachable=on && batchgate local qstat
    """
    shown = _asked(client.ask, root, {"op": "faults", "words": words})["faults"]
    if output == "json":
        click.echo(json.dumps(shown, indent=2))
        return
    for name, value in shown.items():
        text = ("on" if value else "off") if isinstance(value, bool) else f"{value:g} s"
        click.echo(f"{name:<14} {text}")


@click.command()
@click.option("--delete", is_flag=True, help="End the jobs too; else they run on, and a later start finds them.")
@click.pass_obj
def stop(root: str, delete: bool) -> None:  # noqa: FBT001 - click passes a flag so
    """End the queue's background process. Running jobs go on, unless --delete.

    \b
    Example:  batchgate local stop --delete
    """
    ask = client.ask if delete else client.ask_running
    try:
        _asked(ask, root, {"op": "stop", "delete": delete})
    except client.NotServed:
        return
    client.wait_for_end(root)
