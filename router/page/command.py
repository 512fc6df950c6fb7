"""``batchgate page``: serves the page to whoever started it, or to many, each with a token of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from router.cli.cluster import Cluster, connecting_options, kubeconfig_of, reach

if TYPE_CHECKING:
    from flask import Flask

    from router.page.decisionlog import DecisionLogTail
    from router.page.guard import Key

FILE = click.Path(path_type=Path)


@click.command()
@connecting_options
@click.option(
    "--port", default=0, type=click.IntRange(0, 65535), help="Of the loopback interface. [default: a free one]"
)
@click.option(
    "--policy",
    envvar="BATCHGATE_POLICY",
    type=FILE,
    metavar="DIR",
    help="Explain Jobs by these files; by default by the policy in the cluster, if you may read it.",
)
@click.option(
    "--decision-log",
    type=FILE,
    metavar="FILE",
    help="Show the decisions of this log too, as the webhook's --decision-log writes it.",
)
@click.option("--viewer-tokens", is_flag=True, help="Serve many: everything is read with the token of who looks.")
@click.option(
    "--listen", metavar="HOST:PORT", help="With --viewer-tokens: [::1]:8443 for IPv6, :8443 for every address."
)
@click.option("--host-name", multiple=True, help="With --viewer-tokens: a name by which browsers reach it. Repeatable.")
@click.option(
    "--token-header",
    default="",
    metavar="NAME",
    help="With --viewer-tokens: in which a proxy passes the viewer's token.",
)
@click.option("--cert", type=FILE, metavar="FILE", help="With --viewer-tokens: certificate and chain, PEM.")
@click.option("--key", type=FILE, metavar="FILE", help="The certificate's private key, PEM.")
def page(
    port: int,
    policy: Path | None,
    decision_log: Path | None,
    *,
    viewer_tokens: bool,
    connection: Mapping[str, Any],
    **options: Any,
) -> None:
    """Show sites, queues and Jobs as a web page, with your own rights.

    Prints an address on this machine. Its token lets your browser in and keeps out other users of the machine. From
    another machine: ssh -L PORT:127.0.0.1:PORT HOST, and the same address there. Ctrl-C ends it.

    With --viewer-tokens it serves many, as in a Pod: of the kubeconfig only the API server's address is used, and each
    viewer sees what the token lets them see that they bring.

    \b
    Example:  batchgate page
              batchgate page --port 8800 -n physics
    """
    if policy is not None:
        from router.startup.policyfiles import read_directory  # noqa: PLC0415 - `--help` needs no policy

        read_directory(policy)
    if viewer_tokens:
        _serve_many(connection, policy, decision_log, **options)
        return
    given = [name for name in ("listen", "host_name", "token_header", "cert", "key") if options[name]]
    if given:
        raise click.UsageError(f"--{given[0].replace('_', '-')} is for --viewer-tokens")
    _serve_one(reach(**connection), port, policy, _tail(decision_log))


def _tail(decision_log: Path | None, *, may_come: bool = False) -> DecisionLogTail | None:
    """The log's end. Raises ConfigError if it cannot be read; with ``may_come`` it may be missing."""
    if decision_log is None:
        return None
    from router.page.decisionlog import DecisionLogTail  # noqa: PLC0415 - `--help` needs none

    found = DecisionLogTail(decision_log)
    found.check(may_come=may_come)
    return found


def _serve_one(cluster: Cluster, port: int, policy: Path | None, tail: DecisionLogTail | None) -> None:
    # Imported here, so that `--help` needs no web server.
    from router.page import serve  # noqa: PLC0415
    from router.page.guard import Key  # noqa: PLC0415
    from router.page.streams import FEW  # noqa: PLC0415

    listener, key = serve.bind_loopback(port), Key()
    chosen = listener.getsockname()[1]
    click.echo(f"Open this address; its token is yours alone:\n\n    http://127.0.0.1:{chosen}/?token={key.secret}\n")
    click.echo(f"From another machine, first: ssh -L {chosen}:127.0.0.1:{chosen} HOST. Ctrl-C ends it.")
    serve.Application(listener, partial(_app_of_one, cluster, key, policy, tail), FEW).run()


def _app_of_one(cluster: Cluster, key: Key, policy: Path | None, tail: DecisionLogTail | None) -> Flask:
    from router.page.app import create_app  # noqa: PLC0415
    from router.page.guard import guard  # noqa: PLC0415
    from router.page.models.logged import logged  # noqa: PLC0415
    from router.page.policysource import Policies  # noqa: PLC0415
    from router.page.reader import Reader  # noqa: PLC0415

    reader = Reader(cluster)
    reader.start()
    # Whoever may read the file may see all of it: this process has the viewer's own rights.
    log = None if tail is None else lambda now: logged(tail.read(), "", now)
    return create_app(lambda: reader, Policies(policy), lambda app: guard(app, key), log=log)


def _serve_many(connection: Mapping[str, Any], policy: Path | None, decision_log: Path | None, **options: Any) -> None:
    from router.page import serve  # noqa: PLC0415
    from router.page.streams import MANY  # noqa: PLC0415
    from router.startup.settings import parse_address  # noqa: PLC0415
    from router.webhook.serve import bind  # noqa: PLC0415

    if not options["listen"] or not options["host_name"]:
        raise click.UsageError(
            "--viewer-tokens needs --listen HOST:PORT and the names that browsers use: --host-name NAME"
        )
    if (options["cert"] is None) != (options["key"] is None):
        raise click.UsageError("--cert and --key go together")
    tls = None if options["cert"] is None else (options["cert"], options["key"])
    address = parse_address(options["listen"])
    make_app = partial(
        _app_of_many,
        _clusters(connection),
        policy,
        # The page may start before the cluster's first decision, and for many it shows more than the log.
        _tail(decision_log, may_come=True),
        frozenset(map(str.lower, options["host_name"])),
        options["token_header"],
    )
    click.echo(f"Listening on {address}.")
    serve.Application(bind(address), make_app, MANY, tls).run()


def _clusters(connection: Mapping[str, Any]) -> Callable[[str], Cluster]:
    """The cluster of these options with the rights of a token. Raises ConfigError."""
    from router.kube.client import Api  # noqa: PLC0415
    from router.kube.credentials import namespace_of, with_tokens  # noqa: PLC0415

    file = kubeconfig_of(connection["kubeconfig"])
    access = with_tokens(file, connection["context"])
    named = connection["namespace"] is not None
    namespace = connection["namespace"] or namespace_of(file, connection["context"])
    return lambda token: Cluster(Api(lambda: access(token)), namespace, named, connection["system_namespace"])


def _app_of_many(
    cluster_of: Callable[[str], Cluster],
    policy: Path | None,
    tail: DecisionLogTail | None,
    host_names: frozenset[str],
    header: str,
) -> Flask:
    from router.page.app import create_app  # noqa: PLC0415
    from router.page.models.logged import logged  # noqa: PLC0415
    from router.page.policysource import Policies  # noqa: PLC0415
    from router.page.reader import namespace_of_jobs  # noqa: PLC0415
    from router.page.streams import MANY  # noqa: PLC0415
    from router.page.viewers import Viewers, admit, reader_of_request  # noqa: PLC0415

    viewers = Viewers(cluster_of)
    log = None if tail is None else lambda now: logged(tail.read(), namespace_of_jobs(reader_of_request().cluster), now)
    app = create_app(
        reader_of_request, Policies(policy, shared=True), lambda one: admit(one, viewers, host_names, header), MANY, log
    )
    app.config["TOKENS_ARE_PASTED"] = not header
    viewers.start()
    return app
