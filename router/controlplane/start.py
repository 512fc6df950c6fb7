"""Starts and ends a control plane.

Shell. Tests and the demo call ``control_plane``. Everything that it starts ends with its block, or with this process if
that is killed (``router.controlplane.keeper``).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from router.certs.issuing import Pair, make_ca, make_server_certificate
from router.controlplane import arguments, credentials, ports, programs
from router.controlplane.arguments import ADDRESS, PlaneFiles, Ports
from router.controlplane.credentials import Identity
from router.controlplane.options import APISERVER, CONTROLLER_MANAGER, ETCD, SCHEDULER, Options
from router.controlplane.plane import ControlPlane, await_condition, write_kubeconfig
from router.controlplane.processes import Component, Keeper, start_keeper
from router.errors import ConfigError

_TRIES: Final = 3
_PORT_TAKEN: Final = "address already in use"


@contextmanager
def control_plane(directory: Path, options: Options | None = None) -> Iterator[ControlPlane]:
    """A control plane with its files in a new ``directory``; the end of the block ends it and deletes the files.

    :raises NoPrograms: its programs are not built yet
    :raises ConfigError: a component does not start; with the last lines of its log
    """
    plane = start(directory, options)
    try:
        yield plane
    finally:
        plane.keeper.close()
        shutil.rmtree(directory)


def start(directory: Path, options: Options | None = None) -> ControlPlane:
    """Start a plane that the caller ends with ``plane.keeper.close()``, or leaves with ``plane.keeper.leave()``."""
    found = programs.find()
    wanted = options or Options()
    for _ in range(_TRIES - 1):
        try:
            return _try(found, directory, wanted)
        except ConfigError as error:
            # Another process took a port between its choice and its use.
            if _PORT_TAKEN not in str(error):
                raise
    return _try(found, directory, wanted)


def _try(found: programs.Programs, directory: Path, options: Options) -> ControlPlane:
    with ExitStack() as undone:
        directory.mkdir(mode=0o700, parents=True)
        undone.callback(shutil.rmtree, directory)
        place = PlaneFiles(directory.resolve(), Ports(*ports.free(len(fields(Ports)), ADDRESS)))
        keeper = start_keeper(directory / "keeper.log")
        undone.callback(keeper.close)
        plane = _start(found, place, options, keeper)
        undone.pop_all()
    return plane


def _start(found: programs.Programs, place: PlaneFiles, options: Options, keeper: Keeper) -> ControlPlane:
    _write_credentials(place, options)
    place.logs.mkdir()
    # Components do not get the caller's environment, such as a proxy.
    environment = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(place.directory)}
    components = {
        name: Component(name, argv, place.logs, environment, keeper)
        for name, argv in arguments.all_of(found, place, options).items()
    }
    plane = ControlPlane(place, options, found, components, keeper)
    components[ETCD].start()
    components[APISERVER].start()
    _await_apiserver(plane)
    components[CONTROLLER_MANAGER].start()
    components[SCHEDULER].start()
    plane.await_ready()
    plane.apply(_kubelet_callers())
    plane.make_namespaces(options.editors)
    return plane


def _await_apiserver(plane: ControlPlane) -> None:
    # Without etcd the API server waits for long before it gives up, so an end of etcd is reported with etcd's own log.
    def ready() -> bool:
        etcd = plane.components[ETCD]
        if etcd.exit_code() is not None:
            await_condition(etcd, lambda: False)
        return plane.probe("/readyz") == 200

    await_condition(plane.components[APISERVER], ready)


def _write_credentials(place: PlaneFiles, options: Options) -> None:
    now = datetime.now(UTC)
    for folder in (place.directory / "pki", place.directory / "kubeconfig"):
        folder.mkdir(mode=0o700)
    ca, front_ca, etcd_ca = make_ca(now), make_ca(now), make_ca(now)
    names = credentials.server_names([ADDRESS, arguments.SERVICE_ADDRESS])
    clients = {
        "apiserver-kubelet-client": (ca, credentials.KUBELET_CLIENT),
        "front-proxy-client": (front_ca, credentials.FRONT_PROXY),
        "apiserver-etcd-client": (etcd_ca, credentials.ETCD_CLIENT),
        "admin": (ca, credentials.ADMIN),
    }
    pairs = {
        "ca": ca,
        "front-proxy-ca": front_ca,
        "etcd-ca": etcd_ca,
        "apiserver": make_server_certificate(ca, names, now),
        "etcd": make_server_certificate(etcd_ca, ["localhost", ADDRESS], now),
        **{name: credentials.make_client(by, identity, now) for name, (by, identity) in clients.items()},
    }
    for name, pair in pairs.items():
        _write(place, f"{name}.crt", pair.public)
        _write(place, f"{name}.key", pair.private)
    tokens = credentials.make_token_keys()
    _write(place, "service-account.pub", tokens.public)
    _write(place, "service-account.key", tokens.private)
    write_kubeconfig(place, credentials.ADMIN.name, credentials.certificate_user(pairs["admin"]))
    for identity in (credentials.CONTROLLER_MANAGER, credentials.SCHEDULER, *options.users):
        _write_identity(place, ca, identity, now)


def _write_identity(place: PlaneFiles, ca: Pair, identity: Identity, now: datetime) -> None:
    client = credentials.make_client(ca, identity, now)
    write_kubeconfig(place, identity.name, credentials.certificate_user(client))


def _write(place: PlaneFiles, name: str, content: bytes) -> None:
    path = place.pki(name)
    path.touch(mode=0o600)
    path.write_bytes(content)


def _kubelet_callers() -> dict[str, object]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "kube-apiserver-kubelet-client"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "system:kubelet-api-admin",
        },
        "subjects": [
            {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": credentials.KUBELET_CLIENT.name}
        ],
    }
