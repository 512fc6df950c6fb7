"""The one path that webhook and command line share."""

from __future__ import annotations

import copy
import hashlib
import json
import tracemalloc
from dataclasses import replace
from typing import Any

import pytest

from router import placement, policy
from router.errors import JobError
from router.gate.judging import judge
from router.placement import LARGEST_ANNOTATIONS, oversize, signing
from router.pod import template as podtemplate
from router.policy.decision import Requester
from router.workload.cluster import Cluster
from router.workload.quotas import Quota
from tests.allowed import surplus, surplus_kept
from tests.gates import ISSUED_AT, KEY, PLACES, RULES, checked, gate, sized
from tests.placement.given import job_of

OURS = "batchgate.dev/"
ADA = Requester("ada", (), "default")
STRICT = Requester("ada", (), "strict")


def test_a_large_job_is_routed_scripted_and_signed() -> None:
    job = job_of(pod=sized("3"), annotations={OURS + "results": "out.dat"})
    before = copy.deepcopy(job)

    judged = judge(job, requester=ADA, gate=gate())

    assert job == before
    assert judged.job is job
    assert judged.decision is not None
    assert judged.decision.route is not None
    assert (judged.decision.target, judged.decision.rule, judged.decision.route.queue.name) == ("hpc", "large", "small")
    assert surplus(job, judged.routed) == []
    template = judged.routed["spec"]["template"]["metadata"]["annotations"]
    assert judged.script is not None
    assert template[OURS + "script"] == judged.script.own
    assert template[OURS + "account"] == '{"user":"ada","account":"phys"}'
    claims = signing.Claims(
        issued_at=ISSUED_AT + 2,
        namespace="default",
        requester="ada",
        site="hpc1",
        queue="small",
        account='{"user":"ada","account":"phys"}',
        results=("out.dat",),
        script_sha256=signing.script_digest(judged.script.own),
        template_sha256=podtemplate.digest(judged.routed["spec"]["template"]["spec"]),
        groups_sha256=hashlib.sha256(b"").hexdigest(),
    )
    keys = {signing.key_id(KEY.public_key()): KEY.public_key()}
    assert signing.verify(template[OURS + "signature"], claims, keys).issued_at == ISSUED_AT


def test_a_small_job_stays_without_a_word() -> None:
    job = job_of(pod=sized("500m"))

    judged = judge(job, requester=ADA, gate=gate())

    assert judged.warnings == ()
    assert judged.script is None
    assert surplus_kept(job, judged.routed) == []
    assert judged.routed["metadata"]["labels"] == {OURS + "target": "cloud"}
    assert judged.routed["metadata"]["annotations"][OURS + "requester"] == "ada"
    assert "annotations" not in judged.routed["spec"]["template"].get("metadata", {})


def test_an_ordinary_job_is_told_in_one_sentence_where_it_goes_and_what_is_different_there() -> None:
    judged = judge(job_of(pod=sized("3")), requester=ADA, gate=gate())

    assert judged.warnings == (
        (
            "This Job goes to HPC: rule large sends it to queue small of site hpc1, as ada: 1 node, 3 cores, 1Gi for 1h; there "
            "its containers end after 54m30s and a run killed at its walltime, for memory or by hand is not tried again "
            "(batchgate explain says more)."
        ),
    )
    assert judged.differences == (
        "It names no activeDeadlineSeconds, so its containers end after 54m30s on queue small.",
        "A run that is killed at its walltime, for memory or by hand is not tried again (podFailurePolicy).",
        "A deleted Pod is replaced only once its batch job has ended (podReplacementPolicy: Failed).",
    )


ON_HOST = """
sites:
  - name: here
    system: local
    runtime: host
    workDir: /tmp/work
    queues: [{name: batch, nodes: 1, cpusPerNode: 8, memoryPerNode: 16Gi, walltimeMax: 1h}]
accounts: [{users: [ada], as: ada}]
rules: [{name: %s, hpc: [{queue: batch}]}]
"""
FULL = {"default": (Quota("cloud", {"pods": "5"}, {"pods": "5"}),)}
NO_CONTAINER = "Its commands run without a container, with the site's own programs (runtime: host)."


