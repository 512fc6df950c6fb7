"""What the page shows, out of objects of the API."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from router import names
from router.notation.quantiles import quantile
from router.operating.creations import FailedCreation
from router.operating.overview import Leader
from router.operating.story import story
from router.page.models.commands import commands
from router.page.models.decisions import Group, decisions
from router.page.models.filters import Filters, filters_of
from router.page.models.firstscreen import first_screen
from router.page.models.joblist import ShownJob, job_list
from router.page.models.needy import Needy
from router.page.models.rows import row_of, size_words
from router.page.models.sites import FirstInLine, QueueCard
from router.page.models.timeline import Bar, Step, plot, steps, unscheduled
from router.page.models.times import span
from router.page.reader import _without_notes
from router.pod.status import seconds
from router.pod.view import view
from router.policy import inforce
from router.policy.inforce import InForce
from router.reconcile.starts import Start
from tests.operating.objects import NOW, SITE, at, event, lease, node, over
from tests.page.objects import JOBS, PODS, QUOTA, judged, pending, ran, sight

HOUR = 3600
TEN = int(NOW)  # ten o'clock


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (-5, "0 s"),
        (8.9, "8 s"),
        (60, "1 min"),
        (3599, "59 min"),
        (2 * HOUR + 300, "2 h 5 min"),
        (3 * 24 * HOUR + 4 * HOUR + 61, "3 d 4 h"),
    ],
)
def test_spans(seconds: float, expected: str) -> None:
    assert span(seconds) == expected


def test_quantiles_by_nearest_rank() -> None:
    values = [1.0, 2.0, 3.0, 4.0, 10.0]

    assert [quantile(values, share) for share in (0.0, 0.5, 0.9, 1.0)] == [1.0, 3.0, 10.0, 10.0]
    assert quantile([], 0.5) is None


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, Filters()),
        ({"mine": "1", "state": " running ", "other": "x"}, Filters(mine="1", state="running")),
        ({"page": "3"}, Filters(page=3)),
        ({"page": "0"}, Filters()),
        ({"page": "-1"}, Filters()),
        ({"page": "²"}, Filters()),
        ({"page": "99999999999"}, Filters()),
    ],
)
def test_filters_of_an_address(query: dict[str, str], expected: Filters) -> None:
    assert filters_of(query) == expected


def test_filters_come_back_from_their_address() -> None:
    found = Filters(mine="1", rule="large", page=2)

    assert filters_of(found.given) == found
    assert found.with_(rule="").given == {"mine": "1"}


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        (Filters(), ["mine", "poor", "stuck", "small", "runs", "done"]),
        (Filters(mine="1"), ["mine"]),
        (Filters(state="running"), ["small", "runs"]),
        (Filters(site="(cloud)"), ["poor", "small"]),
        (Filters(rule="large", queue="batch"), ["mine", "stuck", "runs", "done"]),
        (Filters(name="s", namespace="default"), ["stuck", "small", "runs"]),
        (Filters(namespace="other"), []),
        (Filters(page=7), ["mine", "poor", "stuck", "small", "runs", "done"]),
    ],
)
def test_the_list_of_jobs(filters: Filters, expected: list[str]) -> None:
    assert [one.name for one in job_list(sight(), filters).rows] == expected


def test_a_line_of_the_list() -> None:
    assert job_list(sight(), Filters(mine="1")).rows == (
        ShownJob(
            namespace="default", name="mine", mine=True, state="waiting", shape="◷", place="demo/batch",
            size="3 Pods × 2 CPU, 4Gi, 1 GPU", created=TEN - 90 * 60, waited=90 * 60, ran=None,
            why="Queued", message="Resources", expected=Start(TEN + HOUR, TEN + HOUR), rule="large", requester="ben",
        ),
    )  # fmt: skip


def retried(*pods: dict[str, Any], **status: Any) -> ShownJob:
    """The line of a Job of nine o'clock with these Pods."""
    made = judged("again", created="09:00:00", **status)
    (line,) = job_list(sight(jobs=(row_of(made),), pods=tuple(map(view, pods))), Filters()).rows
    return line


