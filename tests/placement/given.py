"""Decisions and Jobs made by hand, and hypothesis' way of making many of them."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from router.hpc.requests import Allocation, Chunk
from router.placement import Record
from router.policy.decision import Decision, Identity, Route
from router.policy.schema import Account, Choice, Retries, Rule
from router.site.schema import Queue, Site

SCRIPT = "#!/bin/sh\n#PBS -q workq\ntrue\n"
RECORD = Record(requester="ada", account='{"user":"ada"}')


def route_to(
    queue: str = "workq", site: str = "hpc1", *, deadline: str = "run", tokens: str = "cloud", **retries: Any
) -> Route:
    """A route whose policy says what the placement depends on."""
    places = (Queue(name=queue, nodes=4, cpus_per_node=8),)
    return Route(
        site=Site(name=site, system="openpbs", work_dir="/work", tokens=tokens, queues=places),
        queue=places[0],
        identity=Identity("ada", None, None, Account(users=("ada",), as_="ada")),
        allocation=Allocation((Chunk(1, 1, 4, 4, None, 0),), 1, 4, 3600, 3200, 30),
        profile=None,
        rule=Rule(name="big", hpc=(Choice(queue=queue),), deadline=deadline, retries=Retries(**retries)),
    )


def to_hpc(*args: Any, reason: str = "it asks for 4 cores", **kwargs: Any) -> Decision:
    """A decision for HPC; the arguments are those of ``route_to``."""
    return Decision("hpc", "big", reason, route_to(*args, **kwargs))


STAYS = Decision("cloud", "small", "it asks for 1 core")


def job_of(spec: dict[str, Any] | None = None, pod: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    """A Job as the API server shows it to a webhook, with further fields of its spec and of its Pod's."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "namespace": "default", **metadata},
        "spec": {
            "parallelism": 1,
            "completions": 1,
            "backoffLimit": 6,
            "podReplacementPolicy": "TerminatingOrFailed",
            "suspend": False,
            **(spec or {}),
            "template": {
                "metadata": {},
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "c", "image": "i", "command": ["true"]}],
                    **(pod or {}),
                },
            },
        },
    }


# --- many Jobs ---------------------------------------------------------------------------------------------------

_NAMES = (
    "target",
    "site",
    "queue",
    "rule",
    "reason",
    "script",
    "signature",
    "account",
    "walltime",
    "ranks",
    "wat",
    "replaced",
)
_KEYS = st.one_of(
    st.sampled_from(["app", "example.com/owner", "batchgate.devious/x", "a.batchgate.dev/walltime"]),
    st.sampled_from(_NAMES).map("batchgate.dev/".__add__),
)
_TEXT = st.sampled_from(["", "x", "cloud", "hpc", "hpc1", "workq", "1:00:00", "é\n", "{}"])
_STRINGS = st.none() | st.dictionaries(_KEYS, _TEXT, max_size=4)
_TOLERATION = st.fixed_dictionaries(
    {"operator": st.sampled_from(["Exists", "Equal"])},
    optional={
        "key": st.sampled_from(
            ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable", "gpu", "", "batchgate.dev/queue"]
        ),
        "effect": st.sampled_from(["NoExecute", "NoSchedule", ""]),
        "tolerationSeconds": st.sampled_from([0, 30, 300]),
        "value": _TEXT,
    },
)
_FAILURES = st.sampled_from(
    [
        {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}]},
        {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]},
    ]
)
_WAS: st.SearchStrategy[Any] = st.dictionaries(
    st.sampled_from(
        [
            "spec.activeDeadlineSeconds",
            "spec.podReplacementPolicy",
            "spec.podFailurePolicy",
            "spec.template.spec.tolerations",
            "spec.template.spec.activeDeadlineSeconds",
            "spec.template.spec.automountServiceAccountToken",
            "spec.template.metadata",
            "spec.template.spec.nodeSelector",
            "spec.parallelism",
        ]
    ),
    st.sampled_from([None, 0, 60, True, "Failed", "TerminatingOrFailed", {}, [], {"0": {"key": "gpu"}}, {"x": 1}]),
)


@st.composite
def jobs(draw: st.DrawFn, forged: st.SearchStrategy[Any] = _WAS) -> dict[str, Any]:
    """Jobs of any sort: with and without each field that placement touches, forged keys, odd but valid values."""
    metadata: dict[str, Any] = draw(
        st.fixed_dictionaries({"name": st.just("j")}, optional={"labels": _STRINGS, "annotations": _STRINGS})
    )
    template = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "metadata": st.none()
                | st.fixed_dictionaries({}, optional={"labels": _STRINGS, "annotations": _STRINGS})
            },
        )
    )
    pod = draw(
        st.fixed_dictionaries(
            {
                "restartPolicy": st.sampled_from(["Never", "OnFailure"]),
                "containers": st.just([{"name": "c", "image": "i"}]),
            },
            optional={
                "nodeName": st.sampled_from([None, "", "worker-1", "other.site.batchgate"]),
                "nodeSelector": _STRINGS,
                "tolerations": st.none() | st.lists(_TOLERATION, max_size=4),
                "activeDeadlineSeconds": st.sampled_from([None, 60, 90]),
                "automountServiceAccountToken": st.sampled_from([None, True, False]),
                "serviceAccountName": st.sampled_from(["default", "runner"]),
            },
        )
    )
    spec = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "podReplacementPolicy": st.sampled_from([None, "Failed", "TerminatingOrFailed"]),
                "activeDeadlineSeconds": st.sampled_from([None, 0, 60, 90, 2**31]),
                "podFailurePolicy": st.none() | _FAILURES,
                "backoffLimitPerIndex": st.sampled_from([0, 1]),
                "suspend": st.booleans(),
            },
        )
    )
    if draw(st.booleans()):
        was = draw(forged)
        text = draw(
            st.sampled_from(
                [json.dumps({"was": was, "added": sorted(was)}), json.dumps({"was": was, "added": []}), "{", "[]"]
            )
        )
        metadata["annotations"] = {**(metadata.get("annotations") or {}), "batchgate.dev/replaced": text}
    return {"kind": "Job", "metadata": metadata, "spec": {**spec, "template": {**template, "spec": pod}}}


sent = st.builds(
    to_hpc,
    st.sampled_from(["workq", "gpu_long", "Q"]),
    st.sampled_from(["hpc1", "hpc2"]),
    deadline=st.sampled_from(["run", "total"]),
    tokens=st.sampled_from(["cloud", "stage"]),
    reason=st.sampled_from(["because", "it is large"]),
    on_walltime=st.booleans(),
    on_memory=st.booleans(),
    on_deletion=st.booleans(),
    disruptions=st.sampled_from([0, 5]),
)
"""Decisions that send a Job to HPC."""
decisions = st.one_of(st.just(STAYS), sent)
records = st.builds(
    Record,
    requester=st.sampled_from(["ada", "system:serviceaccount:a:b"]),
    account=st.just('{"user":"ada"}'),
)
scripts = st.sampled_from([SCRIPT, "#!/bin/sh\n# other\n"])