@pytest.mark.parametrize(
    ("rule", "quotas", "end", "more"),
    [
        ("all", {}, "run without a container and its containers end after 54m30s (batchgate explain says more).", ()),
        ("r" * 63, {}, "1Gi for 1h; there they run without a container (batchgate explain says more).", ()),
        ("all", FULL, "each Pod takes 1, 0 of 5 is left (batchgate explain says more).", (NO_CONTAINER,)),
        ("r" * 63, FULL, "no room for its Pods: ResourceQuota … (batchgate explain says more).", (NO_CONTAINER,)),
    ],
    ids=["short", "long", "longer", "cut"],
)
def test_that_no_container_is_there_is_told_whatever_the_reason(
    rule: str, quotas: dict[str, tuple[Quota, ...]], end: str, more: tuple[str, ...]
) -> None:
    known = gate(policy=policy.load({"all.yaml": ON_HOST % rule}), cluster=Cluster(quotas=quotas))

    first, *others = judge(job_of(pod=sized("3")), requester=ADA, gate=known).warnings

    assert first.endswith(end)
    assert len(first) <= 256
    assert tuple(others) == more


def test_what_is_about_this_job_alone_is_a_warning_of_its_own() -> None:
    pod = sized("3", serviceAccountName="robot")
    job = job_of(pod=pod, annotations={OURS + "reason": "mine", OURS + "walltme": "1h"})

    judged = judge(job, requester=ADA, gate=gate())

    assert [text.partition(" ")[0] for text in judged.warnings] == ["This", "Only", "batchgate.dev/walltme", "Its"], (
        judged.warnings
    )
    assert judged.warnings[3] == "Its Pods get no service account token on HPC (automountServiceAccountToken: false)."


def test_without_a_key_nothing_is_signed() -> None:
    judged = judge(job_of(pod=sized("3")), requester=ADA, gate=gate(signer=None))

    assert OURS + "signature" not in judged.routed["spec"]["template"]["metadata"]["annotations"]


LISTED = "kueue.x-k8s.io/multikueue"


def test_a_job_of_a_listed_controller_is_marked_and_nothing_of_ours_is_left_in_it() -> None:
    """Also where it is a copy of a routed Job, proof and all: the API server may drop the field after this."""
    job = job_of({"managedBy": LISTED, "activeDeadlineSeconds": 600}, sized("3"), labels={"app": "a"})
    copied = judge({**job, "spec": {**job["spec"], "managedBy": None}}, requester=ADA, gate=gate()).routed
    copied["spec"]["managedBy"] = LISTED

    judged = judge(copied, requester=Requester("ben", (), "default"), gate=gate())

    assert judged.routed == {**job, "metadata": {**job["metadata"], "annotations": {OURS + "managed-by": LISTED}}}
    assert (judged.decision, judged.workload) == (None, None)
    assert [one.partition(":")[0][:24] for one in judged.warnings] == ["Only Batchgate sets labe"]


def test_the_mark_of_a_listed_controller_is_not_believed() -> None:
    job = job_of(pod=sized("500m"), annotations={OURS + "managed-by": LISTED})

    judged = judge(job, requester=ADA, gate=gate())

    assert OURS + "managed-by" not in judged.routed["metadata"]["annotations"]


@pytest.mark.parametrize(("cpus", "memory", "target"), [("3", "1Gi", "cloud"), ("3", "2Ti", "deny")])
def test_a_job_of_any_other_controller_is_judged_and_stays(cpus: str, memory: str, target: str) -> None:
    """The API server may drop the field, and then its own controller runs the Job."""
    judged = judge(job_of({"managedBy": "example.com/mine"}, sized(cpus, memory)), requester=ADA, gate=gate())

    assert judged.decision is not None
    assert judged.decision.target == target
    assert [one.path for one in judged.decision.obstacles] == (["spec.managedBy"] if target == "cloud" else [])