FIRST = ran("again-1", "again", created="09:00:01", started="09:00:02", ended="09:00:06", code=7)
SECOND = ran("again-2", "again", created="09:00:16", started="09:07:00", ended="09:07:03", code=7)
LIMIT = "Job has reached the specified backoff limit"
LOST = ran("again-3", "again", created="09:08:00", started="09:09:00", ended="09:09:10", code=137)
LOST["status"] |= {
    "reason": "NodeLost",
    "message": "n1 is down",
    "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": at("09:09:10")}],
}
del LOST["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"]


@pytest.mark.parametrize(
    ("pods", "status", "expected"),
    [
        ([FIRST, pending("again-2", "again", "Queued", "full", "09:00:16")], {}, ("waiting", HOUR - 4, 4)),
        ([FIRST, ran("again-2", "again", created="09:00:16", started="09:59:00")], {}, ("running", HOUR - 64, 64)),
        ([SECOND, FIRST], over("Failed", "BackoffLimitExceeded", LIMIT), ("failed", 2 + 414, 7)),
        ([FIRST], over("Failed", "BackoffLimitExceeded", LIMIT), ("failed", 2, 4)),
        ([], over("Failed", "BackoffLimitExceeded", LIMIT), ("failed", None, None)),
        ([FIRST, LOST], {}, ("waiting", HOUR - 14, 14)),
    ],
)
def test_the_waits_and_runs_of_a_job_that_is_tried_again(
    pods: list[dict[str, Any]], status: dict[str, Any], expected: tuple[str, float | None, float | None]
) -> None:
    line = retried(*pods, status=status)

    assert (line.state, line.waited, line.ran) == expected


def test_pods_that_run_at_the_same_time_count_once() -> None:
    one = ran("again-1", "again", created="09:00:00", started="09:10:00", ended="09:40:00")
    other = ran("again-2", "again", created="09:00:00", started="09:20:00", ended="09:30:00")

    line = retried(one, other, status=over("Complete"))

    assert (line.waited, line.ran) == (10 * 60, 30 * 60)


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ([SECOND, FIRST], ("", f"container main ended with 7; {LIMIT}")),
        ([LOST, FIRST], ("NodeLost", f"n1 is down; container main ended with 137; {LIMIT}")),
        ([pending("again-2", "again", "Queued", "full", "09:00:16")], ("", LIMIT)),
    ],
)
def test_how_the_last_pod_of_a_failed_job_ended(pods: list[dict[str, Any]], expected: tuple[str, str]) -> None:
    line = retried(*pods, status=over("Failed", "BackoffLimitExceeded", LIMIT))

    assert (line.why, line.message) == expected


IN_CLOUD = ("in the cloud", "its Pods are not looked at in this list; its own page shows why they wait")


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (judged("j", site="", status={"active": 1}), IN_CLOUD),  # its Pod may be Unschedulable, or lack its image
        (judged("j", site="", status={"active": 1, "ready": 1}), ("", "")),
        (judged("j", site="", status=over("Complete")), ("", "")),
        (judged("j", site="", status=over("Failed", "BackoffLimitExceeded", "too often")), ("", "too often")),
        (judged("poor", site=""), ("FailedCreate", "exceeded quota: small")),
        (judged("j"), ("", "")),
    ],
)
def test_why_a_job_without_listed_pods_waits(made: dict[str, Any], expected: tuple[str, str]) -> None:
    (line,) = job_list(sight(jobs=(row_of(made),)), Filters()).rows

    assert (line.why, line.message) == expected


def test_a_pod_of_another_namespace_is_none_of_the_job() -> None:
    """Whoever makes a Pod writes into it whose it is, also the uid of somebody else's Job."""
    forged = ran("forged", "stuck", created="09:00:00", started="09:05:00")
    forged["metadata"]["namespace"] = "elsewhere"
    shown = sight(pods=(*map(view, PODS), view(forged)))

    assert job_list(shown, Filters(name="stuck")).rows == job_list(sight(), Filters(name="stuck")).rows
    assert first_screen(shown, Filters()).needy == first_screen(sight(), Filters()).needy


