"""A check of the site goes wrong: nothing is submitted, what runs is followed, and a good check lifts it; by programs."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from router import names
from router.controlplane import installing
from tests.agent.whole.jobs import unique
from tests.agent.whole.kubectl import Run
from tests.agent.whole.site import SITE
from tests.agent.whole.stack import NODES, Stack
from tests.agent.whole.waiting import until

pytestmark = pytest.mark.timeout(1800)
SECONDS = 300.0
"""A refusal is seen after ten seconds, by rules after forty more; a busy machine takes longer."""


def check(stack: Stack, policy: Path) -> Run:
    """``batchgate site check``, with the kubeconfig of the agent."""
    options = {
        "--policy": policy,
        "--kubeconfig": installing.agent(stack.plane),
        "--local-state": stack.site.queue,
        "--output": "json",
    }
    words = [str(word) for pair in options.items() for word in pair]
    done = subprocess.run(
        [sys.executable, "-m", "router", "site", "check", SITE, *words],
        env=stack.site.environment(), capture_output=True, text=True, timeout=600, check=False, cwd=stack.site.root,
    )  # fmt: skip
    return Run(done.returncode, done.stdout, done.stderr)


def policy(stack: Stack, directory: Path, **changed: str) -> Path:
    """The site's policy, changed so: only the check reads it."""
    directory.mkdir()
    for path in stack.site.policy.glob("*.yaml"):
        document = yaml.safe_load(path.read_text())
        if "sites" in document:
            document["sites"] = [{**one, **changed} for one in document["sites"]]
        (directory / path.name).write_text(yaml.safe_dump(document))
    return directory


def refused(stack: Stack) -> list[tuple[str, str]]:
    """Status and message of the condition of each virtual Node."""
    nodes = [stack.admin.get("node", name) or {} for name in NODES]
    conditions = [one for node in nodes for one in node.get("status", {}).get("conditions", ())]
    return [(one["status"], one["message"]) for one in conditions if one["type"] == names.CONDITION_SITE_REFUSED]


def await_refused(stack: Stack, status: str) -> list[str]:
    """Wait until each virtual Node says so; its messages."""
    wanted = [status] * len(NODES)
    seen = until(lambda: refused(stack), lambda seen: [one for one, _ in seen] == wanted, seconds=SECONDS)
    return [words for _, words in seen]


def goes_to(stack: Stack) -> str:
    """Where a Job would go that the policy sends to HPC."""
    job = json.dumps(stack.runs.job(unique("asks")))
    words = stack.user.ok("create", "--dry-run=server", "-o", "json", "-f", "-", stdin=job)
    return str(json.loads(words)["metadata"]["labels"][names.KEY_TARGET])


@contextlib.contextmanager
def never_checked(stack: Stack) -> Iterator[None]:
    """Whatever a test does: in the end nothing is known of any check, and Jobs go to HPC again."""
    try:
        yield
    finally:
        patch = json.dumps({"data": {f"{SITE}.json": None}})
        system = stack.admin.elsewhere(names.SYSTEM_NAMESPACE)
        system.ok("patch", "configmap", names.CHECKS_CONFIG_MAP, "--type=merge", "-p", patch)
        until(lambda: goes_to(stack), lambda target: target == "hpc", seconds=SECONDS, what="for HPC again")


def phases(stack: Stack, job: str) -> list[tuple[str, str]]:
    pods = [pod["status"] for pod in stack.pods(job)]
    return [(one["phase"], one.get("reason", "")) for one in pods]


def test_a_site_whose_last_check_failed(stack: Stack, tmp_path: Path) -> None:
    name = unique("twice")
    with never_checked(stack):
        await_refused(stack, "False")
        stack.user.apply(stack.runs.job(name, stack.waiting(name), completions=2, parallelism=1))
        stack.await_running(name)

        done = check(stack, policy(stack, tmp_path / "broken", workDir="/proc/1/nowhere"))

        assert (done.rc, json.loads(done.out)["verdict"]) == (1, "must"), done
        assert "submit nothing until a check finds these mended: work-directory" in done.err
        assert all("work-directory" in words and "workDir" in words for words in await_refused(stack, "True"))
        until(
            lambda: goes_to(stack), lambda target: target == "cloud", seconds=SECONDS, what="for Jobs to go elsewhere"
        )

        stack.let_go(name)  # what runs is followed to its end; the Pod that comes after it is not submitted
        waits = [("Pending", names.REASON_SITE_REFUSED), ("Succeeded", "")]
        until(
            lambda: sorted(phases(stack, name)), lambda now: now == waits, seconds=SECONDS, what="for a Pod that waits"
        )
        stack.agent.kill()
        before = len(stack.agent.logged("adopted"))
        stack.agent.start()
        until(
            lambda: len(stack.agent.logged("adopted")) > before, seconds=SECONDS, what="for an agent that knows it all"
        )
        assert sorted(phases(stack, name)) == waits
        assert (stack.runs.started(name), len(stack.site.of(name))) == (1, 1)

        done = check(stack, policy(stack, tmp_path / "mended", fsDelay="2m"))  # a busy machine is slow to show files

        assert done.rc == 0, done
        assert stack.await_end(name, seconds=SECONDS) == ["Complete"]
        assert (stack.runs.started(name), len(stack.site.of(name))) == (2, 2)
        await_refused(stack, "False")
