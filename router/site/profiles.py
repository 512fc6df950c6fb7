"""Chooses the MPI profile of a site for a Job, and says why.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator

from router.site import globs
from router.site.schema import MpiProfile, Site
from router.workload.model import Workload


def profile_of(workload: Workload, site: Site, *, implied: bool = False) -> MpiProfile | None:
    """The MPI profile for a Job: the first that matches the MPI container's image.

    For a Job without launcher and ranks, only profiles with ``impliesMpi`` count.

    :param implied: whether the rule says that its Jobs are MPI programs; the profile then implies it, too
    """
    profiles = [_implying(profile) for profile in site.mpi] if implied else site.mpi
    return next((profile for profile in profiles if _matching(profile, workload) is not None), None)


def _implying(profile: MpiProfile) -> MpiProfile:
    return profile if profile.implies_mpi else profile.model_copy(update={"implies_mpi": True})


def reasons(workload: Workload, site: Site) -> tuple[str, ...]:
    """A sentence for each profile of the site, in order, up to the used one: which pattern matches, or why none."""
    return tuple(_sentences(workload, site))


def _sentences(workload: Workload, site: Site) -> Iterator[str]:
    images = ", ".join(_images(workload))
    for number, profile in enumerate(site.mpi):
        found = _matching(profile, workload)
        if found is not None:
            pattern, image = found
            yield f"{profile.name} ({profile.launcher}): used, as {pattern!r} matches {image}"
            if left := [other.name for other in site.mpi[number + 1 :]]:
                yield f"not looked at: {', '.join(left)}"
            return
        if not workload.mpi and not profile.implies_mpi:
            yield f"{profile.name} ({profile.launcher}): only for Jobs that name a launcher or ranks (impliesMpi is not set)"
        else:
            patterns = ", ".join([repr(pattern) for pattern in profile.images])
            yield f"{profile.name} ({profile.launcher}): {images} matches none of its images ({patterns})"


def _matching(profile: MpiProfile, workload: Workload) -> tuple[str, str] | None:
    """The first pattern of a profile that matches one of the relevant images, and this image; else None."""
    if not workload.mpi and not profile.implies_mpi:
        return None
    for image in _images(workload):
        for pattern in profile.images:
            if globs.matches((pattern,), image):
                return pattern, image
    return None


def _images(workload: Workload) -> tuple[str, ...]:
    """The relevant images: the MPI container's, or for a Job without launcher those of all main containers."""
    if workload.mpi:
        return (workload.container(workload.mpi).image,)
    return tuple([container.image for container in workload.main_containers])