def test_what_is_kept_of_a_job_is_bounded() -> None:
    long = "x" * 100_000
    made = judged("mine", rule=long, requester=long)

    assert len(repr(row_of(made))) < 3000


def test_nothing_is_kept_of_a_pods_annotations() -> None:
    made = ran("runs-1", "runs", created="09:10:00", started="09:20:00")
    long = dict.fromkeys((names.KEY_RULE, names.KEY_JOB_ID, names.KEY_RESOURCES_USED, names.KEY_EXIT), "x" * 100000)
    made["metadata"]["annotations"] = long

    assert len(repr(_without_notes(made))) < 3000


def test_a_size_that_is_no_quantity_counts_as_none() -> None:
    found = judged("odd")
    found["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "much"}}
    found["spec"]["parallelism"] = 1

    assert size_words(row_of(found)) == ""


def _with(containers: list[dict[str, Any]], **pod: Any) -> str:
    found = judged("sized")
    found["spec"] |= {"parallelism": 1, "template": {"spec": {**pod, "containers": containers}}}
    return size_words(row_of(found))


def _asks(**resources: dict[str, str]) -> dict[str, Any]:
    return {"name": "c", "image": "i", "resources": resources}


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (_with([_asks(requests={"memory": "5Gi"}, limits={"memory": "60Gi"})]), "60Gi"),
        (_with([_asks(requests={"cpu": "2"}, limits={"cpu": "8"})]), "2 CPU"),
        (_with([_asks(requests={"cpu": "2"})], initContainers=[_asks(requests={"cpu": "6"})]), "6 CPU"),
        (_with([_asks(requests={"cpu": "2"})], resources={"requests": {"cpu": "4"}}), "4 CPU"),
        (_with([_asks(limits={"amd.com/gpu": "2"}), _asks(limits={"amd.com/gpu": "1"})]), "3 GPU"),
        (_with([_asks(limits={"gpu.intel.com/i915": "2", "cpu": "1"})]), "1 CPU, 2 gpu.intel.com/i915"),
    ],
)
def test_a_size_in_the_list_is_the_one_that_rules_count_by_default(shown: str, expected: str) -> None:
    """docs/judging.md: memory is what the limits say, cores what the requests say; a Pod counts as the scheduler counts it."""
    assert shown == expected


def test_a_queue() -> None:
    (site,) = first_screen(sight(), Filters()).sites

    assert (site.site, site.state, site.check, site.age) == ("demo", "reachable", "checked at 09:00: no problems", 30)
    assert site.queues == (
        QueueCard(
            queue="batch", node="batch.demo.batchgate", state="open", reason="", since=None, age=30, nodes=8, free_nodes=2,
            running=4, queued=5, ours_running=1, ours_queued=2, median=450, most=600, counted=2,
            first=FirstInLine("default", "mine", "mine-1", TEN - 90 * 60, "Queued", "Resources", Start(TEN + HOUR, TEN + HOUR)),
            limits=(("walltime at most", "24h"),),
        ),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        # Of Pods of one moment, the name would say another one.
        ({"a": "number 2 of the 4 jobs in line", "b": "Priority; number 1 of the 4 jobs in line"}, ("b", 1)),
        (
            {"a": "number 10 of this cluster's 12 jobs in line", "b": "x; number 9 of this cluster's 12 jobs in line"},
            ("b", 9),
        ),
        (
            {
                "a": "Resources; number 3 of the 4 jobs in line that the agent may see",
                "b": "number 2 of the 4 jobs in line that the agent may see; expected to start about 2026-01-01T11:00:00Z",
            },
            ("b", 2),
        ),
        ({"a": "", "b": "", "c": "number 7 of the 9 jobs in line"}, ("c", 7)),
        ({"b": "Resources", "a": "Priority"}, ("a", None)),
        ({"a": "the user wrote: number 1 of the 2 jobs in line, or so", "b": ""}, ("a", None)),
    ],
)
def test_first_in_line_is_by_what_the_pods_say(messages: dict[str, str], expected: tuple[str, int | None]) -> None:
    pods = tuple(view(pending(name, name, "Queued", message)) for name, message in messages.items())

    (site,) = first_screen(sight(pods=pods), Filters()).sites

    (first,) = [one.first for one in site.queues]
    assert first is not None
    assert (first.pod, first.place) == expected


