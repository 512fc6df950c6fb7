"""Drawn Jobs on a real kubelet and on a virtual node: what containers print and what the API shows is the same.

``BATCHGATE_DRAWN_JOBS`` is their number, ``BATCHGATE_DRAWN_START`` what they are drawn from: both are printed, and a Job that
differs is written to ``build/e2e/drawn`` with what was seen.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Iterator
from typing import Any, Final

import pytest
import yaml

from kindcluster.layout import SOURCE
from tests.e2e import oracle, sidebyside
from tests.e2e.conftest import Both
from tests.e2e.drawn import draw_jobs, fresh
from tests.e2e.drawnvolumes import DATA
from tests.e2e.sidebyside import Places

pytestmark = [pytest.mark.kind, pytest.mark.timeout(7200)]

NUMBER: Final = int(os.environ.get("BATCHGATE_DRAWN_JOBS", "80"))
AT_ONCE: Final = 40
"""A kubelet takes 110 Pods."""
KEPT: Final = SOURCE / "build" / "e2e" / "drawn"


@pytest.fixture(scope="module")
def where(both: Both) -> Iterator[Places]:
    with sidebyside.places(both.cluster, DATA, both.agent) as found:
        yield found


def test_they_show_the_same(where: Places, capsys: pytest.CaptureFixture[str]) -> None:
    start = int(os.environ.get("BATCHGATE_DRAWN_START", fresh()))
    jobs = {f"drawn-{number:04}": job for number, job in enumerate(draw_jobs(NUMBER, start))}
    shutil.rmtree(KEPT, ignore_errors=True)
    KEPT.mkdir(parents=True)
    once: dict[str, Any] = {}
    for batch in _batches(list(jobs)):
        began = time.monotonic()
        once |= _differing(where, {name: jobs[name] for name in batch})
        with capsys.disabled():
            sys.stderr.write(f"\n{batch[-1]} from {start}: {time.monotonic() - began:.0f} s, {sorted(once)} differ\n")
    # A kubelet races too: on a busy machine a Pod now and then has no /etc/hosts, or a log that cannot be read yet.
    again = [_differing(where, {name: jobs[name] for name in batch}) for batch in _batches(list(once))]
    twice = {name: once[name] for found in again for name in found}
    with capsys.disabled():
        sys.stderr.write(f"\ndiffered in the first of two runs only: {sorted(once.keys() - twice.keys())}\n")

    assert sorted(twice) == [], f"drawn from BATCHGATE_DRAWN_START={start}; see {KEPT}"


def _differing(where: Places, jobs: dict[str, Any]) -> dict[str, Any]:
    """Run Jobs on both sides; by name the differences of those that differ, which are kept as files too."""
    seen = sidebyside.run(where, jobs)
    virtual = [set(sidebyside.on_virtual_nodes(where, place)) for place in where.both]
    assert virtual == [{False}, {True}], "else two clouds would be compared"
    sidebyside.clear(where)
    different = {name: found for name, pair in seen.items() if (found := oracle.differences(*pair))}
    for name, found in different.items():
        _keep(name, jobs[name], found)
    return different


def _batches(names: list[str]) -> list[list[str]]:
    return [names[first : first + AT_ONCE] for first in range(0, len(names), AT_ONCE)]


def _keep(name: str, job: dict[str, Any], found: dict[str, Any]) -> None:
    (KEPT / f"{name}.yaml").write_text(yaml.safe_dump(job | {"metadata": {"name": name}}, sort_keys=False))
    (KEPT / f"{name}.json").write_text(json.dumps(found, indent=1, ensure_ascii=False))
