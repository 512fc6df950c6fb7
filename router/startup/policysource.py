"""The policy in force, wherever its files come from.

Shell: knows a clock. ``policyfiles`` reads a directory, ``policyconfigmap`` watches a ConfigMap.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import UTC, datetime

from router.policy.model import CheckedRule, Policy

OnReload = Callable[["PolicySource"], None]


class PolicySource(ABC):
    """The policy in force, which follows its files.

    ``policy`` is the last valid one, None before the first. ``error`` says why the current files are not in force, or
    is empty. ``generation`` counts the policies that came into force, ``failures`` the failed reloads; ``loaded_at`` is
    the time of the last change of policy. Readers need no lock: each attribute is replaced whole, the policy before the
    generation.

    :param on_reload: called after every reload, good or bad, in the thread that found the change
    """

    name = "policy"

    def __init__(self, on_reload: OnReload | None = None) -> None:
        self.policy: Policy | None = None
        self.generation = 0
        self.failures = 0
        self.error = ""
        self.loaded_at: datetime | None = None
        self._on_reload = on_reload

    @property
    def digest(self) -> str:
        """The digest of the policy in force; empty while there is none."""
        return "" if self.policy is None else self.policy.digest

    @property
    def rules(self) -> tuple[CheckedRule, ...]:
        """The rules in force; empty before the first policy."""
        return () if self.policy is None else self.policy.rules

    @property
    def alive(self) -> bool:
        """Whether changes are still found."""
        return True

    @abstractmethod
    def check(self) -> None:
        """Look for a change. Ignores a bad policy's error."""

    def _put_in_force(self, policy: Policy) -> None:
        if self.policy is None or policy.digest != self.policy.digest:
            self.policy = policy
            self.generation += 1
            self.loaded_at = datetime.now(tz=UTC)

    def _reloaded(self) -> None:
        if self._on_reload is not None:
            self._on_reload(self)