def test_a_held_job_is_behind_all_that_wait_for_their_turn() -> None:
    pods = tuple(map(view, (pending("a", "a", "Held", "by root"), pending("b", "b", "Queued", "Resources"))))

    shown = (first_screen(sight(pods=some), Filters()).sites[0].queues[0].first for some in (pods, pods[:1]))

    assert [one and one.pod for one in shown] == ["b", "a"]


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ({"HPCUnavailable": ("True", "qstat: no answer")}, ("unreachable", "unreachable", "qstat: no answer", None)),
        ({"Ready": ("Unknown", "stopped")}, ("agent-away", "agent-away", "stopped", None)),
        ({"SiteRefused": ("True", "home")}, ("refused", "refused", "home", 4)),
        ({"QueueClosed": ("True", "Disabled")}, ("reachable", "closed", "Disabled", 4)),
    ],
)
def test_no_old_figures_of_a_site_that_does_not_answer(
    conditions: dict[str, tuple[str, str]], expected: tuple[str, str, str, int | None]
) -> None:
    (site,) = first_screen(sight(nodes=(node("batch", "demo", **conditions),)), Filters()).sites
    (queue,) = site.queues

    assert (site.state, queue.state, queue.reason, queue.running) == expected


def test_figures_that_are_too_old_are_left_out() -> None:
    (site,) = first_screen(replace(sight(), now=NOW + 3600, read=NOW + 3600), Filters()).sites

    assert (site.queues[0].free_nodes, site.queues[0].queued) == (None, None)


def test_what_needs_somebody() -> None:
    assert first_screen(sight(), Filters()).needy == (
        Needy("Job", "default", "poor", "poor", mine=False, place="cloud", reason="FailedCreate",
              message="exceeded quota: small", since=TEN - 20 * 60),
        Needy("Pod", "default", "stuck-1", "stuck", mine=False, place="demo/batch", reason="Held",
              message="by an operator", since=TEN - 30 * 60),
    )  # fmt: skip
    assert [(one.name, one.mine) for one in first_screen(sight(user="ada"), Filters()).needy] == [
        ("poor", True),
        ("stuck-1", True),
    ]


NO_LEADER = Needy("agent", "", "demo", "", mine=False, place="", reason="no agent of the site leads", message="",
                  since=TEN - 60)  # fmt: skip


@pytest.mark.parametrize(
    ("renewed", "nodes", "expected"),
    [
        ("09:59:55", (node("batch"),), ()),
        ("09:59:00", (node("batch"),), (NO_LEADER,)),
        ("09:59:00", (node("batch", Ready=("Unknown", "stopped")),), (NO_LEADER,)),  # which its Node says too
        (
            "09:59:55",
            (node("batch", Ready=("Unknown", "stopped")),),
            (replace(NO_LEADER, kind="queue", name="demo/batch", reason="agent-away", message="stopped", since=None),),
        ),
        (
            "09:59:55",
            (node("batch", HPCUnavailable=("True", "no answer")), node("long", HPCUnavailable=("True", "no answer"))),
            (replace(NO_LEADER, kind="site", reason="HPCUnavailable", message="no answer", since=TEN - HOUR),),
        ),
        (
            "09:59:55",
            (node("batch", SiteRefused=("True", "no home")),),
            (replace(NO_LEADER, kind="site", reason="SiteRefused", message="no home", since=TEN - HOUR),),
        ),
    ],
)
def test_a_site_without_agent_or_batch_system_needs_somebody_first(
    renewed: str, nodes: tuple[dict[str, Any], ...], expected: tuple[Needy, ...]
) -> None:
    """Before the reader's own Jobs: these wait for the same."""
    leases = {names.lease_name(SITE): lease("agent-1", at(renewed))}
    found = first_screen(sight(user="ada", nodes=nodes, leases=leases), Filters()).needy

    assert found == (*expected, *first_screen(sight(user="ada"), Filters()).needy)


