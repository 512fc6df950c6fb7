"""Decides whether two Pod statuses differ only in their messages.

Pure. Knows only Pod statuses.
"""

from __future__ import annotations

from dataclasses import replace

from router.pod.status import ContainerStatus, PodStatus, Waiting


def only_words_differ(one: PodStatus, other: PodStatus) -> bool:
    """Whether two statuses differ, but only in messages."""
    return one != other and _without_words(one) == _without_words(other)


def _without_words(status: PodStatus) -> PodStatus:
    return replace(
        status,
        message="",
        conditions=tuple(replace(one, message="") for one in status.conditions),
        init_containers=tuple(_silent(one) for one in status.init_containers),
        containers=tuple(_silent(one) for one in status.containers),
    )


def _silent(one: ContainerStatus) -> ContainerStatus:
    return replace(one, state=Waiting(one.state.reason)) if isinstance(one.state, Waiting) else one
