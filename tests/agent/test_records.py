"""Records: what the API server shows late does not undo what it answered; every key leads to the right Pod."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from router.agent.records import Records, SiteRecords
from router.pod.layout import PodDirectory
from router.pod.view import PodView, departed, view
from router.reconcile import outcomes


def pod(uid: str = "u1", name: str = "p", version: str = "5", index: str | None = None, **status: Any) -> PodView:
    """A Pod as the API server shows it."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "job-1", "controller": True}
    annotations = {} if index is None else {"batch.kubernetes.io/job-completion-index": index}
    metadata = {"namespace": "ns", "name": name, "uid": uid, "resourceVersion": version, "annotations": annotations}
    return view({"metadata": {**metadata, "ownerReferences": [owner]}, "spec": {}, "status": status})


def records() -> Records:
    return Records(lambda view: PodDirectory("/w", view.job_uid, view.index, view.uid))


def test_a_record_is_found_by_every_key() -> None:
    found = records()
    record = found.add(outcomes.first(pod(index="3")))

    assert found.get("u1") is record
    assert found.named("ns", "p") is record
    assert found.add(outcomes.first(pod(index="3"))) is record
    assert str(record.directory.path) == "/w/pods/job-1/3/u1"
    assert found.all() == [record]
    found.drop(record)
    assert (found.get("u1"), found.named("ns", "p"), found.all()) == (None, None, [])


def test_a_name_leads_to_the_pod_that_has_it_now() -> None:
    """A Pod of a StatefulSet-like name, deleted and made again: the old one is still followed by its uid."""
    found = records()
    old = found.add(outcomes.first(pod("old")))
    new = found.add(outcomes.first(pod("new")))

    assert found.named("ns", "p") is new
    found.drop(old)
    assert found.named("ns", "p") is new


def test_siblings_are_of_the_same_job_and_index() -> None:
    found = records()
    first, second, other = (
        found.add(outcomes.first(pod(uid, uid, index=index))) for uid, index in (("a", "0"), ("b", "0"), ("c", "1"))
    )

    assert found.siblings(first) == [second]
    assert found.siblings(other) == []
    found.drop(second)
    assert found.siblings(first) == []


def test_an_older_version_does_not_undo_what_we_wrote() -> None:
    """Our write was answered with version 7; the watch still brings 6, which it had on its way."""
    record = records().add(outcomes.first(pod(version="5")))
    record.wrote(pod(version="7", phase="Running"), outcomes.with_pod)

    assert not record.saw(pod(version="6"))
    assert record.facts.pod.status.phase == "Running"
    assert record.saw(pod(version="8", phase="Failed"))
    assert record.facts.pod.status.phase == "Failed"


def test_an_answer_that_comes_after_what_followed_it_undoes_nothing() -> None:
    """The watch has shown the Pod's deletion, version 8, before a thread came to read that our write had made it 7."""
    record = records().add(outcomes.first(pod(version="5")))
    record.saw(pod(version="8", phase="Pending"))

    record.wrote(pod(version="7", phase="Running"), partial(outcomes.wrote, now=1000.0))

    assert (record.facts.pod, record.facts.written_at) == (pod(version="8", phase="Pending"), 1000.0)
    assert record.saw(pod(version="9", phase="Failed"))


def test_an_answer_of_an_older_version_counts_where_nothing_was_shown_lately(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster restored from a backup, again."""
    record = records().add(outcomes.first(pod(version="5")))
    record.saw(pod(version="900", phase="Pending"))
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 61)

    record.wrote(pod(version="6", phase="Running"), outcomes.with_pod)

    assert record.facts.pod.status.phase == "Running"


def test_an_older_version_counts_where_we_have_not_written_lately() -> None:
    """A cluster restored from a backup: versions went back, and what it shows is what there is."""
    record = records().add(outcomes.first(pod(version="900", phase="Running")))

    assert record.saw(pod(version="6", phase="Pending"))
    assert record.facts.pod.status.phase == "Pending"


def test_nothing_new_is_no_news() -> None:
    record = records().add(outcomes.first(pod()))

    assert not record.saw(pod())


def test_a_missing_pod_that_is_seen_again_is_missing_no_more() -> None:
    record = records().add(outcomes.first(pod()))
    record.missing = 5.0

    record.saw(pod())

    assert not record.missing


def test_what_is_left_of_a_pod_keeps_its_name_for_the_search() -> None:
    record = records().add(outcomes.submitted(outcomes.first(pod(index="3")), "7.server"))
    record.missing = 5.0

    record.depart()

    gone = record.facts.pod
    assert (gone.name, gone.uid, gone.job_uid, gone.index, gone.deleting) == ("", "u1", "job-1", "3", True)
    assert (record.name, record.key) == ("p", "ns/p")
    assert not record.missing
    assert [job.job_id for job in record.facts.jobs] == ["7.server"]


def of_users(*users: str) -> tuple[SiteRecords, list[Records]]:
    """Records of some users; nobody's have an empty name."""
    site = SiteRecords()

    def of(user: str) -> Records:
        def directory(found: PodView) -> PodDirectory:
            return PodDirectory(f"/w/{user}", found.job_uid, found.index, found.uid)

        return Records(directory, user=user, site=site)

    parts = [of(user) for user in users]
    for part in parts:
        site.join(part)
    return site, parts


def signed_for(user: str, uid: str = "u1") -> PodView:
    return replace(pod(uid, uid), account=f'{{"user":"{user}"}}', job_id="7")


LEFT = departed(uid="u1", job_uid="job-1", index="0", job_id="7")


def test_each_user_has_records_of_their_own_and_the_site_knows_them_all() -> None:
    site, (ada, ben) = of_users("ada", "ben")
    one, other = ada.add(outcomes.first(pod("a", "a", index="0"))), ben.add(outcomes.first(pod("b", "b", index="0")))

    assert (site.get("a"), site.named("ns", "b"), site.all()) == (one, other, [one, other])
    assert (site.holding("b"), site.holding("c")) == (ben, None)
    assert site.siblings(one) == [], "the same Job and index of another user is another Job's"
    assert str(other.directory.path) == "/w/ben/pods/job-1/0/b"
    site.drop(one)
    assert site.all() == [other]


def test_what_is_found_on_the_site_and_is_nobodys_pod_is_missing() -> None:
    _, (ada,) = of_users("ada")

    record = ada.found(LEFT, 5.0)

    assert record is not None
    assert (record.missing, record.facts.pod.name) == (5.0, "")
    assert ada.found(LEFT, 9.0) is record
    assert record.missing == 5.0


def test_another_users_pod_is_not_taken_over_by_whoever_names_it() -> None:
    """A user can submit a job that says to be another's Pod's, or make a directory of its name."""
    site, (ada, ben) = of_users("ada", "ben")
    right = ada.add(outcomes.first(signed_for("ada")))

    assert ben.found(LEFT, 5.0) is None
    assert site.get("u1") is right


def test_a_pod_whose_key_has_gone_is_its_users_by_what_its_job_has_left() -> None:
    site, (nobody, ada, ben) = of_users("", "ada", "ben")
    before = nobody.add(outcomes.first(signed_for("ada")))

    assert site.unclaimed() == [before]
    assert ben.found(LEFT, 5.0) is None, "it says to be ada's"
    record = ada.found(LEFT, 5.0)

    assert record is not None
    assert (record.name, record.missing, str(record.directory.path)) == ("u1", None, "/w/ada/pods/job-1/noindex/u1")
    assert (site.unclaimed(), site.holding("u1")) == ([], ada)