def test_before_leases_were_read_no_site_lacks_its_agent() -> None:
    found = first_screen(sight(leases={}, nodes=(), queues={}, read=0), Filters()).needy

    assert found == first_screen(sight(), Filters()).needy


@pytest.mark.parametrize(
    ("status", "age", "expected"),
    [
        ({}, 100, True),
        ({}, 3000, True),
        ({"active": 0}, 100, True),
        ({"active": 1, "ready": 0}, 100, False),
        ({"active": 1, "ready": 1}, 100, False),
        ({"terminating": 1}, 100, False),
        ({"failed": 1}, 100, True),  # it is refused the next one
        ({"failed": 1}, 700, False),  # the refusal was before that one
        ({"succeeded": 1}, 700, False),
        (over("Complete"), 100, False),
    ],
)
def test_a_job_that_has_its_pods_by_now_needs_nobody(status: dict[str, Any], age: int, expected: bool) -> None:
    """The Event of a refusal stays for an hour. A Pod in the cloud is not listed: the Job's status tells of it."""
    jobs = (*JOBS[:5], judged("poor", rule="rest", site="", status=status))
    found = sight(jobs=tuple(map(row_of, jobs)), failed_creations=(replace(QUOTA, since=TEN - age),))

    needy = [one.name for one in first_screen(found, Filters()).needy]
    (line,) = job_list(found, Filters(name="poor")).rows

    assert (needy, line.why == "FailedCreate") == ([*(["poor"] if expected else []), "stuck-1"], expected)


def test_a_job_on_hpc_that_has_its_pods_by_now_needs_nobody() -> None:
    """Its Pods are listed, and the Job's status may be behind."""
    found = sight(failed_creations=(FailedCreation("default", "mine", "job-mine", "exceeded quota", TEN - 100),))

    assert [one.name for one in first_screen(found, Filters()).needy] == ["stuck-1"]


def test_an_event_of_another_namespace_is_none_of_the_job() -> None:
    found = sight(failed_creations=(replace(QUOTA, namespace="elsewhere", message="forged"),))

    assert [one.name for one in first_screen(found, Filters()).needy] == ["stuck-1"]
    assert [one.message for one in job_list(found, Filters(name="poor")).rows if one.message == "forged"] == []


def test_a_job_of_a_site_without_its_pods_needs_somebody_once() -> None:
    shown = sight(jobs=tuple(map(row_of, (judged("poor", created="09:40:00"),))), pods=())

    assert first_screen(shown, Filters()).needy == (
        Needy("Job", "default", "poor", "poor", mine=False, place="demo/batch", reason="FailedCreate",
              message="exceeded quota: small", since=TEN - 20 * 60),
    )  # fmt: skip


def test_decisions_of_a_day() -> None:
    found = decisions(sight())

    assert (found.total, found.most, len(found.hours)) == (6, 4, 24)
    assert found.groups == (
        Group("large", "demo/batch", 4, 67, "2", TEN - 2 * HOUR, TEN - 30 * 60, "rule large says so", ("default", "stuck"),
              "solid"),
        Group("rest", "cloud", 2, 33, "1", TEN - 40 * 60, TEN - 20 * 60, "rule rest says so", ("default", "poor"), "striped"),
    )  # fmt: skip
    assert [(hour.count, [(piece.foot, piece.height) for piece in hour.pieces]) for hour in found.hours[-2:]] == [
        (2, [(0, 50)]),
        (4, [(0, 50), (50, 50)]),
    ]


