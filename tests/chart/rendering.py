"""Renders the chart with Helm.

Shell: runs ``helm``. It reads nothing of the machine's own: no plugins, no repositories, no kubeconfig.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from router import names
from router.controlplane import programs

Json = dict[str, Any]

ROOT: Final = programs.MODULE.parent
CHART: Final = ROOT / "charts" / "batchgate"
NEEDED: Final[Json] = {"image": {"repository": "registry.example.org/batchgate"}, "existingPolicies": True}
"""What no default can know."""
_SOURCE = re.compile(r"^# Source: batchgate/templates/(?P<path>\S+)\n", re.MULTILINE)


def helm(*words: str, kubeconfig: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run Helm; the caller looks at the exit code."""
    with tempfile.TemporaryDirectory() as home:
        places = {f"HELM_{name}_HOME": f"{home}/{name}" for name in ("CONFIG", "CACHE", "DATA")}
        environment = {**os.environ, **places, "KUBECONFIG": str(kubeconfig or os.devnull)}
        command = [str(programs.find_helm()), *words]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def template(values: Mapping[str, Any], *options: str) -> subprocess.CompletedProcess[str]:
    """What ``helm template`` says to these values."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump(dict(values), file)
        file.flush()
        version = f"--kube-version={programs.version()}"
        where = f"--namespace={names.SYSTEM_NAMESPACE}"
        return helm("template", "batchgate", str(CHART), where, version, f"--values={file.name}", *options)


def rendered(values: Mapping[str, Any], *options: str) -> dict[str, list[str]]:
    """The documents that the chart makes of these values, with their comments, by template.

    :raises ValueError: Helm refuses; with its words
    """
    done = template(values, *options)
    if done.returncode:
        raise ValueError(done.stderr.strip())
    found: dict[str, list[str]] = {}
    for document in re.split(r"^---\n", done.stdout, flags=re.MULTILINE):
        if match := _SOURCE.match(document):
            found.setdefault(match["path"], []).append(document[match.end() :])
    return found


def objects(values: Mapping[str, Any], folders: Sequence[str] = ()) -> list[Json]:
    """The objects that the chart makes of these values, of all templates or of some folders of them."""
    return [
        loaded
        for path, documents in rendered(values).items()
        if not folders or path.partition("/")[0] in folders
        for document in documents
        if (loaded := yaml.safe_load(document)) is not None
    ]


def identity(one: Json) -> tuple[str, str, str, str]:
    """By which two objects are the same one: apiVersion, kind, namespace, name."""
    metadata = one["metadata"]
    return one["apiVersion"], one["kind"], metadata.get("namespace", ""), metadata["name"]
