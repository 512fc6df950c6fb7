"""A running control plane, as tests and the demo use it.

Shell: runs kubectl, ends and starts components.
"""

from __future__ import annotations

import functools
import http
import http.client
import json
import os
import signal
import ssl
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import yaml

from router.certs.issuing import Pair
from router.controlplane import credentials
from router.controlplane.arguments import ADDRESS, PlaneFiles
from router.controlplane.credentials import Identity
from router.controlplane.options import APISERVER, CONTROLLER_MANAGER, ETCD, SCHEDULER, Options
from router.controlplane.processes import Component, Keeper
from router.controlplane.programs import Programs
from router.errors import ConfigError

READY_SECONDS: Final = 180.0
"""How long a component may take to be ready: 3 seconds on an idle machine, more on a busy one."""
KUBECTL_SECONDS: Final = 120.0
_PAUSE: Final = 0.05
_PROBE_SECONDS: Final = 10.0


class CommandFailed(ConfigError):
    """A kubectl command ended with an exit code other than 0. ``done`` has its output."""

    def __init__(self, done: subprocess.CompletedProcess[str]) -> None:
        words = " ".join(done.args[1:])
        super().__init__(f"kubectl {words}: exit code {done.returncode}: {(done.stderr or done.stdout).strip()}")
        self.done = done


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """A running etcd, API server, controller-manager and scheduler, on loopback, with files in one directory."""

    place: PlaneFiles
    options: Options
    programs: Programs
    components: Mapping[str, Component]
    keeper: Keeper

    @property
    def directory(self) -> Path:
        """The directory of all files of this plane; deleted when it ends."""
        return self.place.directory

    @property
    def server(self) -> str:
        """The API server's URL, ``https://127.0.0.1:PORT``; it stays the same over restarts."""
        return self.place.server

    @property
    def ca_file(self) -> Path:
        """The CA of the API server, of client certificates and of kubelets' serving certificates; PEM."""
        return self.place.pki("ca.crt")

    def kubeconfig(self, identity: str = credentials.ADMIN.name) -> Path:
        """The kubeconfig of ``admin``, of one of the options' users, or of an identity made with ``certificate``."""
        path = self.place.kubeconfig(identity)
        if not path.exists():
            raise ConfigError(f"the control plane has no identity {identity!r}: there is no {path}")
        return path

    def certificate(self, identity: Identity) -> Path:
        """Make a client certificate for any identity, such as ``credentials.node("x")``; returns its kubeconfig."""
        ca = Pair(self.ca_file.read_bytes(), self.place.pki("ca.key").read_bytes())
        client = credentials.make_client(ca, identity, datetime.now(UTC))
        return write_kubeconfig(self.place, identity.name, credentials.certificate_user(client))

    def service_account(self, namespace: str, name: str, *, hours: int = 24) -> Path:
        """A kubeconfig with a token for an existing service account."""
        token = self.kubectl("create", "token", name, "-n", namespace, f"--duration={hours}h").stdout.strip()
        return write_kubeconfig(self.place, f"system:serviceaccount:{namespace}:{name}", {"token": token})

    def run_kubectl(
        self,
        *words: str,
        user: str = credentials.ADMIN.name,
        stdin: str = "",
        seconds: float = KUBECTL_SECONDS,
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl as this user; any exit code is accepted."""
        return subprocess.run(
            [str(self.programs.kubectl), *words],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
            env=self.environment(user),
        )

    def kubectl(self, *words: str, user: str = credentials.ADMIN.name, stdin: str = "") -> Any:
        """Run kubectl as this user; returns a ``CompletedProcess[str]``. Raises CommandFailed if it fails."""
        done = self.run_kubectl(*words, user=user, stdin=stdin)
        if done.returncode:
            raise CommandFailed(done)
        return done

    def get(self, *words: str, user: str = credentials.ADMIN.name) -> Any:
        """The parsed output of ``kubectl get … -o json``."""
        return json.loads(self.kubectl("get", *words, "-o", "json", user=user).stdout)

    def apply(self, *documents: Any, user: str = credentials.ADMIN.name) -> None:
        """``kubectl apply`` these objects on the server side, which adds no annotation."""
        text = yaml.safe_dump_all(documents)
        self.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", user=user, stdin=text)

    def make_namespaces(self, editors: Mapping[str, Sequence[str]]) -> None:
        """Make namespaces that these groups may edit, and wait until Pods can be made in them."""
        self.apply(*_editing(editors))
        # A Pod is refused until its namespace has its service account.
        for namespace in editors:
            account = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
            await_condition(self.components[CONTROLLER_MANAGER], functools.partial(self._is_there, account))

    def _is_there(self, path: str) -> bool:
        return self.probe(path) == http.HTTPStatus.OK

    def environment(self, user: str = credentials.ADMIN.name) -> dict[str, str]:
        """The environment of this process, with that user's KUBECONFIG and the plane's own kubectl cache."""
        cache = self.directory / "kubectl-cache"
        return {**os.environ, "KUBECONFIG": str(self.kubeconfig(user)), "KUBECACHEDIR": str(cache)}

    def end(self, name: str, number: int = signal.SIGKILL) -> None:
        """End one component (``options.APISERVER``, …), by default like a crash."""
        self.components[name].end(number)

    def start(self, name: str) -> None:
        """Restart an ended component, on the same port with the same data; wait until all running ones are ready."""
        self.components[name].start()
        self.await_ready(*(one for one, component in self.components.items() if component.running))

    def restart(self, name: str, number: int = signal.SIGKILL) -> None:
        """End one component and start it again."""
        self.end(name, number)
        self.start(name)

    def await_ready(self, *names: str) -> None:
        """Wait until these components are ready; without names, all.

        :raises ConfigError: one has ended, or is not ready in time; with the last lines of its log
        """
        for name in names or self.components:
            component = self.components[name]
            await_condition(component, functools.partial(self._ready, name))

    def _ready(self, name: str) -> bool:
        ports = self.place.ports
        match name:
            case str() if name == ETCD:
                return self._status_of_etcd() == http.HTTPStatus.OK
            case str() if name == APISERVER:
                return self.probe("/readyz") == http.HTTPStatus.OK
            case str() if name == CONTROLLER_MANAGER:
                return _healthy(ports.controller_manager)
            case str() if name == SCHEDULER:
                return _healthy(ports.scheduler)
        raise ConfigError(f"the control plane has no component {name}")

    def probe(self, path: str) -> int | None:
        """The status code of a GET as admin; None if the API server is unreachable."""
        return _status(self.place.ports.apiserver, path, self._tls("ca", "admin"))

    def _status_of_etcd(self) -> int | None:
        return _status(self.place.ports.etcd, "/health", self._tls("etcd-ca", "apiserver-etcd-client"))

    def _tls(self, ca: str, client: str) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.place.pki(f"{ca}.crt")))
        context.load_cert_chain(self.place.pki(f"{client}.crt"), self.place.pki(f"{client}.key"))
        return context


def await_condition(component: Component, holds: Callable[[], bool], seconds: float = READY_SECONDS) -> None:
    """Wait until ``holds`` is true. ConfigError with the component's log if the component ends or it takes too long."""
    until = time.monotonic() + seconds
    while not holds():
        code = component.exit_code()
        if code is not None:
            how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
            raise ConfigError(f"{component.name} {how}; the end of its log:\n{component.tail()}")
        if time.monotonic() > until:
            raise ConfigError(f"{component.name} is not ready after {seconds:.0f} s; its log ends:\n{component.tail()}")
        time.sleep(_PAUSE)


def write_kubeconfig(place: PlaneFiles, name: str, user: Mapping[str, Any]) -> Path:
    """Write the kubeconfig of an identity, readable by its owner only."""
    path = place.kubeconfig(name)
    text = yaml.safe_dump(credentials.kubeconfig(place.server, place.pki("ca.crt").read_bytes(), name, dict(user)))
    half = path.with_suffix(f".{os.getpid()}")
    half.touch(mode=0o600)
    half.write_text(text)
    half.replace(path)
    return path


def _editing(namespaces: Mapping[str, Sequence[str]]) -> list[dict[str, Any]]:
    """Namespaces, and RoleBindings that give groups the cluster role ``edit`` in each."""
    objects: list[dict[str, Any]] = []
    for namespace, groups in namespaces.items():
        objects.append({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        subjects = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group} for group in groups]
        objects.append(
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "RoleBinding",
                "metadata": {"name": "editors", "namespace": namespace},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
                "subjects": subjects,
            }
        )
    return objects


def _healthy(port: int) -> bool:
    # These components make self-signed certificates at start; the request holds no secrets.
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return _status(port, "/healthz", context) == http.HTTPStatus.OK


def _status(port: int, path: str, context: ssl.SSLContext) -> int | None:
    connection = http.client.HTTPSConnection(ADDRESS, port, timeout=_PROBE_SECONDS, context=context)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