@pytest.mark.parametrize(
    ("requesters", "expected"),
    [
        (("ada", "ada"), "1"),
        (("ada", "ben"), "2"),
        (("", "", "", "", ""), "unknown"),
        (("ada", "", "ben", "ada", ""), "2 and unknown"),
    ],
)
def test_people_of_a_group(requesters: tuple[str, ...], expected: str) -> None:
    """A Job that Batchgate has not judged does not say who made it."""
    made = (row_of(judged(f"small-{at}", site="", requester=one)) for at, one in enumerate(requesters))

    (group,) = decisions(sight(jobs=tuple(made))).groups

    assert (group.count, group.people) == (len(requesters), expected)


def test_older_decisions_are_left_out() -> None:
    assert decisions(replace(sight(), now=NOW + 25 * HOUR)).total == 0


def test_the_steps_of_a_job() -> None:
    made = JOBS[0]
    pods = [ran("done-1", "done", created="08:00:00", started="08:05:00", ended="08:30:00", code=3)]
    pods[0]["metadata"]["annotations"] = {"batchgate.dev/job-id": "17.hpc"}
    events = [
        event(pods[0], "Submitted", "job 17.hpc", "08:01:00"),
        event(pods[0], "ResultsBrought", "2 files", "08:31:00"),
    ]

    found = story(made, pods, events)

    assert steps(found, {}, NOW) == (
        Step(TEN - 2 * HOUR, "done", "Created", "by ada", "Job/done"),
        Step(TEN - 2 * HOUR, "done", "Decided: demo/batch, by rule large", "rule large says so"),
        Step(TEN - 2 * HOUR, "done", "Pod created", "", "Pod/done-1"),
        Step(TEN - 119 * 60, "done", "Queued", "batch job 17.hpc", "Pod/done-1"),
        Step(TEN - 115 * 60, "done", "Started", "on node batch.demo.batchgate", "Pod/done-1"),
        Step(TEN - 90 * 60, "trouble", "Container main ended with 3", "", "Pod/done-1"),
        Step(TEN - 89 * 60, "done", "ResultsBrought (2 times)", "2 files", "Pod/done-1"),
        Step(TEN - 30 * 60, "done", "Complete", ""),
    )


def test_what_is_ahead_comes_last() -> None:
    found = story(JOBS[1], [PODS[1]], [])

    assert steps(found, {}, NOW)[-1] == Step(
        TEN + HOUR, "ahead", "Waits: Queued", "Resources; may start about 11:00 UTC", "Pod/mine-1"
    )


def test_a_pod_that_no_node_takes() -> None:
    one = pending("poor-1", "poor", "", "")
    del one["status"]["reason"], one["status"]["message"]
    one["status"]["conditions"] = [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}
    ]

    found = steps(story(JOBS[5], [one], []), unscheduled([one]), NOW)

    assert found[-1] == Step(None, "ahead", "Waits: Unschedulable", "no room", "Pod/poor-1")


def test_within_one_second_steps_stand_in_the_order_in_which_they_come() -> None:
    """Short runs: the agent tells of a start when the container has ended, a second later even."""
    pods = [
        ran(f"done-{number}", "done", created="08:00:00", started="08:00:00", ended="08:00:00", code=number)
        for number in (0, 3)
    ]
    for pod in pods:
        pod["metadata"]["annotations"] = {"batchgate.dev/job-id": "17.hpc"}
    events = [event(pod, "Started", "Batch job 17.hpc has started", "08:00:01") for pod in pods]
    for one, pod in zip(events, pods, strict=True):
        one["count"] = 1
        events = [*events, event(pod, "Submitted", "job 17.hpc", "08:00:00")]

    found = steps(story(JOBS[0], pods, events), {}, NOW)

    assert [(one.title, one.about) for one in found if one.about.startswith("Pod/")] == [
        (title.format(code=number), f"Pod/done-{number}")
        for title in ("Pod created", "Queued", "Started", "Container main ended with {code}")
        for number in (0, 3)
    ]


