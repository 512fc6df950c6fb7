"""What a Job asks for: the values that sizing makes and everything after it reads.

Pure data, no behaviour beyond derived figures. A Workload holds only what the manifest (and the cluster's defaults
for it) says; whatever depends on a queue is in ``router.site.allocation``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Final

from router.values import unchanging

MESSAGE_PATH: Final = "/dev/termination-log"
"""Kubernetes' default of ``terminationMessagePath``."""

OWN_CONTROLLER: Final = "kubernetes.io/job-controller"
"""The value of ``spec.managedBy`` that means Kubernetes' own Job controller, like its absence."""


class ContainerKind(StrEnum):
    """Where a container stands in its Pod's life."""

    INIT = "init"
    SIDECAR = "sidecar"  # an init container with restartPolicy: Always
    MAIN = "main"


class GpuVendor(StrEnum):
    """Decides the runtime's flag (``--nv``, ``--rocm``) and the variable that lists devices."""

    NVIDIA = "nvidia"
    AMD = "amd"


@unchanging
class Figure:
    """A number and where it came from.

    ``origin`` is one readable phrase: a field path, or how the number was made from several. ``path`` is the field that
    a user would change, of an amount that one container, the Pod level or the overhead asks for; else empty.
    "Asked for nothing" is the absence of a Figure (None), never ``Figure(0, …)``.
    """

    value: int
    origin: str
    path: str = ""


@unchanging
class EnvVar:
    """One variable. ``value`` is as written, None where it is known only later (ConfigMap, Secret, field of the Pod).

    ``source`` is then the key of its ``valueFrom``: ``secretKeyRef``, ``configMapKeyRef``, ``fieldRef``, ….
    """

    name: str
    value: str | None
    source: str = ""


@unchanging
class Mount:
    """One volumeMount. ``sub_path`` is relative inside the volume, empty for all of it."""

    volume: str
    path: str
    sub_path: str = ""
    read_only: bool = False


@unchanging
class Launcher:
    """An MPI launcher found in a container's command: ``mpirun -np 8 -x A ./solver input``.

    ``argv`` is the program that each rank runs, without the launcher and its options; where the launcher stood in a
    shell string with expansions, it is ``(shell, "-c", "exec …")`` so that each rank's shell expands them.
    ``$(VAR)`` references in it are left as written. ``environment`` holds what ``-x``, ``-genv`` or ``env X=y`` set: value
    None for "pass it on". ``mapping``, ``binding`` are the launcher's own words (``ppr:2:node``, ``core``) or empty.
    """

    program: str
    argv: tuple[str, ...]
    source: str
    ranks: Figure | None = None
    ranks_per_node: Figure | None = None
    environment: tuple[tuple[str, str | None], ...] = ()
    working_dir: str = ""
    mapping: str = ""
    binding: str = ""
    dropped: tuple[str, ...] = ()
    nodes: Figure | None = None
    cores_per_rank: Figure | None = None


@unchanging
class Container:
    """One container of the Pod template.

    ``path`` is its field path. ``command`` and ``args`` are as written, with ``$(VAR)`` unexpanded, None where the
    field is absent. ``env`` keeps the manifest's order; with ``env_from`` the Pod's environment holds more, known
    later. ``cpu`` in millicores and ``memory`` in bytes are the container's own requests. ``secrets`` are the paths of
    the fields that need a Secret to fill the environment. ``message_path`` is the file of its last word, and
    ``message_from_log`` whether the end of its log stands in for that where it fails.
    """

    name: str
    kind: ContainerKind
    path: str
    image: str
    command: tuple[str, ...] | None = None
    args: tuple[str, ...] | None = None
    env: tuple[EnvVar, ...] = ()
    env_from: bool = False
    working_dir: str = ""
    mounts: tuple[Mount, ...] = ()
    read_only_root: bool = False
    cpu: Figure | None = None
    memory: Figure | None = None
    gpus: Figure | None = None
    launcher: Launcher | None = None
    secrets: tuple[str, ...] = ()
    message_path: str = MESSAGE_PATH
    message_from_log: bool = False


@unchanging
class Volume:
    """One volume. ``kind`` is the name of its source field (``emptyDir``, ``hostPath``, …); ``source`` its value."""

    name: str
    kind: str
    path: str
    source: Mapping[str, object] = field(default_factory=dict)


@unchanging
class Obstacle:
    """A field that keeps the Job out of HPC, and why, as one clause: ``(path, reason)``."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


@unchanging
class Workload:
    """A Job as the gate sees it.

    Figures are per Pod as the scheduler computes them: ``cpu`` millicores, ``memory`` and ``ephemeral_storage``
    bytes, ``gpus`` devices; None means that nothing was asked for. ``walltime_asked`` is seconds, and so is
    ``deadline``, which alone limits it in the cloud. ``grace`` is terminationGracePeriodSeconds. ``mpi`` names the
    container whose command is an MPI program (by launcher or by hint), empty otherwise; ``ranks``, ``ranks_per_node``,
    ``nodes`` are what hints and launcher ask for.
    ``results_field`` is the annotation that names ``results``.
    ``obstacles`` hold for every site; what only some sites can do is judged per site, in ``router.policy.fit``.
    """

    namespace: str
    name: str
    labels: Mapping[str, str]
    containers: tuple[Container, ...]
    volumes: tuple[Volume, ...]
    parallelism: Figure
    completions: Figure | None
    indexed: bool
    suspended: bool
    restart_policy: str
    grace: int
    service_account: str = ""
    cpu: Figure | None = None
    memory: Figure | None = None
    ephemeral_storage: Figure | None = None
    gpus: Figure | None = None
    gpu_vendor: GpuVendor | None = None
    walltime_asked: Figure | None = None
    deadline: Figure | None = None
    mpi: str = ""
    ranks: Figure | None = None
    ranks_per_node: Figure | None = None
    nodes: Figure | None = None
    results: tuple[str, ...] = ()
    results_field: str = ""
    route: str = ""
    hints: frozenset[str] = frozenset()
    kueue_queue: str = ""
    managed_by: str = ""
    pull_secrets: tuple[str, ...] = ()
    cores_per_rank: Figure | None = None
    obstacles: tuple[Obstacle, ...] = ()
    warnings: tuple[str, ...] = ()

    def container(self, name: str) -> Container:
        """The container of that name; KeyError where there is none."""
        for container in self.containers:
            if container.name == name:
                return container
        raise KeyError(name)

    def asked_in(self, *figures: str) -> str:
        """`` (asked for: where, where)`` for those of these figures that the Job asks for; empty for none."""
        found: list[Figure | None] = [getattr(self, name) for name in figures]
        origins = [figure.path or figure.origin for figure in found if figure is not None]
        return f" (asked for: {', '.join(origins)})" if origins else ""

    @property
    def main_containers(self) -> tuple[Container, ...]:
        """The containers that run after the init containers, in the manifest's order."""
        return tuple(c for c in self.containers if c.kind is ContainerKind.MAIN)
