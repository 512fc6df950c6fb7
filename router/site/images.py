"""Decides which file or registry an image comes from on a site.

Pure. Knows only the site's entries: it does not check whether an image exists.
"""

from __future__ import annotations

from router.site import globs
from router.site.schema import Site


def mapped(site: Site, image: str) -> str | None:
    """The site's own file for an image, by the first entry that matches; None if it comes from a registry."""
    for entry in site.images:
        if globs.matches((entry.match,), image):
            return entry.path
    return None


def reference(site: Site, image: str) -> str:
    """The image as the runtime's argument."""
    return mapped(site, image) or f"docker://{image}"


def is_insecure(site: Site, image: str) -> bool:
    """Whether the image comes from a registry that the site lists as speaking plain http."""
    host = host_of(image)
    return bool(host) and mapped(site, image) is None and globs.matches(site.insecure_registries, host)


def host_of(image: str) -> str:
    """The registry in an image's name, with its port, as imagepull and Docker read it; empty if there is none."""
    host, slash, _ = image.partition("/")
    named = slash and ("." in host or ":" in host or host == "localhost" or host != host.lower())
    return host if named else ""
