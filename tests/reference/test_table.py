"""The table of all fields: complete by the API server's own schema, and true by what happens to Jobs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from router import policy
from router.controlplane.plane import ControlPlane
from router.gate.judging import Gate, Judgement, judge
from router.policy.decision import NO_QUEUE_STATES, Requester
from router.reference.rows import Outcome, Row
from router.reference.table import ROOT, TYPES, unknown
from router.workload.cluster import UNKNOWN_CLUSTER
from tests.gates import ISSUED_AT
from tests.reference import page
from tests.reference.proofs import PROOFS
from tests.reference.samples import GENEROUS, KEPT, STRICT
from tests.since import OURS
from tests.workload.manifests import Manifest, container, job

TESTS: Final = Path(__file__).parent.parent
GOES: Final = yaml.safe_load((Path(__file__).parent / "goes.yaml").read_text())
ROWS: Final = {f"{kind}.{name}": row for kind, rows in TYPES.items() for name, row in rows.items()}

Schema = dict[str, dict[str, str]]
"""By type and field, the type of the field's value; empty for plain values."""


def judged(manifest: Manifest, places: str) -> Judgement:
    gate = Gate(policy.load({"all.yaml": places}), UNKNOWN_CLUSTER, NO_QUEUE_STATES, None, ISSUED_AT)
    return judge(manifest, requester=Requester("ada", (), "lab"), gate=gate)


def referred(schema: dict[str, Any]) -> str:
    """The name of the type that a field's schema refers to, for one value, a list or a map."""
    while "$ref" not in schema:
        below = schema.get("items") or schema.get("additionalProperties") or next(iter(schema.get("allOf", ())), None)
        if not isinstance(below, dict):
            return ""
        schema = below
    return str(schema["$ref"]).rpartition("/")[2]


def served(plane: ControlPlane) -> Schema:
    """The types below ``JobSpec`` as the API server describes them. Types without fields are plain values."""
    schemas = json.loads(plane.kubectl("get", "--raw", "/openapi/v3/apis/batch/v1").stdout)["components"]["schemas"]
    found: Schema = {}
    waiting = [f"io.k8s.api.batch.v1.{ROOT}"]
    for kind in waiting:
        fields = {name: referred(one) for name, one in schemas[kind].get("properties", {}).items()}
        found[kind] = fields
        waiting += [one for one in dict.fromkeys(fields.values()) if one and one not in waiting]
    short = {kind.rpartition(".")[2]: fields for kind, fields in found.items() if fields}
    assert len(short) == sum(1 for fields in found.values() if fields), "two types have one name"
    return {
        kind: {name: one.rpartition(".")[2] if found.get(one) else "" for name, one in fields.items()}
        for kind, fields in short.items()
    }


def test_each_field_of_the_api_has_its_row_and_each_row_its_field(plane: ControlPlane) -> None:
    rows = {kind: {name: row.holds for name, row in rows.items() if row.since <= OURS} for kind, rows in TYPES.items()}

    assert {kind: fields for kind, fields in rows.items() if fields} == served(plane)


def sentences() -> dict[str, str]:
    """Each sentence of the table that keeps a Job in the cloud, by type and field."""
    return {
        name: row.says if row.outcome is Outcome.CLOUD else row.kept
        for name, row in ROWS.items()
        if row.outcome is Outcome.CLOUD or row.kept
    }


def test_each_sentence_has_a_job_that_it_keeps() -> None:
    assert KEPT.keys() == sentences().keys()


@pytest.mark.parametrize(("field", "sentence"), sentences().items(), ids=sentences())
def test_a_job_with_the_field_stays_by_its_sentence(field: str, sentence: str) -> None:
    assert field in {f"{kind}.{name}" for kind, name, _ in used(KEPT[field]["spec"], ROOT)} or not sentence

    decision = judged(KEPT[field], STRICT).decision

    assert decision is not None
    assert decision.target == "cloud"
    form = re.compile(".*".join(re.escape(part) for part in sentence.split("…")))
    assert [one for one in decision.in_the_way if form.fullmatch(one.partition(": ")[2])], decision.in_the_way


