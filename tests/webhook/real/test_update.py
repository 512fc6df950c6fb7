"""Jobs that are in the cluster already: sent again, changed, suspended and resumed, with what is ours kept as it was."""

from __future__ import annotations

import json
from datetime import datetime

import pytest

from router import names
from router.placement import signing
from router.pod import template as podtemplate
from tests.kube.wire import await_true
from tests.webhook.real.gated import Gated, Json, container, job, script, target, template_annotations, warnings
from tests.webhook.servers import until

OWN = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}
NOTED = job(pod={"tolerations": [OWN, {"key": "x", "operator": "Exists"}]}, activeDeadlineSeconds=600)


def spec(stored: Json) -> Json:
    """What must be the same before and after; the generation says whether anything was written."""
    return {"generation": stored["metadata"]["generation"], **stored["spec"]}


def ours(stored: Json) -> Json:
    """The same with labels and annotations.

    Not the whole object: Kubernetes' own controller writes the status, and so the resourceVersion, when it likes.
    """
    kept = {name: stored["metadata"].get(name) for name in ("uid", "labels", "annotations")}
    return {"metadata": kept, "spec": spec(stored)}


def unchanged(jobs: Gated, sent: Json, *words: str) -> bool:
    """Whether ``kubectl diff`` shows nothing. Once it may show a status that Kubernetes' controller wrote meanwhile."""
    difference = jobs.run("diff", *words, "-f", "-", sent=sent)
    return (difference.returncode, difference.stdout) == (0, "")


@pytest.mark.parametrize("sent", [job(), NOTED, job(pod={"containers": [container(cpu="1")]})])
def test_applying_the_same_again_changes_nothing(jobs: Gated, sent: Json) -> None:
    jobs.done("apply", "-f", "-", sent=sent)
    first = jobs.get()

    await_true(lambda: unchanged(jobs, sent), "no difference")
    jobs.done("apply", "-f", "-", sent=sent)

    assert spec(jobs.get()) == spec(first)
    assert jobs.get()["metadata"]["annotations"] == first["metadata"]["annotations"]


@pytest.mark.parametrize("sent", [job(), NOTED])
def test_server_side_apply_again_changes_nothing(jobs: Gated, sent: Json) -> None:
    apply = ("apply", "--server-side", "-f", "-")
    run = jobs.done(*apply, sent=sent)
    first = jobs.get()

    await_true(lambda: unchanged(jobs, sent, "--server-side"), "no difference")
    jobs.done(*apply, sent=sent)

    assert warnings(run)[0].startswith("This Job goes to HPC: ")
    assert spec(jobs.get()) == spec(first)


def test_replace_with_what_was_sent_first_is_refused_as_everywhere(jobs: Gated, free: Gated) -> None:
    """The API server writes a selector into each Job, which cannot be changed, and a replacement lacks it."""
    refused = []
    for where in (jobs, free):
        where.done("create", "-f", "-", sent=NOTED)
        before = where.get()
        run = where.run("replace", "-f", "-", sent=NOTED)
        assert (run.returncode, ours(where.get())) == (1, ours(before))
        refused.append("spec.selector: Required value" in run.stderr)

    assert refused == [True, True]


def test_replace_by_force_makes_a_new_job_that_reads_as_the_first(jobs: Gated) -> None:
    sent = NOTED["spec"] | {"suspend": True}  # without Pods, which only an agent would let go
    jobs.done("create", "-f", "-", sent=NOTED | {"spec": sent})
    first = jobs.get()

    jobs.done("replace", "--force", "-f", "-", sent=NOTED | {"spec": sent})

    second = jobs.get()
    assert second["metadata"]["uid"] != first["metadata"]["uid"]
    assert target(second) == "hpc"
    assert second["metadata"]["annotations"] == first["metadata"]["annotations"]
    assert script(second) == script(first)


