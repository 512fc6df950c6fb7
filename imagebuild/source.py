"""Reads what is built from the checkout: version, revision, time.

Shell: asks git.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import router
from imagebuild import commands
from router.startup.release import UNKNOWN, revision

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True, slots=True)
class Source:
    """The source of an image.

    :param revision: the commit, with ``-dirty`` if files differ from it
    :param epoch: the commit's time, in seconds since 1970: the time of every file in the image
    """

    version: str
    revision: str
    epoch: int

    @property
    def created(self) -> str:
        """The time as RFC 3339, which labels need."""
        return datetime.fromtimestamp(self.epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def source() -> Source:
    """The source in this checkout.

    :raises commands.BuildError: this is no checkout of git, or one before its first commit
    """
    found = revision()
    if found == UNKNOWN:
        raise commands.BuildError(
            f"git does not know the commit of {ROOT}, which the image has as its revision and time"
        )
    epoch = commands.run(["git", "-C", ROOT, "log", "-1", "--format=%ct"])
    return Source(router.__version__, found, int(epoch))
