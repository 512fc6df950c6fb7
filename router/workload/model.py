"""Holds what a Job asks for: sizing makes these values, and everything after it reads them.

Pure data, with derived figures. A Workload holds only what the manifest and the cluster's defaults say;
``router.site.allocation`` works out everything that depends on a queue.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Final

from router.values import unchanging
from router.workload.claims import Claim
from router.workload.credentials import PodAccount, SecretRef
from router.workload.extended import Extended
from router.workload.lifecycle import Lifecycle, Restarts
from router.workload.naming import Naming
from router.workload.nodedemand import NodeDemand

MESSAGE_PATH: Final = "/dev/termination-log"
"""Kubernetes' default of ``terminationMessagePath``."""

OWN_CONTROLLER: Final = "kubernetes.io/job-controller"
"""The value of ``spec.managedBy`` that means Kubernetes' own Job controller, like its absence."""


class ContainerKind(StrEnum):
    """The role of a container in its Pod."""

    INIT = "init"
    SIDECAR = "sidecar"  # an init container with restartPolicy: Always
    MAIN = "main"


class GpuVendor(StrEnum):
    """Decides the runtime's flag (``--nv``, ``--rocm``) and the variable that lists devices."""

    NVIDIA = "nvidia"
    AMD = "amd"


@unchanging
class Figure:
    """A number and its origin. ``Figure(0, …)`` is a request, too; without a request there is None instead.

    :param origin: a readable phrase: a field path, or how the number was made from several
    :param path: the field that a user would change, if a single container, the Pod level or the overhead asks for the
        amount; else empty
    :param beside: of a request what the limit is, and of a limit what the request is, if that is another amount: ``the
        limit is 60Gi``; else empty
    """

    value: int
    origin: str
    path: str = ""
    beside: str = ""

    @property
    def aside(self) -> str:
        """`` (the limit is 60Gi)``, or nothing."""
        return f" ({self.beside})" if self.beside else ""


@unchanging
class Sizes:
    """The CPU (millicores) and memory (bytes) of one Pod, by its requests or by its limits; None without either."""

    cpu: Figure | None = None
    memory: Figure | None = None


@unchanging
class EnvVar:
    """One variable. ``value`` is as written; None if it is known only later (ConfigMap, Secret, field of the Pod).

    ``source`` is then the key of its ``valueFrom``: ``secretKeyRef``, ``configMapKeyRef``, ``fieldRef``, ….
    """

    name: str
    value: str | None
    source: str = ""


@unchanging
class Mount:
    """One volumeMount. ``sub_path`` is relative to the volume; empty for the whole volume."""

    volume: str
    path: str
    sub_path: str = ""
    read_only: bool = False


@unchanging
class Launcher:
    """An MPI launcher found in a container's command: ``mpirun -np 8 -x A ./solver input``.

    :param argv: the program that each rank runs, without the launcher and its options. If the launcher was in a shell
        string with expansions, it is ``(shell, "-c", "exec …")``, so that each rank's shell expands them. ``$(VAR)``
        references are left as written
    :param environment: the variables that ``-x``, ``-genv`` or ``env X=y`` set; None as value means "pass it on"
    :param mapping: in the launcher's own words (``ppr:2:node``), or empty
    :param binding: in the launcher's own words (``core``), or empty
    :param time_limit: seconds after which ``timeout`` before it ends it; 0 without
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
    time_limit: int = 0


class Known(StrEnum):
    """In which way the ranks of a launch are known."""

    WRITTEN = "written there"
    VALUES = "from values that are set before"
    UNKNOWN = "known only when it runs"
    NOT_GIVEN = "not given"


@unchanging
class Launch:
    """A place in a container's words that starts an MPI launcher.

    :param program: the launcher as the shell gets it, maybe with its directory
    :param field: of the word, such as ``spec.template.spec.containers[0].args[0]``
    :param line: from 1, in the word, like ``column``, in characters
    :param words: those after the launcher, as far as they are known; None for one that is known only when it runs
    :param known: in which way ``ranks`` are known. With UNKNOWN, ``ranks`` are what is known: there may be more
    :param ranks: as its options say, like ``ranks_per_node``, ``nodes`` and ``cores_per_rank``
    :param unknown: why it may ask for other figures, as a clause that follows its name; else empty
    :param oversubscribes: whether ranks may share cores
    :param hosts: its options that name hosts, each with its value, or None for one that is known only when it runs
    """

    program: str
    field: str
    line: int
    column: int
    words: tuple[str | None, ...] = ()
    known: Known = Known.NOT_GIVEN
    ranks: Figure | None = None
    ranks_per_node: Figure | None = None
    nodes: Figure | None = None
    cores_per_rank: Figure | None = None
    unknown: str = ""
    oversubscribes: bool = False
    hosts: tuple[tuple[str, str | None], ...] = ()

    @property
    def name(self) -> str:
        """The launcher's name, without its directory."""
        return self.program.rpartition("/")[2]

    @property
    def place(self) -> str:
        """Its field, line and column."""
        return f"{self.field}, line {self.line}, column {self.column}"


@unchanging
class Unseen:
    """A place in a container's words behind which a launcher may be, though none is found there.

    :param what: a command that runs a text which lies elsewhere (``bash /cfg/run.sh``), or why the text at this place
        is not read to its end, as a clause that follows "the text"
    """

    what: str
    field: str
    line: int
    column: int

    @property
    def place(self) -> str:
        """Its field, line and column."""
        return f"{self.field}, line {self.line}, column {self.column}"


