"""The site that the demo makes of the examples' policy."""

from __future__ import annotations

import getpass
from pathlib import Path

from router import policy
from router.demo.site import look, prepare
from router.startup.policyfiles import read_directory

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_the_policy_of_the_demo_checks_and_runs_jobs_as_whoever_runs_it(tmp_path: Path) -> None:
    prepare(EXAMPLES, tmp_path / "policy", look(), tmp_path)

    accounts = policy.load(read_directory(tmp_path / "policy")).accounts

    assert {one.as_ for one in accounts} == {None, getpass.getuser()}
    assert {one.as_ for one in accounts if one.controller} == {None}
