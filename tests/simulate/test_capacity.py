"""The size of queues: what is given, what the policy declares, and errors that say what to give."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from router import policy as policies
from router.errors import InputError
from router.simulate.capacity import Pool, pools
from tests.simulate.test_play import SITE

GIB = 1024**3
BOTH = "  - {name: a, when: job.cpus >= 2, hpc: [{queue: batch}, {queue: short}]}\n  - {name: rest, cloud: true}\n"
ASKS = "  - {name: a, when: \"queues['short'].freeNodes > 0\", hpc: [{queue: batch}]}\n  - {name: rest, cloud: true}\n"
WHOLE = '  - {name: a, when: "queues.exists(k, queues[k].freeNodes > 0)", hpc: [{queue: batch}]}\n  - {name: rest, cloud: true}\n'
BATCH, SHORT = Pool(("demo/batch",), 9, 4, 8 * GIB, 2), Pool(("demo/short",), 3, 4, None, 0)


@pytest.mark.parametrize("rules", [BOTH, ASKS, WHOLE])
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["demo/batch=9", "demo/short=3"], (BATCH, SHORT)),
        (["demo/short=3", "demo/batch=9x16x1"], (SHORT, Pool(("demo/batch",), 9, 16, 8 * GIB, 1))),
        (["demo/batch, demo/short=9"], (Pool(("demo/batch", "demo/short"), 9, 4, 8 * GIB, 2),)),
    ],
)
def test_sizes(rules: str, given: Sequence[str], expected: tuple[Pool, ...]) -> None:
    assert pools(given, [policies.load({"all.yaml": SITE + rules})]) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], "how many nodes has demo/batch, demo/short? The policy's key nodes says only what one job may use. Give its size, such as: --capacity demo/batch=2 --capacity demo/short=2 (queues that share nodes: --capacity SITE/A,SITE/B=NODES). Hint."),
        (["demo/batch=9"], "how many nodes has demo/short? The policy's key nodes says only what one job may use. Give its size, such as: --capacity demo/short=2 (queues that share nodes: --capacity SITE/A,SITE/B=NODES). Hint."),
        (["demo/batch=9", "demo/batch,demo/short=1"], "--capacity: names queue demo/batch twice; give each queue once"),
        (["batch=9"], "--capacity batch=9: no rule sends Jobs to a queue batch, or reads its state; the queues of rules are: demo/batch, demo/short"),
        *(([text], f"--capacity {text}: is no size of a queue; write SITE/QUEUE=NODES, or SITE/QUEUE=NODESxCORES or NODESxCORESxGPUS for what a node has") for text in ("demo/batch", "demo/batch=", "demo/batch=0", "demo/batch=1x0", "demo/batch=1x000", "demo/batch=-1", "demo/batch=1y2", "=3", "demo/batch=٣")),
    ],
)  # fmt: skip
def test_errors_say_what_to_give(given: Sequence[str], expected: str) -> None:
    with pytest.raises(InputError) as error:
        pools(given, [policies.load({"all.yaml": SITE + BOTH})], " Hint.")

    assert str(error.value) == expected
