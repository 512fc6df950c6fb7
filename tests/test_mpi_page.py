"""docs/mpi.md, the page for admins: its policies load, its commands show what it shows, its table says what happens."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from router import policy, script
from router.cli import commands
from router.policy.decision import Route
from router.script import pairs
from router.script.mpi import start_of
from router.site.schema import LauncherKind, MpiProfile
from router.workload.inside import starts_ranks
from router.workload.model import Workload
from tests.script.builders import container, route, site, workload

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "mpi.md").read_text()
BLOCKS = re.findall(r"```(\w+) ([\w ]+)\n(.*?)```", PAGE, re.DOTALL)
SITES = {info.removeprefix("site "): text for _, info, text in BLOCKS if info.startswith("site ")}
(REST,) = (text for _, info, text in BLOCKS if info == "policy")
JOB, *_ = [text for _, info, text in BLOCKS if info == "job"]
PROFILES = [text for _, info, text in BLOCKS if info == "profile"]
COMMANDS = re.findall(r"^batchgate (.+)$", PAGE, re.MULTILINE)
SHOWN = {info: text for kind, info, text in BLOCKS if kind == "text"}
TABLE = PAGE.partition("## What users may write")[2].partition("\n## ")[0]
ROWS = [
    (command.replace(r"\|", "|"), becomes)
    for command, becomes in re.findall(r"^\| `(.+)` \| (.+) \|$", TABLE, re.MULTILINE)
]
TROUBLES = PAGE.partition("## What can go wrong")[2].partition("\n## ")[0]
SOURCES = "\n".join(
    path.read_text()
    for room in ("script", "site")
    for path in (ROOT / "router" / room).rglob("*")
    if path.suffix in {".py", ".sh", ".j2"}
)
RAN_PART = PAGE.partition("## What has run with what")[2].partition("\n## ")[0]
RAN_ROWS = [
    [cell.strip().replace("`", "") for cell in line.strip("|").split("|")]
    for line in RAN_PART.splitlines()
    if line.startswith("|")
]
LIBRARIES = RAN_ROWS[0][1:]
RAN = {
    (row[0], library): word
    for row in RAN_ROWS[2:]
    if len(row) == len(LIBRARIES) + 1
    for library, word in zip(LIBRARIES, row[1:], strict=True)
}
"""What the page says of each launcher and library: ``runs``, ``told`` or ``not known``."""


@dataclass(frozen=True)
class Transport:
    """A row of the page: what variables make a library use on so many nodes, and what it then says."""

    library: str
    variables: dict[str, str]
    says: str
    nodes: int


TRANSPORTS = [
    Transport(library, dict(word.split("=", 1) for word in re.findall(r"`([^`]+)`", variables)), says, nodes)
    for nodes, part in zip((2, 1), RAN_PART.partition("On one node, with four ranks")[::2], strict=True)
    for library, variables, says in re.findall(r"^\| ([\w ]+ [\d.]+) \| (`.+`) \| `(.+)` \|$", part, re.MULTILINE)
]
FAMILIES = {
    "mpirun of Open MPI": "openmpi-",
    "mpiexec of MPICH": "hydra-",
    "mpiexec.hydra of Intel MPI": "intelmpi-",
    "Open MPI": "openmpi-",
    "MPICH": "mpich-",
}
KINDS = {
    "srun --mpi=pmix of Slurm 22.05": "srun-pmix",
    "srun --mpi=pmi2 of Slurm 22.05": "srun-pmi2",
    "srun of Slurm 22.05 without a PMI": "srun-none",
    "Intel MPI 2021.15": "intelmpi-",
}
"""What the script calls launchers and libraries whose version it does not look at."""
SHAPE = re.compile(r"(\d) nodes?, (\d) ranks? on each")


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where an admin has the page's first policy, and the Job."""
    policies = tmp_path / "policies"
    policies.mkdir()
    (policies / "10-sites.yaml").write_text(SITES["pbs"])
    (policies / "20-rules.yaml").write_text(REST)
    (tmp_path / "job.yaml").write_text(JOB)
    monkeypatch.chdir(tmp_path)
    return policies


@pytest.mark.parametrize("name", SITES)
def test_each_site_is_a_policy_that_checks(name: str) -> None:
    checked = policy.load({"10-sites.yaml": SITES[name], "20-rules.yaml": REST})

    assert checked.warnings == ()


def test_there_is_a_site_for_each_launcher_that_the_page_begins_with() -> None:
    found = {
        LauncherKind(profile["launcher"])
        for text in SITES.values()
        for one in yaml.safe_load(text)["sites"]
        for profile in one["mpi"]
    }

    assert found == {LauncherKind.OPENMPI, LauncherKind.SRUN, LauncherKind.HYDRA}


@pytest.mark.parametrize("text", PROFILES)
def test_each_profile_is_one(text: str) -> None:
    MpiProfile.model_validate(yaml.safe_load(text))


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_works(directory: Path, command: str) -> None:
    done = CliRunner().invoke(commands, shlex.split(command))

    assert done.exit_code == 0, done.output
    shown = SHOWN.get(command.split(maxsplit=1)[0], "").splitlines()
    assert [line for line in shown if line not in done.output.splitlines()] == []


