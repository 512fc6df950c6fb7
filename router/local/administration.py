"""``batchgate local queues`` and ``stop``: the two commands of the embedded queue that OpenPBS does not have.

Reads files, asks the background process, prints.
"""

from __future__ import annotations

import json
from typing import Any

import click

from router.errors import ConfigError
from router.local import client
from router.local.records import config_of
from router.local.state import State


@click.command()
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.option(
    "--define", type=click.File("r"), metavar="FILE", help="Declare the queues: JSON, '-' for standard input."
)
@click.pass_obj
def queues(state: State, output: str, define: Any) -> None:
    """Show the queues and how busy they are, or declare them.

    \b
    {"queues": [{"name": "workq", "nodes": 2, "cpusPerNode": 4, "memory": "8gb", "gpus": 0,
                 "walltimeMax": 3600, "walltimeDefault": 600, "site": "local",
                 "enabled": true, "started": true}],
     "killDelay": 10, "idleSeconds": 300, "historySeconds": 1209600}

    Slots are what is declared, whatever the machine has. Only name, nodes and cpusPerNode are needed; memory and gpus
    are per node, times are in seconds. `-o json` is what `--queues FILE` of other commands reads.

    \b
    Example:  batchgate local queues -o json > queues.json
    """
    if define is not None:
        try:
            document = json.load(define)
        except ValueError as error:  # also what is no UTF-8
            raise ConfigError(f"{define.name}: not JSON: {error}") from error
        define_queues(state, document)
        return
    shown = client.ask(state, {"op": "queues"})["queues"]
    if output == "json":
        click.echo(json.dumps({"queues": shown}, indent=2))
        return
    for queue in shown:
        click.echo(
            f"{queue['queue']:<16} {'up' if queue['up'] else 'down':<5} free nodes {queue['freeNodes']:<4} "
            f"queued {queue['queuedJobs']:<4} running {queue['runningJobs']}"
        )


def define_queues(state: State, document: object) -> None:
    """Declare a directory's queues, also while its daemon runs. ConfigError where the document is none."""
    state.make()
    before = state.root / "config.json"
    old = before.read_bytes() if before.exists() else None
    state.save_config(config_of(document))
    try:
        answer = client.ask_running(state, {"op": "reload"})
    except client.NotServed:
        return
    if answer["rc"]:
        before.write_bytes(old) if old is not None else before.unlink()
        raise ConfigError("; ".join(answer["stderr"]))


@click.command()
@click.option("--delete", is_flag=True, help="End the jobs too; else they run on and are found again.")
@click.pass_obj
def stop(state: State, delete: bool) -> None:  # noqa: FBT001 - click passes a flag so
    """End the queue's background process. Running jobs go on, unless --delete.

    \b
    Example:  batchgate local stop --delete
    """
    try:
        if delete:
            client.ask(state, {"op": "stop", "delete": True})
        else:
            client.ask_running(state, {"op": "stop", "delete": False})
    except client.NotServed:
        return
    client.wait_for_end(state)
