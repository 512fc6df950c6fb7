"""The state of the embedded queue's queues, in its own words."""

from __future__ import annotations

import json
import sys
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.errors import OutputError
from router.hpc import QueueReport, local
from tests.local.conftest import queue as queue  # noqa: PLC0414 - a fixture
from tests.local.queue import EmbeddedQueue

BUSY = {"site": "", "queue": "q", "up": True, "freeNodes": 1, "queuedJobs": 2, "runningJobs": 3}


def test_the_question() -> None:
    commands = local.commands_of("/state", (sys.executable, "-m", "router.local"))

    (argv,) = local.queues_argvs(commands)
    assert argv[-3:] == ("queues", "-o", "json")


def test_the_times_of_details_are_this_machines() -> None:
    east = timezone(timedelta(hours=2))
    commands = local.commands_of("/state", ("batchgate", "local"))
    record = "Job Id: 0.vm|job_state=R|stime=Sat Nov 21 01:36:40 2026\n"

    assert local.details_argv(["0.vm", "1.vm"], commands) == commands.argv(
        "qstat", "-x", "-f", "-F", "dsv", "0.vm", "1.vm"
    )
    assert not any("TZ=" in word for word in local.details_argv(["0.vm"], commands))
    assert local.parse_details(record, zone=east)["0.vm"].started == datetime(2026, 11, 21, 1, 36, 40, tzinfo=east)


def test_the_answer_of_a_real_one(queue: EmbeddedQueue) -> None:
    done = queue.run("queues", "-o", "json")

    state = QueueReport("workq", enabled=True, started=True, free_nodes=2, queued=0, running=0)
    assert local.parse_queues([done.out]) == {"workq": state}


def test_each_figure() -> None:
    down = {**BUSY, "queue": "r", "up": False}

    assert local.parse_queues([json.dumps({"queues": [BUSY, down]})]) == {
        "q": QueueReport("q", enabled=True, started=True, free_nodes=1, queued=2, running=3),
        "r": QueueReport(
            "r", enabled=False, started=False, reason="not enabled, or not started", free_nodes=1, queued=2, running=3
        ),
    }


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"queues": {}',
        '{"queues": [1]}',
        *(json.dumps({"queues": [{**BUSY, **wrong}]}) for wrong in ({"up": 1}, {"queue": None}, {"freeNodes": -1})),
        *(json.dumps({"queues": [{**BUSY, **wrong}]}) for wrong in ({"queuedJobs": True}, {"runningJobs": "3"})),
        json.dumps({"queues": [{key: value for key, value in BUSY.items() if key != "up"}]}),
    ],
)
def test_what_is_no_answer(text: str) -> None:
    with pytest.raises(OutputError, match="not the state of queues"):
        local.parse_queues([text])


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda below: st.lists(below) | st.dictionaries(st.sampled_from(["queues", *BUSY]), below)))  # fmt: skip
def test_any_json_is_states_or_an_output_error(value: Any) -> None:
    try:
        states = local.parse_queues([json.dumps(value)])
    except OutputError:
        return
    assert all(name == state.name for name, state in states.items())
