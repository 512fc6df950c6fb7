"""What must hold of placing and stripping for every Job, whatever arrives in it."""

from __future__ import annotations

import copy
from typing import Any

import jsonpatch
from hypothesis import assume, given
from hypothesis import strategies as st

from router.gate import patching
from router.placement import Record, place, strip
from router.policy.decision import Decision
from tests.allowed import surplus, surplus_kept
from tests.placement.given import decisions, jobs, records, scripts

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["", "a/b", "~"]),
    lambda below: (
        st.lists(below, max_size=3) | st.dictionaries(st.sampled_from(["a/b", "m~n", "x"]), below, max_size=3)
    ),
    max_leaves=6,
)


@given(jobs(), st.lists(st.tuples(decisions, scripts, records), min_size=2, max_size=2))
def test_what_was_placed_is_taken_out_whole(job: Any, judged: list[tuple[Decision, str, Record]]) -> None:
    """Also when queue state, policy, decision and time of issue changed in between."""
    first, second = judged
    own = strip(job).job

    placed = place(own, *first)

    assert strip(placed).job == own
    assert place(strip(placed).job, *second) == place(own, *second)


@given(jobs())
def test_stripping_twice_is_stripping_once(job: Any) -> None:
    own = strip(job)

    again = strip(own.job)

    assert again.job == own.job
    assert (again.taken, again.warnings) == ((), ())


@given(jobs(), decisions, scripts, records)
def test_nothing_is_changed_beside_the_table(job: Any, decision: Decision, script: str, record: Record) -> None:
    own = strip(job).job
    assume(decision.route is None or not own["spec"]["template"]["spec"].get("nodeName"))  # such a Job stays

    placed = place(own, decision, script, record)

    assert (surplus(own, placed) if decision.route else surplus_kept(own, placed)) == []


@given(jobs(), decisions, scripts, records)
def test_what_is_given_stays_as_it_was(job: Any, decision: Decision, script: str, record: Record) -> None:
    before = copy.deepcopy(job)

    placed = place(strip(job).job, decision, script, record)
    strip(placed)

    assert job == before


@given(jobs(), decisions, scripts, records)
def test_the_difference_turns_a_job_into_its_routed_copy(
    job: Any, decision: Decision, script: str, record: Record
) -> None:
    routed = place(strip(job).job, decision, script, record)

    operations = patching.diff(job, routed)

    assert jsonpatch.apply_patch(job, operations) == routed
    assert {operation["op"] for operation in operations} <= {"add", "remove", "replace"}  # RFC 6902's


@given(jobs(), decisions, scripts, records)
def test_a_job_that_is_as_it_should_be_gets_no_patch(job: Any, decision: Decision, script: str, record: Record) -> None:
    routed = place(strip(job).job, decision, script, record)

    again = place(strip(routed).job, decision, script, record)

    assert patching.diff(routed, again) == []