@pytest.mark.parametrize("manager", [3, [], {"a": "b"}])
def test_a_controller_that_is_no_text_is_an_error_of_the_job(manager: Any) -> None:
    with pytest.raises(JobError, match=r"^spec\.managedBy"):
        judge(job_of({"managedBy": manager}, sized("3")), requester=ADA, gate=gate())


def test_kubernetes_own_controller_is_no_other() -> None:
    judged = judge(job_of({"managedBy": "kubernetes.io/job-controller"}, sized("3")), requester=ADA, gate=gate())

    assert judged.decision is not None
    assert judged.decision.target == "hpc"


def test_who_has_no_account_stays_in_the_cloud_with_the_reason() -> None:
    judged = judge(job_of(pod=sized("3")), requester=Requester("eve", (), "default"), gate=gate())

    assert judged.decision is not None
    assert judged.decision.target == "cloud"
    assert judged.warnings[0].startswith("This Job stays in the cloud: rule large would send it to HPC")
    assert "eve" in judged.warnings[0]


def test_all_that_is_in_the_way_reaches_the_user_line_by_line() -> None:
    """One warning would be cut after the first thing, and the user would meet the next one after mending it."""
    pod = sized("3", hostPID=True, schedulingGates=[{"name": "a"}])
    judged = judge(job_of(pod=pod), requester=Requester("eve", (), "default"), gate=gate())

    assert judged.warnings[:4] == (
        "This Job stays in the cloud: rule large would send it to HPC, but 3 things are in the way:",
        "1. spec.template.spec.hostPID: sees the processes of the node",
        "2. spec.template.spec.schedulingGates: waits for a gate of the cluster's scheduler",
        "3. queue small of site hpc1, queue workq of site hpc1: no account at site hpc1 is for user eve in namespace default",
    )


def test_things_that_only_some_queues_lack_are_alternatives() -> None:
    pod = sized("6", hostPID=True)
    judged = judge(job_of(pod=pod), requester=Requester("eve", (), "default"), gate=gate())

    assert judged.warnings[:4] == (
        "This Job stays in the cloud: rule large would send it to HPC, but on each of its queues at least 2 things are in the way:",
        "1. spec.template.spec.hostPID: sees the processes of the node",
        (
            "2. queue small of site hpc1: it asks for 6 CPUs, and a node has 4; only MPI programs span nodes: the hint "
            "batchgate.dev/ranks, impliesMpi of the MPI profile or mpi: true of the rule says that it is one"
        ),
        "3. queue small of site hpc1, queue workq of site hpc1: no account at site hpc1 is for user eve in namespace default",
    )


def test_many_things_in_the_way_leave_room_for_other_warnings() -> None:
    pod = sized("3", nodeSelector={f"k{number}": "v" for number in range(12)}, runtimeClassName="kata")
    judged = judge(job_of(pod=pod), requester=ADA, gate=gate())

    assert [one.partition(" ")[0] for one in judged.warnings[:12]] == ["This", *[f"{n}." for n in range(1, 11)], "And"]
    assert judged.warnings[11] == "And 2 more: batchgate explain names them."
    assert "RuntimeClass kata" in judged.warnings[12]


