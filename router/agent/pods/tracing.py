"""Tells the spans of a Pod that is over, once.

Shell (the clock). Telling only puts them into a queue in memory.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from router.agent.records import Record
from router.notation.traces import Span
from router.reconcile.following import concluded
from router.reconcile.spans import spans

TellSpan = Callable[[Span], None]


def tell(tell_span: TellSpan | None, record: Record, siblings: Callable[[], Iterable[Record]], *, over: bool) -> None:
    """Tell the spans of a Pod whose end is stored, unless they were told.

    A Pod to which another program gave a terminal phase may still run: its end is that of its run.

    :param tell_span: None without traces
    :param siblings: see ``Records.siblings``
    :param over: whether nothing of the Pod can run any more
    """
    if tell_span is None or record.traced:
        return
    status = record.facts.pod.status
    if not (concluded(status) or (status.terminal and over)):
        return
    record.traced = True
    for span in spans(record.facts, [one.facts.pod for one in siblings()], time.time()):
        tell_span(span)