def used(value: object, kind: str) -> Iterator[tuple[str, str, Row]]:
    """Type, name and row of each field below a value."""
    for fields in value if isinstance(value, list) else [value]:
        for name, below in fields.items() if isinstance(fields, dict) else ():
            row = TYPES[kind][name]
            yield kind, name, row
            if row.holds:
                yield from used(below, row.holds)


def test_a_job_with_all_other_fields_goes() -> None:
    """Only ``goes.yaml`` says that they are not in the way: it has every field of which the table says so."""
    beneath = {name for rows in TYPES.values() for name in rows if name in TYPES}
    expected = {
        f"{kind}.{name}"
        for kind, rows in TYPES.items()
        for name, row in rows.items()
        if row.outcome not in (Outcome.CLOUD, Outcome.ABOVE) and kind not in beneath
    }

    judgement = judged(GOES, GENEROUS)

    assert judgement.decision is not None
    assert (judgement.decision.target, judgement.decision.in_the_way) == ("hpc", ())
    assert expected - {f"{kind}.{name}" for kind, name, _ in used(GOES["spec"], ROOT)} == set()


WARNED: Final = {name: row.warned for name, row in ROWS.items() if row.warned}


@pytest.mark.parametrize("field", WARNED)
def test_a_warning_of_the_table_is_told(field: str) -> None:
    told = judged(GOES, GENEROUS).warnings

    assert [one for one in told if WARNED[field] in one], told


def test_each_row_that_is_honoured_or_translated_has_a_test_that_is_there() -> None:
    claimed = {name for name, row in ROWS.items() if row.outcome in (Outcome.HONOURED, Outcome.TRANSLATED)}
    named = [proof.split("::") for proof in PROOFS.values()]

    assert PROOFS.keys() == claimed
    assert [one for one in named if f"def {one[1]}(" not in (TESTS / one[0]).read_text()] == []


UNKNOWN = [
    ("spec", job(moonPhase="full")),
    ("spec.template", {**job(), "spec": {"template": {**job()["spec"]["template"], "moonPhase": "full"}}}),
    ("spec.template.spec", job(pod={"moonPhase": "full"})),
    ("spec.template.spec.tolerations[1]", job(pod={"tolerations": [{}, {"moonPhase": "full"}]})),
    (
        "spec.template.spec.volumes[0].emptyDir",
        job(pod={"volumes": [{"name": "v", "emptyDir": {"moonPhase": "full"}}]}),
    ),
    ("spec.template.spec.containers[0]", job(container(moonPhase="full"))),
    ("spec.template.spec.containers[0].env[0]", job(container(env=[{"name": "A", "value": "b", "moonPhase": "full"}]))),
    ("spec.template.spec.containers[0].ports[0]", job(container(ports=[{"containerPort": 8080, "moonPhase": "full"}]))),
    ("spec.podFailurePolicy.rules[0]", job(podFailurePolicy={"rules": [{"action": "Count", "moonPhase": "full"}]})),
    ("spec.template.spec.resources", job(pod={"resources": {"moonPhase": "full"}})),
]


@pytest.mark.parametrize(("path", "manifest"), UNKNOWN, ids=[path for path, _ in UNKNOWN])
def test_a_field_without_a_row_keeps_a_job_in_the_cloud_wherever_it_stands(path: str, manifest: Manifest) -> None:
    decision = judged(manifest, GENEROUS).decision

    assert decision is not None
    assert (decision.target, decision.in_the_way) == ("cloud", (f"{path}.moonPhase: is not known to Batchgate",))


def test_labels_and_other_maps_have_any_keys_and_absent_fields_no_say() -> None:
    spec = {
        "moonPhase": "",
        "template": {"metadata": {"labels": {"moonPhase": "full"}}, "spec": {"nodeSelector": {"x": "y"}}},
    }

    assert list(unknown(spec, "spec")) == []


@pytest.mark.parametrize("wrong", [[[{"name": "x"}]], "text", 7, [None], {"name": []}])
def test_values_of_a_wrong_type_are_left_to_their_reader(wrong: object) -> None:
    assert list(unknown({"template": {"spec": {"containers": wrong}}}, "spec")) == []


def test_the_page_is_that_of_the_table() -> None:
    """``python -m tests.reference.page`` writes it."""
    assert page.PAGE.read_text() == page.text()
