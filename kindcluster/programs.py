"""Names the programs that come from Go modules, and has them built once.

Shell around pure functions. The programs of the control plane itself are ``router.controlplane``'s, and shared with it.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Final

from kindcluster import commands
from kindcluster.commands import KindError, Tell
from kindcluster.layout import MODULES
from kindcluster.provider import version_of
from router.controlplane import building
from router.controlplane import programs as plane

KIND: Final = "sigs.k8s.io/kind"
KUBERNETES: Final = "k8s.io/kubernetes"
COREDNS: Final = "github.com/coredns/coredns"
NODE: Final = ("kubernetes", "coredns")
"""The modules whose programs are in the node image."""

_PACKAGES: Final = {
    "kind": {"kind": KIND},
    "kubernetes": {name: f"{KUBERNETES}/cmd/{name}" for name in ("kubeadm", "kube-proxy")},
    "coredns": {"coredns": "github.com/batchgate/batchgate/kindcluster/coredns"},
    "e2e": {"e2e": "github.com/batchgate/batchgate/kindcluster/e2e"},
}
"""By module, each program and its Go package."""
_TITLES: Final = {
    "kind": "kind",
    "kubernetes": "kubeadm and kube-proxy",
    "coredns": "CoreDNS",
    "e2e": "end-to-end tests of Kubernetes",
}
_MINUTES: Final = {"kind": "1 to 2", "kubernetes": "1 to 4", "coredns": "1 to 8", "e2e": "1 to 6"}
_PATHS: Final = {"kind": KIND, "kubernetes": KUBERNETES, "coredns": COREDNS, "e2e": KUBERNETES}


def version(module: str, text: str | None = None) -> str:
    """The version of kind, Kubernetes or CoreDNS that one of our Go modules requires, such as ``v0.33.0``.

    :param module: the name of its folder below ``modules``
    :param text: the text of its go.mod; None: that of the checkout
    :raises KindError: it requires no released version
    """
    if text is None:
        text = (MODULES / module / "go.mod").read_text()
    found = re.search(rf"^(?:require )?\s*{re.escape(_PATHS[module])} (v\d+\.\d+\.\d+)\b", text, re.MULTILINE)
    if found is None:
        raise KindError(f"{MODULES / module / 'go.mod'} requires no released version of {_PATHS[module]}")
    return found[1]


def sources(module: str) -> list[Path]:
    """The files that say what a module's programs are, in order."""
    return sorted(path for path in (MODULES / module).iterdir() if path.suffix in {".mod", ".sum", ".go"})


def built(module: str) -> Path:
    """The folder of a module's programs, named by a digest of its files."""
    return plane.cache() / f"kind-programs-{module}-{plane.digest_of(*sources(module))}"


def ensure(module: str, tell: Tell) -> Path:
    """Build a module's programs unless they are there; returns their folder.

    :raises router.errors.ConfigError: Go cannot be installed, or the build fails
    """
    build = building.Build(
        what=f"{_TITLES[module]} {version(module)}",
        module=MODULES / module,
        packages=_PACKAGES[module],
        target=built(module),
        linker=building.kubernetes_versions() if module in {"kubernetes", "e2e"} else (),
        minutes=_MINUTES[module],
        missing=lambda: not built(module).exists(),
    )
    if build.missing():
        building.ensure_built(build, tell)
    return build.target


def kind(tell: Tell) -> Path:
    """The program kind of the pinned version: the one on PATH if it has it, else built."""
    on_path = shutil.which("kind")
    if on_path is not None and version_of(commands.attempt([on_path, "version"]).stdout) == version("kind"):
        return Path(on_path)
    return ensure("kind", tell) / "kind"


def source(module: str, tell: Tell) -> Path:
    """The folder of the pinned source of kind or Kubernetes, in Go's cache of modules.

    :raises KindError: Go cannot fetch it
    """
    wanted = f"{_PATHS[module]}@{version(module)}"
    words = ["env", f"--chdir={MODULES / module}", str(building.go(tell)), "mod", "download", "-json", wanted]
    return Path(json.loads(commands.run(words, extra=building.environment()))["Dir"])
