"""Which release this says it is."""

from __future__ import annotations

import subprocess
from importlib.metadata import version
from pathlib import Path

import pytest

from router import __version__
from router.controlplane import programs
from router.startup import release

ROOT = Path(__file__).parent.parent.parent
_GIT = ("git", "-c", "user.name=Ada", "-c", "user.email=ada@example.org")


def _git(root: Path, *words: str) -> str:
    return subprocess.run([*_GIT, *words], cwd=root, check=True, capture_output=True, text=True).stdout.strip()


def _installed(root: Path) -> Path:
    package = root / "router"
    package.mkdir()
    (package / "__init__.py").touch()
    return package


def test_the_build_wrote_the_revision_down(tmp_path: Path) -> None:
    package = _installed(tmp_path)
    (package / "revision").write_text("abc\n")

    assert release.revision(package) == "abc"


def test_a_checkout_asks_git(tmp_path: Path) -> None:
    package = _installed(tmp_path)
    assert release.revision(package) == "unknown"

    _git(tmp_path, "init", "--quiet")
    assert release.revision(package) == "unknown"

    _git(tmp_path, "add", ".")
    _git(tmp_path, "commit", "--quiet", "--message", "first")
    _git(tmp_path, "tag", "v1")
    commit = _git(tmp_path, "rev-parse", "HEAD")
    assert release.revision(package) == commit

    (package / "__init__.py").write_text("changed\n")
    assert release.revision(package) == f"{commit}-dirty"


def test_a_repository_around_an_installation_is_not_asked(tmp_path: Path) -> None:
    _git(tmp_path, "init", "--quiet")
    _git(tmp_path, "commit", "--quiet", "--allow-empty", "--message", "another project")
    (tmp_path / "lib").mkdir()

    assert release.revision(_installed(tmp_path / "lib")) == "unknown"


@pytest.mark.parametrize(
    ("written", "revision"),
    [
        ('{"url": "https://example.org/batchgate.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}}', "abc"),
        ('{"url": "file:///src", "dir_info": {"editable": true}}', "unknown"),
        (None, "unknown"),
    ],
)
def test_pip_knows_the_commit_that_it_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str | None, revision: str
) -> None:
    record = tmp_path / "batchgate-1.dist-info"
    record.mkdir()
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: batchgate\nVersion: 1\n")
    if written is not None:
        (record / "direct_url.json").write_text(written)
    monkeypatch.syspath_prepend(str(tmp_path))

    assert release.revision(_installed(tmp_path)) == revision


def test_the_release() -> None:
    found = release.release()

    assert (found.version, found.kubernetes.client) == (__version__, version("kubernetes"))
    assert release.packages()["click"] == version("click")


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("manifests/README.md", "Kubernetes {} or later"),
        ("charts/batchgate/README.md", "Kubernetes {} or later"),
        ("charts/batchgate/Chart.yaml", 'kubeVersion: ">={}.0-0"'),
        ("docs/install.md", "Kubernetes {} or later"),
    ],
)
def test_the_oldest_cluster_is_that_of_pages_and_chart(file: str, said: str) -> None:
    assert said.format(release.OLDEST_KUBERNETES) in (ROOT / file).read_text()


def test_the_newest_cluster_is_the_one_of_these_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(programs.KUBERNETES_VARIABLE, raising=False)
    assert programs.version().startswith(f"v{release.NEWEST_KUBERNETES}.")
