"""An API server that drops ``spec.managedBy`` after every webhook has been asked: as 1.31 does, here with the gate off.

Whoever writes the field there has a Job that the ordinary controller runs.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from router import names
from router.controlplane.options import BEN, RESEARCHERS
from router.controlplane.plane import ControlPlane
from tests.webhook.real.conftest import POLICY, asked
from tests.webhook.real.gated import Gated, gated, job, target, template_annotations

LISTED, ANY = "kueue.x-k8s.io/multikueue", "example.com/mine"
SHARED = '  - {namespaces: ["test-*"], shared: true, as: research}\n'
PROOF = {names.KEY_SCRIPT, names.KEY_REQUESTER, names.KEY_ACCOUNT, names.KEY_SIGNATURE}


@pytest.fixture(scope="module")
def dropping(older: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gated]:
    """A namespace of ada and ben behind the webhook of such an API server. Ben has no account anywhere."""
    directory = tmp_path_factory.mktemp("dropping")
    assert SHARED in POLICY
    with asked(older, directory, POLICY.replace(SHARED, "")):
        older.make_namespaces({"both": (RESEARCHERS,)})
        yield gated(older, "both", directory / "signing.pub")


def copied(jobs: Gated, name: str, **spec: Any) -> dict[str, Any]:
    """A fresh Job of ada's as it is stored, proof and all, made into one of another name."""
    stored = jobs.create(job(name, suspend=True))
    assert template_annotations(stored).keys() >= PROOF
    template = copy.deepcopy(stored["spec"]["template"])
    for key in [
        key for key in template["metadata"]["labels"] if key.rpartition("/")[2] in ("controller-uid", "job-name")
    ]:
        del template["metadata"]["labels"][key]
    metadata = {"name": f"{name}-copy", "labels": stored["metadata"]["labels"]}
    metadata["annotations"] = stored["metadata"]["annotations"]
    kept = {key: value for key, value in stored["spec"].items() if key not in ("selector", "template")}
    return {**job(f"{name}-copy"), "metadata": metadata, "spec": {**kept, "template": template, **spec}}


def test_a_copy_of_somebodys_fresh_job_loses_all_that_is_ours(dropping: Gated) -> None:
    sent = copied(dropping, "fresh", managedBy=ANY)
    dropping.done("create", "-f", "-", sent=sent, user=BEN.name)

    stored = dropping.get("fresh-copy")
    assert "managedBy" not in stored["spec"]  # as this API server has it: its own controller runs the Job
    assert target(stored) == "cloud"
    assert not PROOF & template_annotations(stored).keys()
    assert "nodeName" not in stored["spec"]["template"]["spec"]
    assert "nodeSelector" not in stored["spec"]["template"]["spec"]


def test_a_job_of_a_listed_controller_is_refused_where_the_field_is_dropped(dropping: Gated) -> None:
    for sent in (copied(dropping, "listed", managedBy=LISTED), job("vast", managedBy=LISTED, parallelism=200)):
        run = dropping.run("create", "-f", "-", sent=sent, user=BEN.name)

        assert run.returncode == 1
        assert (
            f"spec.managedBy: this API server does not honour the field (JobManagedBy is off), so that {LISTED}"
            in run.stderr
        )


def test_a_rule_that_denies_is_asked(dropping: Gated) -> None:
    assert "rule vast denies this Job: 64 CPUs are the most" in dropping.denied(
        job("vast", managedBy=ANY, parallelism=200)
    )


@pytest.mark.parametrize("manager", [LISTED, ANY])
def test_an_update_with_the_field_is_judged_as_any(dropping: Gated, manager: str) -> None:
    """Forged keys come off whether or not the API server then refuses the field, which is immutable."""
    name = f"update-{manager.partition('.')[0]}"
    dropping.create(job(name, suspend=True, pod={"containers": [{"name": "c", "image": "busybox:1.36"}]}))
    before = dropping.get(name)
    selector = {"spec": {"nodeSelector": {names.KEY_QUEUE: "batch"}}}
    forged = {
        "spec": {"managedBy": manager, "template": selector},
        "metadata": {"labels": {names.KEY_TARGET: "hpc"}},
    }

    dropping.run("patch", "job", name, "--type=merge", "-p", json.dumps(forged))

    after = dropping.get(name)
    assert (after["spec"], after["metadata"]["labels"]) == (before["spec"], before["metadata"]["labels"])