def test_what_is_shown_belongs_to_a_command() -> None:
    assert set(SHOWN) == {"explain", "script"} <= {command.split()[0] for command in COMMANDS}


@pytest.mark.parametrize(
    ("name", "image", "profile"),
    [
        ("both", "registry.example.org/cfd/solver:3", "mpich"),
        ("both", "docker.io/library/mpich-tools:4", "mpich"),
        ("both", "debian:12", "open-mpi"),
        ("slurm", "debian:12", "srun"),
    ],
)
def test_the_image_chooses_the_launcher(name: str, image: str, profile: str) -> None:
    (where,) = policy.load({"10-sites.yaml": SITES[name], "20-rules.yaml": REST}).sites
    job = workload(container("mpirun", "-np", "2", "./a", image=image, resources={"requests": {"cpu": "2"}}))

    chosen = route(job, where).profile

    assert chosen is not None
    assert chosen.name == profile


def judged(command: str) -> tuple[Workload, Route]:
    """A Job with this command that asks for 4 CPUs, under a profile ``openmpi`` on nodes of 4 cores."""
    job = workload(container(*shlex.split(command), resources={"requests": {"cpu": "4"}}))
    where = site(mpi=[{"name": "m", "launcher": "openmpi"}], queue={"cpusPerNode": 4})
    return job, route(job, where)


def happened(job: Workload, chosen: Route) -> dict[str, Any]:
    """What became of a command: its shape (nodes, ranks on each), launcher's words, variables, directory, warnings.

    ``once``: whether it runs once, and starts its ranks itself.
    """
    text = script.render(job, chosen)
    (chunk,) = chosen.allocation.chunks
    found: dict[str, Any] = {
        "shape": None,
        "cores": chunk.count * chunk.ncpus,
        "options": "",
        "own": (),
        "directory": "",
    }
    found["warnings"] = [*job.warnings, *chosen.allocation.warnings, *text.warnings]
    launcher = job.containers[0].launcher
    found["once"] = bool(chosen.profile) and starts_ranks(job.containers[0])
    if found["once"]:
        found["shape"] = (chunk.count, chunk.ranks)
    if chosen.profile and launcher:
        start = start_of(job.containers[0], chosen, chosen.profile)
        found |= {"shape": (chunk.count, chunk.ranks), "options": start.options, "own": start.own}
        found["directory"] = launcher.working_dir
    return found


@pytest.mark.parametrize(("command", "becomes"), ROWS, ids=[command for command, _ in ROWS])
def test_a_command_becomes_what_the_table_says(command: str, becomes: str) -> None:
    job, chosen = judged(command)
    found = happened(job, chosen)

    expected = found | {
        "shape": (1, 4),
        "cores": 4,
        "options": '-np 4 --hostfile "$scratch/hosts"',
        "own": (),
        "directory": "",
        "once": False,
    }
    if shape := SHAPE.search(becomes):
        nodes, ranks = map(int, shape.groups())
        expected |= {"shape": (nodes, ranks), "cores": nodes * ranks}
        expected["options"] = expected["options"].replace("4", str(nodes * ranks))
    if "8 cores" in becomes:
        expected["cores"] = 8
    if passed := re.search(r"passed on: `([^`]+)`", becomes):
        expected["options"] += f" {passed[1]}"
    if not re.search("bind-to|PE=", expected["options"]):
        expected["options"] += " --bind-to none"
    if own := re.search(r"the ranks have `([^`]+)`", becomes):
        expected["own"] = (own[1],)
    if where := re.search(r"the ranks run in `([^`]+)`", becomes):
        expected["directory"] = where[1]
    if becomes.startswith("runs once"):
        expected |= {"options": "", "once": True}
    assert found == expected
    assert len(found["warnings"]) == ("with a warning" in becomes)


def called(title: str) -> str:
    """What the script calls a launcher or library of the page."""
    family, _, version = title.rpartition(" ")
    return KINDS.get(title) or f"{FAMILIES[family]}{version}"


@pytest.mark.parametrize("pair", RAN, ids=" with ".join)
def test_what_ran_with_what_is_what_the_script_knows(pair: tuple[str, str]) -> None:
    launcher, library = map(called, pair)
    met = [one for one in pairs.PAIRS if fnmatchcase(launcher, one.launcher) and fnmatchcase(library, one.library)]

    known = ("told" if met[0].remedy else "runs") if met else "not known"
    assert RAN[pair] == known


def test_the_table_of_pairs_is_read_as_a_whole() -> None:
    assert len(RAN) == len(LIBRARIES) * 7 == 49
    assert len(TRANSPORTS) == len([row for row in RAN_ROWS if "=" in row[1]]) == 12


def test_the_table_is_read_as_a_whole() -> None:
    assert len(ROWS) == TABLE.count("\n| `") >= 25


@pytest.mark.parametrize("sentence", list(re.findall(r"^\| `([^`]+)`", TROUBLES, re.MULTILINE)))
def test_a_sentence_that_is_seen_is_one_of_ours(sentence: str) -> None:
    parts = [part.strip(" …") for part in re.split(r"…|\b(?:[A-Z]|IMAGE|NODE|mpirun|hpc1)\b|;", sentence)]

    assert [part for part in parts if part and part not in SOURCES] == []
