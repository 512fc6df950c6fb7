"""The last checks of sites in ``batchgate status``, without a cluster."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from router.cli.cluster import Cluster
from router.cli.status import look
from router.cli.statustroubles import look_at_checks, print_checks
from router.kube.client import Json
from router.operating.troubles import SiteCheck
from router.pod.status import rfc3339
from router.preflight.record import Kept, after, document
from tests.page.objects import Told

CHECKED = "2026-03-01T12:00:00Z"
NEVER = SiteCheck("new", "", "")


@dataclass
class Seeing:
    """A cluster whose record of checks may be read, or not."""

    found: dict[str, Any] | None
    forbidden: bool = False
    system: str = "batchgate-system"
    missed: list[str] = field(default_factory=list)

    def one(self, what: str, path: str) -> dict[str, Any] | None:
        if self.forbidden:
            self.missed.append(f"{what} could not be looked at")
        return self.found


GOOD = {"data": {"old.json": document(after(Kept(), [], ["ada"], CHECKED, whole=True))}}


@pytest.mark.parametrize(
    ("seeing", "site", "expected"),
    [
        (Seeing(GOOD), "", [SiteCheck("old", CHECKED, ""), NEVER]),
        (Seeing(GOOD), "new", [NEVER]),
        (Seeing(GOOD), "old", [SiteCheck("old", CHECKED, "")]),
        (Seeing(None), "", [NEVER, SiteCheck("old", "", "")]),
        (Seeing(None, forbidden=True), "", []),
    ],
)
def test_a_site_that_was_never_checked_is_told(seeing: Any, site: str, expected: list[SiteCheck]) -> None:
    """Only who may read the record can say that a site is not in it."""
    assert list(look_at_checks(seeing, ["new", "old"], site)) == expected


def test_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    print_checks([SiteCheck("bad", CHECKED, "no shell"), SiteCheck("odd", "", "its record is none"), NEVER])

    _, _, *rows = capsys.readouterr().out.splitlines()[1:]
    assert [row.split() for row in rows] == [
        ["bad", CHECKED, "problems"],
        ["odd", "-", "problems"],
        ["new", "never", "-"],
    ]


class Ticking(Told):
    """An API server on which a minute passes with each list."""

    def create(self, path: str, body: Json, seconds: float = 30, **query: object) -> Json:
        return {"metadata": {"creationTimestamp": f"2026-03-01T12:{len(self.asked):02}:00Z"}}


def test_leases_are_judged_by_when_they_were_read() -> None:
    api = Ticking({})

    found = look(Cluster(api, "default", named=False, system="system"))

    lists = [one.rpartition("/")[2] for one in api.asked]
    assert rfc3339(found.judged) == f"2026-03-01T12:{lists.index('jobs'):02}:00Z"
    assert lists.index("leases") == lists.index("jobs") - 1