@unchanging
class Started:
    """What a container's words start, as far as it can be known before they run.

    Without launches, scripts and unread places, the words surely start no launcher themselves.

    :param launches: in the order of their places
    :param scripts: commands that run texts which lie in files, or which are made when they run
    :param unread: places that name a launcher of which it is open whether it runs, and texts that are not read
    :param why: why no launcher is lifted out of the words, as a clause that follows its name
    """

    launches: tuple[Launch, ...] = ()
    scripts: tuple[Unseen, ...] = ()
    unread: tuple[Unseen, ...] = ()
    why: str = ""

    def __bool__(self) -> bool:
        """Whether a launcher is started, or may be."""
        return bool(self.launches or self.scripts or self.unread)


@unchanging
class Container:
    """One container of the Pod template.

    :param path: its field path
    :param command: as written, like ``args``, with ``$(VAR)`` unexpanded; None if the field is absent
    :param env: in the manifest's order
    :param env_from: whether its environment gets further variables from ``envFrom``, known only later
    :param cpu: its own request in millicores
    :param memory: its own request in bytes
    :param started: what its words start beside a lifted launcher; None without a reason to look
    :param starts_ranks: whether a hint says that it starts its ranks itself
    :param secrets: the Secrets of its variables
    :param message_path: the file of its termination message
    :param message_from_log: whether the end of its log replaces a missing message if the container fails
    :param lifecycle: its hooks and probes; None without any
    :param restarts: when it runs again; None where it follows the Pod
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
    started: Started | None = None
    starts_ranks: bool = False
    secrets: tuple[SecretRef, ...] = ()
    message_path: str = MESSAGE_PATH
    message_from_log: bool = False
    lifecycle: Lifecycle | None = None
    restarts: Restarts | None = None


@unchanging
class Volume:
    """One volume. ``kind`` is the name of its source field (``emptyDir``, ``hostPath``, …); ``source`` its value.

    :param claim: what the cluster says of the claim that it names; None if claims are unknown
    """

    name: str
    kind: str
    path: str
    source: Mapping[str, object] = field(default_factory=dict)
    claim: Claim | None = None


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

    Figures are for one Pod, as the scheduler computes them; None without a request.

    :param grace: terminationGracePeriodSeconds
    :param cpu: in millicores, for which a batch job asks: the request, unless a rule's ``figures`` says otherwise
    :param memory: in bytes, like ``ephemeral_storage``; for which a batch job asks: the limit, unless a rule's
        ``figures`` says otherwise
    :param requests: what the scheduler reserves
    :param limits: what the Pod may use; a request stands in for a missing limit
    :param gpus: number of devices
    :param walltime_asked: in seconds
    :param deadline: in seconds; the only limit of the run's time in the cloud
    :param mpi: name of the container that is an MPI program (by its launchers or by hint); else empty
    :param mpi_hinted: whether a hint asks for its ranks
    :param ranks: asked for by hints or launcher, like ``ranks_per_node`` and ``nodes``
    :param nodes_at_least: whether ``nodes`` may be more, where the ranks need more
    :param results_field: the annotation that names ``results``
    :param node_demand: answered for each queue by ``router.site.nodelabels``
    :param extended: answered for each queue by ``router.site.resources``
    :param naming: what the Pod adds to the names that its node knows
    :param shared: paths of fields that ask for a namespace of the node: ``hostNetwork``, ``hostIPC``
    :param privileged: paths of fields that ask for a privileged container
    :param scheduler: the scheduler that the Pod names, unless it is Kubernetes' own; else empty
    :param obstacles: hold for every site; ``router.policy.fit`` judges what only some sites can do
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
    account: PodAccount = PodAccount()
    cpu: Figure | None = None
    memory: Figure | None = None
    requests: Sizes = Sizes()
    limits: Sizes = Sizes()
    ephemeral_storage: Figure | None = None
    gpus: Figure | None = None
    gpu_vendor: GpuVendor | None = None
    walltime_asked: Figure | None = None
    deadline: Figure | None = None
    mpi: str = ""
    mpi_hinted: bool = False
    ranks: Figure | None = None
    ranks_per_node: Figure | None = None
    nodes: Figure | None = None
    results: tuple[str, ...] = ()
    results_field: str = ""
    route: str = ""
    hints: tuple[str, ...] = ()
    kueue_queue: str = ""
    managed_by: str = ""
    cores_per_rank: Figure | None = None
    nodes_at_least: bool = False
    node_demand: NodeDemand = NodeDemand()
    extended: tuple[Extended, ...] = ()
    naming: Naming = Naming()
    shared: tuple[str, ...] = ()
    privileged: tuple[str, ...] = ()
    scheduler: str = ""
    obstacles: tuple[Obstacle, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def pod_path(self) -> str:
        """Of the Pod's spec, such as ``spec.template.spec``."""
        return self.containers[0].path.rpartition(".")[0]

    def container(self, name: str) -> Container:
        """The container of that name. Raises KeyError if there is none."""
        for container in self.containers:
            if container.name == name:
                return container
        raise KeyError(name)

    def asked_in(self, *figures: str) -> str:
        """`` (asked for: where, where)`` with the origins of these figures; empty if the Job asks for none of them."""
        found: list[Figure | None] = [getattr(self, name) for name in figures]
        origins = [figure.path or figure.origin for figure in found if figure is not None]
        return f" (asked for: {', '.join(origins)})" if origins else ""

    @property
    def main_containers(self) -> tuple[Container, ...]:
        """The containers that run after the init containers, in the manifest's order."""
        return tuple(c for c in self.containers if c.kind is ContainerKind.MAIN)