def test_replace_with_what_is_stored(jobs: Gated) -> None:
    jobs.done("create", "-f", "-", sent=NOTED)
    first = jobs.get()

    await_true(lambda: replaced(jobs), "no other write in between")

    assert ours(jobs.get()) == ours(first)


def replaced(jobs: Gated) -> bool:
    """Whether the Job was replaced by what is stored; not where Kubernetes' controller wrote its status meanwhile."""
    run = jobs.run("replace", "-f", "-", sent=jobs.get())
    assert run.returncode == 0 or "the object has been modified" in run.stderr, run.stderr
    return run.returncode == 0


def test_labels_and_annotations_of_the_user_change_and_ours_do_not(jobs: Gated) -> None:
    jobs.create(job())
    first = jobs.get()

    jobs.done("label", "job", "solve", "note=seen")
    jobs.done("annotate", "job", "solve", "note=seen")

    stored = jobs.get()
    assert stored["metadata"]["labels"] == {**first["metadata"]["labels"], "note": "seen"}
    assert stored["metadata"]["annotations"] == {**first["metadata"]["annotations"], "note": "seen"}
    assert spec(stored) == spec(first)


@pytest.mark.parametrize("key", [names.KEY_TARGET, names.KEY_QUEUE])
def test_labels_of_ours_come_back(jobs: Gated, key: str) -> None:
    jobs.create(job())
    before = jobs.get()["metadata"]["labels"]

    forged = jobs.done("label", "job", "solve", f"{key}=express", "--overwrite")
    jobs.done("label", "job", "solve", f"{key}-")

    assert f"Only Batchgate sets label {key}: the Job's own values were ignored." in warnings(forged)
    assert jobs.get()["metadata"]["labels"] == before


def test_a_change_of_the_template_is_refused_in_one_sentence(jobs: Gated) -> None:
    """The API server shows both templates, our script and all: 18 KB."""
    jobs.done("apply", "-f", "-", sent=job())
    before = jobs.get()
    changed = job(pod={"containers": [container(image="busybox:1.37")]})

    for words in (("apply",), ("apply", "--server-side", "--force-conflicts")):
        run = jobs.run(*words, "-f", "-", sent=changed)

        assert run.returncode == 1
        assert run.stderr.rstrip().endswith(
            ": spec.template: this Job was sent to HPC and its Pod template (containers[0].image) cannot be changed; "
            "delete and create it"
        )
        assert "#!/bin/bash" not in run.stderr
    assert ours(jobs.get()) == ours(before)


def test_growth_beyond_what_the_rule_allows_is_denied(jobs: Gated) -> None:
    jobs.create(job(parallelism=1, completions=20))

    denied = jobs.run("patch", "job", "solve", "-p", json.dumps({"spec": {"parallelism": 20}}))
    jobs.done("patch", "job", "solve", "-p", json.dumps({"spec": {"parallelism": 2}}))

    assert denied.returncode == 1
    assert (
        "spec.parallelism: the Job was sent to queue batch of site demo, and this no longer fits there" in denied.stderr
    )
    assert jobs.get()["spec"]["parallelism"] == 2
    assert target(jobs.get()) == "hpc"


def test_a_job_in_the_cloud_is_not_judged_anew(jobs: Gated) -> None:
    jobs.create(job(pod={"containers": [container(cpu="1")]}, parallelism=1, completions=100))

    jobs.done("patch", "job", "solve", "-p", json.dumps({"spec": {"parallelism": 40}}))

    assert target(jobs.get()) == "cloud"
    assert "nodeName" not in jobs.get()["spec"]["template"]["spec"]


