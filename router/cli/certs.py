"""``batchgate certs ensure`` and ``certs approve``, beside the commands for files in ``router.certs.commands``.

Shell: reads options, prints a line for each step.
"""

from __future__ import annotations

import ipaddress
import os
import signal
import time
from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from typing import Any, Final, NoReturn, ParamSpec

import click

from router import names
from router.certs import activation, ensuring
from router.certs.commands import certs
from router.certs.ensuring import Foreign, Target
from router.certs.rotation import Lives, Rules
from router.cli.cluster import usual_file
from router.errors import ApiError, ConfigError
from router.kube.client import Api, connect
from router.kubelet import csr, csrapproval
from router.startup.options import Duration

_WAIT: Final = "5m"
_LOOK_SECONDS: Final = 10.0
_ENSURE_SECONDS: Final = 30.0
"""Seconds between two looks of ``ensure --watch``. The steps of a rotation are minutes apart."""
_PATIENCE_SECONDS: Final = 600.0
"""How long ``ensure --watch`` goes on without success, as while an API server is away; then its Pod shows the reason."""

__all__ = ["certs"]


P = ParamSpec("P")


def _cluster_options(command: Callable[P, None]) -> Callable[..., None]:
    """The options by which a command reaches a cluster; it gets an ``Api`` as its first argument."""

    @click.option(
        "--kubeconfig", metavar="FILE", help="Else $KUBECONFIG, ~/.kube/config, the cluster whose Pod this is."
    )
    @click.option("--context", metavar="NAME", help="Of the kubeconfig; its current one by default.")
    @wraps(command)
    def reached(*arguments: Any, kubeconfig: str | None, context: str | None, **options: Any) -> None:
        command(connect(kubeconfig or usual_file(), context), *arguments, **options)  # type: ignore[arg-type]

    return reached


@certs.command()
@_cluster_options
@click.option(
    "-n", "--namespace", default=names.SYSTEM_NAMESPACE, show_default=True, metavar="NAME", help="Of the webhook."
)
@click.option("--service", default=names.SERVICE, show_default=True, metavar="NAME", help="The webhook's Service.")
@click.option(
    "--registration",
    default=names.REGISTRATION,
    show_default=True,
    metavar="NAME",
    help="The MutatingWebhookConfiguration, and the ValidatingWebhookConfiguration if there is one.",
)
@click.option("--host-name", "host_names", multiple=True, help="A further name of the webhook; repeatable.")
@click.option(
    "--replace-signing-key",
    is_flag=True,
    help="Begin to replace the signing key. Agents outside the cluster must get the new public keys within 10 minutes.",
)
@click.option(
    "--cert-manager",
    type=click.Choice([str(one) for one in Foreign]),
    default=str(Foreign.REFUSE),
    show_default=True,
    help="Where cert-manager keeps the certificate: leave it, or take it over once its Certificate is deleted.",
)
@click.option(
    "--switch-to",
    type=click.Choice(["opt-in", "opt-out"]),
    help="Before the guards change to this: first have the registration go with those of both.",
)
@click.option("--activate", is_flag=True, help="Then make the registration active, once the webhook is ready.")
@click.option("--wait", type=Duration(), default=_WAIT, show_default=True, help="For the webhook, with --activate.")
@click.option("--watch", is_flag=True, help="Go on until interrupted, and take each step when it is due.")
def ensure(api: Api, namespace: str, service: str, *, activate: bool, watch: bool, **named: Any) -> None:
    """Make or renew the webhook's CA, certificate and signing key in the cluster, and set caBundle.

    It may be run at any time, also twice at once. What is past two thirds of its life is replaced in steps that leave no
    gap; each run takes the steps that are due. The signing key is replaced only on demand.

    \b
    Example: batchgate certs ensure --activate
    """
    others = [f"--{one.replace('_', '-')}" for one in ("replace_signing_key", "switch_to") if named[one]]
    if watch and (others := [*others, *(["--activate"] if activate else [])]):
        raise click.UsageError(f"--watch only keeps what is there: run it without {' and '.join(others)}")
    known = ensuring.host_names(service, namespace)
    lives = Lives(signing=timedelta() if named["replace_signing_key"] else None)
    target = Target(Rules(namespace, (*known, *named["host_names"]), lives=lives), named["registration"])
    if watch:
        _keep(api, target)
    waits = ensuring.ensure(api, target, click.echo, foreign=Foreign(named["cert_manager"]))
    for one in waits:
        click.echo(f"Next, at {one.until:%Y-%m-%d %H:%M:%S} UTC: {one.words}")
    if named["switch_to"]:
        activation.switch(api, target, service, named["switch_to"], click.echo)
    if activate:
        activation.activate(api, target, service, float(named["wait"]), click.echo)


