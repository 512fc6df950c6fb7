"""The check of a site on real Slurm: every line right as the bed is made, and the line that says what was broken."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from bed.standing import variant
from router import policy as policies
from router.preflight import Mark
from router.sitecheck import checking as preflight
from router.startup.policyfiles import read_directory
from tests.agent.bed.site import ADA, BEN, LAYOUT, LOCAL_SUDO, OWN_KEYS, SUDO, BedSite, as_user, obstacle

pytestmark = [pytest.mark.bed, pytest.mark.slurm, pytest.mark.timeout(1200)]

ELSEWHERE = "/tmp/bg-{user}-elsewhere"
"""Each node has a /tmp of its own."""
PROFILE = {"name": "open-mpi", "launcher": "openmpi"}
QUEUES = [
    {"name": "all", "nodes": 4, "cpusPerNode": 4, "memoryPerNode": "4000Mi", "walltimeMax": "4h"},
    {"name": "batch", "nodes": 2, "cpusPerNode": 4, "memoryPerNode": "4000Mi", "walltimeMax": "24h"},
    {"name": "debug", "nodes": 1, "cpusPerNode": 4, "memoryPerNode": "4000Mi", "walltimeMax": "30m"},
    {"name": "gpu", "nodes": 2, "cpusPerNode": 4, "memoryPerNode": "8000Mi", "gpusPerNode": 2, "walltimeMax": "12h"},
]
LINES = {
    "account", "architecture", "clock-agent", "clock-nodes", "history", "image", "imagepull", "job-name", "kill-delay", "launcher/open-mpi", "links",
    "names-delay", "others-jobs", "own-jobs", "probe", "queue/all", "queue/batch", "queue/debug", "queue/gpu", "reach",
    "renames", "runtime", "runtime-rights", "sizes-delay", "versions", "work-directory", "work-directory-on-nodes",
}  # fmt: skip

UNRECORDED = {(f"{user} history", "warning", "no records are kept") for user in (ADA, BEN)}
"""All that there is to say of the bed that was made without accounting."""


@pytest.fixture
def home() -> Iterator[Path]:
    """A directory that the agent's user can come to; the name of the one above it is that of the site."""
    if words := obstacle():
        pytest.skip(words)
    with tempfile.TemporaryDirectory(prefix="bg", suffix="x") as root:
        Path(root).chmod(0o711)
        yield Path(root) / "agent"
    shutil.rmtree(ELSEWHERE.format(user=ADA), ignore_errors=True)


def made(home: Path, way: str, *, account: str = "", **changed: Any) -> BedSite:
    """The bed's site under a name of the test's own, changed so."""
    site = BedSite(way, home)
    site.make()
    for name, key, more in (
        ("sites.yaml", "sites", {"name": home.parent.name, "queues": QUEUES, "mpi": [PROFILE], **changed}),
        ("accounts.yaml", "accounts", {"site": "*", **({"account": account} if account else {})}),
    ):
        document = yaml.safe_load((site.policy / name).read_text())
        document[key] = [{**entry, **more} for entry in document[key]]
        (site.policy / name).write_text(yaml.safe_dump(document))
    return site


def checked(home: Path, way: str, *users: str, **changed: Any) -> tuple[int, dict[str, Any]]:
    """The check's exit code, and its lines by user and name."""
    site = made(home, way, **changed)
    words = ["site", "check", home.parent.name, "--policy", str(site.policy), "-o", "json", "--no-record"]
    done = subprocess.run(
        [*as_user(site.user), sys.executable, "-m", "router", *words, *(f"--as={user}" for user in users)],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(home)},
    )
    assert done.stdout, done.stderr
    return done.returncode, {f"{line['user']} {line['name']}": line for line in json.loads(done.stdout)["lines"]}


def left(user: str, name: str) -> list[str]:
    """Files and jobs of the user's probes; the directory that stays is removed."""
    root = LAYOUT.shared / "work" / user / f"{name}.preflight"
    files = [str(path) for path in root.rglob("*") if path.name != ".clock"]
    shutil.rmtree(root, ignore_errors=True)
    names = subprocess.run(
        ["squeue", "-h", "-u", user, "-o", "%j"], capture_output=True, text=True, timeout=60, check=True
    ).stdout.split()
    return files + [one for one in names if name in one]


