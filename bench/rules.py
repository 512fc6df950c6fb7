"""Compares decisions with 50 rules, of which the last matches, with decisions with 5."""

from __future__ import annotations

import sys

from bench.pipeline import ROUNDS, median_ratio
from bench.report import Row, write
from router import policy
from router.policy.decision import Requester
from router.workload import workload_of

SITE = """
sites:
  - name: one
    system: openpbs
    workDir: /work
    queues: [{name: batch, nodes: 4, cpusPerNode: 8}]
accounts: [{users: [ada], as: ada}]
"""
RULE = "  - {{name: rule-{n}, when: \"has(job.cpus) && job.cpus > {n} + 1000 && request.user != 'nobody'\", cloud: true}}\n"
JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "x"},
    "spec": {
        "template": {
            "spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "c", "image": "i", "command": ["c"], "resources": {"requests": {"cpu": "4"}}}],
            }
        }
    },
}


def policy_of(rules: int) -> policy.Policy:
    """A policy with this many rules. Only the last one matches, but all conditions are evaluated to the end."""
    text = SITE + "rules:\n" + "".join(RULE.format(n=n) for n in range(rules - 1))
    return policy.load({"all.yaml": text + "  - {name: last, hpc: [{queue: batch}]}\n"})


def main() -> None:
    """Print the difference in milliseconds."""
    requester = Requester("ada", (), "default")
    workload = workload_of(JOB, namespace="default")
    few, many = policy_of(5), policy_of(50)
    assert policy.decide(many, workload, requester).rule == "last"
    fifty, five, _ = median_ratio(
        lambda: policy.decide(many, workload, requester), lambda: policy.decide(few, workload, requester), ROUNDS
    )
    rows = [
        Row("5 rules", five, "us"),
        Row("50 rules", fifty, "us"),
        Row("50 rules cost more than 5", (fifty - five) / 1000, "ms", 0.3),
    ]
    sys.exit(not write("rules", rows))


if __name__ == "__main__":
    main()
