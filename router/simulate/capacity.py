"""How many nodes the queues of a policy have, as whoever asks says it.

Pure. A policy declares what one job may use of a queue, and so leaves open how many nodes there are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from router.errors import InputError
from router.policy.model import Policy
from router.site.schema import Queue
from router.values import unchanging

_ENTRY: Final = re.compile(
    r"(?P<queues>[^=]+)=(?P<nodes>0*[1-9][0-9]{0,6})(x(?P<cores>0*[1-9][0-9]{0,4})(x(?P<gpus>[0-9]{1,4}))?)?", re.ASCII
)
_FORM: Final = "write SITE/QUEUE=NODES, or SITE/QUEUE=NODESxCORES or NODESxCORESxGPUS for what a node has"


@unchanging
class Pool:
    """Nodes that one or more queues share.

    :param queues: as ``site/queue``
    :param cores: of a node, like ``memory`` (bytes; None if unlimited) and ``gpus``
    """

    queues: tuple[str, ...]
    nodes: int
    cores: int
    memory: int | None
    gpus: int

    @property
    def name(self) -> str:
        """For people."""
        return ", ".join(self.queues)


def pools(entries: Sequence[str], policies: Iterable[Policy], hint: str = "") -> tuple[Pool, ...]:
    """The nodes of all queues that a policy may send to or asks about. Raises InputError for what is missing or wrong.

    :param entries: ``site/queue=8``, ``site/a,site/b=8x64x4``
    :param hint: what else is known of the size, as a sentence for the error
    """
    declared = _declared(policies)
    found = tuple([_pool(entry, declared) for entry in entries])
    named = [queue for pool in found for queue in pool.queues]
    if twice := sorted({queue for queue in named if named.count(queue) > 1}):
        raise InputError(f"--capacity: names queue {twice[0]} twice; give each queue once")
    if missing := [queue for queue in declared if queue not in named]:
        raise InputError(_asking(missing, declared, hint))
    return found


def _declared(policies: Iterable[Policy]) -> Mapping[str, Queue]:
    """The queues that a rule may choose, or whose state a condition reads."""
    found: dict[str, Queue] = {}
    for policy in policies:
        for rule in policy.rules:
            found |= {f"{one.site.name}/{one.queue.name}": one.queue for one in rule.candidates}
            for key in rule.condition.queues & policy.queues.keys():
                site, queue = policy.queues[key]
                found[f"{site.name}/{queue.name}"] = queue
            if "queues" in rule.condition.whole:
                found |= {f"{site.name}/{queue.name}": queue for site, queue in policy.queues.values()}
    return found


def _pool(entry: str, declared: Mapping[str, Queue]) -> Pool:
    match = _ENTRY.fullmatch(entry)
    if match is None:
        raise InputError(f"--capacity {entry}: is no size of a queue; {_FORM}")
    names = tuple(name.strip() for name in match["queues"].split(","))
    for name in names:
        if name not in declared:
            known = ", ".join(declared) or "none"
            raise InputError(
                f"--capacity {entry}: no rule sends Jobs to a queue {name}, or reads its state; the queues of rules are: {known}"
            )
    queues = [declared[name] for name in names]
    memory = [queue.memory_per_node for queue in queues if queue.memory_per_node is not None]
    cores = int(match["cores"]) if match["cores"] else max(queue.cpus_per_node for queue in queues)
    gpus = int(match["gpus"]) if match["gpus"] else max(queue.gpus_per_node for queue in queues)
    return Pool(names, int(match["nodes"]), cores, max(memory, default=None), gpus)


def _asking(missing: Sequence[str], declared: Mapping[str, Queue], hint: str) -> str:
    given = " ".join(f"--capacity {name}={declared[name].nodes}" for name in missing)
    return (
        f"how many nodes has {', '.join(missing)}? The policy's key nodes says only what one job may use. "
        f"Give its size, such as: {given} (queues that share nodes: --capacity SITE/A,SITE/B=NODES).{hint}"
    )
