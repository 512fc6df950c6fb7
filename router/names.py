"""Names every label, annotation, taint and reason that Batchgate writes or reads.

Pure. Only this module spells keys; all others import them from here, and a test searches the source for strays.
``KEY_*`` are whole keys (prefix and name), as in a manifest.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

PREFIX: Final = "batchgate.dev/"

# --- the record, written by the webhook -----------------------------------------------------------------------
KEY_TARGET: Final = PREFIX + "target"
KEY_SITE: Final = PREFIX + "site"
KEY_QUEUE: Final = PREFIX + "queue"
KEY_RULE: Final = PREFIX + "rule"
KEY_REASON: Final = PREFIX + "reason"
KEY_REPLACED: Final = PREFIX + "replaced"
KEY_SCRIPT: Final = PREFIX + "script"
KEY_REQUESTER: Final = PREFIX + "requester"
KEY_GROUPS: Final = PREFIX + "groups"
"""The requester's groups, a line each, if the policy reads groups: a guard compares them with those of who sends."""
KEY_ACCOUNT: Final = PREFIX + "account"
KEY_SIGNATURE: Final = PREFIX + "signature"
KEY_MANAGED_BY: Final = PREFIX + "managed-by"
"""On a Job that was not judged: its ``spec.managedBy``, which a guard compares with the field that was stored."""
KEY_TRACEPARENT: Final = PREFIX + "traceparent"
"""The review's span, where traces are on and this one is sampled: the spans of the Job's Pods are below it."""

# --- written by the agent on Pods -----------------------------------------------------------------------------
KEY_JOB_ID: Final = PREFIX + "job-id"
KEY_QUEUE_NOW: Final = PREFIX + "queue-now"
KEY_EXIT: Final = PREFIX + "exit"
KEY_RESOURCES_USED: Final = PREFIX + "resources-used"
KEY_NOT_RUN: Final = PREFIX + "not-run"

# --- hints, the only keys that users set ----------------------------------------------------------------------
HINT_WALLTIME: Final = PREFIX + "walltime"
HINT_RANKS: Final = PREFIX + "ranks"
HINT_RANKS_PER_NODE: Final = PREFIX + "ranks-per-node"
HINT_NODES: Final = PREFIX + "nodes"
HINT_LAUNCHER: Final = PREFIX + "launcher"
HINT_RESULTS: Final = PREFIX + "results"
HINT_ROUTE: Final = PREFIX + "route"
LAUNCHER_INSIDE: Final = "inside"
"""The value of ``HINT_LAUNCHER``: the container starts its ranks itself."""
HINTS: Final = frozenset(
    {HINT_WALLTIME, HINT_RANKS, HINT_RANKS_PER_NODE, HINT_NODES, HINT_LAUNCHER, HINT_RESULTS, HINT_ROUTE}
)

RESERVED_LABELS: Final = frozenset({KEY_TARGET, KEY_SITE, KEY_QUEUE})
RESERVED_ANNOTATIONS: Final = frozenset(
    {
        KEY_RULE,
        KEY_REASON,
        KEY_REPLACED,
        KEY_SCRIPT,
        KEY_REQUESTER,
        KEY_GROUPS,
        KEY_ACCOUNT,
        KEY_SIGNATURE,
        KEY_MANAGED_BY,
        KEY_TRACEPARENT,
        KEY_JOB_ID,
        KEY_QUEUE_NOW,
        KEY_EXIT,
        KEY_RESOURCES_USED,
        KEY_NOT_RUN,
    }
)

TARGET_CLOUD: Final = "cloud"
TARGET_HPC: Final = "hpc"

