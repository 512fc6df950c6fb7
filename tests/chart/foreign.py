"""Definitions of kinds that other projects bring, from their Go modules.

Shell: runs ``go mod download``, which keeps modules in Go's own cache. Nothing of them is in this repository.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from router.controlplane import building
from router.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Module:
    """A module with its version and its hash, as in a go.sum, and files in one of its folders."""

    named: str
    sum: str
    folder: str
    files: tuple[str, ...]


MODULES: Final = (
    Module(
        "github.com/cert-manager/cert-manager@v1.21.2",
        "h1:UWgoYM+KLNtRlqmoWOKjKBOBUPVHeepQ6/ac3ERJW68=",
        "deploy/crds",
        ("cert-manager.io_certificates.yaml", "cert-manager.io_issuers.yaml"),
    ),
    Module(
        "github.com/prometheus-operator/prometheus-operator@v0.85.0",
        "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s=",
        "example/prometheus-operator-crd",
        ("monitoring.coreos.com_prometheusrules.yaml", "monitoring.coreos.com_servicemonitors.yaml"),
    ),
)


def definitions() -> list[Path]:
    """Files with the CustomResourceDefinitions of cert-manager and of the Prometheus operator.

    :raises ConfigError: a module cannot be had, or is another than its hash says
    """
    found = []
    for module in MODULES:
        command = [str(building.go(lambda _: None)), "mod", "download", "-json", module.named]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        told = json.loads(done.stdout or "{}")
        if done.returncode or told.get("Sum") != module.sum:
            raise ConfigError(f"{module.named}: {told.get('Error') or told.get('Sum') or done.stderr.strip()}")
        found += [Path(told["Dir"], module.folder, file) for file in module.files]
    return found
