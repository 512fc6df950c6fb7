"""``manifests/`` is what the chart makes: file by file as text, and folder by folder as objects, overlays too."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from router.controlplane import programs
from router.controlplane.installing import MANIFESTS
from tests.chart.manifests import FILES, made
from tests.chart.rendering import NEEDED, identity, objects

Json = dict[str, Any]
CA = base64.b64encode(b"a CA").decode()
EXISTING: Json = {"certificates": {"mode": "existing", "existing": {"caBundle": CA}}}
# What the folders' images are called, and their tag.
IMAGE: Json = {"image": {"repository": "batchgate", "tag": "latest"}}
CIDRS = ["192.0.2.10/32", "192.0.2.11/32"]


def test_every_file_is_what_the_chart_makes() -> None:
    written = {file.path: (MANIFESTS / file.path).read_text() for file in FILES}

    assert written == made(), "run `make manifests`, and look at the difference"


def test_no_file_but_kustomizations_is_written_by_hand() -> None:
    found = {str(path.relative_to(MANIFESTS)) for path in MANIFESTS.rglob("*.yaml")}

    assert {path for path in found if not path.endswith("/kustomization.yaml")} == {file.path for file in FILES}


@dataclass(frozen=True)
class Pair:
    """Folders with an overlay, and the values that stand for them.

    :param templates: folders of the chart's templates that the objects come from; none: all of them
    :param patches: of the overlay: the targets' kinds, and a JSON patch for each of them
    :param components: folders that are components of the overlay
    """

    folders: tuple[str, ...]
    values: Mapping[str, Any]
    templates: tuple[str, ...] = ()
    patches: tuple[tuple[str, tuple[Json, ...]], ...] = ()
    components: tuple[str, ...] = ()


ADD_CA = (
    (
        "MutatingWebhookConfiguration|ValidatingWebhookConfiguration",
        ({"op": "replace", "path": "/webhooks/0/clientConfig/caBundle", "value": CA},),
    ),
)
ADD_SECOND_CA = (
    "MutatingWebhookConfiguration",
    ({"op": "replace", "path": "/webhooks/1/clientConfig/caBundle", "value": CA},),
)
ADD_ADDRESSES = (
    (
        "NetworkPolicy",
        (
            {
                "op": "replace",
                "path": "/spec/ingress/0/from",
                "value": [{"ipBlock": {"cidr": cidr}} for cidr in CIDRS],
            },
        ),
    ),
)
PAIRS = {
    "base": Pair(("base",), {"createNamespace": True}, ("base", "guards")),
    "guards": Pair(("guards",), {}, ("guards",)),
    "webhook": Pair(("webhook",), IMAGE | EXISTING, ("webhook",)),
    "registration": Pair(("registration",), EXISTING, ("registration",), ADD_CA),
    "failurePolicy Ignore": Pair(
        ("registration",),
        EXISTING | {"registration": {"failurePolicy": "Ignore"}},
        ("registration",),
        ADD_CA,
        ("ignore",),
    ),
    "opt-out": Pair(
        ("base", "opt-out"),
        EXISTING | {"createNamespace": True, "registration": {"namespaces": "opt-out"}},
        ("base", "guards", "registration"),
        ADD_CA,
    ),
    "opt-out and Ignore": Pair(
        ("opt-out",),
        EXISTING | {"registration": {"namespaces": "opt-out", "failurePolicy": "Ignore"}},
        ("registration", "bindings of Jobs"),
        ADD_CA,
        ("ignore",),
    ),
    **{
        f"{folder}, on the way to the other": Pair(
            (folder,),
            EXISTING | {"registration": {"namespaces": mode, "switching": True}},
            ("registration", "bindings of Jobs") if folder == "opt-out" else ("registration",),
            (*ADD_CA, ADD_SECOND_CA),
            ("switching",),
        )
        for folder, mode in (("registration", "opt-in"), ("opt-out", "opt-out"))
    },
    "builtin certificates": Pair(
        ("webhook", "certs", "rotate"),
        {"certificates": {"mode": "builtin"}, **IMAGE},
        ("webhook", "certs", "registration", "rotate"),
    ),
    "only clients with a certificate": Pair(
        ("webhook",),
        IMAGE
        | EXISTING
        | {"webhook": {"clientCA": {"configMap": "kube-root-ca.crt", "names": ["kube-apiserver-kubelet-client"]}}},
        ("webhook",),
        components=("client-ca",),
    ),
    "network": Pair(
        ("network",), EXISTING | {"network": {"enabled": True, "apiServer": CIDRS}}, ("network",), ADD_ADDRESSES
    ),
    "quota": Pair(("quota",), {"quota": {"enabled": True}}, ("quota",)),
    "pull-secrets": Pair(("pull-secrets",), {"pullSecrets": {"enabled": True}}, ("pull-secrets",)),
    "public": Pair(("public",), {"public": {"enabled": True}}, ("public",)),
    "secrets": Pair(("secrets",), {"secrets": {"enabled": True}}, ("secrets",)),
    "tokens": Pair(("tokens",), {"tokens": {"enabled": True}}, ("tokens",)),
    "policy-reports": Pair(("policy-reports",), IMAGE | {"policyReports": {"enabled": True}}, ("policy-reports",)),
    "monitoring": Pair(("monitoring",), {"monitoring": {"enabled": True}}, ("monitoring",)),
    # All that a cluster gets whose agents run on login nodes, hooks left out: nothing is in one of the two alone.
    "agents outside": Pair(
        ("base", "webhook", "registration"),
        IMAGE | EXISTING | {"createNamespace": True, "agents": [], "uninstallCheck": False},
        (),
        ADD_CA,
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_a_folder_and_its_values_make_the_same_objects(name: str, tmp_path: Path) -> None:
    pair = PAIRS[name]

    theirs = kustomized(tmp_path, pair)
    ours = by_identity(objects({**NEEDED, **pair.values}, [one for one in pair.templates if " " not in one]))
    if "bindings of Jobs" in pair.templates:
        bindings = by_identity(objects({**NEEDED, **pair.values}, ["guards"]))
        ours |= {
            key: one for key, one in bindings.items() if key[1].endswith("PolicyBinding") and "jobs" in key[3].split(".")[0]
            and not key[3].startswith("created")
        }  # fmt: skip

    assert sorted(theirs) == sorted(ours)
    for key in ours:
        assert theirs[key] == ours[key], key


def by_identity(found: list[Json]) -> dict[tuple[str, str, str, str], Json]:
    """Objects by what they are; a list with one of them twice is an error."""
    named = {identity(one): one for one in found}
    assert len(named) == len(found)
    return named


def kustomized(directory: Path, pair: Pair) -> dict[tuple[str, str, str, str], Json]:
    """What kubectl makes of the folders, applied one after another: of an object in two, the last one counts."""
    found: dict[tuple[str, str, str, str], Json] = {}
    for number, folder in enumerate(pair.folders):
        overlay = directory / str(number)
        overlay.mkdir()
        up = Path(*[".."] * (len(overlay.resolve().parts) - 1), *MANIFESTS.parts[1:])
        kustomization: Json = {
            "resources": [str(up / folder)],
            # The first folder is the one that they are for.
            "components": [str(up / component) for component in pair.components if number == 0],
        }
        if pair.patches and folder not in {"base", "webhook"}:
            kustomization["patches"] = [
                {"target": {"kind": kind}, "patch": yaml.safe_dump(list(patch))} for kind, patch in pair.patches
            ]
        (overlay / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
        command = [str(programs.find_kubectl()), "kustomize", str(overlay)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        found |= by_identity(list(yaml.safe_load_all(done.stdout)))
    return found
