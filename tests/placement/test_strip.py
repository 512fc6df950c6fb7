"""What is taken out of a Job, what is put back, and what is said of it."""

from __future__ import annotations

import difflib
import json
from typing import Any

import pytest

from router.errors import JobError
from router.placement import Taken, place, strip
from tests.placement.given import RECORD, SCRIPT, job_of, to_hpc

OURS = "batchgate.dev/"
REPLACED = OURS + "replaced"
KNOWN = "launcher, nodes, ranks, ranks-per-node, results, route, walltime"


def with_replaced(was: Any, added: Any = (), *, spec: Any = None, pod: Any = None) -> dict[str, Any]:
    return job_of(spec, pod, annotations={REPLACED: json.dumps({"was": was, "added": list(added)})})


def test_an_ordinary_job_is_returned_as_it_is() -> None:
    job = job_of(labels={"app": "a", "batchgate.devious/x": "y"}, annotations={OURS + "walltime": "1h"})

    stripped = strip(job)

    assert stripped.job is job
    assert (stripped.taken, stripped.warnings) == ((), ())


def test_forged_keys_are_taken_out_wherever_they_stand() -> None:
    job = job_of(
        pod={
            "nodeName": "workq.hpc1.batchgate",
            "nodeSelector": {OURS + "queue": "workq", "disk": "ssd"},
            "tolerations": [{"key": OURS + "queue", "operator": "Exists"}, {"key": "gpu"}],
        },
        labels={OURS + "target": "hpc"},
        annotations={OURS + "signature": "forged", "a": "b"},
    )
    job["spec"]["template"]["metadata"] = {"labels": {OURS + "site": "hpc1"}, "annotations": {OURS + "script": "rm"}}

    stripped = strip(job)

    assert stripped.job == job_of(
        pod={"nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "gpu"}]}, annotations={"a": "b"}
    ) | {
        "spec": {
            **job["spec"],
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "c", "image": "i", "command": ["true"]}],
                    "nodeSelector": {"disk": "ssd"},
                    "tolerations": [{"key": "gpu"}],
                }
            },
        }
    }
    assert stripped.taken == (
        Taken("metadata.labels", OURS + "target", "hpc"),
        Taken("metadata.annotations", OURS + "signature", "forged"),
        Taken("spec.template.metadata.labels", OURS + "site", "hpc1"),
        Taken("spec.template.metadata.annotations", OURS + "script", "rm"),
        Taken("spec.template.spec.nodeSelector", OURS + "queue", "workq"),
        Taken("spec.template.spec.tolerations", OURS + "queue", {"key": OURS + "queue", "operator": "Exists"}),
        Taken("spec.template.spec.nodeName", "nodeName", "workq.hpc1.batchgate"),
    )


@pytest.mark.parametrize(
    ("key", "warning"),
    [
        (
            "batchgate.dev/waltime",
            "batchgate.dev/waltime is unknown to Batchgate and was removed; did you mean batchgate.dev/walltime?",
        ),
        (
            "batchgate.dev/rank",
            "batchgate.dev/rank is unknown to Batchgate and was removed; did you mean batchgate.dev/ranks?",
        ),
        (
            "a.batchgate.dev/nodes",
            "a.batchgate.dev/nodes is unknown to Batchgate and was removed; did you mean batchgate.dev/nodes?",
        ),
        (
            "batchgate.dev/zzz",
            f"batchgate.dev/zzz is unknown to Batchgate and was removed; hints are {KNOWN}.",
        ),
    ],
)
def test_an_unknown_key_is_taken_out_and_named_with_the_nearest_hint(key: str, warning: str) -> None:
    stripped = strip(job_of(annotations={key: "1"}))

    assert stripped.job == job_of()
    assert stripped.warnings == (warning,)


