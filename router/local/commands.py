"""``batchgate local``: OpenPBS' commands for the embedded queue, and some of its own.

Defines the click commands and their help; ``router.local.calling`` does the work. ``python -m router.local qsub`` does
not import this module.
"""

from __future__ import annotations

import sys
from typing import Final

import click

from router.local import calling, client
from router.local.administration import faults, queues, stop


class _Words(click.Command):
    """A command that parses its words itself, as OpenPBS' options differ from click's."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Pass every word on unchanged; only ``--help`` is click's."""
        if args == ["--help"]:
            return super().parse_args(ctx, args)
        ctx.params = {"words": tuple(args)}
        return []


@click.group(context_settings={"help_option_names": ["--help"]})
@click.option(
    "--directory", envvar=client.VARIABLE, default=client.default_directory,
    show_default=f"${client.VARIABLE} or the user's state directory",
    help="Where the embedded queue keeps its state.", type=click.Path(file_okay=False, resolve_path=True),
)  # fmt: skip
@click.pass_context
def local(ctx: click.Context, directory: str) -> None:
    """The embedded queue: a one-machine batch system that speaks OpenPBS, to try things with.

    Jobs run for real, as you, on this machine. A background process starts with the first command and ends by itself
    when it is idle. Without declared queues (`batchgate local queues --define`) there is one, "workq".

    BATCHGATE_LOCAL_USER names another user as the sender of a command; all jobs run as you.
    With BATCHGATE_LOCAL_FAULTS=ignore, faults of `batchgate local faults` do not affect a command.

    \b
    Example:  echo hostname | batchgate local qsub && batchgate local qstat -x
    """
    ctx.obj = directory


def _command(name: str, help_text: str, example: str) -> click.Command:
    @click.pass_obj
    def run(root: str, words: tuple[str, ...]) -> None:
        sys.exit(calling.run(root, name, list(words)))

    return _Words(
        name, callback=run, help=f"{help_text}\n\n\b\nExample:  {example}", options_metavar="[OPTIONS AND OPERANDS]"
    )


_HELP: Final = {
    "qsub": (
        "Submit a script (a file, or standard input); prints the job's id. Options and directives are OpenPBS'.",
        "echo hostname | batchgate local qsub -N hello -l select=1:ncpus=1 -o hello.out -j oe",
    ),
    "qstat": (
        "Show jobs: all, those named, those of a queue. -f for all attributes, -x for finished ones too.",
        "batchgate local qstat -x -f -F json 0.local",
    ),
    "qselect": (
        "List the ids of jobs by exact criteria; -x adds finished ones, -H shows only these.",
        "batchgate local qselect -x -N hello",
    ),
    "qdel": (
        "Delete jobs: TERM, then KILL after the queue's delay; -W force at once; -x forgets them too.",
        "batchgate local qdel 0.local",
    ),
    "qsig": (
        "Send a signal (-s NAME or number; TERM) to running jobs; -s suspend stops them, -s resume lets them go on.",
        "batchgate local qsig -s USR1 0.local",
    ),
    "qhold": ("Hold queued jobs.", "batchgate local qhold 0.local"),
    "qrls": ("Release held jobs.", "batchgate local qrls 0.local"),
}

for _name, (_text, _example) in _HELP.items():
    local.add_command(_command(_name, _text, _example))
local.add_command(queues)
local.add_command(faults)
local.add_command(stop)