# --- the virtual node -----------------------------------------------------------------------------------------
TAINT_QUEUE: Final = KEY_QUEUE
TAINT_NOT_READY: Final = "node.kubernetes.io/not-ready"
TAINT_UNREACHABLE: Final = "node.kubernetes.io/unreachable"
NODE_SUFFIX: Final = ".batchgate"
NODE_PROVIDER: Final = "batchgate://"
"""Prefix of the providerID of Batchgate's Nodes; ``<site>/<queue>`` follows."""
NODE_KIND: Final = "type=virtual-kubelet"
"""The label that Batchgate's Nodes share with other virtual Nodes."""
NODE_LEASES: Final = "kube-node-lease"
"""The namespace of the Leases that Nodes renew as heartbeats; Kubernetes' own name."""
NODE_POLICY: Final = PREFIX + "policy"
"""The annotation of a Node with the digest of the policy that its agent has in force."""
LABEL_NODES: Final = PREFIX + "nodes"
LABEL_NCPUS: Final = PREFIX + "ncpus-per-node"
LABEL_MEMORY: Final = PREFIX + "mem-per-node"
LABEL_WALLTIME: Final = PREFIX + "walltime-max"
LABEL_NO_BALANCER: Final = "node.kubernetes.io/exclude-from-external-load-balancers"
CONDITION_HPC_UNAVAILABLE: Final = "HPCUnavailable"
CONDITION_ORPHAN_LIMIT: Final = "OrphanLimit"
CONDITION_QUEUE_CLOSED: Final = "QueueClosed"
CONDITION_SITE_REFUSED: Final = "SiteRefused"
CONDITION_MPI_REFUSED: Final = "MPIRefused"
CONDITION_POLICY_DIFFERS: Final = "PolicyDiffers"
CONDITION_CREDENTIAL_ENDING: Final = "CredentialEnding"
CONDITION_SOURCE_BROKEN: Final = "SourceBroken"
REASON_NODE_DELETED: Final = "NodeDeleted"
REASON_NODE_NOT_OURS: Final = "NodeNotOurs"
REASON_NODE_LEFT_OVER: Final = "NodeLeftOver"
REASON_NOT_RUN: Final = "NotRun"

# --- what manifests/ install, and the label by which a namespace opts in or out -----------------------------------
SYSTEM_NAMESPACE: Final = "batchgate-system"
AGENT_ACCOUNT: Final = "batchgate-agent"
"""The account of agents in the cluster, and the name of the roles of every agent."""
SERVICE_ACCOUNT: Final = "system:serviceaccount:"
"""Beginning of a service account's user name, before its namespace, a colon and its own name."""
WEBHOOK_ACCOUNT: Final = "batchgate-webhook"
WEBHOOK: Final = "batchgate-webhook"
"""The name of the webhook's Deployment, and of its Pods in ``app.kubernetes.io/name``, as in ``manifests/webhook``."""
SERVICE: Final = "batchgate"
"""The webhook's Service."""
REGISTRATION: Final = "batchgate"
"""The MutatingWebhookConfiguration, and the ValidatingWebhookConfiguration if there is one."""
WEBHOOK_CA: Final = "batchgate-webhook-ca"
WEBHOOK_ISSUER: Final = "batchgate-webhook-issuer"
"""The Secret of the CA where cert-manager keeps it, which outlives its Certificate."""
WEBHOOK_TLS: Final = "batchgate-webhook-tls"
WEBHOOK_SIGNING: Final = "batchgate-signing-key"
PUBLIC_KEYS_CONFIG_MAP: Final = "batchgate-public-keys"
JOBS_WEBHOOK: Final = "jobs.batchgate.dev"
"""The entry of the registration that judges Jobs."""
REGISTRATION_CONFIG_MAP: Final = "batchgate-registration"
"""The ConfigMap with the registration's webhooks, key ``webhooks.yaml``, as ``certs ensure --activate`` writes them."""
SEEN_BUNDLE: Final = PREFIX + "bundle"
SEEN_SERVED: Final = PREFIX + "served"
SEEN_PUBLISHED: Final = PREFIX + "published"
SEEN_SIGNS: Final = PREFIX + "signs"
MADE_AT: Final = PREFIX + "made-at"
"""Annotations of Secrets: what is in force, and since when it has been seen."""
REQUEST_PREFIX: Final = "batchgate-kubelet-"
"""Prefix of the names of agents' CertificateSigningRequests."""
PUBLIC_KEYS_KEY: Final = "signing.pub"
"""The key of that ConfigMap under which all public keys stand."""
POLICIES_CONFIG_MAP: Final = "batchgate-policies"
"""The ConfigMap with the policy files, which admins make: the webhook's Pods mount it, agents may watch it."""
QUEUES_CONFIG_MAP: Final = "batchgate-queues"
"""The ConfigMap with the state of queues, from agents for the webhook: a document per site, key ``<site>.json``."""
PUBLIC_CONFIG_MAP: Final = "batchgate-public"
"""The ConfigMap with what sites tell everybody, if an admin has made it: a document per site, key ``<site>.json``."""
CHECKS_CONFIG_MAP: Final = "batchgate-checks"
"""The ConfigMap with the findings of ``batchgate site check`` for agents: a document per site, key ``<site>.json``."""
POLICY_STATE_CONFIG_MAP: Final = "batchgate-policy-state"
"""The ConfigMap in which the webhook's replicas say which policy they have in force: a document per replica."""
LABEL_GATE: Final = PREFIX + "gate"
GATE_ENABLED: Final = "enabled"
GATE_DISABLED: Final = "disabled"

