"""Which MPI profile of a site a Job is started with, and why not another.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator

from router.site import globs
from router.site.schema import MpiProfile, Site
from router.workload.model import Workload


def profile_of(workload: Workload, site: Site) -> MpiProfile | None:
    """The MPI profile for a Job: the first that matches the MPI container's image.

    For a Job that names no launcher and no ranks, only profiles that say that their images mean MPI.
    """
    return next((profile for profile in site.mpi if _matching(profile, workload) is not None), None)


def reasons(workload: Workload, site: Site) -> tuple[str, ...]:
    """A sentence for each profile of the site, in their order, up to the one that is used: by which pattern, or why not."""
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
    """The first pattern of a profile that matches an image that counts, and that image."""
    if not workload.mpi and not profile.implies_mpi:
        return None
    for image in _images(workload):
        for pattern in profile.images:
            if globs.matches((pattern,), image):
                return pattern, image
    return None


def _images(workload: Workload) -> tuple[str, ...]:
    """The MPI container's image; of a Job that names no launcher those of all that run at once."""
    if workload.mpi:
        return (workload.container(workload.mpi).image,)
    return tuple([container.image for container in workload.main_containers])
