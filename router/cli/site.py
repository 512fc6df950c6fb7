"""``batchgate site check``.

Shell: reads the options, prints, sets the exit code. Signals ask the check to end; it then removes what it left.
"""

from __future__ import annotations

import os
import pwd
import signal
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from router.cli.output import as_json
from router.cli.table import print_table
from router.options import Duration, option
from router.preflight import Line, Mark, worst

_option: Final = partial(option, "site")
_INTERRUPTED: Final = 130


@click.group()
def site() -> None:
    """Look at a site of the policy: can it do what Jobs need?

    \b
    Example:  batchgate site check hpc1 --policy policies
    """


@site.command()
@click.argument("name", metavar="SITE")
@click.option("--as", "users", multiple=True, metavar="USER", help="HPC users; else all whom accounts name.")
@_option("--policy", default="policies", type=click.Path(path_type=Path), metavar="DIR", help="Policy directory.")
@_option("--wait", default="10m", type=Duration(), help="How long a probe may stay queued.")
@_option(
    "--local-state",
    type=click.Path(path_type=Path),
    metavar="DIR",
    also=("BATCHGATE_LOCAL",),
    help="The embedded queue's directory.",
)
@_option("--local-commands", default="", metavar="WORDS", help="Before the embedded queue's commands.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", help="For people, for programs.")
def check(name: str, users: tuple[str, ...], policy: Path, wait: int, output: str, **local: Any) -> None:
    """Submit probe jobs as the users of a site, and say what must be mended before Jobs are sent there.

    Run it as the user that the agent is, on the agent's machine. docs/preflight.md says what each line means.

    \b
    Exit codes: 0 no line must be mended, 1 one must, 2 usage, configuration or policy.
    Example:  batchgate site check hpc1 --policy policies --as ada
    """
    # Imported here: usage errors need neither CEL nor asyncssh.
    from dataclasses import replace  # noqa: PLC0415

    from router import policy as policies  # noqa: PLC0415
    from router.agent import preflight  # noqa: PLC0415
    from router.policyfiles import read_directory  # noqa: PLC0415

    checked = policies.load(read_directory(policy))
    own = pwd.getpwuid(os.geteuid()).pw_name
    wanted = preflight.with_queue(
        preflight.wanted_of(checked, name, users, own), local["local_state"], local["local_commands"]
    )
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: stopping.set())
    lines = preflight.check(checked, replace(wanted, wait=float(wait)), stopping)
    _show(name, lines, output)
    if stopping.is_set():
        click.echo("interrupted; the probes were deleted", err=True)
        sys.exit(_INTERRUPTED)
    sys.exit(1 if worst(lines) is Mark.MUST else 0)


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
