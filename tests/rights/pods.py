"""The chart's Pods as processes of this machine, each with its own service account's token.

Shell (processes, files, the API). A process gets the arguments of its container; directories stand for the volumes, and
follow their Secrets and ConfigMaps as a kubelet's do.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from router import names
from router.certs.files import write_all
from router.controlplane.plane import ControlPlane
from router.controlplane.processes import Component
from router.kube.client import connect
from tests.webhook.servers import until

Json = dict[str, Any]

_LISTENING: Final = re.compile(r"(--[a-z-]+)=:\d+")
_SYSTEM: Final = f"/api/v1/namespaces/{names.SYSTEM_NAMESPACE}"
_FOLLOW_SECONDS: Final = 0.5


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

    def start(self, name: str, spec: Json, *change: tuple[str, str]) -> Component:
        """Run the init containers to their end and start the container.

        :param change: a beginning of the container's arguments, and what stands for those that begin so
        """
        places = {volume["name"]: self._place(name, volume) for volume in spec.get("volumes", ())}
        self.sync()
        for one in spec.get("initContainers", ()):
            ended(self._started(f"{name}-{one['name']}", one, spec, places))
        (container,) = spec["containers"]
        arguments = container["args"]
        for beginning, instead in change:
            arguments = [instead if word.startswith(beginning) else word for word in arguments]
        return self._started(name, {**container, "args": arguments}, spec, places)

    def _started(self, name: str, container: Json, spec: Json, places: Mapping[str, Path]) -> Component:
        mounts = {mount["mountPath"]: places[mount["name"]] for mount in container.get("volumeMounts", ())}
        account = spec.get("serviceAccountName", "default")
        kubeconfig = self.plane.service_account(names.SYSTEM_NAMESPACE, account)
        words = words_of(container["args"], mounts, {"POD_IP": self.address, "POD_NAME": name}, kubeconfig)
        argv = [sys.executable, "-m", "router", *words]
        # Only an init container has no account of its own: it does not call the API server.
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

    @contextlib.contextmanager
    def following(self) -> Iterator[None]:
        """Have the volumes follow."""
        over = threading.Event()

        def follow() -> None:
            while not over.wait(_FOLLOW_SECONDS):
                self.sync()

        thread = threading.Thread(target=follow)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


def ended(process: Component) -> None:
    """Wait for the end of a process, which must be a success."""
    code = until(lambda: None if process.running else (process.exit_code(),))
    assert code == (0,), process.tail()


def listening(process: Component) -> int:
    """The port of a process's first server, once it says it."""

    def port() -> int:
        assert process.running, process.tail()
        lines = process.log.read_text().splitlines() if process.log.exists() else []
        told = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]
        said = [line["address"] for line in told if line["message"] == "listening"]
        return int(said[0].rpartition(":")[2]) if said else 0

    return until(port)


def stand_in(template: Json, name: str, node: str, port: int) -> Json:
    """A Pod that stands for a process: the API server leads only to addresses of Pods. Its Service is the chart's."""
    (container,) = template["spec"]["containers"]
    kept = {key: container[key] for key in ("name", "image", "securityContext") if key in container}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": names.SYSTEM_NAMESPACE, "labels": template["metadata"]["labels"]},
        "spec": {
            "nodeName": node,
            "securityContext": template["spec"]["securityContext"],
            "serviceAccountName": template["spec"]["serviceAccountName"],
            "containers": [{**kept, "ports": [{"name": "https", "containerPort": port}]}],
        },
    }
