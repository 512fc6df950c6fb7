"""Whether a policy's decisions depend on the groups of who asks."""

from __future__ import annotations

import pytest

from router.policy.groups import reads_groups
from tests.gates import PLACES, checked

OF_ALL = PLACES.replace("  - {groups: [physics], as: shared-phys}\n", "")
RULE = 'rules:\n  - {{name: one, when: "{when}", hpc: [{{queue: workq}}]}}\n  - {{name: rest, cloud: true}}\n'


@pytest.mark.parametrize(
    ("places", "when", "expected"),
    [
        (OF_ALL, "job.cpus > 1", False),
        (OF_ALL, "request.user == 'groups' && job.cpus >= 2", False),
        (PLACES, "job.cpus > 1", True),
        (OF_ALL, "'physics' in request.groups", True),
        (OF_ALL, "job.cpus > 2 && !request.groups.exists(g, g.startsWith('student'))", True),
        (OF_ALL, "[request].exists(r, 'physics' in r.groups)", True),
    ],
)
def test_a_policy_that_reads_groups(places: str, when: str, expected: bool) -> None:
    assert reads_groups(checked(RULE.format(when=when), places)) is expected
