"""The check of a site on a real OpenPBS or TORQUE: every line right, and the lines that say what the server does not do."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bed.layout import OPERATOR, SERVICE
from tests.agent.pbs import server
from tests.agent.pbs.site import ADA, BEN, QUEUE, SHARED, SITE, PbsSite, as_user, obstacle

pytestmark = [pytest.mark.pbs, pytest.mark.apptainer, pytest.mark.timeout(900)]

LINES = {
    "account", "architecture", "clock-agent", "clock-nodes", "history", "image", "imagepull", "job-name", "kill-delay", "launcher",
    "links", "names-delay", "observer", "others-jobs", "own-jobs", "probe", f"queue/{QUEUE}", "reach", "renames",
    "runtime", "runtime-rights", "sizes-delay", "versions", "work-directory",
} | (set() if server.TORQUE else {"project"})  # fmt: skip


@pytest.fixture
def site() -> Iterator[PbsSite]:
    """Looked at by an observer."""
    if words := obstacle():
        pytest.skip(words)
    with tempfile.TemporaryDirectory(prefix="bg-") as root:
        Path(root).chmod(0o711)
        found = PbsSite(Path(root) / "agent", OPERATOR)
        found.make()
        yield found


def checked(site: PbsSite) -> tuple[int, dict[str, dict[str, str]]]:
    """The check's exit code, and its lines by user and name."""
    words = ["site", "check", SITE, "--policy", str(site.policy), "-o", "json"]
    done = subprocess.run(
        [*as_user(SERVICE), sys.executable, "-m", "router", *words],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(site.home)},
    )
    assert done.stdout, done.stderr
    return done.returncode, {f"{line['user']} {line['name']}": line for line in json.loads(done.stdout)["lines"]}


def left(user: str) -> list[str]:
    """Files and jobs of the user's probes."""
    root = SHARED / "work" / user / f"{SITE}.preflight"
    return [str(path) for path in root.rglob("*") if path.name != ".clock"] + server.living(user)


def test_all_is_well_for_two_users_and_an_operator(site: PbsSite) -> None:
    with server.setting("query_other_jobs", "False"), server.operator(OPERATOR):
        code, lines = checked(site)

    assert {name: line for name, line in lines.items() if line["verdict"] != "ok"} == {}
    assert code == 0
    assert {line["name"] for line in lines.values()} == LINES
    assert [left(user) for user in (ADA, BEN)] == [[], []]


def test_what_the_server_does_not_tell_is_warned_of(site: PbsSite) -> None:
    """An observer who is no operator, and jobs that are forgotten as soon as they are over, which is the default."""
    with server.setting("query_other_jobs", "False"), server.history(kept=False):
        code, lines = checked(site)

    warned = {name: line["verdict"] for name, line in lines.items() if line["verdict"] != "ok"}
    assert warned == {f"{user} {name}": "warning" for user in (ADA, BEN) for name in ("history", "observer")}
    assert code == 0
