"""The probes' scripts: bash, and nothing in them but the site's own values, quoted."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from router.errors import ConfigError
from router.policy.schema import Account
from router.preflight import probe
from router.preflight.probe import Asked
from router.site.schema import Site

NASTY = '/opt/it\'s $(touch /tmp/gone) `id` "x"'
ROOT = Path(__file__).parent.parent.parent


def site(**changed: Any) -> Site:
    queues = [
        {"name": "gpu", "nodes": 4, "cpusPerNode": 4, "gpusPerNode": 1},
        {"name": "small", "nodes": 1, "cpusPerNode": 4},
        {"name": "wide", "nodes": 4, "cpusPerNode": 4, "walltimeMax": "2m"},
    ]
    return Site.model_validate({"name": "here", "system": "slurm", "workDir": "/w", "queues": queues, **changed})


def asked(found: Site, nodes: int = 1, **account: str) -> Asked:
    queue = probe.queue_of(found, nodes)
    assert queue is not None
    return Asked(found, queue, Account.model_validate({"as": "ada", **account}))


PROFILES = [
    {"name": kind, "launcher": kind, "modules": ["mpi"], "env": {"A": NASTY}} for kind in ("openmpi", "hydra", "srun")
]


@pytest.mark.parametrize("system", ["slurm", "openpbs", "torque", "local"])
@pytest.mark.parametrize("profile", PROFILES, ids=lambda found: str(found["name"]))
def test_every_script_is_bash_and_quotes(system: str, profile: dict[str, Any]) -> None:
    changed = {"runtimePath": NASTY, "images": [{"match": "*", "path": NASTY}], "modules": ["a b"], "mpi": [profile]}
    found = site(system=system, **changed)
    (kind,) = probe.profiles_of(found)

    for text in (probe.one_node(asked(found)), probe.two_nodes(asked(found, 2), kind)):
        done = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        assert NASTY not in text or "'\\''" in text
        assert re.findall(r"^modules=(.*)$", text, re.MULTILINE)[0].startswith("('a b'")
        assert all(line.startswith("#") for line in text.splitlines()[:3])


def test_quoted_values_are_read_back() -> None:
    text = probe.one_node(asked(site(runtimePath=NASTY)))
    (line,) = re.findall(r"^runtime=.*$", text, re.MULTILINE)

    done = subprocess.run(["bash", "-c", f'{line}\nprintf %s "$runtime"'], capture_output=True, text=True, check=True)

    assert done.stdout == NASTY


def test_images_beside_the_first_are_looked_at() -> None:
    images = [{"match": name, "path": f"/{name}.sif"} for name in ("a", "b c")]
    (line,) = re.findall(r"^images=.*$", probe.one_node(asked(site(images=images))), re.MULTILINE)

    assert line == "images=('/b c.sif')"


def test_directives() -> None:
    found = site(directives={"qos": "high"})

    (profile,) = probe.profiles_of(found)

    text = probe.two_nodes(asked(found, 2, account="physics"), profile)

    assert re.findall(r"^#SBATCH (.*)$", text, re.MULTILINE) == [
        "--partition=wide",
        "--nodes=2",
        "--ntasks=2",
        "--ntasks-per-node=1",
        "--cpus-per-task=1",
        "--mem=512M",
        "--time=00:02:00",
        "--signal=B:USR1@1",
        "--account=physics",
        "--qos=high",
    ]


def test_a_directive_that_none_can_hold() -> None:
    with pytest.raises(ConfigError, match="queue small of site here"):
        probe.one_node(asked(site(), account="a\nb"))


@pytest.mark.parametrize(("nodes", "name"), [(1, "small"), (2, "wide"), (5, None)])
def test_queues_without_gpus_come_first(nodes: int, name: str | None) -> None:
    found = probe.queue_of(site(), nodes)

    assert (found and found.name) == name


def test_the_page_names_every_line() -> None:
    page = (ROOT / "docs/preflight.md").read_text()
    told = {
        name for row in re.findall(r"^\| (`[^|]+`) \|", page, re.MULTILINE) for name in re.findall(r"`([^`]+)`", row)
    }
    sources = [*(ROOT / "router/preflight").glob("*.py"), ROOT / "router/sitecheck/checking.py"]
    words = "Line\\(|_add\\(|_line\\(|_given\\(|name = |name, expected = |_say\\([^\n]*, "
    used = {name for path in sources for name in re.findall(rf"(?:{words})\"([a-z-]+)\"", path.read_text())}

    assert used - {"must"} <= told | {"line"}, used - told
    assert {"reach", "probe", "links", "history", "launcher/PROFILE", "queue/NAME"} <= told


def test_each_profile_is_tried_and_what_starts_programs_alike_once() -> None:
    first, alike, other = (
        {"name": "a", "launcher": "openmpi", "images": ["a*"], "env": {"A": "1"}},
        {"name": "b", "launcher": "openmpi", "binds": ["/b"], "env": {"A": "1"}},
        {"name": "c", "launcher": "openmpi", "env": {"A": "2"}},
    )

    assert [one.name for one in probe.profiles_of(site(mpi=[first, alike, other]))] == ["a", "c"]
    assert [one.name for one in probe.profiles_of(site())] == ["srun"]
    assert probe.profiles_of(site(system="openpbs")) == ()
