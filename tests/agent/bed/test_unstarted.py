"""Containers that the runtime cannot start, on Slurm: what kubectl shows of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.agent.bed.conftest import Cluster, Stack, reached
from tests.agent.bed.jobs import apply, end_of, job, pod_of
from tests.agent.bed.site import SUDO

pytestmark = [pytest.mark.bed, pytest.mark.slurm, pytest.mark.apptainer, pytest.mark.timeout(900)]
NOT_FOUND = '"no-such-program": executable file not found in $PATH'


@pytest.fixture(scope="module")
def stack(cluster: Cluster) -> Iterator[Stack]:
    with reached(cluster, SUDO) as found:
        yield found


def test_an_image_without_the_command(stack: Stack) -> None:
    made = job("")
    made["spec"]["template"]["spec"]["containers"][0]["command"] = ["no-such-program", "x"]
    name = apply(stack.ada, made)

    assert end_of(stack.ada, name) == "Failed"

    ended = pod_of(stack.ada, name)["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"], ended.get("message")) == (127, "CreateContainerError", NOT_FOUND)
    described = stack.ada.ok("describe", "pods", "-l", f"job-name={name}")
    assert "CreateContainerError" in described
    assert NOT_FOUND in described


def test_a_program_that_ends_with_the_runtime_s_code(stack: Stack) -> None:
    name = apply(stack.ada, job("echo 'FATAL:   permission denied' >&2; exit 255"))

    assert end_of(stack.ada, name) == "Failed"

    ended = pod_of(stack.ada, name)["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"], ended.get("message")) == (255, "Error", None)
