"""The first screen: what needs somebody, sites and queues, Jobs.

Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from router.operating import releases
from router.operating.overview import overview
from router.operating.policies import sentence
from router.page.models.filters import Filters
from router.page.models.joblist import JobList, job_list
from router.page.models.looking import Sight
from router.page.models.needy import Needy, needy
from router.page.models.sites import SiteCard, site_cards


@dataclass(frozen=True, slots=True)
class FirstScreen:
    """Everything that the first screen shows. ``warnings``: sentences about what is unreadable or does not fit."""

    needy: tuple[Needy, ...]
    sites: tuple[SiteCard, ...]
    jobs: JobList
    policy: str
    releases: str
    warnings: tuple[str, ...]


def first_screen(sight: Sight, filters: Filters) -> FirstScreen:
    """The first screen for a reader's view of the cluster."""
    found = overview(sight.seen())
    return FirstScreen(
        needy=needy(sight, found),
        sites=site_cards(sight, found),
        jobs=job_list(sight, filters),
        policy=sentence(found.policies),
        releases=releases.sentence(found.releases),
        warnings=(*found.problems, *releases.too_far(found.releases)),
    )
