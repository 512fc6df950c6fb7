"""``python -m tests.chart.manifests``: makes the files of ``manifests/`` from the chart.

The chart is the one source. Kustomizations are written by hand: they only name files and patch what a folder differs in,
and ``test_manifests`` compares what they make with what the chart makes of the values that stand for them.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from router.controlplane import installing
from router.errors import ConfigError
from tests.chart import rendering

HEAD: Final = "# Made from charts/batchgate by `make manifests`: change it there.\n"
PLACEHOLDERS: Final[dict[str, Any]] = {
    "image": {"repository": "batchgate", "tag": "latest"},
    "existingPolicies": True,
    "createNamespace": True,
    # The API server refuses both of these until an overlay fills them in.
    "certificates": {"mode": "existing", "existing": {"caBundle": "CA-OF-THE-WEBHOOK"}},
    "network": {"enabled": True, "apiServer": ["ADDRESS-OF-THE-API-SERVER/32"]},
    "quota": {"enabled": True},
    "pullSecrets": {"enabled": True},
    "public": {"enabled": True},
    "secrets": {"enabled": True},
    "tokens": {"enabled": True},
    "monitoring": {"enabled": True},
    "approver": {"enabled": True},
    "policyReports": {"enabled": True},
}
"""Everything that has a folder, with placeholders for what only an admin knows."""
OPT_OUT: Final = {**PLACEHOLDERS, "registration": {"namespaces": "opt-out"}}
CERT_MANAGER: Final = {**PLACEHOLDERS, "certificates": {"mode": "cert-manager"}}
BUILTIN: Final = {**PLACEHOLDERS, "certificates": {"mode": "builtin"}}


@dataclass(frozen=True, slots=True)
class Made:
    """A file of ``manifests/`` and the templates that it is made from.

    :param templates: paths below the chart's ``templates/``
    """

    path: str
    templates: tuple[str, ...]
    values: Mapping[str, Any] = field(default_factory=lambda: PLACEHOLDERS)


def _same(*paths: str) -> tuple[Made, ...]:
    return tuple(Made(path, (path,)) for path in paths)


FILES: Final = (
    *_same("base/namespace.yaml", "base/agent.yaml", "base/webhook.yaml"),
    *_same(
        "guards/agent.yaml",
        "guards/agent-configmaps.yaml",
        "guards/bindings.yaml",
        "guards/created-jobs.yaml",
        "guards/nodes.yaml",
    ),
    *_same("guards/pods.yaml"),
    Made("guards/jobs.yaml", ("guards/jobs.yaml", "guards/jobs-binding.yaml")),
    *_same("webhook/deployment.yaml", "webhook/service.yaml"),
    *_same("registration/webhook.yaml", "registration/policy.yaml"),
    Made("opt-out/jobs.yaml", ("guards/jobs-binding.yaml",), OPT_OUT),
    *_same("network/webhook.yaml"),
    *_same("quota/priorityclass.yaml", "quota/pods.yaml"),
    *_same("pull-secrets/role.yaml", "public/role.yaml", "secrets/role.yaml", "tokens/role.yaml", "tokens/guard.yaml"),
    *(Made(f"certs/{name}.yaml", (f"certs/{name}.yaml",), BUILTIN) for name in ("account", "jobs")),
    *(Made(f"rotate/{name}.yaml", (f"rotate/{name}.yaml",), BUILTIN) for name in ("account", "deployment")),
    *_same("approver/role.yaml"),
    *_same("policy-reports/account.yaml", "policy-reports/cronjob.yaml"),
    Made(
        "certs/registration.yaml",
        tuple(f"registration/{one}.yaml" for one in ("webhook", "policy", "configmap")),
        BUILTIN,
    ),
    Made("cert-manager/certificate.yaml", ("cert-manager/certificate.yaml",), CERT_MANAGER),
    *(
        Made(f"cert-manager/{name}.yaml", (f"registration/{name}.yaml",), CERT_MANAGER)
        for name in ("webhook", "policy")
    ),
    *_same("monitoring/services.yaml", "monitoring/monitors.yaml", "monitoring/rules.yaml"),
)


def made() -> dict[str, str]:
    """The text of each file, by its path below ``manifests/``."""
    found: dict[str, str] = {}
    for values in (PLACEHOLDERS, OPT_OUT, BUILTIN, CERT_MANAGER):
        templates = rendering.rendered(values, "--skip-schema-validation")
        for file in FILES:
            if file.values is values:
                documents = [text.strip("\n") + "\n" for path in file.templates for text in templates[path]]
                found[file.path] = HEAD + "---\n".join(documents)
    return found


def write(directory: Path) -> None:
    """Write all files below this directory; it holds the kustomizations already."""
    for path, text in made().items():
        file = directory / path
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)


def main() -> int:
    """Write ``manifests/``; returns the exit code."""
    try:
        write(installing.MANIFESTS)
    except (ConfigError, ValueError) as error:
        sys.stderr.write(f"Error: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
