"""Webhook and agent of two releases: what the other has written runs, or waits in words and is run once it can be."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

from router import names
from router.placement import signing
from router.script import complete
from tests.agent.whole.jobs import LABEL, finished, unique
from tests.agent.whole.kubectl import Kubectl
from tests.agent.whole.stack import Stack
from tests.agent.whole.test_bypassing import claims_of, copied
from tests.agent.whole.waiting import stays, until

pytestmark = [pytest.mark.timeout(600), pytest.mark.usefixtures("unguarded")]
NEWER = "the script has format 2; this agent completes 1, so it is older than the webhook that wrote the script"


def applied(stack: Stack, user: Kubectl, name: str, script: str, **own: Any) -> None:
    """A Job as a webhook of another release makes it: another script, signed with the webhook's key."""
    job = copied(stack, name, "the webhook's own", user.namespace, **own)
    template = job["spec"]["template"]
    proof = template["metadata"]["annotations"]
    proof[names.KEY_SCRIPT] = script or complete(proof[names.KEY_SCRIPT])
    key = signing.load_private(stack.signing_key.read_bytes())
    proof[names.KEY_SIGNATURE] = signing.sign(claims_of(template, user.namespace), key)
    until(
        lambda: user.run("apply", "-f", "-", stdin=json.dumps(job)).rc == 0, what="for the API server to have no guard"
    )


def ended(user: Kubectl, name: str) -> str:
    return finished(user.get("job", name) or {})


def test_jobs_of_the_webhook_before_run_and_outlast_the_agents_upgrade(stack: Stack, ungated: Kubectl) -> None:
    """Scripts from before there were formats: one has ended, one runs, one waits when the agent is replaced."""
    done, runs, waits = (unique(name) for name in ("done", "runs", "waits"))
    applied(stack, ungated, done, "")
    until(lambda: ended(ungated, done), lambda how: how == "Complete", what="for its end")
    applied(stack, ungated, runs, "", body="sleep 20")
    stack.await_started(runs)
    stack.agent.kill()
    applied(stack, ungated, waits, "")
    stack.agent.start()

    for name in (runs, waits):
        until(partial(ended, ungated, name), lambda how: how == "Complete", what=f"for {name} to end")
    assert [[line.event for line in stack.runs.lines(name)] for name in (done, runs, waits)] == [["start", "end"]] * 3


def test_a_job_of_a_newer_webhook_waits_and_says_which_side_is_older(stack: Stack, ungated: Kubectl) -> None:
    name = unique("newer")
    applied(stack, ungated, name, "#!/bin/bash\n# runtime 2: base host plain\n")

    def waiting() -> list[dict[str, Any]]:
        return [
            one["state"]["waiting"]
            for pod in ungated.every("pods", f"{LABEL}={name}")
            for one in pod["status"].get("containerStatuses", ())
            if "waiting" in one["state"]
        ]

    (found,) = until(waiting, lambda all_: any(one["reason"] == "OtherRelease" for one in all_), what="for the reason")
    assert found["message"].startswith(NEWER)
    stays(lambda: stack.site.of(name), lambda jobs: not jobs, seconds=3, what="never submitted")
    assert stack.runs.lines(name) == []
