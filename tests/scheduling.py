"""Where and when tests run if several processes share them (pytest-xdist): modules whole, the longest first.

Most tests wait for something: a queue, a Pod, a time limit. So there are more processes than cores. The figures are
seconds on two cores; they decide the order alone.
"""

from __future__ import annotations

from typing import Final

import pytest
from xdist.scheduler.loadscope import LoadScopeScheduling

TOGETHER: Final = {
    "life and kills": (
        "agent/whole/test_life",
        "agent/whole/test_kills",
        "agent/whole/test_st",
        "agent/whole/test_sus",
    ),
    "outages": ("agent/whole/test_outages", "agent/whole/test_del", "agent/whole/test_e", "agent/whole/test_sub"),
    "users": (
        *("agent/whole/test_bypassing", "agent/whole/test_credentials", "agent/whole/test_jobfields"),
        *("agent/whole/test_page", "agent/whole/test_traces"),
    ),
    "operators": ("agent/whole/",),
    "webhook": ("webhook/real/", "webhook/test_watched"),
    "plane": (
        *("agent/leader/", "agent/test_lastcheck", "agent/nodes/", "agent/files/test_cleaning"),
        *("agent/pods/test_watching", "kube/", "kubelet/test_exec", "kubelet/test_kubectl"),
    ),
    "plane and commands": (
        *("sitecheck/test_checking", "controlplane/test_guards", "controlplane/test_m", "controlplane/test_start"),
        *(
            "chart/test_cluster",
            "cli/test_policyapply",
            "cli/test_policyreport",
            "cli/test_siteadd",
            "joining/test_loginnode",
        ),
        *("page/test_viewers", "reference/test_table", "startup/test_policyconfigmap"),
    ),
    "certs": ("certs/test_ensure", "certs/test_approve"),
    "deployed": ("deployed/",),
    "chart": ("chart/installed/",),
    "bed": ("agent/bed/",),
    "pbs": ("agent/pbs/",),
}
"""Modules, by the beginnings of their names, that share what takes long to make, a control plane above all. The first
that fits counts. What shares the control plane of all tests is in two parts, so that both cores have something to do."""

LONG: Final = {
    "certs": 300,
    "plane": 350,
    "plane and commands": 300,
    "users": 300,
    "life and kills": 350,
    "outages": 350,
    "operators": 350,
    "webhook": 300,
    "tests/agent/batch/test_user_observer.py": 140,
    "chart": 180,
    "deployed": 120,
    "tests/script/test_rank_pulls.py": 80,
    "tests/local/test_growth.py": 80,
    "tests/host/test_remote.py": 60,
    "tests/script/test_running.py": 60,
    "tests/webhook/test_command.py": 60,
    "tests/demo/test_standing.py": 58,
    "tests/test_structure.py": 50,
    "tests/demo/test_demo.py": 48,
    "tests/local/test_running.py": 47,
    "tests/page/test_browser.py": 40,
    "tests/controlplane/test_cloudnode.py": 35,
    "tests/script/test_traps.py": 33,
    "tests/demo/test_readme.py": 30,
}


def scope(nodeid: str) -> str:
    """What a test runs together with, in one process: those that it shares something with, or its module."""
    module = nodeid.partition("::")[0]
    found = (name for name, starts in TOGETHER.items() if module.startswith(tuple(f"tests/{one}" for one in starts)))
    return next(found, module)


def longest_first(items: list[pytest.Item]) -> None:
    """Sort the scopes, those that take long before the others; within each, tests stay in their order."""
    items.sort(key=lambda one: (-LONG.get(scope(one.nodeid), 0), scope(one.nodeid)))


class ByScope(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """xdist's scheduler of whole scopes, with ours; it asks for them by a method to be overridden."""

    def __init__(self, config: pytest.Config, log: object) -> None:
        config.option.loadscopereorder = False  # xdist would sort scopes by their numbers of tests
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        return scope(nodeid)

    def remove_node(self, node: object) -> str | None:
        """Give another process what this one had not run when it ended, but for the test that it ended in.

        :return: that test; xdist itself would run it again, which for one that never ends is for ever
        """
        units = self.assigned_work[node].values()
        ended_in = next((nodeid for unit in units for nodeid, completed in unit.items() if not completed), None)
        for unit in units:
            if ended_in in unit:
                unit[ended_in] = True
        super().remove_node(node)
        return ended_in
