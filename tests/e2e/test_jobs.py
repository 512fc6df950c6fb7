"""Kubernetes' own end-to-end tests of Jobs, on a cluster where every Job goes to HPC."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

import pytest

from kindcluster import programs, provider
from kindcluster.layout import SOURCE
from tests.together.installed import Installed

pytestmark = [pytest.mark.kind, pytest.mark.timeout(7200)]

FOCUS: Final = os.environ.get("BATCHGATE_E2E_FOCUS", r"\[sig-apps\] Job")
"""The names of the specs that are run; ``\\[sig-apps\\] CronJob`` takes twenty minutes more."""
LEFT_OUT: Final = "delegate|GenericWorkload"
"""Jobs of other controllers (managedBy), and a gate of an API that the cluster does not serve."""
EXCEPTIONS: Final = {
    "should adopt matching orphans and release non-matching pods": (
        "it takes all labels from a Pod, those of batchgate.dev too, which the agent alone may change: a job whose Pod is not "
        "to be found any more would run on unseen"
    ),
}
"""Specs that fail, each with the reason."""
BUILD: Final = SOURCE / "build" / "e2e"
"""Where the suite's report and output are kept."""
_AT_LEAST: Final = 20
"""Fewer specs than these are not all of the suite's."""


def test_all_pass(installed: Installed, tmp_path: Path) -> None:
    BUILD.mkdir(parents=True, exist_ok=True)
    report = BUILD / "report.xml"
    suite = programs.ensure("e2e", print) / "e2e"
    argv = [
        *provider.inside(installed.layout, installed.provider),
        str(suite),
        f"--kubeconfig={installed.layout.kubeconfig}",
        "--provider=skeleton",
        "--allowed-not-ready-nodes=-1",  # the cloud's load tells nothing about Jobs
        "--system-pods-startup-timeout=5s",
        f"--ginkgo.focus={FOCUS}",
        f"--ginkgo.skip={LEFT_OUT}",
        "--ginkgo.timeout=100m",
        "--ginkgo.flake-attempts=2",  # as Kubernetes runs them: some wait for so many seconds and no more
        "--ginkgo.no-color",
        f"--ginkgo.junit-report={report}",
    ]

    with (BUILD / "output").open("wb") as output:
        subprocess.run(argv, stdout=output, stderr=output, cwd=tmp_path, check=False)

    ran, failed = read(report)
    expected = {spec for spec in ran if any(name in spec for name in EXCEPTIONS)}
    assert set(failed) == expected, json.dumps(failed, indent=1)
    assert FOCUS != r"\[sig-apps\] Job" or len(ran) >= _AT_LEAST


def read(report: Path) -> tuple[list[str], dict[str, str]]:
    """The names of the specs that ran, and of those that failed with what they say."""
    cases = [case for case in ET.parse(report).iter("testcase") if case.find("skipped") is None]
    specs = [case for case in cases if case.get("name", "").startswith("[It]")]
    failed = {}
    for case in cases:
        for wrong in (*case.iter("failure"), *case.iter("error")):
            failed[case.get("name", "")] = (wrong.get("message") or wrong.text or "")[:2000]
    return [case.get("name", "") for case in specs], failed