# --- Pod conditions that the agent sets and a podFailurePolicy matches ----------------------------------------
CONDITION_WALLTIME: Final = PREFIX + "WalltimeExceeded"
CONDITION_MEMORY: Final = PREFIX + "OutOfMemory"
CONDITION_DELETED: Final = PREFIX + "JobDeleted"
CONDITION_DISRUPTION: Final = "DisruptionTarget"

# --- other conditions of a Pod -----------------------------------------------------------------------------------
CONDITION_SCHEDULED: Final = "PodScheduled"
CONDITION_INITIALIZED: Final = "Initialized"
CONDITION_CONTAINERS_READY: Final = "ContainersReady"
CONDITION_READY: Final = "Ready"
CONDITION_QUEUED: Final = PREFIX + "Queued"
CONDITION_SUSPENDED: Final = "Suspended"
CONDITION_NODE_LOST: Final = "NodeLost"

# --- reasons on Pods and in Events: the kubelet's own words if it has them ------------------------------------------
REASON_QUEUED: Final = "Queued"
REASON_HELD: Final = "Held"
REASON_LEFT_QUEUE: Final = "LeftQueue"
REASON_QUEUE_FULL: Final = "QueueFull"
REASON_HPC_UNAVAILABLE: Final = "HPCUnavailable"
REASON_REQUEUED: Final = "Requeued"
REASON_OLDER_RUN: Final = "WaitingForOlderRun"
REASON_CREATING: Final = "ContainerCreating"
REASON_INITIALIZING: Final = "PodInitializing"
REASON_BACK_OFF: Final = "CrashLoopBackOff"
REASON_CONFIG_ERROR: Final = "CreateContainerConfigError"
REASON_CREATE_CONTAINER: Final = "CreateContainerError"
REASON_ERR_IMAGE_PULL: Final = "ErrImagePull"
REASON_ERR_IMAGE_NEVER_PULL: Final = "ErrImageNeverPull"
REASON_IMAGE_PULL_BACK_OFF: Final = "ImagePullBackOff"
REASON_INVALID_IMAGE_NAME: Final = "InvalidImageName"
REASON_REGISTRY_UNAVAILABLE: Final = "RegistryUnavailable"
PULL_SECRETS_ROLE: Final = "batchgate-pull-secrets"
"""The ClusterRole that lets the agent read pull secrets in namespaces where an admin binds it."""
SECRETS_ROLE: Final = "batchgate-secrets"
"""The same for Secrets that it stages."""
TOKENS_ROLE: Final = "batchgate-tokens"
"""The ClusterRole that lets the agent create tokens of service accounts for Pods."""
REASON_FAILED_MOUNT: Final = "FailedMount"
MOUNT_FAILED: Final = "MountVolume.SetUp failed for volume"
"""How a kubelet's message begins where a volume lacks its object or key."""
REASON_PULLING: Final = "Pulling"
REASON_PULLED: Final = "Pulled"
REASON_POD_COMPLETED: Final = "PodCompleted"
REASON_POD_FAILED: Final = "PodFailed"
REASON_CONTAINERS_NOT_READY: Final = "ContainersNotReady"
REASON_CONTAINERS_NOT_INITIALIZED: Final = "ContainersNotInitialized"
REASON_COMPLETED: Final = "Completed"
REASON_ERROR: Final = "Error"
REASON_MEMORY: Final = "OOMKilled"
REASON_DEADLINE: Final = "DeadlineExceeded"
REASON_CPU_TIME: Final = "CPUTimeExceeded"
REASON_UNKNOWN: Final = "ContainerStatusUnknown"
REASON_REFUSED: Final = "Refused"
REASON_WRONG_USER: Final = "WrongUser"
REASON_SITE_STORAGE: Final = "SiteStorage"
REASON_SITE_REFUSED: Final = "SiteRefused"
REASON_OTHER_RELEASE: Final = "OtherRelease"
REASON_TOO_LARGE: Final = "TooLarge"
REASON_ENV_NAMES: Final = "InvalidEnvironmentVariableNames"
REASON_NOT_VERIFIED: Final = "NotVerified"
REASON_CANCELLED: Final = "Cancelled"
REASON_JOB_DELETED: Final = "JobDeleted"
REASON_JOB_LOST: Final = "JobLost"
REASON_JOB_FAILED: Final = "JobFailed"
REASON_NODE_FAILED: Final = "NodeFailed"
REASON_PREEMPTED: Final = "Preempted"
REASON_FAILED_KILL: Final = "FailedKillPod"
"""A kubelet's reason if it cannot end a Pod's containers."""
REASON_EXEC: Final = "Exec"
REASON_SUBMITTED: Final = "Submitted"
REASON_SITE_REMARK: Final = "SiteRemark"
REASON_MPI_UNKNOWN: Final = "MPIUnknown"
REASON_NODE_HOSTNAME: Final = "NodeHostname"
REASON_UNHEALTHY: Final = "Unhealthy"
REASON_PROBE_WARNING: Final = "ProbeWarning"
REASON_KILLING: Final = "Killing"
REASON_POST_START: Final = "FailedPostStartHook"
REASON_PRE_STOP: Final = "FailedPreStopHook"
REASON_STARTED: Final = "Started"
REASON_SUSPENDED: Final = "Suspended"
REASON_RESUMED: Final = "Resumed"
REASON_NODE_LOST: Final = "NodeLost"
REASON_SITE_FORGOTTEN: Final = "SiteForgotten"
REASON_RESULTS: Final = "ResultsBrought"
REASON_RESULTS_INCOMPLETE: Final = "ResultsIncomplete"