def test_a_rule_that_denies_holds_for_a_job_that_grows_in_the_cloud(jobs: Gated) -> None:
    small = {"containers": [container(cpu="1")]}
    jobs.create(job("wide", pod=small, parallelism=1, completions=1000))
    jobs.create(job("deep", pod=small, suspend=True))
    more = [{"op": "replace", "path": "/spec/template/spec/containers/0/resources/requests/cpu", "value": "500"}]

    wide = jobs.run("patch", "job", "wide", "-p", json.dumps({"spec": {"parallelism": 200}}))
    deep = jobs.run("patch", "job", "deep", "--type=json", "-p", json.dumps(more))

    for run in (wide, deep):
        assert run.returncode == 1
        assert "rule vast denies this Job: 64 CPUs are the most" in run.stderr
    jobs.done("patch", "job", "wide", "-p", json.dumps({"spec": {"parallelism": 64}}))
    jobs.done("patch", "job", "wide", "-p", json.dumps({"spec": {"parallelism": 0}}))
    jobs.done("patch", "job", "deep", "-p", json.dumps({"spec": {"suspend": False}}))


# --- suspended -----------------------------------------------------------------------------------------------------


def test_a_suspended_job_is_changed_and_resumed(jobs: Gated) -> None:
    jobs.create(job(suspend=True))
    first = jobs.get()

    changed = jobs.done("annotate", "job", "solve", f"{names.HINT_WALLTIME}=2h")
    second = jobs.get()
    jobs.done("patch", "job", "solve", "-p", json.dumps({"spec": {"suspend": False}}))
    resumed = jobs.get()

    assert warnings(changed)[0].startswith("This Job was sized anew: rule large sends it to queue batch of site demo")
    assert "deadline=7200 " in script(second)
    assert script(first) != script(second)
    assert signed(jobs, second).job_uid == second["metadata"]["uid"]
    assert script(resumed) == script(second)
    # Seen once and kept: Kubernetes takes away the Pods of a node that is not there, and makes them anew.
    pods = until(jobs.pods)
    assert pods[0]["metadata"]["annotations"][names.KEY_SCRIPT] == script(second)


def test_a_suspended_job_that_no_longer_fits_is_not_changed(jobs: Gated) -> None:
    jobs.create(job(suspend=True))
    first = jobs.get()

    run = jobs.run("annotate", "job", "solve", f"{names.HINT_WALLTIME}=48h")

    assert run.returncode == 1
    assert "and this no longer fits there" in run.stderr
    assert run.stderr.rstrip().endswith("delete and create it")
    assert ours(jobs.get()) == ours(first)


def test_the_deadline_of_a_suspended_job_has_moved(jobs: Gated) -> None:
    jobs.create(job(suspend=True, activeDeadlineSeconds=600))

    run = jobs.run("patch", "job", "solve", "-p", json.dumps({"spec": {"activeDeadlineSeconds": 900}}))

    assert run.returncode == 1
    assert "spec.activeDeadlineSeconds: was 600 when the Job was sent to HPC and cannot become 900" in run.stderr


def test_somebody_else_s_change_does_not_make_the_job_theirs(jobs: Gated) -> None:
    jobs.create(job(suspend=True))

    jobs.done("annotate", "job", "solve", f"{names.HINT_WALLTIME}=2h", user="ben")

    assert template_annotations(jobs.get())[names.KEY_REQUESTER] == "ada"


def signed(jobs: Gated, stored: Json) -> signing.Claims:
    """What the signature says, which the agent will hold against the Job."""
    proof = template_annotations(stored)
    keys = signing.load_public(jobs.public_key.read_bytes())
    found = signing.read(proof[names.KEY_SIGNATURE], keys)
    created = int(datetime.fromisoformat(stored["metadata"]["creationTimestamp"]).timestamp())
    signing.compare(
        found,
        signing.Claims(
            issued_at=created,
            namespace=jobs.namespace,
            requester="ada",
            site="demo",
            queue="batch",
            account=proof[names.KEY_ACCOUNT],
            results=(),
            script_sha256=signing.script_digest(script(stored)),
            template_sha256=podtemplate.digest(stored["spec"]["template"]["spec"]),
            job_uid=stored["metadata"]["uid"],
            groups_sha256=signing.groups_digest(proof),
        ),
    )
    return found
