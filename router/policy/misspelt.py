"""Finds the key that was meant by one that a policy does not know.

Pure. In this order: the same letters, a usual word for the key, a key of another kind of entry, a close match, all keys.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from typing import Final

from pydantic import BaseModel

from router.policy.schema import Account, Choice, Rule
from router.site.schema import MpiProfile, Queue, Site

_CLOSE: Final = 0.7
"""How alike two keys must be (difflib): under 0.65, ``cores`` would be taken for ``nodes``."""
_USUAL: Final[Mapping[str, tuple[str, ...]]] = {
    "condition": ("when",),
    "cores": ("cpusPerNode",),
    "coresPerNode": ("cpusPerNode",),
    "cpus": ("cpusPerNode",),
    "gpus": ("gpusPerNode",),
    "if": ("when",),
    "labels": ("nodeLabels",),
    "match": ("when", "images"),
    "maxNodes": ("nodes",),
    "mem": ("memoryPerNode",),
    "memory": ("memoryPerNode",),
    "ncpus": ("cpusPerNode",),
    "partition": ("name",),
    "qos": ("directives",),
    "queue": ("hpc", "queues"),
    "queues": ("hpc",),
    "retry": ("retries",),
    "runAs": ("as",),
    "sites": ("site",),
    "target": ("hpc",),
    "then": ("hpc",),
    "time": ("walltimeMax",),
    "timeLimit": ("walltimeMax",),
    "user": ("users", "as"),
    "walltime": ("walltimeMax",),
}
"""Words that people write, with the keys that they mean: the first that the entry has counts."""
_KINDS: Final[Mapping[str, type[BaseModel]]] = {
    "a site": Site,
    "a queue": Queue,
    "an MPI profile": MpiProfile,
    "an account": Account,
    "a rule": Rule,
    "an entry of hpc": Choice,
}


def keys(model: type[BaseModel] | None) -> list[str]:
    """The keys of an entry's model, as they are written."""
    return [info.alias or name for name, info in model.model_fields.items()] if model is not None else []


_OWNERS: Final = {
    key: [kind for kind, model in _KINDS.items() if key in keys(model)]
    for model in _KINDS.values()
    for key in keys(model)
}


def nearest(key: str, known: Collection[str]) -> str:
    """``; did you mean …?``, or whose key it is, or else a list of the known keys."""
    if found := _same_letters(key, known) or _usual(key, known):
        return f"; did you mean {found!r}?"
    owners = _OWNERS.get(key, [])
    if len(owners) == 1:
        return f"; it is a key of {owners[0]}"
    if near := difflib.get_close_matches(key, known, n=1, cutoff=_CLOSE):
        return f"; did you mean {near[0]!r}?"
    return f"; there are {', '.join(known)}"


def _same_letters(key: str, known: Collection[str]) -> str:
    folded = _folded(key)
    return next((one for one in known if _folded(one) in (folded, f"{folded}s", folded.removesuffix("s"))), "")


def _usual(key: str, known: Collection[str]) -> str:
    folded = _folded(key)
    meant = next((found for word, found in _USUAL.items() if _folded(word) == folded), ())
    return next((one for one in meant if one in known), "")


def _folded(key: str) -> str:
    return key.lower().replace("_", "").replace("-", "")
