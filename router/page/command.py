"""``batchgate page``: serves the page to whoever started it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from router.cli.cluster import Cluster, cluster_options

if TYPE_CHECKING:
    from flask import Flask


@click.command()
@cluster_options
@click.option(
    "--port", default=0, type=click.IntRange(0, 65535), help="Of the loopback interface. [default: a free one]"
)
@click.option(
    "--policy",
    envvar="BATCHGATE_POLICY",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Explain Jobs by these files; by default by the policy in the cluster, if you may read it.",
)
def page(cluster: Cluster, port: int, policy: Path | None) -> None:
    """Show sites, queues and Jobs as a web page, with your own rights.

    Prints an address on this machine. Its token lets your browser in and keeps out other users of the machine. From
    another machine: ssh -L PORT:127.0.0.1:PORT HOST, and the same address there. Ctrl-C ends it.

    \b
    Example:  batchgate page
              batchgate page --port 8800 -n physics
    """
    # Imported here, so that `--help` needs no web server.
    from router.page import serve  # noqa: PLC0415
    from router.page.app import create_app  # noqa: PLC0415
    from router.page.guard import Key, guard  # noqa: PLC0415
    from router.page.policysource import Policies  # noqa: PLC0415
    from router.page.reader import Reader  # noqa: PLC0415

    if policy is not None:
        from router.startup.policyfiles import read_directory  # noqa: PLC0415

        read_directory(policy)
    listener, key = serve.bind(port), Key()
    chosen = listener.getsockname()[1]
    click.echo(f"Open this address; its token is yours alone:\n\n    http://127.0.0.1:{chosen}/?token={key.secret}\n")
    click.echo(f"From another machine, first: ssh -L {chosen}:127.0.0.1:{chosen} HOST. Ctrl-C ends it.")

    def make_app() -> Flask:
        reader = Reader(cluster)
        reader.start()
        return create_app(lambda: reader, Policies(policy), lambda app: guard(app, key))

    serve.Application(listener, make_app).run()
