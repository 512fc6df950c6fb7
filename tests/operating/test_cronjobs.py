"""Where the Jobs of a CronJob went: nobody reads their warnings."""

from __future__ import annotations

from typing import Any

from router import names
from router.operating.cronjobs import CronStory, Run, cron_story
from router.operating.jobs import JobPhase
from router.operating.story import Decision

REASON = "rule large would send it to HPC, but it cannot go there: no account"


def made(name: str, created: str, owner: str, **annotations: str) -> dict[str, Any]:
    notes = {names.KEY_RULE: "large", names.KEY_REASON: REASON, **annotations}
    return {
        "metadata": {
            "name": name,
            "namespace": "lab",
            "uid": name,
            "creationTimestamp": created,
            "labels": {names.KEY_TARGET: "cloud"},
            "annotations": notes,
            "ownerReferences": [{"kind": "CronJob", "uid": owner, "controller": True}],
        },
        "status": {"conditions": [{"type": "Complete", "status": "True"}]},
    }


def test_the_jobs_of_a_cronjob_the_last_first() -> None:
    cronjob = {
        "metadata": {"name": "nightly", "namespace": "lab", "uid": "u"},
        "spec": {"schedule": "0 3 * * *", "suspend": True},
        "status": {"lastScheduleTime": "2026-03-02T03:00:00Z"},
    }
    jobs = [
        made("nightly-1", "2026-03-01T03:00:00Z", "u"),
        made("other-1", "2026-03-01T03:00:00Z", "another"),
        made("by-hand", "2026-03-01T10:00:00Z", "u", **{names.CRONJOB_INSTANTIATE: "manual"}),
        made("nightly-2", "2026-03-02T03:00:00Z", "u"),
        {"metadata": {"name": "alone", "namespace": "lab", "uid": "a"}},
    ]
    decision = Decision("cloud", "large", REASON, "", "", "", "", "", "")

    assert cron_story(cronjob, jobs) == CronStory(
        namespace="lab",
        name="nightly",
        schedule="0 3 * * *",
        suspended=True,
        last="2026-03-02T03:00:00Z",
        runs=(
            Run("nightly-2", "2026-03-02T03:00:00Z", JobPhase.COMPLETE, False, decision),
            Run("by-hand", "2026-03-01T10:00:00Z", JobPhase.COMPLETE, True, decision),
            Run("nightly-1", "2026-03-01T03:00:00Z", JobPhase.COMPLETE, False, decision),
        ),
    )


def test_one_that_never_ran() -> None:
    cronjob = {"metadata": {"name": "new", "namespace": "lab", "uid": "u"}}

    assert cron_story(cronjob, []) == CronStory("lab", "new", "", False, "", ())
