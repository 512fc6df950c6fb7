"""An observer that cannot look, and one that is shown nothing: nobody's job is taken for gone."""

from __future__ import annotations

import pytest

from bed.layout import OPERATOR, SERVICE
from bed.standing import variant
from tests.agent.bed.conftest import NODE, Cluster, Stack, reached
from tests.agent.bed.jobs import SECONDS, apply, end_of, job, printed
from tests.agent.bed.site import ADA, LAYOUT, LOCAL_SUDO, OWN_KEYS, living
from tests.agent.bed.test_observer import batch_id, runs
from tests.agent.whole.waiting import until

pytestmark = [pytest.mark.bed, pytest.mark.slurm, pytest.mark.apptainer, pytest.mark.timeout(900)]


def unavailable(stack: Stack) -> str:
    """The status of the Node's condition ``HPCUnavailable``."""
    node = stack.admin.get("node", NODE) or {}
    conditions = node.get("status", {}).get("conditions", ())
    return next((str(one["status"]) for one in conditions if one["type"] == "HPCUnavailable"), "")


def test_an_observer_that_is_away_is_an_outage_and_ends_no_job(cluster: Cluster) -> None:
    if not variant(LAYOUT).accounting:
        pytest.skip("a Slurm without accounting has no operators")
    with reached(cluster, OWN_KEYS, OPERATOR) as stack:
        name = apply(stack.ada, job("echo runs; sleep 30; echo over"))
        runs(stack.ada, name, "runs")
        job_id = batch_id(stack.ada, name)
        key = stack.site.home / "keys" / OPERATOR

        key.rename(key.with_name("away"))
        until(lambda: unavailable(stack), lambda status: status == "True", seconds=SECONDS, what="for the outage")
        assert stack.agent.logged("the observer cannot look")
        until(lambda: living(ADA), lambda ids: job_id not in ids, seconds=SECONDS, what="for its end meanwhile")
        key.with_name("away").rename(key)

        until(lambda: unavailable(stack), lambda status: status == "False", seconds=SECONDS, what="for its end")
        assert end_of(stack.ada, name) == "Complete"
        assert printed(stack.ada, name) == ["runs", "over"]


def test_what_an_observer_does_not_see_is_asked_as_the_owner(cluster: Cluster) -> None:
    """An account that is no operator: Slurm answers it that there is nothing."""
    with reached(cluster, LOCAL_SUDO, SERVICE) as stack:
        people = (stack.ada, stack.ben)
        jobs = [(who, apply(who, job("echo runs; sleep 20; echo over"))) for who in people]
        for who, name in jobs:
            assert end_of(who, name) == "Complete"
            assert printed(who, name) == ["runs", "over"]
        assert stack.agent.logged("the observer does not see")
