"""What a new policy changes in the ConfigMap that holds the policy.

Pure.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]
_SYNCED = {
    "kustomize.toolkit.fluxcd.io/name": "Flux",
    "argocd.argoproj.io/instance": "Argo CD",
    "argocd.argoproj.io/tracking-id": "Argo CD",
    "meta.helm.sh/release-name": "Helm",
}
"""Labels and annotations by which programs mark what they keep as it is in a repository, or in a release's values."""

_KEPT = {"helm.sh/resource-policy": "keep"}
"""The annotation by which Helm leaves an object alone. It deletes what the last good revision of a release had and the
next one lacks, whoever has made it since."""


def difference(before: Mapping[str, Any] | None, texts: Mapping[str, str]) -> str:
    """A unified diff for each file that changes; empty if all are the same.

    :param before: the present ConfigMap, or None
    """
    have: Mapping[str, str] = (before or {}).get("data") or {}
    binary = (before or {}).get("binaryData") or {}
    shown = [_file(name, have.get(name), texts.get(name)) for name in sorted({*have, *texts})]
    gone = [f"{name}: bytes that are no text go\n" for name in sorted(binary)]
    return "".join((*shown, *gone))


def _file(name: str, have: str | None, want: str | None) -> str:
    if have == want:
        return ""
    before = "/dev/null" if have is None else f"a/{name}"
    after = "/dev/null" if want is None else f"b/{name}"
    lines = difflib.unified_diff((have or "").splitlines(), (want or "").splitlines(), before, after, lineterm="")
    return "".join(f"{line}\n" for line in lines) or f"{name}: only the ends of lines change\n"


def config_map(namespace: str, name: str, before: Mapping[str, Any] | None, texts: Mapping[str, str]) -> Json:
    """The ConfigMap to write. One that is there keeps its labels, and is replaced only in the version that was read."""
    metadata: Json = dict(
        (before or {}).get("metadata") or {"namespace": namespace, "name": name, "annotations": dict(_KEPT)}
    )
    metadata.pop("managedFields", None)
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(texts)}


def last_writer(found: Mapping[str, Any] | None) -> str:
    """Who wrote an object last and when, by its managed fields; empty if it does not say."""
    fields = ((found or {}).get("metadata") or {}).get("managedFields") or []
    if not fields:
        return ""
    last = max(reversed(fields), key=lambda one: str(one.get("time") or ""))  # of two in one second the later entry
    return f"{last.get('manager')} at {last.get('time')}"


def keeper(found: Mapping[str, Any] | None) -> str:
    """The program that would undo a change of this object, as it keeps it in step with a repository; empty if none."""
    metadata = (found or {}).get("metadata") or {}
    keys = {**(metadata.get("labels") or {}), **(metadata.get("annotations") or {})}
    return next((program for key, program in _SYNCED.items() if key in keys), "")
