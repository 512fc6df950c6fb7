"""Jobs that other people published, as a dry run of the server: with the webhook nothing is refused but what a policy denies.

The corpus is not part of the repository: without it there is nothing to test.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from kindcluster import installing
from kindcluster.provider import Provider
from router.names import SYSTEM_NAMESPACE
from router.notation import documents
from tests.kindcluster.test_installed import LAYOUT, chosen, kubectl, ok
from tests.test_corpus import FILES

__all__ = ["chosen"]
pytestmark = [
    pytest.mark.kind,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not FILES, reason="no ../shared/corpus beside the project"),
]

KINDS = {"Job", "CronJob", "Pod"}


def sent() -> Iterator[tuple[str, dict[str, Any]]]:
    """Each Job, CronJob and Pod of the corpus, with a name of its own and without its namespace."""
    for file in FILES:
        for number, one in enumerate(documents.parse(file.read_text(), file.name)):
            if isinstance(one.value, dict) and one.value.get("kind") in KINDS:
                metadata = {key: value for key, value in one.value["metadata"].items() if key != "namespace"}
                yield f"{file.parent.name}__{file.stem}-{number}", {**one.value, "metadata": metadata}


POLICY = {
    "20-accounts.yaml": "accounts: [{users: [kubernetes-admin], as: batchgate}]\n",
    "30-rules.yaml": """
rules:
  - {name: huge, when: job.totalCpus > 16 || job.totalGpus > 8, deny: more than this machine has}
  - {name: all, kueue: true, hpc: [{queue: batch}, {queue: gpu}]}
""",
}
SYSTEM, DEPLOYMENT = f"--namespace={SYSTEM_NAMESPACE}", "deployment/batchgate-webhook"
DENIED = (
    'admission webhook "jobs.batchgate.dev" denied the request: rule huge denies this Job: more than this machine has'
)


@pytest.fixture(scope="module")
def plain(chosen: Provider) -> Iterator[str]:
    """A namespace that has not opted in."""
    ok(chosen, "create", "namespace", "plain")
    yield "plain"
    ok(chosen, "delete", "namespace", "plain")


@pytest.fixture(scope="module")
def greedy(chosen: Provider) -> Iterator[Provider]:
    """With a policy that sends all to HPC but what it denies."""
    ok(chosen, SYSTEM, "patch", "configmap", "batchgate-policies", "-p", json.dumps({"data": POLICY}))
    restart(chosen)
    yield chosen
    # Helm would find another's change in its way; without the ConfigMap it makes its own again.
    ok(chosen, SYSTEM, "delete", "configmap", "batchgate-policies")
    installing.install(LAYOUT, chosen, print)
    restart(chosen)


def restart(chosen: Provider) -> None:
    """Have the policy in force at once: running replicas would get it within a minute or two."""
    ok(chosen, SYSTEM, "rollout", "restart", DEPLOYMENT)
    ok(chosen, SYSTEM, "rollout", "status", DEPLOYMENT, "--timeout=300s")


def created(chosen: Provider, namespace: str, one: Path) -> tuple[int, str]:
    done = kubectl(chosen, "create", "--dry-run=server", "--namespace", namespace, "-f", str(one))
    return done.returncode, done.stderr


def test_nothing_is_refused_but_what_a_rule_denies(greedy: Provider, plain: str, tmp_path: Path) -> None:
    for name, one in sent():
        (tmp_path / f"{name}.json").write_text(json.dumps(one))
    files = sorted(tmp_path.glob("*.json"))
    with ThreadPoolExecutor(4) as pool:
        without = list(pool.map(lambda one: created(greedy, plain, one), files))
        judged = list(pool.map(lambda one: created(greedy, "default", one), files))
    why = {
        file.name: said[1].removeprefix(before[1]).strip()
        for file, before, said in zip(files, without, judged, strict=True)
        if said[0] != before[0]
    }

    assert [one for one, said in why.items() if not said.endswith(DENIED)] == []
    assert len(why) >= 5
    assert sum(code == 0 for code, _ in without) > 140
    assert sum("This Job goes to HPC" in said for _, said in judged) > 10