@pytest.mark.parametrize("kind", ["labels", "annotations"])
def test_many_unknown_keys_are_counted_and_only_the_first_are_looked_at(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    near = difflib.get_close_matches

    def counted(*args: Any, **known: Any) -> list[str]:
        asked.append(args)
        return near(*args, **known)

    monkeypatch.setattr(difflib, "get_close_matches", counted)

    stripped = strip(job_of(**{kind: {f"{OURS}walltim{index}": "1" for index in range(500)}}))

    assert stripped.job == job_of()
    assert len(stripped.warnings) == 11
    assert stripped.warnings[-1] == "490 more keys under batchgate.dev/ are unknown to Batchgate and were removed."
    assert len(asked) == 10


def test_a_key_that_is_longer_than_any_name_is_compared_with_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(difflib, "get_close_matches", None)

    stripped = strip(job_of(annotations={OURS + "w" * 900_000: "1"}))

    assert len(stripped.warnings[0]) < 500


def test_only_the_first_of_many_things_that_are_not_believed_are_named() -> None:
    stripped = strip(with_replaced({f"a{index}": index for index in range(500)}, [[], "x"]))

    assert len(stripped.warnings) == 11
    assert stripped.warnings[-1] == f"{REPLACED}: 492 more entries are not from Batchgate; it was ignored."


def test_a_hint_among_the_labels_is_named() -> None:
    stripped = strip(job_of(labels={OURS + "walltime": "60"}))

    assert stripped.job == job_of()
    assert stripped.warnings == (
        "batchgate.dev/walltime is a hint: write it among the annotations, not the labels; it was ignored.",
    )


def test_hints_stay_on_job_and_template() -> None:
    job = job_of(
        annotations={OURS + name: "1" for name in ("walltime", "ranks", "ranks-per-node", "nodes", "results", "route")}
    )
    job["spec"]["template"]["metadata"] = {"annotations": {OURS + "walltime": "2"}}

    assert strip(job).job is job


@pytest.mark.parametrize(
    ("was", "added", "complaint"),
    [
        ({"spec.parallelism": 9}, [], "spec.parallelism cannot have been 9"),
        ({"spec.podReplacementPolicy": "Never"}, [], 'spec.podReplacementPolicy cannot have been "Never"'),
        ({"spec.activeDeadlineSeconds": -1}, [], "spec.activeDeadlineSeconds cannot have been -1"),
        ({"spec.activeDeadlineSeconds": True}, [], "spec.activeDeadlineSeconds cannot have been true"),
        ({"spec.activeDeadlineSeconds": "60"}, [], 'spec.activeDeadlineSeconds cannot have been "60"'),
        (
            {"spec.template.spec.tolerations": {"0": {"key": "gpu"}}},
            [],
            "spec.template.spec.tolerations cannot have been",
        ),
        ({"spec.template.spec.tolerations": {"-1": {}}}, [], "spec.template.spec.tolerations cannot have been"),
        ({"spec.template.spec.nodeName": "q.s.batchgate"}, [], "spec.template.spec.nodeName cannot have been"),
        ({"spec.template.metadata.labels": {"a": "b"}}, [], "spec.template.metadata.labels cannot have been"),
        ({}, [["spec.podFailurePolicy"]], '["spec.podFailurePolicy"] is not a field that Batchgate adds'),
        ({}, ["spec.template.spec.containers"], '"spec.template.spec.containers" is not a field that Batchgate adds'),
    ],
)
def test_what_replaced_cannot_say_is_ignored_and_named(was: Any, added: Any, complaint: str) -> None:
    job = with_replaced(was, added, spec={"podReplacementPolicy": "Failed"})

    stripped = strip(job)

    assert stripped.job == job_of({"podReplacementPolicy": "Failed"})
    (warning,) = stripped.warnings
    assert complaint in warning


@pytest.mark.parametrize(
    "text",
    ["", "null", "[]", "{", '{"was":[]}', '{"was":{},"added":{}}', '{"other":1}', "[" * 100_000, "1" * 5000, "NaN"],
    ids=lambda text: text[:12],
)
def test_an_unreadable_replaced_is_ignored_and_named(text: str) -> None:
    stripped = strip(job_of(annotations={REPLACED: text}))

    assert stripped.job == job_of()
    assert stripped.warnings == ("batchgate.dev/replaced: it is not JSON as Batchgate writes it; it was ignored.",)


@pytest.mark.parametrize(
    ("was", "added", "spec", "pod", "expected"),
    [
        ({"spec.podReplacementPolicy": "TerminatingOrFailed"}, [], {"podReplacementPolicy": "Failed"}, {}, job_of()),
        (
            {"spec.activeDeadlineSeconds": 60},
            ["spec.template.spec.activeDeadlineSeconds"],
            {},
            {"activeDeadlineSeconds": 60},
            job_of({"activeDeadlineSeconds": 60}),
        ),
        # what the user changed since stays
        (
            {"spec.activeDeadlineSeconds": 60},
            ["spec.template.spec.activeDeadlineSeconds"],
            {"activeDeadlineSeconds": 70},
            {"activeDeadlineSeconds": 80},
            job_of({"activeDeadlineSeconds": 70}, {"activeDeadlineSeconds": 80}),
        ),
        (
            {"spec.template.spec.automountServiceAccountToken": True},
            [],
            {},
            {"automountServiceAccountToken": False},
            job_of(pod={"automountServiceAccountToken": True}),
        ),
        (
            {},
            ["spec.podFailurePolicy"],
            {
                "podFailurePolicy": {
                    "rules": [
                        {"action": "FailJob", "onPodConditions": [{"type": OURS + "OutOfMemory", "status": "True"}]},
                        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [3]}},
                    ]
                }
            },
            {},
            job_of(
                {
                    "podFailurePolicy": {
                        "rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [3]}}]
                    }
                }
            ),
        ),
    ],
    ids=["replacement", "deadline", "changed since", "token", "rules beside ours"],
)
def test_what_we_changed_is_put_back(was: Any, added: Any, spec: Any, pod: Any, expected: Any) -> None:
    assert strip(with_replaced(was, added, spec=spec, pod=pod)).job == expected


def test_a_toleration_that_another_webhook_added_survives_a_second_call() -> None:
    own = [{"key": "gpu"}, {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute", "tolerationSeconds": 5}]
    routed = place(job_of(pod={"tolerations": own}), to_hpc(), SCRIPT, RECORD)
    routed["spec"]["template"]["spec"]["tolerations"].append({"key": "other"})

    assert strip(routed).job == job_of(pod={"tolerations": [*own, {"key": "other"}]})


@pytest.mark.parametrize(
    ("job", "path"),
    [
        ({"metadata": []}, "metadata"),
        ({"metadata": {"labels": "x"}}, "metadata.labels"),
        ({"metadata": {"annotations": [1]}}, "metadata.annotations"),
        ({"spec": 3}, "spec"),
        ({"spec": {"template": "x"}}, "spec.template"),
        ({"spec": {"template": {"metadata": True}}}, "spec.template.metadata"),
        ({"spec": {"template": {"spec": []}}}, "spec.template.spec"),
        ({"spec": {"template": {"spec": {"nodeSelector": []}}}}, "spec.template.spec.nodeSelector"),
        ({"spec": {"template": {"spec": {"tolerations": {}}}}}, "spec.template.spec.tolerations"),
    ],
)
def test_a_field_of_the_wrong_type_is_named(job: Any, path: str) -> None:
    with pytest.raises(JobError) as caught:
        strip(job, root="spec.jobTemplate.")

    assert caught.value.path == f"spec.jobTemplate.{path}"
