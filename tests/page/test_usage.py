"""What a Pod used of what it asked for, and what nobody tells of that."""

from __future__ import annotations

import json
from typing import Any

import pytest

from router import names
from router.operating.story import decision, story
from router.page.models.jobpage import job_page
from router.page.models.looking import JobObjects
from router.page.models.usage import Asked, Used, asked_of, usage
from router.policy.decision import QueueStates, Requester
from router.policy.loading import load
from tests.operating.objects import NOW
from tests.page.objects import JOBS, judged, pending, ran
from tests.policies import LARGE_GO_TO_HPC

GIB = 1 << 30
POLICY = load({"policy.yaml": LARGE_GO_TO_HPC})
BY_REQUESTS = load({"policy.yaml": "ruleDefaults: {figures: {memory: requests}}\n" + LARGE_GO_TO_HPC})
WHOLE = {"mem": "3145728kb", "cput": "00:25:00", "walltime": "00:25:00"}


def asking(*, init: tuple[dict[str, Any], ...] = (), main: tuple[dict[str, Any], ...], **pod: Any) -> dict[str, Any]:
    """A Job whose containers have these ``resources``; ``restartPolicy`` beside them makes a sidecar."""
    made = judged("j")

    def containers(kind: str, listed: tuple[dict[str, Any], ...]) -> list[dict[str, Any]]:
        return [
            {
                "name": f"{kind}{number}",
                "image": "busybox",
                **({"restartPolicy": one["restartPolicy"]} if "restartPolicy" in one else {}),
                "resources": {key: one[key] for key in ("requests", "limits") if key in one},
            }
            for number, one in enumerate(listed)
        ]

    made["spec"]["template"]["spec"] |= {
        "initContainers": containers("init", init),
        "containers": containers("main", main),
        **pod,
    }
    return made


def of(cpu: str, memory: str, **fields: str) -> dict[str, Any]:
    return {"requests": {"cpu": cpu, "memory": memory}, **fields}


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        (asking(main=(of("2", "4Gi"),)), Asked(2000, 4 * GIB)),
        (asking(main=(of("2", "4Gi"), of("1", "1Gi"))), Asked(3000, 5 * GIB)),
        (asking(init=(of("1", "1Gi"),), main=(of("2", "4Gi"),)), Asked(2000, 4 * GIB)),  # they do not run together
        (asking(init=(of("1", "8Gi"), of("3", "1Gi")), main=(of("2", "4Gi"),)), Asked(3000, 8 * GIB)),
        (asking(init=(of("1", "1Gi", restartPolicy="Always"),), main=(of("2", "4Gi"),)), Asked(3000, 5 * GIB)),
        (
            asking(main=({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "4", "memory": "2Gi"}},)),
            Asked(1000, 2 * GIB),
        ),
        (asking(main=({"limits": {"nvidia.com/gpu": "2"}},), activeDeadlineSeconds=600), Asked(gpus=2, walltime=600)),
        (asking(main=({},)), Asked()),
        (asking(main=(of("much", "4Gi"),)), Asked()),
    ],
)
def test_what_a_pod_asks_for(job: dict[str, Any], expected: Asked) -> None:
    """As the scheduler and the gate count it: the largest init container, or all that run together."""
    assert asked_of(job, decision(job), None) == expected


def test_a_rule_may_count_by_the_other_amount() -> None:
    job = asking(main=({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "4", "memory": "2Gi"}},))

    found = [asked_of(job, decision(job), one) for one in (None, POLICY, BY_REQUESTS)]

    assert found == [Asked(1000, 2 * GIB), Asked(1000, 2 * GIB), Asked(1000, GIB)]


def over(ended: str = "08:30:00") -> dict[str, Any]:
    """A Pod of the Job that has ended, or runs."""
    return ran("p", "j", created="08:00:00", started="08:05:00", ended=ended)


MEMORY, CORES = Used("Memory", "3 GiB", "4 GiB", 75), Used("Core time", "25m", "50m", 50)


@pytest.mark.parametrize(
    ("used", "expected"),
    [
        ({**WHOLE, "x": "odd"}, (MEMORY, CORES, Used("Time", "25m", "50m", 50), Used("x", "odd", "", None))),
        ({"walltime": "00:25:00"}, (Used("Time", "25m", "50m", 50),)),
        (
            {"walltime": "00:25:00", "mem": "1.50G"},
            (Used("Memory", "1.5 GiB", "4 GiB", 38), Used("Time", "25m", "50m", 50)),
        ),
        ({**WHOLE, "mem": "0kb", "cput": "00:00:00", "vmem": "0kb"}, (Used("Time", "25m", "50m", 50),)),  # uncounted
        ({"mem": "some"}, (Used("Memory", "some", "4 GiB", None),)),
        ({}, ()),
    ],
)
def test_usage_against_what_was_asked(used: dict[str, str], expected: tuple[Used, ...]) -> None:
    one = ran("done-1", "done", created="08:00:00", started="08:05:00", ended="08:30:00")
    one["metadata"]["annotations"] = {names.KEY_RESOURCES_USED: json.dumps(used)}
    found = story(JOBS[0], [one], [])

    assert usage(found.pods[0], Asked(2000, 4 * GIB, None, 3000)) == expected


PLAIN, WITH_GPU = asking(main=(of("2", "4Gi"),)), judged("j")
UNTOLD = "Not told by the batch system: "


@pytest.mark.parametrize(
    ("job", "pod", "used", "expected"),
    [
        (PLAIN, over(), WHOLE, ""),
        (PLAIN, over(), {"walltime": "1"}, f"{UNTOLD}Memory, Core time."),
        (PLAIN, over(), {}, f"{UNTOLD}Memory, Core time, Time."),
        (WITH_GPU, over(), WHOLE, f"{UNTOLD}GPU use."),
        (PLAIN, pending("p", "j", "Queued", ""), {}, ""),
        (
            PLAIN,
            over(""),
            {},
            "What it uses is told here when its batch job has ended; until then ask kubectl top pod.",
        ),
        (
            judged("j", site=""),
            over(""),
            {},
            "What Pods in the cloud use is not looked at here: ask kubectl top pod.",
        ),
    ],
)
def test_what_is_unknown_of_a_pods_use_is_said(
    job: dict[str, Any], pod: dict[str, Any], used: dict[str, str], expected: str
) -> None:
    pod["metadata"]["annotations"] = {names.KEY_RESOURCES_USED: json.dumps(used)} if used else {}

    found = job_page(
        JobObjects(job, (pod,), (), (), {}), (POLICY, ""), NOW, QueueStates(), Requester("ada", (), "default")
    )

    assert [one.untold for one in found.pods] == [expected]
