"""Decides how kind runs its nodes here, and gives the words of every command.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final

from kindcluster.commands import KindError
from kindcluster.layout import Layout
from router.names import SYSTEM_NAMESPACE

RELEASE: Final = "bookworm"
MACHINE: Final = "x86_64"
_READY_SECONDS: Final = 180
_LABEL: Final = "io.x-k8s.kind.cluster"
"""kind's label of a node's container; its value is the name of the cluster."""


FIRST_IN_NAMESPACE: Final = (
    ("ip", "link", "set", "lo", "up"),
    ("ip", "route", "replace", "prohibit", "default"),
    ("sysctl", "--quiet", "--write", "net.ipv4.icmp_ratelimit=0"),
)
"""Commands for a new network namespace, from which nothing outside is reached.

Each attempt is answered at once that it is prohibited. Without an answer a client waits half a minute, as CoreDNS did
which asked for the API server a moment before kube-proxy had made its address known.
"""


class Provider(StrEnum):
    """What runs the nodes, in kind's words."""

    DOCKER = "docker"
    """Docker, with the node image that kind's release publishes."""
    PODMAN = "podman"
    """Podman of Debian, in a network namespace of its own, with a node image made here."""


def choose(docker_problem: str, *, root: bool, release: str, machine: str) -> Provider:
    """The provider for this machine. A Docker engine that answers wins.

    :param docker_problem: why Docker cannot be used; empty: it can
    :param release: VERSION_CODENAME of /etc/os-release
    :param machine: the output of ``uname -m``
    :raises KindError: the machine has none
    """
    if not docker_problem:
        return Provider.DOCKER
    if root and (release, machine) == (RELEASE, MACHINE):
        return Provider.PODMAN
    raise KindError(
        f"kind needs a Docker engine, which does not answer here ({docker_problem}), or root on Debian 12 ({RELEASE}) "
        f"on {MACHINE}; this is {'root' if root else 'no root'} on {release or 'no Debian'} on {machine}. "
        "Start Docker, or become root on such a machine"
    )


def inside(layout: Layout, provider: Provider) -> list[str]:
    """The words before a command that talks to the cluster: they lead into its network namespace if it has one."""
    return ["nsenter", f"--net={layout.namespace}", "--"] if provider is Provider.PODMAN else []


def environment(layout: Layout, provider: Provider) -> dict[str, str]:
    """The variables by which kind and the engine find what belongs to this cluster."""
    if provider is Provider.DOCKER:
        return {"KIND_EXPERIMENTAL_PROVIDER": str(provider)}
    return {
        "KIND_EXPERIMENTAL_PROVIDER": str(provider),
        "KIND_EXPERIMENTAL_PODMAN_NETWORK": layout.own,
        "CONTAINERS_CONF": str(layout.containers_conf),
        "CONTAINERS_STORAGE_CONF": str(layout.storage_conf),
    }


def create(layout: Layout, provider: Provider, kind: Path) -> list[str]:
    """The command that makes the cluster and waits until its node is ready."""
    return [
        *(*inside(layout, provider), str(kind), "create", "cluster", "--name", layout.name),
        *("--config", str(layout.configuration), "--kubeconfig", str(layout.kubeconfig)),
        *("--wait", f"{_READY_SECONDS}s"),
    ]


def load(layout: Layout, provider: Provider, kind: Path, archives: Sequence[Path]) -> list[str]:
    """The command that brings archives of images to the nodes."""
    words = [*inside(layout, provider), str(kind), "load", "image-archive", "--name", layout.name]
    return [*words, *map(str, archives)]


def nodes(layout: Layout, provider: Provider) -> list[str]:
    """The command that lists the ids of the nodes' containers, one a line."""
    return [str(provider), "ps", "--all", "--quiet", "--filter", f"label={_LABEL}={layout.name}"]


def states(provider: Provider, containers: Sequence[str]) -> list[str]:
    """The command that shows a state for each of these containers, such as ``running``, one a line."""
    return [str(provider), "container", "inspect", "--format", "{{.State.Status}}", *containers]


def remove(layout: Layout, provider: Provider, containers: Sequence[str]) -> list[str]:
    """The command that ends and removes these containers, with their volumes."""
    # Docker kills at once, while podman would wait for a node to shut down.
    options = ["--force", "--volumes", *(["--time=0"] if provider is Provider.PODMAN else [])]
    return [*inside(layout, provider), str(provider), "rm", *options, *containers]


def kubectl(layout: Layout, provider: Provider, program: Path, words: Sequence[str]) -> list[str]:
    """A kubectl command on the cluster, as its admin."""
    return [*inside(layout, provider), str(program), "--kubeconfig", str(layout.kubeconfig), *words]


def helm(
    layout: Layout, provider: Provider, program: Path, chart: Path, values: Path, further: Mapping[str, str]
) -> list[str]:
    """The command that installs the chart or upgrades what is installed, and waits until it is ready.

    :param further: values beside those of the file, by their paths
    """
    words = [*inside(layout, provider), str(program), "upgrade", "--install", "batchgate", str(chart)]
    where = ["--kubeconfig", str(layout.kubeconfig), "--namespace", SYSTEM_NAMESPACE, "--create-namespace"]
    sets = [word for path, value in further.items() for word in ("--set-string", f"{path}={value}")]
    return [*words, *where, "--values", str(values), *sets, "--wait", "--timeout", f"{_READY_SECONDS}s"]


def version_of(said: str) -> str:
    """Kind's version, such as ``v0.33.0``, from the output of ``kind version``; empty if it says something else."""
    words = said.split()
    return words[1] if len(words) > 1 and words[0] == "kind" else ""