def test_the_start_is_told_once() -> None:
    one = ran("done-1", "done", created="08:00:00", started="08:05:00", ended="08:30:00")
    told = event(one, "Started", "Batch job 17 has started", "08:05:00")

    found = steps(story(JOBS[0], [one], [told]), {}, NOW)

    assert [step.words for step in found if step.title.startswith("Started")] == ["Batch job 17 has started"]


def test_nobody_owns_jobs_while_the_readers_name_is_unknown() -> None:
    """A Job that Batchgate has not judged does not say who made it."""
    made = judged("small", site="", requester="")

    assert job_list(sight(jobs=(row_of(made),), user=""), Filters(mine="1")).rows == ()


def test_bars() -> None:
    made = [
        ran("a", "done", created="08:00:00", started="08:30:00", ended="09:00:00"),
        pending("b", "done", "Queued", "", "09:00:00"),
    ]

    found = plot(story(JOBS[0], made, []), NOW)

    assert found is not None
    assert found.bars == (
        Bar("a", 0, 25, 50, waited=30 * 60, ran=30 * 60, state="Succeeded"),
        Bar("b", 50, 100, 100, waited=HOUR, ran=None, state="Pending"),
    )
    assert plot(story(JOBS[0], [], []), NOW) is None


def test_commands_quote_names() -> None:
    found = replace(story(JOBS[1], [], []), name="a b;c", namespace="x$y")

    assert dict(commands(found))["End it"] == "kubectl delete job 'a b;c' -n 'x$y'"
    assert "End it" not in dict(commands(story(JOBS[0], [], [])))


@pytest.mark.parametrize(
    ("renewed", "read", "in_force"),
    [
        ("09:59:55", 3, True),
        ("09:59:44", 10, True),  # it is read again just now: at the last look it was six seconds old
        ("09:59:30", 10, False),
        ("09:46:55", 780, True),  # of what has been since, the page says that it knows nothing
    ],
)
def test_a_lead_is_judged_by_when_its_lease_was_read(renewed: str, read: int, in_force: bool) -> None:
    found = sight(read=TEN - read, leases={names.lease_name(SITE): lease("agent-1", at(renewed))})

    (site,) = first_screen(found, Filters()).sites

    assert site.leader is not None
    assert (site.leader.in_force, site.leader.age) == (in_force, TEN - (seconds(at(renewed)) or 0))


def test_what_was_read_before_a_pause_is_judged_by_when_it_was_read() -> None:
    """The first look after a pause may come before anything is read anew: what was well then, is no trouble."""
    published = {inforce.key_of("replica"): inforce.document(InForce(NOW - 10, "d" * 64, release="1.0.0"))}

    found = first_screen(sight(policies=published, now=NOW + 780), Filters())

    (site,) = found.sites
    (queue,) = site.queues
    assert site.leader == Leader("demo", "agent-1", at("09:59:55"), 785, in_force=True)
    assert (queue.state, queue.reason, queue.age, queue.free_nodes) == ("open", "", 810, 2)
    assert found.policy == "all have dddddddddddd in force (1 replica of the webhook)"
    assert found.releases == "not the same everywhere: webhook replica 1.0.0, agent demo unknown"


@pytest.mark.parametrize("time", ["2030-01-01T00:00:00Z", "9999-12-31T23:59:59-12:00"])
@pytest.mark.parametrize("reason", ["FailedCreate", "ImagePullBackOff"])
def test_a_start_is_believed_of_a_queued_pod_alone(reason: str, time: str) -> None:
    """Whoever may write Events, or whose registry answers, would have others see one."""
    words = f"forged; expected to start before {time}"
    pods = (view(pending("a-1", "a", reason, words)),)
    shown = sight(
        jobs=(row_of(judged("a", rule="rest", site="", created="09:00:00")),),
        pods=pods if reason != "FailedCreate" else (),
        failed_creations=(FailedCreation("default", "a", "job-a", words, TEN - 100),),
    )

    found = first_screen(shown, Filters())

    (one,) = found.jobs.rows
    assert (one.why, one.message, one.expected) == (reason, words, None)
    assert {queue.first and queue.first.expected for site in found.sites for queue in site.queues} == {None}
