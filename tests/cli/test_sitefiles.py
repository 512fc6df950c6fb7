"""Looking at a Pod's directory on its site with one's own rights; where that cannot be, a sentence and an advice."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from router import names
from router.cli.sitefiles import OnSite, look, no_pods, unseen
from router.errors import PolicyError
from router.operating.story import Story, story
from router.pod.layout import PodDirectory
from tests.operating.objects import SITE, job, pod

CLUSTER = "0a1b2c3d"
LOCAL = {"system": "local", "runtime": "host"}
PBS = {"system": "openpbs"}


def told(user: str = "u17") -> Story:
    one = job("large", annotations={names.KEY_ACCOUNT: f'{{"user":"{user}"}}'})
    return story(one, [pod("large-abcde", of="large")], [])


def policy(tmp_path: Path, **site: Any) -> Path:
    """A directory with the policy of one site."""
    queue = {"name": "batch", "nodes": 1, "cpusPerNode": 4, "walltimeDefault": "10m", "walltimeMax": "1h"}
    document = {
        "sites": [{"name": SITE, "workDir": str(tmp_path / "work"), "queues": [queue], **site}],
        "accounts": [{"users": ["ada"], "as": "u17"}],
        "rules": [{"name": "rest", "cloud": True}],
    }
    directory = tmp_path / "policy"
    directory.mkdir()
    (directory / "all.yaml").write_text(yaml.safe_dump(document))
    return directory


def place(tmp_path: Path) -> Path:
    root = str(tmp_path / "work" / f"{SITE}.{CLUSTER}")
    return Path(PodDirectory(root, "job-large", "noindex", "pod-large-abcde").path)


def test_the_files_of_a_local_site(tmp_path: Path) -> None:
    directory = place(tmp_path)
    for name in ("script", "log/main.0", "exit/main.0", "volumes/data/many"):
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text("twelve bytes")
    (directory / "planted").symlink_to("/etc/passwd")

    (found,) = look(told(), CLUSTER, policy(tmp_path, **LOCAL))

    assert (found.pod, found.host, found.directory) == ("large-abcde", "local", str(directory))
    assert (found.problem, found.advice) == ("", "")
    assert [(one.path, one.kind) for one in found.files] == [
        ("exit", "directory"),
        ("exit/main.0", "file"),
        ("log", "directory"),
        ("log/main.0", "file"),
        ("planted", "other"),
        ("script", "file"),
        ("volumes", "directory"),
    ]
    assert {one.size for one in found.files if one.kind == "file"} == {12}


def test_a_directory_that_is_not_there_and_nothing_is_made(tmp_path: Path) -> None:
    (found,) = look(told(), CLUSTER, policy(tmp_path, **LOCAL))

    advice = f"an admin can look on the machine where the site's agent runs, as u17: ls -lR {place(tmp_path)}"
    problem = "there is no such directory: it was removed, or never made"
    assert found == OnSite("large-abcde", "local", str(place(tmp_path)), (), problem, advice)
    assert not (tmp_path / "work").exists()


@pytest.mark.parametrize(
    ("site", "words", "where"),
    [
        (PBS, "access: own runs everything as", "on the machine where the site's agent runs, as u17"),
        (
            {**PBS, "host": "ssh://127.0.0.1:1", "access": "own-keys", "keys": "/nonexistent", "knownHosts": "/nonexistent/k"},
            "/nonexistent",
            "on ssh://127.0.0.1:1, as u17",
        ),
    ],
)  # fmt: skip
def test_a_site_that_cannot_be_reached_from_here(tmp_path: Path, site: dict[str, Any], words: str, where: str) -> None:
    (found,) = look(told(), CLUSTER, policy(tmp_path, **site))

    assert (words in found.problem, where in found.advice, found.files) == (True, True, ()), found


def test_what_is_not_known_is_asked_for(tmp_path: Path) -> None:
    directory = policy(tmp_path, **LOCAL)

    (no_cluster,) = look(told(), "", directory)
    (no_policy,) = unseen(told(), CLUSTER, "no policy")

    assert "--cluster-id" in no_cluster.problem
    assert no_policy.directory == f"<workDir>/{SITE}.{CLUSTER}/pods/job-large/noindex/pod-large-abcde"
    assert shlex.split(no_policy.advice.partition(": ")[2]) == ["ls", "-lR", no_policy.directory]


def test_a_policy_that_does_not_check(tmp_path: Path) -> None:
    directory = policy(tmp_path, **LOCAL)
    (directory / "all.yaml").write_text("sites: 3")

    with pytest.raises(PolicyError):
        look(told(), CLUSTER, directory)


@pytest.mark.parametrize(
    ("site", "said"),
    [
        ({}, f"no Pod is there any more, and site {SITE} has no resultsDir: their logs went with them"),
        (
            {"resultsDir": "/srv/results"},
            "no Pod is there any more; what was brought is in /srv/results/default/large, where the agent runs",
        ),
        (
            {"name": "other"},
            f"no Pod is there any more, and the policy in DIR has no site {SITE}, whose resultsDir would have logs",
        ),
        (None, "no Pod is there any more; if the site has a resultsDir, logs are there: --policy DIR tells"),
    ],
)
def test_where_logs_are_of_pods_that_are_gone(tmp_path: Path, site: dict[str, Any] | None, said: str) -> None:
    gone = story(job("large") | {"status": {"failed": 1}}, [], [])
    directory = None if site is None else policy(tmp_path, **PBS, **site)

    assert no_pods(gone, directory) == said.replace("the policy in DIR", f"the policy in {directory}")


def test_a_job_of_the_cloud_left_no_logs_on_any_site() -> None:
    assert no_pods(story(job("small", site="") | {"status": {"succeeded": 1}}, [], []), None) == (
        "no Pod is there any more, and their logs went with them"
    )


def test_a_job_that_had_no_pod_yet_has_left_nothing() -> None:
    assert no_pods(story(job("large"), [], []), None) == "no Pod is there, and none has ended yet"