@pytest.mark.parametrize("way", [OWN_KEYS, SUDO, LOCAL_SUDO])
def test_every_line_is_right(home: Path, way: str) -> None:
    code, lines = checked(home, way, fsDelay="30s")  # a busy machine is slow to show files

    wrong = {(name, line["verdict"], line["seen"]) for name, line in lines.items() if line["verdict"] != "ok"}
    assert (code, wrong) == (0, set() if variant(LAYOUT).accounting else UNRECORDED), lines
    assert set(lines) == {f"{user} {name}" for user in (ADA, BEN) for name in LINES}
    assert lines[f"{ADA} others-jobs"]["seen"] == f"hidden: {BEN}"  # PrivateData=jobs
    assert [*left(ADA, home.parent.name), *left(BEN, home.parent.name)] == []


BROKEN: dict[str, tuple[dict[str, Any], str, str, str]] = {
    "no right to write": ({"workDir": "/etc/batchgate"}, "work-directory", "/etc/batchgate", "workDir"),
    "not on the nodes": ({"workDir": ELSEWHERE}, "probe", "no notes", "mount workDir on the nodes"),
    "no such runtime": ({"runtimePath": "/opt/none/apptainer"}, "runtime", "no /opt/none/apptainer", "runtimePath"),
    "no such image": ({"images": [{"match": "*", "path": "/none.sif"}]}, "image", "exit code 255", "image's path"),
    "no launcher": (
        {"mpi": [{**PROFILE, "path": "/opt/mpirun"}]},
        "launcher/open-mpi",
        "no launcher on node",
        "MPI profile",
    ),
    "launcher's words": (
        {"mpi": [{**PROFILE, "name": "crowded", "options": ["-np", "64"]}, PROFILE]},
        "launcher/crowded",
        "exit code 1, 0 ranks",
        "Your job has requested more processes than the ppr for this topology can support: App: /bin/bash",
    ),
    "walltime": ({"queues": [{**QUEUES[0], "walltimeMax": "48h"}]}, "queue/all", "walltimeMax 4h", "walltimeMax: 4h"),
    "no such account": ({"account": "nobodys"}, "probe", "nvalid account", "mend"),
    "no such key": ({"keys": "/var/empty"}, "reach", "/var/empty", "docs/hosts.md"),
    "file system": (
        {"workDir": str(LAYOUT.shared / "slow" / "{user}"), "fsDelay": "30s"},
        "names-delay",
        " s",
        "fsDelay: ",
    ),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_what_is_broken_is_said(home: Path, broken: str) -> None:
    changed, name, seen, change = BROKEN[broken]
    if "account" in changed and not variant(LAYOUT).accounting:
        pytest.skip("a Slurm without accounting takes any account")

    code, lines = checked(home, OWN_KEYS, ADA, **changed)

    line = lines[f"{ADA} {name}"]
    assert (code, line["verdict"]) == (1, "must"), lines
    assert seen in line["seen"]
    assert change in line["change"]
    if broken == "launcher's words":
        assert [name for name, one in lines.items() if one["verdict"] == "must"] == [f"{ADA} launcher/crowded"]
    assert left(ADA, home.parent.name) == []


@pytest.fixture
def unrecorded(home: Path) -> Iterator[Path]:
    """Slurm's configuration without accounting, where no user can change it: a site helper gives commands no other."""
    text = Path("/etc/slurm/slurm.conf").read_text()
    path = Path(f"/etc/slurm/{home.parent.name}.conf")
    path.write_text(re.sub(r"(?m)^AccountingStorage(?!Enforce).*\n", "", text))
    yield path
    path.unlink()


def test_without_accounting_it_says_so(home: Path, unrecorded: Path) -> None:
    """Commands that read a configuration without it: what they print is what they print on such a site."""
    site = made(home, OWN_KEYS, queues=[{**QUEUES[0], "nodes": 1}])
    policy = policies.load(read_directory(site.policy))
    wanted = preflight.wanted_of(policy, home.parent.name, (ADA,), "root")
    environment = (*wanted.commands.environment, ("SLURM_CONF", str(unrecorded)))

    lines = preflight.check(
        policy, replace(wanted, commands=replace(wanted.commands, environment=environment)), threading.Event()
    )

    (line,) = (line for line in lines if line.name == "history")
    assert (line.mark, line.seen, "slurmdbd" in line.change) == (Mark.WARNING, "no records are kept", True), lines
    assert left(ADA, home.parent.name) == []
