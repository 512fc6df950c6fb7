"""What a container's program can be given, at the very limits; the figures are the kernel's and Apptainer's."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.errors import TooLarge
from router.workload import expand, limits, workload_of
from router.workload.model import Container, EnvVar, Obstacle

LONGEST = 131_071  # MAX_ARG_STRLEN of 32 pages, with the NUL
NAMED = LONGEST - len("SINGULARITYENV_") - len("A=")
MOST = 1_048_448 - 65_536
LATER = {"name": "L", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}


def container() -> Container:
    spec = {
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": "i", "command": ["a", "b"], "args": ["c"]}],
    }
    job = workload_of({"metadata": {"name": "j"}, "spec": {"template": {"spec": spec}}}, namespace="n")
    return replace(job.containers[0], env=(EnvVar("A", ""), EnvVar("B", ""), EnvVar("A", "")))


@pytest.mark.parametrize(
    ("words", "variables"),
    [
        ((), {}),
        (("x" * LONGEST,), {}),
        (("é" * (LONGEST // 2),), {}),
        ((), {"A": "x" * NAMED}),
        (("x" * 65_524,) * 15, {}),
        ((), {"A" * 10: "\n" * 60_000}),
        (("é" * 65_000,) * 7, {}),
    ],
    ids=["nothing", "a word", "letters of two bytes", "a variable", "all together", "line breaks", "many letters"],
)
def test_what_can_be_given(words: tuple[str, ...], variables: dict[str, str]) -> None:
    limits.check(container(), "c", words, variables)


@pytest.mark.parametrize(
    ("words", "variables", "path", "size"),
    [
        (("a", "x" * (LONGEST + 1)), {}, "c.command[1]", LONGEST + 1),
        (("a", "b", "x" * (LONGEST + 1)), {}, "c.args[0]", LONGEST + 1),
        (("a", "b", "é" * (LONGEST // 2 + 1)), {}, "c.args[0]", LONGEST + 1),
        ((), {"A": "x" * (NAMED + 1)}, "c.env[2]", LONGEST + 1),
        ((), {"C": "x" * (NAMED + 1)}, "c.envFrom", LONGEST + 1),
        (("x" * 65_524,) * 15, {"AAAA": ""}, "c", MOST + 1),
        (("<" * 100_000,) * 2, {}, "c", 1_200_006),
        (("\n" * 100_000,) * 5, {}, "c", 1_000_015),
    ],
    ids=["command", "args", "bytes count", "the last of a name", "of a ConfigMap", "together", "six bytes each", "two"],
)
def test_what_cannot(words: tuple[str, ...], variables: dict[str, str], path: str, size: int) -> None:
    with pytest.raises(TooLarge) as error:
        limits.check(container(), "c", words, variables)

    assert (error.value.path, f" {size} bytes" in error.value.message) == (path, True), error.value


def _amplified(char: str, times: int) -> dict[str, object]:
    """Little text that refers to much: 6 words of 4,000 characters each, times so many."""
    values = [{"name": "A", "value": char * 1000}, {"name": "B", "value": "$(A)" * times}]
    return {"name": "main", "image": "i", "env": values, "args": ["$(B)" * 4] * 6}


@pytest.mark.parametrize(
    ("fields", "path", "size"),
    [
        ({"command": ["a", "x" * (LONGEST + 1)]}, ".command[1]", LONGEST + 1),
        ({"env": [{"name": "A", "value": "x" * (NAMED + 1)}]}, ".env[0]", LONGEST + 1),
        (_amplified("<", 30), "", 1_440_006),
        (_amplified("a", 40), ".args[0]", 160_000),
        (_amplified("é", 20), ".args[0]", 160_000),
        ({"args": ["$(A)$(A)", "$(L)"], "env": [{"name": "A", "value": "x" * 70_000}, LATER]}, ".args[0]", 140_000),
    ],
    ids=["word", "variable", "six bytes each", "expanded", "bytes", "beside what comes later"],
)
def test_what_is_written_keeps_a_job_in_the_cloud(fields: dict[str, object], path: str, size: int) -> None:
    main = {"name": "main", "image": "i", **fields}
    spec = {"restartPolicy": "Never", "containers": [main]}
    job = {"metadata": {"name": "j"}, "spec": {"template": {"spec": spec}}}

    (obstacle,) = workload_of(job, namespace="n").obstacles

    assert (obstacle.path, f" {size} bytes" in obstacle.reason) == (f"spec.template.spec.containers[0]{path}", True)


@given(st.lists(st.text('a<\n"é$()AB\u2028', max_size=40), min_size=1, max_size=4), st.sampled_from("a<\né\u2028"))
def test_what_is_written_is_measured_as_what_comes_of_it(words: list[str], char: str) -> None:
    env = [{"name": "A", "value": char * 30_000}, {"name": "B", "value": "$(A)$(A)"}]
    main = {"name": "main", "image": "i", "env": env, "args": words}
    spec = {"restartPolicy": "Never", "containers": [main]}
    workload = workload_of({"metadata": {"name": "j"}, "spec": {"template": {"spec": spec}}}, namespace="n")
    (read,) = workload.containers
    expected: tuple[Obstacle, ...] = ()
    try:
        limits.check(read, read.path, expand.argv(read) or (), expand.literal_env(read))
    except TooLarge as error:
        expected = (Obstacle(error.path, error.message),)

    assert workload.obstacles == expected


def test_words_are_measured_without_being_built() -> None:
    spec = {"restartPolicy": "Never", "containers": [_amplified("a", 30)]}
    job = {"metadata": {"name": "j"}, "spec": {"template": {"spec": spec}}}
    tracemalloc.start()
    try:
        workload_of(job, namespace="n")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < 500_000  # of 720,000 characters
