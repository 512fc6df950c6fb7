"""Which file or registry an image comes from on a site.

Pure. Knows the site's entries alone: no file is looked at and no registry asked, so whether the image is there is not
known here.
"""

from __future__ import annotations

from router.site import globs
from router.site.schema import Site


def mapped(site: Site, image: str) -> str | None:
    """The site's own file for an image, by the first entry that matches; None where it comes from a registry."""
    for entry in site.images:
        if globs.matches((entry.match,), image):
            return entry.path
    return None


def reference(site: Site, image: str) -> str:
    """What the runtime is told to run."""
    return mapped(site, image) or f"docker://{image}"


def is_insecure(site: Site, image: str) -> bool:
    """Whether the image comes from a registry that the site lists as speaking plain http."""
    host = host_of(image)
    return bool(host) and mapped(site, image) is None and globs.matches(site.insecure_registries, host)


def host_of(image: str) -> str:
    """The registry in an image's name, with its port; empty where the name has none. As imagepull and Docker read it."""
    host, slash, _ = image.partition("/")
    named = slash and ("." in host or ":" in host or host == "localhost" or host != host.lower())
    return host if named else ""
