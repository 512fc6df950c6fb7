"""Compares the agent's policy with that of the webhook's replicas, and shows both on the Nodes.

Pure: ``verdict``. Shell (a thread): reads what the replicas publish. A ConfigMap that is mounted into the webhook's Pods
reaches them within about a minute, so only a difference that lasts is shown.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Final

from router import names
from router.agent.nodes.objects import Condition
from router.background.loop import Loop
from router.errors import ApiError
from router.kube.client import Api
from router.policy import inforce
from router.policy.inforce import InForce

log: Final = logging.getLogger("batchgate.agent")

SECONDS: Final = 10.0
PATIENCE_SECONDS: Final = 180.0
"""Time for which a difference must last: kubelets bring a ConfigMap within a minute or two, one after the other."""
_ADVICE: Final = "roll the same policy out to both (docs/policies.md)"


def verdict(own: str, told: Mapping[str, InForce], lasted: float, patience: float) -> Condition | None:
    """The Nodes' condition; None while a difference is younger than ``patience``.

    :param own: the digest of the agent's policy
    :param told: what the webhook's replicas say, by their names
    :param lasted: seconds for which there was a difference
    """
    kind = names.CONDITION_POLICY_DIFFERS
    if not told:
        return Condition(
            kind, "Unknown", "WebhookSilent", "no replica of the webhook says which policy it has in force"
        )
    words = inforce.difference(own, told)
    if not words:
        return Condition(kind, "False", "Same", f"agent and webhook have policy {inforce.shown(own)} in force")
    return Condition(kind, "True", "Differs", f"{words}; {_ADVICE}") if lasted >= patience else None


class PolicyComparison:
    """Compares again and again; ``start`` it while leading, ``stop`` it in the end.

    :param own: the digest of the agent's policy
    :param show: takes this digest and, if it is known, the Nodes' condition
    """

    def __init__(
        self,
        api: Api,
        namespace: str,
        own: Callable[[], str],
        show: Callable[[str, Condition | None], None],
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self._api = api
        self._path = f"/api/v1/namespaces/{namespace}/configmaps/{names.POLICY_STATE_CONFIG_MAP}"
        self._own = own
        self._show = show
        self._patience = patience
        self._since: float | None = None
        self._status = ""
        self._problem = ""
        self._loop = Loop("policy comparison", self._turn)

    @property
    def alive(self) -> bool:
        """Whether its thread runs."""
        return self._loop.alive

    def start(self) -> None:
        """Start the thread, which compares at once."""
        self._loop.start()

    def stop(self) -> None:
        """Stop the thread."""
        self._loop.stop()

    def look(self) -> None:
        """Compare once. Raises ApiError."""
        own = self._own()
        self._show(own, None)
        found = self._api.find(self._path) or {}
        told = inforce.replicas(found.get("data") or {}, time.time())
        now = time.monotonic()
        differs = bool(inforce.difference(own, told))
        self._since = (self._since if self._since is not None else now) if differs else None
        condition = verdict(own, told, 0.0 if self._since is None else now - self._since, self._patience)
        if condition is not None:
            self._show(own, condition)
            self._tell_status(condition)

    def _turn(self) -> float:
        try:
            self.look()
        except ApiError as error:
            self._tell(str(error))
        else:
            self._tell("")
        return SECONDS

    def _tell_status(self, condition: Condition) -> None:
        if condition.status != self._status and "True" in (condition.status, self._status):
            level = logging.ERROR if condition.status == "True" else logging.INFO
            log.log(level, "policy of agent and webhook", extra={"fields": {"words": condition.message}})
        self._status = condition.status

    def _tell(self, problem: str) -> None:
        if problem and problem != self._problem:
            log.warning("the webhook's policy cannot be read", extra={"fields": {"error": problem}})
        self._problem = problem
