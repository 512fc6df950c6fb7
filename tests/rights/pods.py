"""The chart's Pods as processes of this machine, each with its own service account's token.

Shell (processes, files, the API). A process gets the arguments of its container; directories stand for the volumes, and
follow their Secrets and ConfigMaps as a kubelet's do.
"""

from __future__ import annotations

import base64
import json
import os
import re
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from router import names
from router.certs.files import write_all
from router.controlplane import ports
from router.controlplane.plane import ControlPlane, write_kubeconfig
from router.controlplane.processes import Component
from router.kube.client import connect
from tests.volumes import following
from tests.webhook.servers import until

Json = dict[str, Any]

_LISTENING: Final = re.compile(r"(--[a-z-]+)=:\d+")
_SYSTEM: Final = f"/api/v1/namespaces/{names.SYSTEM_NAMESPACE}"
_FOLLOW_SECONDS: Final = 0.5
SYSTEM: Final = ("-n", names.SYSTEM_NAMESPACE)
NODE: Final = "stands-in"
"""The Node of Pods that stand for processes; no kubelet runs there."""


def words_of(
    arguments: Sequence[str], mounts: Mapping[str, Path], values: Mapping[str, str], kubeconfig: Path
) -> list[str]:
    """A container's arguments for this machine: its directories, free ports, and a kubeconfig for ``--in-cluster``.

    :param mounts: the directory for each mount path
    :param values: what stands for ``$(NAME)``
    """
    found = []
    for argument in arguments:
        word = re.sub(r"\$\((\w+)\)", lambda match: values[match[1]], argument)
        word = _LISTENING.sub(r"\1=0.0.0.0:0", word)
        option, _, path = word.partition("=")
        if at := max((at for at in mounts if f"{path}/".startswith(f"{at}/")), key=len, default=""):
            word = f"{option}={mounts[at]}{path.removeprefix(at)}"
        found.append(f"--kubeconfig={kubeconfig}" if word == "--in-cluster" else word)
    return found


@dataclass
class Pods:
    """Runs Pod templates. ``root`` has a short path, as unix sockets lie below it; ``address`` is this machine's."""

    plane: ControlPlane
    root: Path
    address: str
    _volumes: dict[Path, str] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self, name: str, template: Json, *change: tuple[str, str], account: str = "") -> Component:
        """Run the init containers to their end and start the container.

        :param change: a beginning of the container's arguments, and what stands for those that begin so
        :param account: of a process outside the cluster, for which no Pod stands, instead of the template's
        """
        spec = template["spec"]
        places = {volume["name"]: self._place(name, volume) for volume in spec.get("volumes", ())}
        self.sync()
        (container,) = spec["containers"]
        port = 0 if account else self._stand_in(name, template)
        kubeconfig = self._kubeconfig(name, account or spec["serviceAccountName"], in_pod=not account)
        if not account:
            for one in spec.get("initContainers", ()):
                ended(self._started(f"{name}-{one['name']}", one, places, kubeconfig))
        arguments = container["args"]
        for beginning, instead in (("--listen=:8443", f"--listen=0.0.0.0:{port}"), *change):
            arguments = [instead if word.startswith(beginning) else word for word in arguments]
        return self._started(name, {**container, "args": arguments}, places, kubeconfig)

    def _stand_in(self, name: str, template: Json) -> int:
        """Make the Pod that stands for a process; the port that is free for it. Its Service is the chart's."""
        (port,) = ports.free(1, self.address)
        self.plane.kubectl("delete", "pod", name, *SYSTEM, "--ignore-not-found", "--force", "--grace-period=0")
        self.plane.apply(stand_in(template, name, port))
        ready = {"phase": "Running", "podIP": self.address, "podIPs": [{"ip": self.address}]}
        status = {"status": {**ready, "conditions": [{"type": "Ready", "status": "True"}]}}
        words = ("--subresource=status", "--type=merge", "-p", json.dumps(status))
        self.plane.kubectl("patch", "pod", name, *SYSTEM, *words)
        return port

    def _kubeconfig(self, name: str, account: str, *, in_pod: bool) -> Path:
        """With a token of the account, bound to the Pod as a kubelet asks for it."""
        bound = ("--bound-object-kind=Pod", f"--bound-object-name={name}") if in_pod else ()
        token = self.plane.kubectl("create", "token", account, *SYSTEM, "--duration=2h", *bound).stdout.strip()
        return write_kubeconfig(self.plane.place, f"{account}-{name}", {"token": token})

    def _started(self, name: str, container: Json, places: Mapping[str, Path], kubeconfig: Path) -> Component:
        mounts = {mount["mountPath"]: places[mount["name"]] for mount in container.get("volumeMounts", ())}
        words = words_of(container["args"], mounts, {"POD_IP": self.address, "POD_NAME": name}, kubeconfig)
        argv = [sys.executable, "-m", "router", *words]
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.root), "KUBECONFIG": str(kubeconfig)}
        made = Component(name, argv, self.plane.place.logs, environment, self.plane.keeper)
        made.start()
        return made

    def _place(self, pod: str, volume: Json) -> Path:
        """The directory of a volume; those of emptyDirs are the Pod's own, but for state that two Pods share here."""
        if "configMap" in volume or "secret" in volume:
            kind, name = (
                ("configmaps", volume["configMap"]["name"])
                if "configMap" in volume
                else ("secrets", volume["secret"]["secretName"])
            )
            place: Path = self.root / name
            self._volumes[place] = f"{_SYSTEM}/{kind}/{name}"
            return place
        own: Path = self.root / pod.partition(".")[0] / volume["name"]
        own.mkdir(parents=True, exist_ok=True)
        return own

    def sync(self) -> None:
        """Take over what changed, whole directories at once."""
        with self._lock:
            self._sync()

    def _sync(self) -> None:
        api = connect(str(self.plane.kubeconfig()))
        for place, path in list(self._volumes.items()):
            found = api.find(path) or {}
            encoded = "/secrets/" in path
            data = {
                key: base64.b64decode(value) if encoded else value.encode()
                for key, value in (found.get("data") or {}).items()
            }
            if data and (not place.exists() or data != {one.name: one.read_bytes() for one in place.iterdir()}):
                write_all(place, data)

    def following(self) -> AbstractContextManager[None]:
        """Have the volumes follow."""
        return following(self.sync, _FOLLOW_SECONDS)


def ended(process: Component) -> None:
    """Wait for the end of a process, which must be a success."""
    code = until(lambda: None if process.running else (process.exit_code(),))
    assert code == (0,), process.tail()


def listening(process: Component) -> None:
    """Wait until a process says that its first server listens."""

    def said() -> bool:
        assert process.running, process.tail()
        lines = process.log.read_text().splitlines() if process.log.exists() else []
        told = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]
        return any(line["message"] == "listening" for line in told)

    until(said)


def stand_in(template: Json, name: str, port: int) -> Json:
    """A Pod that stands for a process: the API server leads only to addresses of Pods."""
    (container,) = template["spec"]["containers"]
    kept = {key: container[key] for key in ("name", "image", "securityContext") if key in container}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": names.SYSTEM_NAMESPACE,
            "labels": template["metadata"].get("labels", {}),
        },
        "spec": {
            "nodeName": NODE,
            "securityContext": template["spec"]["securityContext"],
            "serviceAccountName": template["spec"]["serviceAccountName"],
            "containers": [{**kept, "ports": [{"name": "https", "containerPort": port}]}],
        },
    }
