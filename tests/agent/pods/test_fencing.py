"""What older Pods of a Job have left on the site, as the fence finds it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import cast

from router.agent import records as kept
from router.agent.pods.fencing import Fence
from router.agent.records import Record, Records, SiteRecords
from router.host.local import LocalHost
from router.kube.client import Api
from router.pod.layout import PodDirectory
from router.pod.view import PodView
from router.reconcile import outcomes
from tests.agent.test_records import pod


def directory_below(root: Path) -> Callable[[PodView], PodDirectory]:
    return lambda view: PodDirectory(str(root), view.job_uid, view.index, view.uid)


def fence_of(root: Path, *directories: str) -> tuple[Fence, Records, Record]:
    """A fence over a site with these Pods' directories, its records, and a Pod that is about to be submitted."""
    records = Records(directory_below(root))
    for uid in directories:
        Path(PodDirectory(str(root), "job-1", "0", uid).path).mkdir(parents=True)
    young = records.add(outcomes.first(pod("young", "young", index="0")))
    return Fence(cast("Api", None), LocalHost(root), records, str(root)), records, young


def test_a_directory_that_is_nobodys_is_in_the_way_until_its_run_is_over(tmp_path: Path) -> None:
    fence, records, young = fence_of(tmp_path, "a", "b", ".half.0123456789abcdef")

    assert sorted(fence.look(young)) == ["a", "b"]

    assert fence.older(young) == (
        "an earlier run of a Pod that is gone (a) may still run",
        "an earlier run of a Pod that is gone (b) may still run",
    )
    for uid in ("a", "b"):
        left = records.get(uid)
        assert left is not None
        assert left.missing is not None
        left.over = True
    assert fence.older(young) == ()


def released(uid: str) -> PodView:
    """A Pod that was taken from its Job, as it is shown from then on."""
    return replace(pod(uid, uid, index="0"), owner="", job="", job_uid="")


def test_a_pod_that_was_taken_from_its_job_is_in_the_way_while_it_may_run(tmp_path: Path) -> None:
    """Its directory is the Job's, whatever it names as its controller now."""
    fence, records, young = fence_of(tmp_path)
    first = records.add(outcomes.first(pod("first", "first", index="0")))
    first.saw(released("first"))

    assert fence.older(young) == ("an earlier run of Pod first may still run",)
    first.over = True
    assert fence.older(young) == ()


def test_a_pod_that_was_taken_from_its_job_before_the_agent_began_is_found_by_its_directory(tmp_path: Path) -> None:
    fence, records, young = fence_of(tmp_path, "first")
    first = records.add(outcomes.first(released("first")))
    assert fence.older(young) == ()

    assert fence.look(young) == ()

    assert fence.older(young) == ("an earlier run of Pod first may still run",)
    assert first.directory == PodDirectory(str(tmp_path), "job-1", "0", "first")
    assert records.siblings(first) == [young]  # so that its end wakes the one that waits
    records.drop(first)
    assert fence.older(young) == ()


def test_a_pod_that_was_taken_from_its_job_and_lost_its_key_is_found_by_its_directory(tmp_path: Path) -> None:
    """Nobody's records have it: without its key, only the account that it names tells the user."""
    fence_of(tmp_path, "first")
    site, nobodys = SiteRecords(), Records(directory_below(tmp_path))
    ours = Records(directory_below(tmp_path), user="ada", site=site)
    site.join(nobodys)
    site.join(ours)
    fence = Fence(cast("Api", None), LocalHost(tmp_path), ours, str(tmp_path))
    young = ours.add(outcomes.first(pod("young", "young", index="0")))
    nobodys.add(outcomes.first(replace(released("first"), account='{"user":"ada"}')))

    assert fence.look(young) == ("first",)

    assert fence.older(young) == ("an earlier run of Pod first may still run",)
    assert nobodys.all() == []


def test_what_was_dropped_as_over_is_not_found_again(tmp_path: Path) -> None:
    """Its directory stays for days. Of what was dropped for another reason nothing is sure."""
    fence, records, young = fence_of(tmp_path, "over", "not-over")
    for uid in ("over", "not-over"):
        record = records.add(outcomes.first(pod(uid, uid, index="0")))
        record.over = uid == "over"
        records.drop(record)

    assert fence.look(young) == ("not-over",)
    assert records.get("over") is None


def test_only_so_many_are_remembered_and_the_oldest_is_forgotten_first(tmp_path: Path) -> None:
    _, records, _ = fence_of(tmp_path)
    uids = [f"u{number}" for number in range(kept.MOST_ENDED + 1)]
    for uid in uids:
        record = records.add(outcomes.first(pod(uid, uid)))
        record.over = True
        records.drop(record)

    assert [uid for uid in uids if not records.has_ended(uid)] == uids[:1]