# --- keys of other projects -------------------------------------------------------------------------------------
JOBSET_NAME: Final = "jobset.sigs.k8s.io/jobset-name"
KUEUE_QUEUE_NAME: Final = "kueue.x-k8s.io/queue-name"
COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
CONTROLLER_UID: Final = "batch.kubernetes.io/controller-uid"
JOB_NAME: Final = "batch.kubernetes.io/job-name"
JOB_TRACKING: Final = "batch.kubernetes.io/job-tracking"
CRONJOB_INSTANTIATE: Final = "cronjob.kubernetes.io/instantiate"
"""The annotation that ``kubectl create job --from=cronjob/…`` writes on the Job, with the value ``manual``."""

# --- variables that the agent passes to a batch job -------------------------------------------------------------
ENV_DIR: Final = "BATCHGATE_DIR"

# --- a variable that the agent passes to containers, where traces are on ------------------------------------------
ENV_TRACEPARENT: Final = "TRACEPARENT"
"""The usual name (OpenTelemetry, "Environment Variables as Context Propagation Carriers")."""

_NOT_NODE_NAME = re.compile(r"[^a-z0-9-]+")
_NODE_PART_LENGTH: Final = 63
_LONGEST_LABEL: Final = 63


def node_name(site: str, queue: str) -> str:
    """Name of the virtual node of a queue: ``<queue>.<site>.batchgate``.

    Node names are DNS subdomains (RFC 1123): lower case, ``a-z0-9-``. Characters that only the batch system allows
    become ``-``. A short hash of the true name follows then, so two queues that differ only in such a character get two
    Nodes.
    """
    return f"{_node_part(queue)}.{_node_part(site)}{NODE_SUFFIX}"


def _node_part(name: str) -> str:
    plain = _NOT_NODE_NAME.sub("-", name.lower()).strip("-")[: _NODE_PART_LENGTH - 7].strip("-")
    if plain == name:
        return plain
    digest = hashlib.sha256(name.encode()).hexdigest()[:6]
    return f"{plain}-{digest}" if plain else digest


def node_label(name: str) -> str:
    """A Node's name as the value of its label ``kubernetes.io/hostname``; if it is too long, its start and a hash."""
    if len(name) <= _LONGEST_LABEL:
        return name
    return f"{name[: _LONGEST_LABEL - 7].rstrip('.-')}-{hashlib.sha256(name.encode()).hexdigest()[:6]}"


def agent_account(site: str) -> str:
    """Name of the ServiceAccount of a site's agents outside the cluster, which ``batchgate site add`` makes.

    The guards keep an account of this name to Nodes whose names end in ``.<site>.batchgate``.
    """
    return f"{AGENT_ACCOUNT}-{_node_part(site)}"


def lease_name(site: str) -> str:
    """Name of the Lease that the leader among a site's agents holds."""
    return f"batchgate-{_node_part(site)}"


def site_key(site: str) -> str:
    """The key under which a site's agents write into the ConfigMaps of all agents.

    It ends as the name of their account does, ``agent_account``, so that a guard can compare the two.
    """
    return f"{_node_part(site)}.json"


def is_ours(key: str) -> bool:
    """Whether a label or annotation key is under Batchgate's prefix, or under a subdomain of it."""
    domain = key.partition("/")[0]
    return domain == PREFIX[:-1] or domain.endswith("." + PREFIX[:-1])
