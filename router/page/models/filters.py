"""Which Jobs are listed, as the page's address says it.

Pure. An address can be sent to somebody else, and shows the same there as far as that person may see it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Final

from router.operating.jobs import JobPhase
from router.page.models.rows import JobRow

ROWS: Final = 100
"""Jobs on one page of the list."""
CLOUD: Final = "(cloud)"
"""Stands for the cloud where a site's name is given; no site can have this name."""


@dataclass(frozen=True, slots=True)
class Filters:
    """The filters of one address; empty: all. ``name``: a part of the name. ``mine``: ``1`` or empty."""

    mine: str = ""
    state: str = ""
    site: str = ""
    queue: str = ""
    namespace: str = ""
    rule: str = ""
    name: str = ""
    page: int = 1

    def with_(self, **changes: object) -> Filters:
        """The same with other values; the list begins anew unless a page is given."""
        return replace(self, **{"page": 1, **changes})  # type: ignore[arg-type]

    @property
    def given(self) -> dict[str, str]:
        """The filters that are set, as the query of an address has them."""
        usual = Filters()
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return {key: str(value) for key, value in values.items() if value != getattr(usual, key)}

    @property
    def any(self) -> bool:
        """Whether any Job may be left out."""
        return replace(self, page=1) != Filters()

    def fits(self, row: JobRow, state: JobPhase, user: str) -> bool:
        """Whether a Job is listed. ``user``: whose Jobs are mine."""
        if any(getattr(self, key) not in ("", own) for key, own in values_of(row, state).items()):
            return False
        return (not self.mine or row.is_of(user)) and self.name in row.facts.name


def values_of(row: JobRow, state: JobPhase) -> dict[str, str]:
    """What the filters compare of a Job, by their names."""
    facts = row.facts
    return {
        "state": str(state),
        "site": facts.site or CLOUD,
        "queue": facts.queue,
        "namespace": facts.namespace,
        "rule": row.rule,
    }


def filters_of(query: Mapping[str, str]) -> Filters:
    """The filters of an address. Unknown keys are ignored; a page that is no number is the first."""
    texts = {one.name: query.get(one.name, "").strip() for one in fields(Filters) if one.name != "page"}
    page = query.get("page", "1")
    number = int(page) if page.isdecimal() and page.isascii() and len(page) < 7 else 1
    return Filters(**texts, page=max(1, number))
