"""The match condition of a policy, and whether the one that is registered is of this policy.

Pure. The registration is the cluster's MutatingWebhookConfiguration, and a match condition of it an expression without
which the API server does not ask the webhook (kubernetes.io/docs, "Dynamic Admission Control").
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from router import names
from router.policy.inforce import shown

PREFIX: Final = "policy-"
"""Begins the name of every match condition that is made from a policy; the policy's digest follows."""
EVERY_JOB: Final = "true"
"""The expression of a policy that leaves out no Job."""
PLACE: Final = f"MutatingWebhookConfiguration {names.REGISTRATION}"
PATH: Final = f"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/{names.REGISTRATION}"
"""Of the registration, in the API."""


@dataclass(frozen=True, slots=True)
class MatchCondition:
    """What goes into the registration.

    :param name: ``policy-`` and the first digits of the policy's digest
    :param expression: in the API server's CEL, on one line; ``EVERY_JOB`` if no Job can be left out
    :param rules: the rules for which Jobs are sent, in order
    :param reasons: why no Job can be left out, in sentences; empty if some can
    """

    name: str
    expression: str
    rules: tuple[str, ...]
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Registered:
    """A match condition that was made from a policy, as it is registered. ``webhook``: the name of its webhook."""

    webhook: str
    name: str
    expression: str

    def is_of(self, wanted: MatchCondition) -> bool:
        """Whether it sends the Jobs of this policy; its name may be that of an earlier policy with the same expression.

        The chart puts the expression in brackets and adds the Jobs that are sent in any case.
        """
        return self.expression == wanted.expression or self.expression.startswith(f"({wanted.expression}) || (")


def name_of(digest: str) -> str:
    """The name of the match condition of the policy with this digest."""
    return PREFIX + shown(digest)


def registered(registration: Mapping[str, Any] | None) -> tuple[Registered, ...]:
    """The match conditions of a registration that were made from a policy."""
    return tuple(_registered(registration or {}))


def _registered(registration: Mapping[str, Any]) -> Iterator[Registered]:
    for webhook in registration.get("webhooks") or ():
        for one in webhook.get("matchConditions") or ():
            if one["name"].startswith(PREFIX):
                yield Registered(webhook["name"], one["name"], one["expression"])


def misfits(registration: Mapping[str, Any] | None, wanted: MatchCondition) -> tuple[Registered, ...]:
    """The registered match conditions that are of another policy: Jobs that this policy would send may be left out."""
    return tuple(one for one in registered(registration) if not one.is_of(wanted))
