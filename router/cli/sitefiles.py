"""Lists the files in the directories of a Job's Pods on its site, with the caller's own rights there.

Shell (the site's files). It only reads, and runs no commands. For an unreachable site the result is a sentence that
says what an admin can do instead.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from router import policy
from router.errors import BatchgateError, ConfigError
from router.host import Host
from router.host.reach import UserHosts
from router.operating.jobs import JobPhase
from router.operating.story import PodStory, Story
from router.pod import layout
from router.pod.layout import PodDirectory
from router.pod.status import rfc3339
from router.site.schema import Access, Site
from router.site.systems import SYSTEMS
from router.startup.account import caller
from router.startup.policyfiles import read_directory

MOST_FILES: Final = 200
_INNER: Final = (layout.LOG, layout.EXIT)
"""The agent's own directories, whose files are listed too; volumes may hold any number of files."""


@dataclass(frozen=True, slots=True)
class File:
    """One name below a Pod's directory. ``kind``: ``file``, ``directory`` or ``other``; ``size`` in bytes."""

    path: str
    kind: str
    size: int
    modified: str


@dataclass(frozen=True, slots=True)
class OnSite:
    """A Pod's directory. ``problem``: why it could not be read; ``advice``: what an admin can do instead."""

    pod: str
    host: str
    directory: str
    files: tuple[File, ...]
    problem: str
    advice: str


def unseen(story: Story, cluster: str, problem: str, site: Site | None = None) -> tuple[OnSite, ...]:
    """Every Pod's directory, unread, with this problem."""
    return tuple(_not_seen(story, one, cluster, problem, site) for one in story.pods)


def look(story: Story, cluster: str, directory: Path) -> tuple[OnSite, ...]:
    """The files in each Pod's directory. Raises ConfigError for an invalid policy.

    :param cluster: its eight digits, needed to find the directories; empty if unknown
    :param directory: the directory of the policy files
    """
    site = site_in(directory, story.decision.site)
    if site is None:
        return unseen(story, cluster, f"the policy in {directory} has no site {story.decision.site}")
    if not cluster:
        return unseen(story, cluster, "the cluster's id is not known; give it with --cluster-id", site)
    try:
        reach = UserHosts(site, caller(), make=False)
    except ConfigError as error:
        return unseen(story, cluster, str(error), site)
    try:
        return tuple(_look(story, one, cluster, site, reach) for one in story.pods)
    finally:
        reach.close()


def site_in(directory: Path, name: str) -> Site | None:
    """The site of that name in the policy files of a directory. Raises ConfigError for an invalid policy."""
    return next((one for one in policy.load(read_directory(directory)).sites if one.name == name), None)


_BEFORE: Final = frozenset({JobPhase.WAITING, JobPhase.SUSPENDED})


def no_pods(story: Story, directory: Path | None) -> str:
    """A sentence on where the logs of deleted Pods may be."""
    name = story.decision.site
    if story.state in _BEFORE and not story.succeeded + story.failed:
        return "no Pod is there, and none has ended yet"
    if not name:
        return "no Pod is there any more, and their logs went with them"
    if directory is None:
        return "no Pod is there any more; if the site has a resultsDir, logs are there: --policy DIR tells"
    if (site := site_in(directory, name)) is None:
        return f"no Pod is there any more, and the policy in {directory} has no site {name}, whose resultsDir would have logs"
    if site.results_dir is None:
        return f"no Pod is there any more, and site {name} has no resultsDir: their logs went with them"
    return f"no Pod is there any more; what was brought is in {site.results_dir}/{story.namespace}/{story.name}, where the agent runs"


def _look(story: Story, pod: PodStory, cluster: str, site: Site, reach: UserHosts) -> OnSite:
    user = _user(story, site)
    place = _place(story, pod, cluster, site)
    try:
        host = reach.host_of(user, place.work_dir)
        if host.status(place.path) is None:
            return _not_seen(story, pod, cluster, "there is no such directory: it was removed, or never made", site)
        files = tuple(_files(host, place.path))
    except (BatchgateError, OSError) as error:
        words = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return _not_seen(story, pod, cluster, words, site)
    return OnSite(pod.name, site.host, str(place.path), files[:MOST_FILES], "", "")


def _files(host: Host, directory: PurePosixPath) -> Iterator[File]:
    for name in sorted(host.names(directory)):
        yield from _file(host, directory, name)
        if name in _INNER:
            for inner in sorted(host.names(directory / name))[:MOST_FILES]:
                yield from _file(host, directory, f"{name}/{inner}")


def _file(host: Host, directory: PurePosixPath, name: str) -> Iterator[File]:
    found = host.status(directory / name)
    if found is not None:
        yield File(name, found.kind, found.size, rfc3339(found.modified))


def _user(story: Story, site: Site) -> str:
    """The owner of the files; an embedded queue has one user, presumably the caller."""
    if SYSTEMS[site.system].TRAITS.embedded and site.access is Access.OWN:
        return caller()
    return story.decision.user


def _place(story: Story, pod: PodStory, cluster: str, site: Site | None) -> PodDirectory:
    """The directory of a Pod; unknown parts are written as their names in angle brackets."""
    digits = cluster or "<cluster id>"
    if site is None:
        root = f"<workDir>/{story.decision.site}.{digits}"
    else:
        root = layout.site_directory(site.work_dir, _user(story, site), site.name, digits)
    return PodDirectory(root, story.uid, pod.index, pod.uid)


def _not_seen(story: Story, pod: PodStory, cluster: str, problem: str, site: Site | None) -> OnSite:
    path = str(_place(story, pod, cluster, site).path)
    host = site.host if site is not None else ""
    where = f"on {host}" if host not in ("", "local") else "on the machine where the site's agent runs"
    user = story.decision.user or "the HPC user"
    return OnSite(
        pod.name, host, path, (), problem, f"an admin can look {where}, as {user}: ls -lR {shlex.quote(path)}"
    )
