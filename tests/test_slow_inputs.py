"""No Job costs the gate much more than its size: what a review takes is counted in lines of Python, not in seconds.

Hypothesis puts Jobs together from parts that can be many, long, deep or alike, and looks for those that take most. It
does so for longer, with as many Jobs, where ``BATCHGATE_SLOW_INPUTS=20000`` is set.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings, target
from hypothesis import strategies as st

from router import names, policy
from router.errors import JobError
from router.gate.judging import Gate, judge
from router.policy.decision import Requester
from tests.gates import PLACES, RULES, gate, sized
from tests.steps import TooManySteps, steps_of

ADA: Final = Requester("ada", (), "default")
EXAMPLES: Final = int(os.environ.get("BATCHGATE_SLOW_INPUTS", "120"))
MOST_STEPS: Final = 3_000_000
"""Lines for the worst Job: about half a second of CPU time."""
PER_BYTE: Final = 60
LARGEST: Final = 64 * 1024
"""Bytes of a Job that is made here: above it the bounds on sizes are met."""


def _gate() -> Gate:
    places = PLACES.replace("    workDir:", "    resultsDir: /results\n    workDir:")
    return replace(gate(), policy=policy.load({"places.yaml": places, "rules.yaml": RULES}))


def _many(make: Callable[[int], Any], count: int, alike: bool) -> list[Any]:
    """So many things, each with its number or all with the first."""
    return [make(0 if alike else number) for number in range(count)]


def _many_terms(terms: int, expressions: int, alike: bool) -> dict[str, Any]:
    """A node affinity of so many terms, the first of them with so many expressions."""
    listed = _many(lambda n: {"key": f"k{n}", "operator": "NotIn", "values": [f"v{n}"]}, expressions, alike)
    found = [{"matchExpressions": listed}] if listed else []
    found += [
        {"matchExpressions": [one]} for one in _many(lambda n: {"key": f"t{n}", "operator": "Exists"}, terms, alike)
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": found}}
    return {"nodeAffinity": required} if found else {}


# Each part is made of a shape, how often, and whether all are alike.
WORDS: Final = ["a", "**", "*", "$(A)", "$(B", "'", "\n", "\\", "mpirun", "-np", "-x", "[", "~", "$", ";", "(a+)+", "é"]
COUNTS: Final = st.sampled_from([0, 1, 3, 20, 100, 400])
SELDOM: Final = st.sampled_from([0] * 8 + [1, 100])
"""Of what keeps a Job in the cloud, where little is done for it."""


@st.composite
def _path(draw: st.DrawFn) -> str:
    parts = draw(st.lists(st.sampled_from(["**", "**", "a", "*", "*a", "a*" * 9, "[ab]*" * 4]), min_size=1, max_size=2))
    return "/" + "/".join(parts * (draw(st.sampled_from([3, 30, 30, 90, 400])) // len(parts) or 1))


@st.composite
def _hint(draw: st.DrawFn) -> str:
    count = draw(st.sampled_from([5, 30, 100]))
    lines = draw(st.lists(_path().filter(lambda path: path.count("/") < 32), min_size=1, max_size=3))
    return "\n".join([f"{lines[n % len(lines)][1:]}{n}" for n in range(count)])


@st.composite
def _text(draw: st.DrawFn) -> str:
    unit = "".join(draw(st.lists(st.sampled_from(WORDS), min_size=1, max_size=4)))
    return draw(st.sampled_from(["", " ", "/"])).join([unit] * draw(COUNTS))


@st.composite
def _container(draw: st.DrawFn, number: int) -> dict[str, Any]:
    path, text, alike = draw(_path()), draw(_text()), draw(st.booleans())
    sub = draw(st.sampled_from(["", "", path[1:]]))
    return {
        "name": f"c{number}",
        "image": draw(st.sampled_from(["i", "a/" * 100 + "b:1"])),
        "command": draw(st.sampled_from([["sh", "-c", text], [text], ["mpirun", *text.split(" ")], ["true"]])),
        "args": _many(lambda n: f"{text[:40]}{n}", draw(COUNTS), alike),
        "env": _many(lambda n: {"name": f"A{n}", "value": f"$(A{max(0, n - 1)}){text[:60]}"}, draw(COUNTS), alike),
        "workingDir": draw(st.sampled_from(["/", path])),
        "volumeMounts": _many(lambda n: {"name": "v", "mountPath": f"{path}/{n}", "subPath": sub}, draw(COUNTS), alike),
        "resources": {"requests": {"cpu": "3", "memory": draw(st.sampled_from(["1Gi", "2Gi", "1e3", "9" * 400]))}},
    }


@st.composite
def jobs(draw: st.DrawFn) -> dict[str, Any]:
    """A Job of up to LARGEST bytes in which something is much."""
    text, alike = draw(_text()), draw(st.booleans())
    hint = draw(_hint() | _hint() | st.just(""))
    prefix = draw(st.sampled_from([names.PREFIX, names.PREFIX + "result", "a.b/"]))
    annotations = {f"{prefix}{n}{text[:80]}": text[:80] for n in range(draw(COUNTS))}
    annotations |= {names.HINT_RESULTS: hint} if hint else {}
    pod: dict[str, Any] = {
        "restartPolicy": "Never",
        "containers": [draw(_container(number)) for number in range(draw(st.sampled_from([1, 1, 1, 1, 2, 10])))],
        "volumes": [{"name": "v", "emptyDir": {}}, *_many(lambda n: {"name": f"w{n}"}, draw(SELDOM), False)],
        "tolerations": _many(lambda n: {"key": f"k{n}", "operator": "Exists"}, draw(SELDOM), alike),
        "nodeSelector": {f"a{n}": text[:60] for n in range(draw(SELDOM))},
        "affinity": _many_terms(draw(SELDOM), draw(SELDOM), alike),
    }
    metadata = {"name": "j", "labels": {f"l{n}": "x" for n in range(draw(COUNTS))}, "annotations": annotations}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {"template": {"metadata": {"annotations": {}}, "spec": pod}},
    }


def _judged(job: dict[str, Any], known: Gate) -> None:
    with contextlib.suppress(JobError):
        judge(job, requester=ADA, gate=known)


@pytest.mark.timeout(0 if "BATCHGATE_SLOW_INPUTS" in os.environ else 600)
def test_no_job_takes_many_more_steps_than_it_has_bytes() -> None:
    known = _gate()
    _judged({"metadata": {"name": "j"}, "spec": {"template": {"spec": sized("3")}}}, known)  # what is made once

    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
    @given(job=jobs())
    def search(job: dict[str, Any]) -> None:
        size = len(json.dumps(job))
        if size > LARGEST:
            return
        most = min(MOST_STEPS, 1_500_000 + PER_BYTE * size)
        try:
            count = steps_of(lambda: _judged(job, known), most)
        except TooManySteps:
            pytest.fail(f"a Job of {size} bytes takes more than {most} steps")
        target(float(count), label="steps")
        target(count / size, label="steps a byte")

    search()


def test_the_job_that_took_a_minute_is_refused_in_few_steps() -> None:
    """27 KB: 100 lines of 31 times ``**/``, 20 mounts 400 levels deep."""
    mounts = [{"name": "v", "mountPath": "/" + "/".join(["a"] * 400) + f"/m{n}"} for n in range(20)]
    container = {"name": "c", "image": "i", "volumeMounts": mounts, "resources": {"requests": {"cpu": "4"}}}
    pod = {"restartPolicy": "Never", "volumes": [{"name": "v", "emptyDir": {}}], "containers": [container]}
    hint = {names.HINT_RESULTS: "\n".join("**/" * 31 + f"x{n}" for n in range(100))}
    job = {"metadata": {"name": "j", "annotations": hint}, "spec": {"template": {"spec": pod}}}

    def judged() -> None:
        with pytest.raises(JobError, match=r"volumeMounts\[0\].mountPath: has more than 100 parts"):
            judge(job, requester=ADA, gate=gate())

    assert steps_of(judged, MOST_STEPS) < 100_000


def test_what_takes_too_many_steps_is_found() -> None:
    def loops() -> None:
        while True:
            pass

    with pytest.raises(TooManySteps):
        steps_of(loops, 1000)