def _keep(api: Api, target: Target) -> NoReturn:
    """Take each step when it is due. What does not pass ends it, as a Pod that fails is seen."""
    _end_by_signal()
    well = time.monotonic()
    while True:
        try:
            ensuring.ensure(api, target, click.echo)
            well = time.monotonic()
        except (ApiError, ConfigError) as error:
            if time.monotonic() - well > _PATIENCE_SECONDS:
                raise
            click.echo(f"Error: {error}; trying again", err=True)
        time.sleep(_ENSURE_SECONDS)


def _end_by_signal() -> None:
    """The first process of a container ignores the signal otherwise, and is killed half a minute later.

    An exception would not do: Python drops one that is raised while an object is being freed.
    """
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))


@certs.command()
@_cluster_options
@click.option(
    "-n", "--namespace", default=names.SYSTEM_NAMESPACE, show_default=True, metavar="NAME", help="Of the agent."
)
@click.option(
    "--address", "addresses", multiple=True, metavar="IP", help="Of an agent outside the cluster; repeatable."
)
@click.option("--watch", is_flag=True, help="Go on until interrupted.")
def approve(api: Api, namespace: str, addresses: tuple[str, ...], *, watch: bool) -> None:
    """Approve requests of agents for the serving certificates of virtual nodes, instead of an admin's hand.

    Only the agent's own account may have made a request. It must ask for the name of a virtual node, and for addresses
    of the Pod that asks, or those named by --address. All others stay as they are, for a person to judge; the exit code
    is then 1.

    \b
    Example: batchgate certs approve --watch
    """
    named = frozenset(_address(one) for one in addresses)
    told: dict[str, str] = {}
    if not watch:
        raise SystemExit(1 if _approve(api, namespace, named, told) else 0)
    _end_by_signal()
    while True:
        try:
            _approve(api, namespace, named, told)
        except ApiError as error:  # the API server is away, or a person was quicker with one of them
            click.echo(f"Error: {error}; trying again", err=True)
        time.sleep(_LOOK_SECONDS)


def _address(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise click.BadParameter(f"{text!r} is no IP address", param_hint="--address") from None


def _approve(api: Api, namespace: str, named: frozenset[str], told: dict[str, str]) -> bool:
    """Judge every waiting request; returns whether one was refused. ``told``: the refusals that were printed."""
    selector = f"spec.signerName={csr.SIGNER}"
    requests = [
        one for page, _ in api.pages(csr.PATH, fieldSelector=selector) for one in page if csrapproval.concerns_us(one)
    ]
    if not requests:
        return False
    account = f"system:serviceaccount:{namespace}:{names.AGENT_ACCOUNT}"
    around = _surroundings(api, named)
    refused = False
    for one in requests:
        name = str(one["metadata"]["name"])
        by = csrapproval.requester(one)
        pod = api.find(f"/api/v1/namespaces/{namespace}/pods/{by.pod}") if by else None
        why = csrapproval.refusal(one, account, around, pod)
        if not why:
            api.replace(f"{csr.PATH}/{name}/approval", csrapproval.approved(one))
            click.echo(f"CertificateSigningRequest {name}: approved")
        elif told.get(name) != why:
            click.echo(f"CertificateSigningRequest {name}: not approved: {why}")
            told[name] = why
        refused = refused or bool(why)
    return refused


def _surroundings(api: Api, named: frozenset[str]) -> csrapproval.Surroundings:
    nodes = [one for page, _ in api.pages("/api/v1/nodes") for one in page]
    path, selector = (
        "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
        "kubernetes.io/service-name=kubernetes",
    )
    slices = [one for page, _ in api.pages(path, labelSelector=selector) for one in page]
    service = api.find("/api/v1/namespaces/default/services/kubernetes")
    return csrapproval.Surroundings(nodes, csrapproval.addresses_of(service, slices), named)