def test_a_text_that_no_script_holds_is_told_with_the_rest() -> None:
    pod = sized("3", hostPID=True)
    halves = ("x" * (LARGEST_ANNOTATIONS // 2),) * 2
    pod["containers"][0]["env"] = [{"name": f"BIG{index}", "value": half} for index, half in enumerate(halves)]

    judged = judge(job_of(pod=pod), requester=ADA, gate=gate())

    assert judged.decision is not None
    assert [one.path for one in judged.decision.obstacles] == [
        "spec.template.spec.hostPID",
        "spec.template.spec.containers[0].env",
    ]


def test_a_denied_job_is_not_changed() -> None:
    job = job_of(pod=sized("3", "2Ti"))

    judged = judge(job, requester=ADA, gate=gate())

    assert judged.routed is job
    assert judged.decision is not None
    assert (judged.decision.target, judged.decision.reason) == ("deny", "nobody has that much memory")


@pytest.mark.parametrize(("requester", "target"), [(ADA, "cloud"), (STRICT, "deny")])
def test_a_script_that_no_annotation_holds_names_the_largest_field(requester: Requester, target: str) -> None:
    pod = sized("3")
    halves = ("x" * (LARGEST_ANNOTATIONS // 2),) * 2
    pod["containers"][0]["env"] = [{"name": f"BIG{index}", "value": half} for index, half in enumerate(halves)]
    job = job_of(pod=pod)

    judged = judge(job, requester=requester, gate=gate())

    assert judged.decision is not None
    assert judged.decision.target == target
    assert judged.decision.route is None
    assert "spec.template.spec.containers[0].env: is 201 KiB of the" in judged.decision.reason
    assert judged.script is None
    assert surplus_kept(job, judged.routed) == [] if target == "cloud" else judged.routed is job


@pytest.mark.parametrize(
    ("notes", "path", "kib"),
    [((200,), "metadata.annotations[note0]", 200), ((65, 65, 65), "spec.template.spec.tolerations", 76)],
)
def test_a_record_that_no_annotations_hold_names_the_largest_field(notes: tuple[int, ...], path: str, kib: int) -> None:
    """What is replaced is kept in the Job's own annotations, beside what the user wrote there."""
    annotations = {f"note{index}": "x" * (size * 1024 - len("note0")) for index, size in enumerate(notes)}
    not_ready = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
    job = job_of(pod=sized("3", tolerations=[not_ready] * 900), annotations=annotations)

    judged = judge(job, requester=ADA, gate=gate())

    assert judged.decision is not None
    assert (judged.decision.target, judged.script) == ("cloud", None)
    assert f"cannot go there: {path}: is {kib} KiB of the " in judged.decision.reason
    assert surplus_kept(job, judged.routed) == []


def test_a_path_that_many_mounts_repeat_is_refused_by_its_field_before_a_script_is_written() -> None:
    places = PLACES.replace("    workDir:", "    volumes: [{hostPath: /data, path: /data}]\n    workDir:")
    pod = sized("3", volumes=[{"name": "v", "hostPath": {"path": "/data/" + "x" * 4090}}])
    mounts = [{"name": "v", "mountPath": f"/{index}"} for index in range(200)]
    pod["initContainers"] = [{"name": f"c{n}", "image": "i", "volumeMounts": mounts} for n in range(20)]
    mapped = replace(gate(), policy=policy.load({"places.yaml": places, "rules.yaml": RULES}))
    tracemalloc.start()
    try:
        judged = judge(job_of(pod=pod), requester=ADA, gate=mapped)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert judged.decision is not None
    path = "spec.template.spec.volumes[0].hostPath.path"
    assert f"cannot go there: {path}: is 16000 KiB of the " in judged.decision.reason
    assert peak < 8_000_000


def test_what_fits_is_routed_and_the_api_server_takes_it() -> None:
    pod = sized("3")
    pod["containers"][0]["env"] = [{"name": "BIG", "value": "x" * 60_000}]

    judged = judge(job_of(pod=pod), requester=ADA, gate=gate())

    assert judged.decision is not None
    assert judged.decision.target == "hpc"
    assert oversize(judged.routed) is None


def test_a_hint_that_the_rule_forbids_is_named() -> None:
    judged = judge(job_of(pod=sized("3"), annotations={OURS + "route": "cloud"}), requester=ADA, gate=gate())

    assert judged.decision is not None
    assert judged.decision.target == "hpc"
    assert f"Rule large does not allow the hint {OURS}route; it has no effect." in judged.warnings


def test_errors_name_the_field_of_a_cron_jobs_job() -> None:
    with pytest.raises(JobError) as caught:
        judge(job_of(pod=sized("1x")), requester=ADA, gate=gate(), root="spec.jobTemplate.")

    assert caught.value.path.startswith("spec.jobTemplate.spec.template.spec.containers[0].resources")


def test_half_a_character_is_an_error_of_the_job() -> None:
    pod = sized("3")
    pod["containers"][0]["command"] = ["echo", "\ud800"]

    with pytest.raises(JobError) as caught:
        judge(job_of(pod=pod), requester=ADA, gate=gate())

    assert caught.value.path == "spec.template.spec.containers[0].command[1]"


def test_a_second_call_after_another_webhook_ends_the_same() -> None:
    first = judge(job_of(pod=sized("3")), requester=ADA, gate=gate())
    injected = copy.deepcopy(first.routed)
    injected["metadata"]["labels"]["injected"] = "yes"

    second = judge(injected, requester=ADA, gate=gate(issued_at=ISSUED_AT + 1))

    assert not any("Only Batchgate" in warning for warning in second.warnings)
    annotations = second.routed["spec"]["template"]["metadata"]["annotations"]
    assert annotations.pop(OURS + "signature") != first.routed["spec"]["template"]["metadata"]["annotations"].pop(
        OURS + "signature"
    )
    injected["spec"]["template"]["metadata"]["annotations"].pop(OURS + "signature")
    assert second.routed == injected


def test_an_exported_job_that_is_not_for_hpc_any_more_becomes_the_users_own_again() -> None:
    job = job_of({"activeDeadlineSeconds": 600}, sized("3"))
    exported = judge(job, requester=ADA, gate=gate()).routed
    everything_stays = "rules: [{name: rest, cloud: true}]"

    judged = judge(exported, requester=ADA, gate=gate(everything_stays))

    assert judged.routed["spec"] == {**job["spec"], "template": judged.routed["spec"]["template"]}
    assert judged.routed["spec"]["template"] == job["spec"]["template"]
    assert judged.routed["metadata"]["labels"] == {OURS + "target": "cloud"}


def test_explaining_tells_each_rule() -> None:
    judged = judge(job_of(pod=sized("3")), requester=ADA, gate=gate(), explain=True)

    assert judged.decision is not None
    assert [rule.rule for rule in judged.decision.considered] == ["never", "seen", "strict", "large"]
    assert judged.decision.not_looked_at == ("rest",)


def test_identical_input_gives_identical_output() -> None:
    job = job_of(pod=sized("3"))

    one, other = (judge(copy.deepcopy(job), requester=ADA, gate=gate(RULES)) for _ in range(2))

    assert json.dumps(one.routed) == json.dumps(other.routed)


def test_a_cronjobs_field_that_is_too_large_is_named_as_it_stands_in_it() -> None:
    job = job_of(pod=sized("3"))
    job["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "E", "value": "x" * 250_000}]

    judged = judge(job, requester=ADA, gate=gate(), root="spec.jobTemplate.")

    assert judged.decision is not None
    (obstacle,) = judged.decision.obstacles
    assert obstacle.path.startswith("spec.jobTemplate.spec.template.spec.containers[0].env")


def test_what_is_too_much_is_refused_before_anything_is_taken_out_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement, "strip", None)
    job = job_of(annotations={"a": "x" * 262_144})

    with pytest.raises(JobError) as caught:
        judge(job, requester=ADA, gate=gate(), root="spec.jobTemplate.")

    assert caught.value.path == "spec.jobTemplate.metadata.annotations"


@pytest.mark.parametrize("text", ["x" * 90_000, "\n" * 15_000, "'" * 15_000])
def test_a_text_that_no_annotation_can_hold_is_not_made_into_a_script(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("router.gate.judging.render", None)
    job = job_of(pod=sized("3"))
    job["spec"]["template"]["spec"]["containers"][0]["env"] = [
        {"name": f"A{index}", "value": text} for index in range(9)
    ]

    judged = judge(job, requester=ADA, gate=gate())

    assert judged.decision is not None
    assert judged.decision.target == "cloud"
    assert [one.path for one in judged.decision.obstacles] == ["spec.template.spec.containers[0].env"]
    assert "a Pod template's annotations may take 200 KiB in all" in judged.decision.reason


def test_a_reason_names_fifty_fields_and_counts_the_others() -> None:
    pod = sized("3", nodeSelector={f"k{index}": "v" for index in range(120)})

    judged = judge(job_of(pod=pod), requester=ADA, gate=gate())

    assert judged.decision is not None
    assert len(judged.decision.obstacles) == 120
    assert judged.decision.reason.count("nodeSelector.k") == 50
    assert judged.decision.reason.endswith("; and 70 more")


@pytest.mark.parametrize(("directory", "told"), [("    resultsDir: /results\n", True), ("", False)])
def test_a_result_that_can_be_nowhere_is_told_where_results_are_brought(directory: str, told: bool) -> None:
    places = PLACES.replace("    workDir: /scratch/{user}\n", "    workDir: /scratch/{user}\n" + directory)
    job = job_of(pod=sized("3"), annotations={OURS + "results": "out/*.txt"})

    judged = judge(job, requester=ADA, gate=gate(policy=checked(RULES, places)))

    assert judged.script is not None
    assert any("out/*.txt: is not in an emptyDir" in warning for warning in judged.warnings) is told


def test_rules_see_the_time_of_the_gate() -> None:
    rules = "rules:\n  - {name: day, when: request.time.getHours('Europe/Berlin') >= 9, cloud: true}\n  - {name: rest, hpc: [{queue: small}]}\n"
    at = {
        hours: judge(job_of(pod=sized("3")), requester=ADA, gate=gate(rules, issued_at=ISSUED_AT + hours))
        for hours in (-1, 0)
    }

    # ISSUED_AT is 9 o'clock in Berlin.
    assert {hours: one.decision and (one.decision.rule, one.decision.reason) for hours, one in at.items()} == {
        -1: ("rest", "rule rest sends it to queue small of site hpc1, as ada: 1 node, 3 cores, 1Gi for 1h"),
        0: (
            "day",
            (
                "rule day keeps it in the cloud: request.time.getHours('Europe/Berlin') >= 9, "
                "with request.time = 2027-01-15T08:00:00Z"
            ),
        ),
    }


def test_where_the_namespace_has_no_room_for_the_pods_the_reason_says_so() -> None:
    full = Cluster(quotas={"default": (Quota("cloud", {"pods": "5"}, {"pods": "5"}),)})
    lack = "ResourceQuota cloud: pods: each Pod takes 1, 0 of 5 is left"

    routed = judge(job_of(pod=sized("3")), requester=ADA, gate=gate(cluster=full))
    kept = judge(job_of(pod=sized("500m")), requester=ADA, gate=gate(cluster=full))
    elsewhere = judge(job_of(pod=sized("3")), requester=Requester("ada", (), "other"), gate=gate(cluster=full))

    assert routed.decision is not None
    assert routed.decision.reason.endswith(lack)
    assert routed.warnings[0].startswith("This Job goes to HPC: ")
    assert routed.warnings[0].endswith(f"{lack} (batchgate explain says more).")
    template = routed.routed["spec"]["template"]["metadata"]
    assert {one["annotations"][OURS + "reason"] for one in (routed.routed["metadata"], template)} == {
        routed.decision.reason
    }
    assert kept.warnings == ()
    assert "ResourceQuota" not in " ".join(elsewhere.warnings)
