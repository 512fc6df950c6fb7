"""What an agent is given from outside: the policy, the public keys, and the renewal of its credential.

Shell.
"""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Final

from router.agent.leader import serving
from router.agent.settings import AgentSettings
from router.agent.submission.submitting import Keys
from router.certs import files
from router.errors import ConfigError
from router.kube.client import connect
from router.kube.renewal import Renewal
from router.placement import signing
from router.policy.model import Policy
from router.startup.policyconfigmap import PolicyConfigMap
from router.startup.policyfiles import PolicyStore
from router.startup.policysource import PolicySource

log: Final = logging.getLogger("batchgate.agent")

_POLICY_PAUSE: Final = 0.2


def renewal(settings: AgentSettings) -> Renewal | None:
    """What renews the agent's token, begun: it may end while the agent waits for a policy. Raises ConfigError."""
    if not settings.renew_token:
        return None
    from router.kube.credentials import token_file  # noqa: PLC0415 - the import takes most of a second

    file = token_file(settings.kubeconfig)
    if file is None:
        raise ConfigError(
            f"--renew-token: the user of kubeconfig {settings.kubeconfig or 'of this Pod'} has no tokenFile to renew"
        )
    found = Renewal(connect(settings.kubeconfig), file, settings.renew_token)
    found.start()
    return found


def policy(settings: AgentSettings, stopping: threading.Event) -> tuple[PolicySource, Policy | None]:
    """Where the policy comes from, and the first one; None if the agent was stopped before there was one.

    Files must be valid. A ConfigMap is waited for, as it may be installed after the agent. Raises ConfigError.
    """
    if not settings.policy_configmap:
        store = PolicyStore(settings.policy, on_reload=_reloaded)
        return store, store.load()
    found = PolicyConfigMap(
        connect(settings.kubeconfig), settings.namespace, settings.policy_configmap, on_reload=_reloaded
    )
    found.start()
    with serving.waiting(settings.metrics, lambda: f"waits for the policy: {found.error or 'the API server'}"):
        while found.policy is None and found.alive and not stopping.wait(_POLICY_PAUSE):
            found.check()
    if not found.alive:
        raise ConfigError(f"{found.place} cannot be followed; the log tells why")
    return found, found.policy


def _reloaded(store: PolicySource) -> None:
    if store.error and store.policy is None:
        log.warning("waiting for the policy", extra={"fields": {"error": store.error}})
    elif store.error:
        fields = {"source": store.name, "error": store.error}
        log.error("reload failed; the last good one stays in force", extra={"fields": fields})
    else:
        log.info("reloaded", extra={"fields": {"source": store.name}})


def read_keys(path: Path) -> Keys:
    """The public keys of a file by their ids. Raises ConfigError."""
    try:
        return signing.load_public(files.read(path, "the public key"))
    except ConfigError as error:
        raise ConfigError(str(error) if str(path) in str(error) else f"public key {path}: {error}") from None
