"""Defines the keys of a policy file that describe a site, with types and limits: one frozen model each.

Pure. After validation, times are whole seconds and sizes whole bytes, in whatever units they were written. Unknown keys
are errors. ``router.policy.schema`` defines the keys of rules.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, WithJsonSchema
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from router.notation import durations, quantity
from router.site.systems import SYSTEMS
from router.workload.model import GpuVendor
from router.workload.nodelabels import KEY


def _seconds(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError("is not a duration; write 5400, 1:30:00 or 1h30m")
    return durations.seconds(str(value))


def _bytes(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError("is not a size; write 64Gi")
    return quantity.units(value)


def _known(value: object) -> object:
    if not isinstance(value, str) or value not in SYSTEMS:
        *others, last = (repr(name) for name in SYSTEMS)
        raise PydanticCustomError("enum", "is no batch system", {"expected": f"{', '.join(others)} or {last}"})
    return value


Seconds = Annotated[int, BeforeValidator(_seconds, json_schema_input_type=str | int)]
Bytes = Annotated[int, BeforeValidator(_bytes, json_schema_input_type=str | int)]
Name = Annotated[
    str, StringConstraints(min_length=1, max_length=63, pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$")
]
# Also the value of a label: Kubernetes wants a letter or digit at both ends of it, at most 63 characters.
QueueName = Annotated[
    str, StringConstraints(min_length=1, max_length=63, pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$")
]
Text = Annotated[str, StringConstraints(min_length=1, max_length=4096)]
UserName = Annotated[str, StringConstraints(pattern=r"^[a-z_][a-z0-9_.-]{0,31}\$?$")]
AbsolutePath = Annotated[str, StringConstraints(pattern=r"^/[^\x00-\x1f]*$", max_length=4096)]
SearchedDirectory = Annotated[str, StringConstraints(pattern=r"^/[^\x00-\x1f:]*$", max_length=4096)]
ApiServer = Annotated[
    str, StringConstraints(pattern=r"^https://([A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\])(:[0-9]{1,5})?$", max_length=300)
]
Flag = Annotated[bool, Field(strict=True)]
Count = Annotated[int, Field(ge=0, strict=True)]
Positive = Annotated[int, Field(ge=1, strict=True)]


System = Annotated[str, BeforeValidator(_known), WithJsonSchema({"type": "string", "enum": list(SYSTEMS)})]


class Entry(BaseModel):
    """Base of every entry: frozen, camelCase keys, no unknown keys."""

    model_config = ConfigDict(
        defer_build=True, frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True
    )


class Runtime(StrEnum):
    """What runs a container on a site."""

    APPTAINER = "apptainer"
    SINGULARITY = "singularity"
    HOST = "host"


class LauncherKind(StrEnum):
    """MPI launchers whose options the script knows."""

    OPENMPI = "openmpi"
    HYDRA = "hydra"
    INTELMPI = "intelmpi"
    SRUN = "srun"


class Access(StrEnum):
    """How the agent acts for the HPC users of a site."""

    OWN = "own"
    OWN_KEYS = "own-keys"
    SUDO = "sudo"


CommandVariable = Literal["PBS_CONF_FILE", "PBS_SERVER", "PBS_DEFAULT", "SLURM_CONF", "SLURM_CONF_SERVER"]
"""Variables that an admin may set for the batch system's commands. Others change the meaning of a submission, or are
secrets."""

EACH_USER: Final = "each-user"
"""The ``observer`` of a site on which the agent asks the batch system as each of its users."""


class ImageMap(Entry):
    """Images whose name matches run from a file or directory of the site instead of a registry."""

    match: Text = Field(description="Glob over the image as the Job writes it, e.g. 'ghcr.io/lab/*'.")
    path: AbsolutePath = Field(description="SIF file or sandbox directory on the site.")


class VolumeMap(Entry):
    """A volume of a Job that exists on the site under a path. Exactly one of hostPath, nfs, claim, storageClass, csi,
    image.
    """

    host_path: AbsolutePath | None = Field(
        None, description="Directory that hostPath volumes may use, with everything below it."
    )
    nfs: Text | None = Field(None, description="'server:/export' that nfs volumes may use, with everything below it.")
    claim: Text | None = Field(None, description="Glob over 'namespace/claim' of persistentVolumeClaim volumes.")
    storage_class: Text | None = Field(None, description="Glob over the storage class of such a claim.")
    csi: Text | None = Field(
        None, description="Glob over the CSI driver of a csi volume, or of the volume that a claim is bound to."
    )
    attributes: dict[str, Text] = Field(
        default_factory=dict, description="With csi: globs over volume attributes, all of which must match."
    )
    image: Text | None = Field(None, description="Glob over the reference of image volumes; path has the same files.")
    path: AbsolutePath = Field(
        description="The same data on the site. '{namespace}', '{claim}', '{class}', '{volume}', '{handle}' and "
        "'{attributes.KEY}' are filled in."
    )
    read_only: Flag = Field(False, description="Always bind read-only.")


class ResourceMap(Entry):
    """What becomes of an extended resource, or of huge pages. Exactly one of directive, ignore, cloud."""

    match: Text = Field(description="Glob over the resource's name, e.g. 'hugepages-*'.")
    directive: Text | None = Field(
        None,
        description="Directive that asks for it: 'chunk.NAME' (OpenPBS), 'gres' or 'licenses' (Slurm), or another.",
    )
    value: Text = Field("{amount}", description="The directive's value; '{amount}' is filled in.")
    factor: Positive = Field(1, description="Units of the batch system for each of the Job's.")
    per: Annotated[Bytes, Field(ge=1)] = Field(
        1, description="Units of the Job's for each of the batch system's, rounded up: 2Mi for huge pages of that size."
    )
    ignore: Literal[True] | None = Field(None, description="true: it means nothing on HPC.")
    cloud: Text | None = Field(None, description="Keeps the Job in the cloud; the reason, for its user.")


class MpiProfile(Entry):
    """How MPI programs are started on a site. The first profile whose images match is used."""

    name: Name
    launcher: LauncherKind
    path: AbsolutePath | None = Field(
        None, description="The launcher; else looked up in PATH after the modules are loaded."
    )
    images: tuple[Text, ...] = Field(("*",), description="Globs over the image.")
    implies_mpi: Flag = Field(False, description="Jobs with a matching image are MPI Jobs even without a launcher.")
    modules: tuple[Text, ...] = Field((), description="Environment modules of this launcher.")
    options: tuple[Text, ...] = Field((), description="Further options of the launcher.")
    env: dict[str, str] = Field(default_factory=dict, description="Variables for launcher and ranks (UCX_…, FI_…).")
    gpus: Literal["node", "rank"] = Field(
        "node", description="node: each rank sees all GPUs that its node has for the Job; rank: a share of its own."
    )
    binds: tuple[Text, ...] = Field((), description="Further binds for the runtime: 'path' or 'path:path[:ro]'.")


@dataclass(frozen=True, slots=True)
class NodeValue:
    """A value of a label that nodes of a queue have. With ``directives``, the batch system gives a job such nodes."""

    value: str
    directives: Mapping[str, str] | None = None


_NODE_VALUE: Final = re.compile(r"([A-Za-z0-9*?\[]([-A-Za-z0-9_.*?\[\]!]{0,125}[A-Za-z0-9*?\]])?)?", re.ASCII)


def _node_values(value: object) -> object:
    """The values of a label as one list: from a single text, a list, or a mapping of values to directives."""
    if isinstance(value, dict):
        given = list(value.items())
    else:
        given = [(one, None) for one in (value if isinstance(value, list) else [value])]
    if not given:
        raise ValueError("has no values; leave the label out if the queue's nodes lack it")
    return tuple([_node_value(one, directives, chosen=isinstance(value, dict)) for one, directives in given])


def _node_value(value: object, directives: object, *, chosen: bool) -> NodeValue:
    if value is None:
        raise ValueError(
            "has no value; write '' for the empty one, or leave the label out if the queue's nodes lack it"
        )
    if isinstance(value, dict):
        raise ValueError("has a mapping in a list; write one mapping for all values, as {a: {}, b: {constraint: b}}")
    if not isinstance(value, str):
        shown = str(value).lower() if isinstance(value, bool) else value
        raise ValueError(f"has {shown}, which is no text; put it in quotes")
    if _NODE_VALUE.fullmatch(value) is None:
        raise ValueError(f"has {value!r}, which is neither a label's value nor a glob over such values")
    if not chosen:
        return NodeValue(value)
    return NodeValue(value, _chosen_by(value, directives))


def _chosen_by(value: str, directives: object) -> dict[str, str]:
    if not isinstance(directives, dict):
        raise ValueError(f"has no mapping of directives behind {value!r}; write {value!r}: {{constraint: a100}}")
    for name, text in directives.items():
        if not isinstance(text, str):
            raise ValueError(f"has {text} for {name} behind {value!r}, which is no text; put it in quotes")
    return directives


def _label_key(value: object) -> object:
    if isinstance(value, str) and re.fullmatch(KEY, value, re.ASCII) is None:
        raise ValueError(f"is {value!r}, which is not a label's key")
    return value


LabelKey = Annotated[str, BeforeValidator(_label_key), StringConstraints(pattern=f"^{KEY}$", max_length=317)]
NodeValues = Annotated[
    tuple[NodeValue, ...],
    BeforeValidator(_node_values, json_schema_input_type=str | list[str] | dict[str, dict[str, str] | None]),
]


class Queue(Entry):
    """A queue, which is one virtual node."""

    name: QueueName
    nodes: Positive = Field(description="Nodes that one job may use.")
    cpus_per_node: Positive = Field(description="Cores of one node.")
    memory_per_node: Bytes | None = Field(None, description="Memory of one node; not limited if unset.")
    gpus_per_node: Count = Field(0, description="GPUs of one node.")
    gpu_vendor: GpuVendor | None = Field(None, description="nvidia or amd; any if unset.")
    walltime_default: Seconds | None = Field(None, description="Walltime of Jobs that ask for none; else 1h.")
    walltime_max: Seconds | None = Field(
        None, description="Longest walltime; what a Job asks for and its grace period together must fit."
    )
    node_labels: dict[LabelKey, NodeValues] = Field(
        default_factory=dict,
        description="Labels that Jobs may ask of its nodes: a value or glob; a list if nodes differ; or a mapping of "
        "values to the directives that choose such nodes.",
    )
    resources: tuple[ResourceMap, ...] = Field((), description="Before those of the site.")
    directives: dict[str, str] = Field(default_factory=dict, description="Further directives of the batch system.")


class Site(Entry):
    """One batch system reached through one host."""

    name: Name
    system: System
    host: Text = Field("local", description="'local', or 'ssh://host' of a login node.")
    access: Access = Field(
        Access.OWN,
        description="own: one HPC user, as whom the agent runs or logs in; own-keys: a key for each HPC user; sudo.",
    )
    observer: UserName = Field(
        EACH_USER,
        description="The account that may see all users' jobs and is used only for this; or each-user.",
    )
    known_hosts: AbsolutePath | None = Field(
        None, description="The file with the login node's host keys, on the agent's machine; needed with ssh."
    )
    keys: AbsolutePath | None = Field(
        None,
        description="The agent's private key; for own-keys the directory of one key per HPC user. Else its ssh agent.",
    )
    helper: AbsolutePath = Field(
        "/usr/local/libexec/batchgate/sitehelper", description="The site helper, where the admin installed it."
    )
    command_path: tuple[SearchedDirectory, ...] = Field(
        (), description="Directories of the batch system's commands, on the site; searched before the usual ones."
    )
    command_env: dict[CommandVariable, Text] = Field(
        default_factory=dict, description="Where these commands find their configuration and server."
    )
    time_zone: Text = Field("UTC", description="The site's time zone, for rules, e.g. 'Europe/Berlin'.")
    work_dir: AbsolutePath = Field(description="Directory for Pods' files, on the site; '{user}' is the HPC user.")
    runtime: Runtime = Runtime.APPTAINER
    runtime_path: AbsolutePath | None = Field(None, description="The runtime; else looked up in PATH.")
    runtime_options: tuple[Text, ...] = Field((), description="Further options of the runtime.")
    runtime_version: Annotated[str, StringConstraints(pattern=r"^\d+(\.\d+)*$")] | None = Field(
        None, description="If it is older than 1.1, environment values are escaped for it."
    )
    modules: tuple[Text, ...] = Field((), description="Environment modules to load first.")
    pre: tuple[str, ...] = Field((), description="Shell lines of the site (admins' code), run before the containers.")
    post: tuple[str, ...] = Field((), description="Shell lines of the site (admins' code), run after the containers.")
    images: tuple[ImageMap, ...] = ()
    volumes: tuple[VolumeMap, ...] = ()
    resources: tuple[ResourceMap, ...] = Field((), description="What becomes of extended resources and huge pages.")
    gpu_resources: dict[str, GpuVendor] = Field(default_factory=dict, description="Further resources that are GPUs.")
    gpus: Literal["constrained", "exclusive", "refuse"] = Field(
        "constrained",
        description="constrained: the batch system hides other Jobs' devices; exclusive: ask for whole nodes; refuse.",
    )
    mpi: tuple[MpiProfile, ...] = ()
    memory_floor: Bytes | None = Field(
        None, description="Least memory of a job on each node; 0 for none. Unset: 512Mi on TORQUE, none elsewhere."
    )
    margin: Seconds = Field(300, description="Time between the end of the grace period and the walltime.")
    pull: Literal["host", "job", "never"] = Field(
        "host", description="Who pulls images: the host before submission, the job itself, or nobody."
    )
    imagepull: AbsolutePath = Field(
        "/usr/local/libexec/batchgate/imagepull", description="The program that finds and pulls images, on the site."
    )
    image_cache: AbsolutePath | None = Field(
        None, description="Directory for pulled images, one for each user by '{user}'; else images below workDir."
    )
    secrets: Literal["stage", "pull", "cloud"] = Field(
        "cloud",
        description="Stage Secrets into the Pod's directory; give only pull secrets to imagepull; or keep Jobs that need "
        "one in the cloud.",
    )
    tokens: Literal["stage", "cloud"] = Field(
        "cloud", description="The same for service account tokens; stage needs apiServer."
    )
    api_server: ApiServer | None = Field(
        None, description="The cluster's API server as nodes reach it, 'https://host:port', for programs with a token."
    )
    need_tokens: tuple[Text, ...] = Field(
        (), description="Globs over 'namespace/name' of service accounts whose Jobs need a token."
    )
    exec: Literal[False, True, "ssh"] = Field(
        False,
        description="Whether kubectl exec and attach reach running containers, as their HPC user: by the batch system's "
        "own way to the node, or by ssh from where its commands run.",
    )
    fs_delay: Seconds = Field(120, description="How long the shared file system may hide new names.")
    min_interval: Annotated[Seconds, Field(ge=1, le=3600)] = Field(
        1,
        description="Least time between two looks at the batch system; overrides shorter times in the agent's options.",
    )
    insecure_registries: tuple[Text, ...] = Field((), description="Registries that are asked over plain http.")
    writable: Literal["tmpfs", "overlay", "none"] = Field(
        "tmpfs", description="Where a container's writes outside volumes go."
    )
    ignore_privileged: tuple[Text, ...] = Field(
        (), description="Globs over namespaces whose privileged containers run here without privileges."
    )
    ignore_schedulers: tuple[Text, ...] = Field(
        (), description="Globs over schedulers of the cluster that mean nothing here: the batch system places Jobs."
    )
    log_limit: Bytes = Field(10 * 1024**3, description="Largest log file of a container.")
    results_dir: AbsolutePath | None = Field(
        None, description="Where the agent collects results and logs; nothing is collected if unset."
    )
    results_limit: Bytes = Field(10 * 1024**3, description="Most bytes that are collected of one Pod, logs included.")
    results_files: Positive = Field(10_000, description="Most files that are collected of one Pod.")
    results_reserve: Bytes = Field(1024**3, description="Bytes that stay free on the file system of resultsDir.")
    keep: Seconds = Field(
        7 * 86400, description="How long a Pod's directory stays on the site after the last sign of life in it."
    )
    ignore_node_labels: tuple[Text, ...] = Field(
        (), description="Globs over keys of node labels that mean nothing on HPC, e.g. 'topology.kubernetes.io/*'."
    )
    directives: dict[str, str] = Field(default_factory=dict, description="Further directives of the batch system.")
    queues: tuple[Queue, ...] = Field(min_length=1)


Kind = Literal["requests", "limits"]


class Figures(Entry):
    """Which of a Pod's two amounts a batch job asks for. Where a container has only one of them, it is that one."""

    cpus: Kind = Field("requests", description="Cores: by default the requests, as the scheduler reserves them.")
    memory: Kind = Field("limits", description="Memory: by default the limits, as a batch system kills beyond it.")


class Defaults(Entry):
    """Figures for Jobs that do not ask for any."""

    cpus: Positive | None = None
    memory: Bytes | None = None
    walltime: Seconds | None = None
