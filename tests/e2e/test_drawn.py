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
    different = []
    for batch in _batches(list(jobs)):
        began = time.monotonic()
        seen = sidebyside.run(where, {name: jobs[name] for name in batch})
        virtual = [set(sidebyside.on_virtual_nodes(where, place)) for place in where.both]
        assert virtual == [{False}, {True}], "else two clouds would be compared"
        for name, pair in seen.items():
            if found := oracle.differences(*pair):
                different.append(name)
                _keep(name, jobs[name], found)
        with capsys.disabled():
            sys.stderr.write(f"\n{batch[-1]} from {start}: {time.monotonic() - began:.0f} s, {len(different)} differ\n")
        sidebyside.clear(where)

    assert different == [], f"drawn from BATCHGATE_DRAWN_START={start}; see {KEPT}"


def _batches(names: list[str]) -> list[list[str]]:
    return [names[first : first + AT_ONCE] for first in range(0, len(names), AT_ONCE)]


def _keep(name: str, job: dict[str, Any], found: dict[str, Any]) -> None:
    (KEPT / f"{name}.yaml").write_text(yaml.safe_dump(job | {"metadata": {"name": name}}, sort_keys=False))
    (KEPT / f"{name}.json").write_text(json.dumps(found, indent=1, ensure_ascii=False))
