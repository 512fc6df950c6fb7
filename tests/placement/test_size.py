"""How large annotations are, counted as the API server counts them."""

from __future__ import annotations

from typing import Any

import pytest

from router.placement import LARGEST_ANNOTATIONS, largest_field, oversize
from tests.placement.given import job_of


def annotated(**annotations: str) -> dict[str, Any]:
    job = job_of()
    job["spec"]["template"]["metadata"] = {"annotations": annotations}
    return job


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("x" * (LARGEST_ANNOTATIONS - 1), None),
        ("x" * LARGEST_ANNOTATIONS, LARGEST_ANNOTATIONS + 1),
        ("é" * (LARGEST_ANNOTATIONS // 2), LARGEST_ANNOTATIONS + 1),
    ],
    ids=["fits", "a byte more", "bytes, not characters"],
)
def test_keys_and_values_count_in_bytes(value: str, expected: int | None) -> None:
    assert oversize(annotated(k=value)) == expected


def test_the_largest_field_is_named() -> None:
    job = job_of(
        pod={
            "containers": [
                {"name": "a", "args": ["x" * 100]},
                {"name": "b", "env": [{"name": "BIG", "value": "é" * 5000}], "args": ["x" * 5000]},
            ]
        }
    )

    path, size = largest_field(job, "spec.jobTemplate.")

    assert path == "spec.jobTemplate.spec.template.spec.containers[1].env"
    assert size >= 10_000


def test_an_annotation_can_be_the_largest() -> None:
    assert largest_field(annotated(notes="x" * 1000)) == ("spec.template.metadata.annotations[notes]", 1005)
