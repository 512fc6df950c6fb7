"""The fields of the security contexts of Pods and containers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from router.reference.rows import Rows, above, cloud, harmless, honoured, parts

_AS_THE_USER: Final = "the process runs as the HPC user, with that user's groups"
_WARNED: Final = "not applied on HPC, where the process runs as the HPC user"
_WINDOWS: Final = "is for Windows nodes"
_NEVER_ROOT: Final = "the process never is root"
_PROFILE: Final = "names a security profile that is loaded on cloud nodes only"
_CONFINED: Final = "the process has an ordinary user's rights, and what the site's runtime confines"

_USER: Final[Rows] = {
    "runAsUser": harmless(_AS_THE_USER, warned=_WARNED),
    "runAsGroup": harmless(_AS_THE_USER, warned=_WARNED),
    "runAsNonRoot": honoured(_NEVER_ROOT),
    "seLinuxOptions": harmless(_AS_THE_USER, "SELinuxOptions", warned=_WARNED),
    "seccompProfile": parts("SeccompProfile"),
    "appArmorProfile": parts("AppArmorProfile"),
    "windowsOptions": cloud(_WINDOWS, "WindowsSecurityContextOptions"),
}

TYPES: Final[Mapping[str, Rows]] = {
    "PodSecurityContext": {
        **_USER,
        "fsGroup": harmless(_AS_THE_USER, warned=_WARNED),
        "fsGroupChangePolicy": harmless("no file changes its group"),
        "seLinuxChangePolicy": harmless("no file changes its label", since=32),
        "supplementalGroups": harmless(_AS_THE_USER, warned=_WARNED),
        "supplementalGroupsPolicy": harmless(_AS_THE_USER, warned=_WARNED),
        "sysctls": cloud("sets kernel parameters, which an ordinary HPC user cannot", "Sysctl"),
    },
    "SecurityContext": {
        **_USER,
        "allowPrivilegeEscalation": harmless("no program gains privileges, as if it were `false`"),
        "capabilities": parts("Capabilities"),
        "privileged": harmless(
            "where the site has `ignorePrivileged` for the namespace: the container has no privileges",
            kept="needs privileges that an ordinary HPC user cannot have; ignorePrivileged of site … lists namespaces …",
            warned="a container is never privileged on HPC",
        ),
        "procMount": harmless(
            "`Default` is what a container has",
            kept="needs privileges that an ordinary HPC user cannot have",
            usual="Default",
        ),
        "readOnlyRootFilesystem": honoured("no container may write to its root, whatever the site's `writable` says"),
    },
    "Capabilities": {
        "add": harmless(
            "those that a batch job does without, or that any root has: the process is no root",
            kept="adds …, a capability that an ordinary HPC user cannot have",
            warned="is not given on HPC",
        ),
        "drop": honoured("the process has none"),
    },
    "SeccompProfile": {
        "type": harmless(_CONFINED, kept=_PROFILE),
        **above("localhostProfile"),
    },
    "AppArmorProfile": {
        "type": harmless(_CONFINED, kept=_PROFILE),
        **above("localhostProfile"),
    },
    "SELinuxOptions": above("level", "role", "type", "user"),
    "Sysctl": above("name", "value"),
    "WindowsSecurityContextOptions": above(
        "gmsaCredentialSpec", "gmsaCredentialSpecName", "hostProcess", "runAsUserName"
    ),
}
"""Rows by type."""
