"""Makes the host name of a Pod's containers, as the kubelet does.

Pure. The rules are those of pkg/kubelet/kubelet_pods.go (GeneratePodHostNameAndDomain) and pkg/kubelet/util/nodename.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from router.errors import JobError

_LONGEST_LABEL: Final = 63
LONGEST: Final = 64
"""Most bytes of the kernel's host name (``HOST_NAME_MAX`` of Linux)."""
_DOMAIN: Final = "cluster.local"
"""The cluster's domain, of which a Pod does not tell."""
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")


def host_names(pod: Mapping[str, Any]) -> tuple[str, ...]:
    """The kernel's host name in the Pod's containers, then the names for ``/etc/hosts``, the full one first.

    Empty for a Pod with ``hostNetwork``, which has its node's.

    :raises JobError: names the field, if the kernel takes no such name
    """
    metadata, spec = pod["metadata"], pod["spec"]
    if spec.get("hostNetwork"):
        return ()
    if override := spec.get("hostnameOverride"):
        name = _checked(str(override), "spec.hostnameOverride")
        return name, name
    name = str(spec.get("hostname") or metadata["name"])[:_LONGEST_LABEL].rstrip("-.")
    short = _checked(name, "spec.hostname" if spec.get("hostname") else "metadata.name")
    if not (subdomain := spec.get("subdomain")):
        return short, short
    full = f"{short}.{subdomain}.{metadata['namespace']}.svc.{_DOMAIN}"
    if not spec.get("setHostnameAsFQDN"):
        return short, _formed(full, "spec.subdomain"), short
    return _checked(full, "spec.setHostnameAsFQDN"), full, short


def _checked(name: str, path: str) -> str:
    if len(name) > LONGEST:
        raise JobError(path, f"makes the host name {name}, which has {len(name)} characters; Linux takes {LONGEST}")
    return _formed(name, path)


def _formed(name: str, path: str) -> str:
    if not _NAME.fullmatch(name):
        raise JobError(path, f"makes {name!r}, which is no host name")
    return name


def text(pod: Mapping[str, Any]) -> bytes:
    """The file ``hostname`` of a Pod's directory: ``host_names``, each NUL-terminated. Raises JobError."""
    return b"".join(name.encode() + b"\0" for name in host_names(pod))
