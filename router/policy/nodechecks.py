"""Checks what a site says about the labels of its nodes: labels that cannot be stated or ignored, and directives.

Pure. Yields problems and warnings; raises nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from router.errors import Problem
from router.policy.reading import Placed
from router.site import globs
from router.site.directives import directive_problems
from router.site.nodelabels import ARCH, HOSTNAME, fixed_key
from router.site.schema import NodeValue, Queue, Site

_HARDWARE: Final = (
    "nvidia.com/gpu.product",
    "amd.com/gpu.product-name",
    "feature.node.kubernetes.io/cpu-cpuid.AVX512F",
)
_OLD_ARCH: Final = f"beta.{ARCH}"
_ZONE: Final = "topology.kubernetes.io/zone"
_KEYS: Final = re.compile(r"[A-Za-z0-9-_./*?\[\]!]+", re.ASCII)
"""The characters of globs over keys of labels."""


def check(placed: Placed[Site]) -> Iterator[Problem]:
    """Problems: settings that cannot work."""
    site, spot = placed.value, placed.spot
    for index, queue in enumerate(site.queues):
        for key, values in queue.node_labels.items():
            at = ("queues", index, "nodeLabels", key)
            for problem in _label_problems(key, values):
                yield spot.key_problem(f"nodeLabels: {key}{problem}", *at)
            for value in values:
                for name, text in (value.directives or {}).items():
                    for problem in _directive_problems(site.system, name, text):
                        yield spot.key_problem(f"nodeLabels: {key}: {value.value}: {problem}", *at, value.value, name)
    for index, pattern in enumerate(site.ignore_node_labels):
        for problem in _ignoring_problems(pattern):
            yield spot.problem(f"ignoreNodeLabels: {problem}", "ignoreNodeLabels", index)


def _label_problems(key: str, values: Sequence[NodeValue]) -> Iterator[str]:
    if fixed_key(key):
        yield " is the same on every virtual node; remove it"
    elif key == _OLD_ARCH:
        yield f" is the old name of {ARCH}; write that one, which answers for both"
    elif key == ARCH:
        for one in values:
            if not globs.is_literal(one.value):
                yield f": {one.value!r} is a glob; write which architecture the nodes have"


def _ignoring_problems(pattern: str) -> Iterator[str]:
    if _KEYS.fullmatch(pattern) is None:
        yield f"{pattern!r} matches no label's key; write keys alone, such as {_ZONE}"
    elif globs.is_literal(pattern) and (fixed_key(pattern) or pattern == ARCH):
        yield f"{pattern} says what runs a container, and is never ignored; remove it"


def _directive_problems(system: str, name: str, text: str) -> list[str]:
    if name in ("account", "project"):
        return [f"{name} depends on the user; write it in accounts"]
    return directive_problems(system, {name: text})


def doubts(placed: Placed[Site]) -> Iterator[str]:
    """Warnings: globs that ignore more than they seem to, and labels that Jobs expect to be unique."""
    site, here = placed.value, f"{placed.spot.line}: {placed.spot.where}"
    for pattern in site.ignore_node_labels:
        hit = [key for key in _HARDWARE if not globs.is_literal(pattern) and globs.matches((pattern,), key)]
        if hit:
            yield (
                f"{here}: ignoreNodeLabels: {pattern!r} also matches {hit[0]}, by which Jobs choose hardware; list the keys "
                "that mean nothing, and state hardware with nodeLabels of the queues"
            )
    for queue in site.queues:
        if HOSTNAME in queue.node_labels:
            yield f"{here}: queue {queue.name}: nodeLabels: {HOSTNAME} names single machines, and a queue has several"
        for key, name, wanted, other in _replaced(site, queue):
            yield (
                f"{here}: queue {queue.name}: nodeLabels: {key}: the directive {name} {wanted} replaces {other} of the queue or "
                "site for Jobs that ask for it; write both into it if both must hold"
            )


def _replaced(site: Site, queue: Queue) -> Iterator[tuple[str, str, str, str]]:
    """Directives of labels that replace another value: label, directive, its value there and otherwise."""
    usual = {**site.directives, **queue.directives}
    for key, values in queue.node_labels.items():
        for name, wanted in (pair for value in values for pair in (value.directives or {}).items()):
            if usual.get(name, wanted) != wanted:
                yield key, name, wanted, usual[name]
