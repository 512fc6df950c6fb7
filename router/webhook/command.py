"""``batchgate webhook``: reads the options, checks everything, serves."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from router.notation import durations
from router.startup.options import Duration, option
from router.startup.settings import (
    BODY_LIMIT,
    DECISION_LOG_SIZE,
    LEAST_DECISION_LOG,
    NAMESPACE,
    QUEUES_MAX_AGE,
    REVIEW_BUDGET,
    THREADS,
    LogFormat,
    WebhookSettings,
    parse_address,
)

FILE: Final = click.Path(path_type=Path)
_option: Final = partial(option, "webhook")


@click.command()
@_option("--listen", default=":8443", metavar="HOST:PORT", help="[::1]:8443 for IPv6, :8443 for every address.")
@_option(
    "--host-name",
    multiple=True,
    required=True,
    help="The name that the API server calls; the certificate must be for it. Repeatable; in the variable, by spaces.",
)
@_option("--cert", required=True, type=FILE, metavar="FILE", help="Certificate and chain, PEM.")
@_option("--key", required=True, type=FILE, metavar="FILE", help="The certificate's private key, PEM.")
@_option("--client-ca", type=FILE, metavar="FILE", help="Answer reviews to clients with a certificate of this CA only.")
@_option(
    "--client-name",
    multiple=True,
    metavar="NAME",
    help="Accept only client certificates with this common name. Repeatable; in the variable, by spaces.",
)
@_option("--metrics-listen", metavar="HOST:PORT", help="Serve /metrics on this address instead of --listen.")
@_option("--policy", default="policies", type=FILE, metavar="DIR", help="Policy directory.")
@_option("--signing-key", type=FILE, metavar="FILE", help="Ed25519 key, PEM. Without it nothing is signed.")
@_option("--queues", type=FILE, metavar="FILE", help="Queue state. Without it the state is unknown.")
@_option(
    "--queues-max-age",
    default=durations.show(QUEUES_MAX_AGE),
    type=Duration(),
    help="Queue state that is older counts as unknown: 90, 5m, 1h30m.",
)
@_option(
    "--cluster",
    type=FILE,
    metavar="FILE",
    help="LimitRanges, RuntimeClasses, Namespaces, ResourceQuotas, as kubectl prints them.",
)
@_option("--kubeconfig", type=FILE, metavar="FILE", help="Instead of --cluster: watch these and the queue state.")
@_option("--in-cluster", is_flag=True, help="Like --kubeconfig, by the service account of this Pod.")
@_option(
    "--claims", is_flag=True, help="Also watch claims and volumes, so that policies can map them by what they are."
)
@_option(
    "--namespace", default=NAMESPACE, metavar="NAME", help="Of Batchgate's ConfigMaps: state of queues and policy."
)
@_option("--threads", default=THREADS, type=click.IntRange(1, 256), help="Reviews that are worked on at once.")
@_option("--body-limit", default=BODY_LIMIT, type=click.IntRange(1024), metavar="BYTES", help="Of a review.")
@_option(
    "--review-budget",
    default=REVIEW_BUDGET,
    type=click.FloatRange(0.1, 10),
    metavar="SECONDS",
    help="CPU time that one review may take; over it, the Job is denied.",
)
@_option("--log-format", default="json", type=click.Choice([str(one) for one in LogFormat]), help="Of log lines.")
@_option("--decision-log", type=FILE, metavar="FILE", help="Write each decision there, with what it rests on.")
@_option(
    "--decision-log-size",
    default=DECISION_LOG_SIZE,
    type=click.IntRange(LEAST_DECISION_LOG),
    metavar="BYTES",
    help="Of that file and the older ones, FILE.1 to FILE.3, together.",
)
@_option("--follow-traces", is_flag=True, help="Continue the API server's traces, which then say what is sampled.")
def webhook(**options: Any) -> None:
    """Serve admission reviews over TLS: POST /mutate, POST /policy, GET /livez, /readyz, /metrics.

    Each option is also read from the environment: --signing-key from BATCHGATE_WEBHOOK_SIGNING_KEY, else from
    BATCHGATE_SIGNING_KEY. Policy, certificate, keys and queue state are read again when their files change. A review
    sends no request to the cluster: its objects are known from --cluster or from watches.

    \b
    Example: batchgate webhook --listen 127.0.0.1:8443 --host-name localhost --cert certs/tls.crt --key certs/tls.key
    """
    _demand_one_cluster(options)
    if options["client_name"] and options["client_ca"] is None:
        raise click.UsageError("--client-name says which clients of --client-ca may ask; give that as well")
    metrics_listen = options["metrics_listen"]
    settings = WebhookSettings(
        listen=parse_address(options["listen"]),
        host_names=options["host_name"],
        certificate=options["cert"],
        key=options["key"],
        policy=options["policy"],
        signing_key=options["signing_key"],
        client_ca=options["client_ca"],
        client_names=options["client_name"],
        metrics_listen=None if metrics_listen is None else parse_address(metrics_listen),
        queues=options["queues"],
        queues_max_age=options["queues_max_age"],
        cluster=options["cluster"],
        kubeconfig=options["kubeconfig"],
        in_cluster=options["in_cluster"],
        claims=options["claims"],
        namespace=options["namespace"],
        threads=options["threads"],
        body_limit=options["body_limit"],
        review_budget=options["review_budget"],
        log_format=LogFormat(options["log_format"]),
        decision_log=options["decision_log"],
        decision_log_size=options["decision_log_size"],
        follow_traces=options["follow_traces"],
    )
    _serve(settings)


def _demand_one_cluster(options: Mapping[str, Any]) -> None:
    given = [name for name in ("cluster", "kubeconfig", "in_cluster") if options[name]]
    if len(given) > 1:
        shown = " and ".join("--" + name.replace("_", "-") for name in given)
        raise click.UsageError(f"{shown} each say where the cluster is known from; give one of them")
    if options["claims"] and not (options["kubeconfig"] or options["in_cluster"]):
        raise click.UsageError("--claims watches a cluster; give --in-cluster or --kubeconfig as well")


def _serve(settings: WebhookSettings) -> None:
    # Imported here, as `batchgate webhook --help` and a usage error can do without CEL and gunicorn.
    from router.startup import logs  # noqa: PLC0415
    from router.webhook import loading, serve  # noqa: PLC0415

    log = logs.configure(settings.log_format)
    listeners = serve.bind_all(settings)
    in_force = loading.check(settings, log)
    if settings.signing_key is None:
        log.warning("no --signing-key: nothing is signed, and no agent will run what is routed")
    if settings.client_ca is None and (settings.in_cluster or settings.kubeconfig is not None):
        log.info("no --client-ca: every client is answered reviews")
    metrics_port = listeners.metrics_port
    serve.run(settings, listeners, lambda: loading.load(in_force, settings, log, metrics_port), in_force.certificate)
