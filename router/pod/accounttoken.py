"""Knows the service account tokens of a Pod: those of its projected volumes, and the one that is mounted automatically.

Pure. The admission plugin ServiceAccount adds a volume and its mounts to a Pod, with a random name, unless Pod or
account forbids it. A script is made before that, so it mounts a directory of a fixed name where there is one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from router.pod import layout
from router.values import unchanging

Fields = Mapping[str, Any]

MOUNTED_AT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
_NAME: Final = re.compile(r"kube-api-access-[a-z0-9]{5}")
_SECONDS: Final = 3607
"""The life that Kubernetes asks for (its WarnOnlyBoundTokenExpirationPeriod)."""
_USUAL: Final = 3600
"""The life of a projected token that names none."""
_ROOT_CA: Final = "kube-root-ca.crt"
_GROUPS: Final = ("initContainers", "containers")


@unchanging
class Wanted:
    """One token.

    :param path: of its file below ``files/``
    :param audience: empty for the API server's own
    :param seconds: the life to ask for
    """

    path: str
    audience: str
    seconds: int


def is_mounted(pod: Fields) -> bool:
    """Whether Kubernetes has given a Pod the automatic mount."""
    return any(_is_automatic(one) for one in pod["spec"].get("volumes") or ())


def without(pod: Fields) -> dict[str, Any]:
    """A Pod without the volume of the automatic mount, and without its mounts."""
    spec = pod["spec"]
    names = {one["name"] for one in spec.get("volumes") or () if _is_automatic(one)}
    groups = {group: [_bare(one, names) for one in spec[group]] for group in _GROUPS if spec.get(group)}
    volumes = [one for one in spec.get("volumes") or () if one["name"] not in names]
    return {**pod, "spec": {**spec, **groups, "volumes": volumes}}


def with_automatic(pod: Fields) -> dict[str, Any]:
    """A Pod with the volume as Kubernetes makes it, under the name of its directory."""
    sources = [
        {"serviceAccountToken": {"expirationSeconds": _SECONDS, "path": "token"}},
        {"configMap": {"name": _ROOT_CA, "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
    ]
    volume = {"name": layout.ACCOUNT_VOLUME, "projected": {"sources": sources}}
    return {**pod, "spec": {**pod["spec"], "volumes": [*(pod["spec"].get("volumes") or ()), volume]}}


def wanted(pod: Fields) -> tuple[Wanted, ...]:
    """The tokens of a Pod's projected volumes that a container mounts."""
    return tuple(_wanted(pod))


def _wanted(pod: Fields) -> Iterator[Wanted]:
    containers = [one for group in _GROUPS for one in pod["spec"].get(group) or ()]
    mounted = {layout.ACCOUNT_VOLUME} | {mount["name"] for one in containers for mount in one.get("volumeMounts") or ()}
    for volume in pod["spec"].get("volumes") or ():
        if volume["name"] not in mounted:
            continue
        for source in (volume.get("projected") or {}).get("sources") or ():
            if one := source.get("serviceAccountToken"):
                seconds = one.get("expirationSeconds") or _USUAL
                yield Wanted(f"{volume['name']}/{one.get('path', '')}", one.get("audience") or "", seconds)


def _is_automatic(volume: Fields) -> bool:
    return _NAME.fullmatch(str(volume.get("name"))) is not None and "projected" in volume


def _bare(container: Fields, names: set[str]) -> Fields:
    mounts = container.get("volumeMounts") or ()
    kept = [one for one in mounts if one.get("name") not in names or one.get("mountPath") != MOUNTED_AT]
    return container if len(kept) == len(mounts) else {**container, "volumeMounts": kept}
