"""Job names: the tag by which a Pod's job is found again."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router import hpc
from router.hpc import BatchSystem, local, openpbs, slurm, torque

UID = "0b1c2d3e-0000-4000-8000-000000000001"


@pytest.mark.parametrize(
    ("pod", "limit", "expected"),
    [
        ("train-0-abcde", 230, f"train-0-abcde.0123abcd.{UID}"),
        ("a b/c$d", 230, f"a-b-c-d.0123abcd.{UID}"),
        ("grün", 230, f"gr-n.0123abcd.{UID}"),
        ("x" * 300, 230, "x" * (230 - 46) + f".0123abcd.{UID}"),
        ("pod", 15, UID[-15:]),
    ],
)
def test_names(pod: str, limit: int, expected: str) -> None:
    assert hpc.job_name(pod, "0123abcd", UID, limit) == expected


@given(st.text(), st.integers(min_value=36, max_value=300))
def test_any_name_is_one_that_qsub_takes_and_keeps_the_uid(pod: str, limit: int) -> None:
    name = hpc.job_name(pod, "0123abcd", UID, limit)

    assert re.fullmatch(r"[A-Za-z0-9_.+-]+", name)
    assert len(name) <= limit
    assert name.endswith(UID)


def test_the_cluster_id_is_eight_digits_of_the_sha256() -> None:
    # printf %s abc | sha256sum
    assert hpc.cluster_id("abc") == "ba7816bf"


def test_the_embedded_queue_is_openpbs_behind_its_own_command() -> None:
    commands = local.commands_of("/state dir", ("python", "-m", "router.local"))

    assert local.cancel_argv("0.local", commands) == (
        "env", "-i", "PATH=/usr/local/bin:/usr/bin:/bin", "BATCHGATE_LOCAL=/state dir",
        "python", "-m", "router.local", "qdel", "0.local",
    )  # fmt: skip
    assert local.cancel_argv("0.local", force=True)[-4:] == ("qdel", "-W", "force", "0.local")
    assert local.signal_argv("0.local", "TERM")[-5:] == ("local", "qsig", "-s", "TERM", "0.local")


def test_the_modules_are_batch_systems() -> None:
    systems: list[BatchSystem] = [openpbs, local, torque, slurm]

    assert [system.NAME_LIMIT for system in systems] == [230, 230, 256, 255]
