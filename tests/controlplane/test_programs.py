"""Finding and building the programs. What is built here is small, by the real Go."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from router.controlplane import building, programs
from router.controlplane.programs import NoPrograms
from router.errors import ConfigError
from router.startup.release import OLDEST_KUBERNETES

NAMES = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet"]


def executables(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    return folder


@pytest.fixture
def empty(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine on which nothing was built; the cache's folder."""
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.delenv("BATCHGATE_KUBERNETES", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache/batchgate"


def test_what_lacks_is_named_with_what_to_do(empty: Path) -> None:
    assert programs.missing() == NAMES
    with pytest.raises(NoPrograms, match="etcd is not built yet; build it once with `make control-plane-programs`"):
        programs.find()


def test_the_named_folder_wins_program_by_program(empty: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    given = executables(tmp_path / "assets", "etcd", "kube-apiserver", "kubectl")
    (given / "kubelet").write_text("not executable")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(given))
    assert programs.missing() == ["kube-controller-manager", "kube-scheduler", "kubelet"]

    built = executables(programs.built(), *NAMES)
    found = programs.find()

    assert (found.etcd, found.apiserver, found.kubectl) == (given / "etcd", given / "kube-apiserver", given / "kubectl")
    assert (found.scheduler, found.kubelet) == (built / "kube-scheduler", built / "kubelet")
    assert built.parent == empty


def test_kubectl_is_the_one_beside_this_python(empty: Path) -> None:
    beside = Path(sys.executable).parent / "kubectl"

    assert programs.find_kubectl() == (beside if beside.exists() else Path(shutil.which("kubectl") or ""))


def test_the_folder_is_named_after_version_and_sums(empty: Path) -> None:
    sums = programs.MODULE / "go.sum"

    assert programs.version() == "v1.36.3"
    assert programs.built().name.startswith("kubernetes-v1.36.3-")
    assert programs.digest_of(sums) != programs.digest_of(sums, sums)


def test_another_kubernetes_has_a_module_and_a_folder_of_its_own(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    newest = programs.built()
    monkeypatch.setenv("BATCHGATE_KUBERNETES", f"v{OLDEST_KUBERNETES}")

    assert programs.version().startswith(f"v{OLDEST_KUBERNETES}.")
    assert programs.built().name.startswith(f"kubernetes-{programs.version()}-")
    assert programs.built() != newest

    monkeypatch.setenv("BATCHGATE_KUBERNETES", "v1.2")
    with pytest.raises(ConfigError, match=r"BATCHGATE_KUBERNETES=v1.2: .* has no such module; it has v1.31"):
        programs.missing()


def test_elsewhere_than_in_a_checkout_a_folder_is_asked_for(
    empty: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(programs, "MODULE", tmp_path / "nowhere")

    with pytest.raises(NoPrograms, match=r"from a checkout of Batchgate only.*KUBEBUILDER_ASSETS"):
        programs.find()


PACKAGES = {"etcd": "example.test/small/server/v3", "kubelet": "example.test/small/cmd/kubelet"}


@pytest.fixture(scope="session")
def go_cache() -> str:
    """Where Go keeps what it has compiled; below XDG_CACHE_HOME by default, which these tests change."""
    if shutil.which("go") is None:
        pytest.skip("no Go on this machine")
    return subprocess.run(["go", "env", "GOCACHE"], capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def small(go_cache: str, empty: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A module with two programs in place of Kubernetes', which takes minutes."""
    monkeypatch.setenv("GOCACHE", go_cache)
    module = tmp_path / "module"
    for path in ("server/v3", "cmd/kubelet"):
        (module / path).mkdir(parents=True)
        (module / path / "main.go").write_text('package main\n\nfunc main() { println("runs") }\n')
    # A version that is read and, excluded, never fetched.
    (module / "go.mod").write_text("module example.test/small\n\ngo 1.21\n\nexclude (\n\tk8s.io/kubernetes v1.2.3\n)\n")
    (module / "go.sum").touch()
    monkeypatch.setattr(programs, "MODULE", module)
    monkeypatch.setattr(programs, "PACKAGES", PACKAGES)
    return module


@pytest.mark.timeout(900)  # Go may have nothing in its cache yet
def test_programs_are_built_once(small: Path, empty: Path) -> None:
    told: list[str] = []

    building.ensure(told.append)

    target = programs.built()
    assert (told[0].split(";")[0], told[-1]) == ("Building Kubernetes v1.2.3 and etcd with Go", f"Built: {target}")
    assert sorted(path.name for path in target.iterdir()) == ["etcd", "kubelet"]
    assert subprocess.run([target / "etcd"], capture_output=True, check=True).stderr == b"runs\n"
    told.clear()
    building.ensure(told.append)
    assert told == []
    assert sorted(path.name for path in empty.iterdir()) == [target.name, f"{target.name}.lock"]


@pytest.mark.timeout(900)  # Go may have nothing in its cache yet
def test_two_builds_at_once_are_one(small: Path) -> None:
    told: list[str] = []
    threads = [threading.Thread(target=building.ensure, args=[told.append]) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len([line for line in told if line.startswith("Building")]) == 1
    assert programs.missing() == []


@pytest.mark.timeout(900)  # Go may have nothing in its cache yet
def test_a_build_that_fails_shows_gos_words_and_leaves_nothing_to_be_used(small: Path) -> None:
    (small / "cmd/kubelet/main.go").write_text("package main\n\nfunc main() { nonsense() }\n")

    with pytest.raises(ConfigError, match=r"(?s)go build failed \(exit 1\).*undefined: nonsense"):
        building.ensure(lambda _: None)

    assert not programs.built().exists()
    # Mended, it is built from where it stood.
    (small / "cmd/kubelet/main.go").write_text("package main\n\nfunc main() {}\n")
    building.ensure(lambda _: None)
    assert sorted(path.name for path in programs.built().parent.iterdir() if path.is_dir()) == [programs.built().name]


SLOW_GO = """#!/bin/sh
sleep 1  # by then whoever has started it looks after it
echo $$ > "$SLOW_GO_TOLD"
exec sleep 600
"""


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_an_interrupted_build_ends_its_go(empty: Path, tmp_path: Path) -> None:
    slow = tmp_path / "bin"
    slow.mkdir()
    (slow / "go").write_text(SLOW_GO)
    (slow / "go").chmod(0o755)
    told = tmp_path / "pid"
    environment = {**os.environ, "PATH": f"{slow}:{os.environ['PATH']}", "SLOW_GO_TOLD": str(told)}
    # A parent that ignores SIGINT hands that down; this process is to take it.
    script = """
import signal
from router.controlplane import building
signal.signal(signal.SIGINT, signal.default_int_handler)
building.ensure(print)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", script], env=environment, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    until = time.monotonic() + 60
    while not (told.exists() and told.read_text().strip()):
        assert time.monotonic() < until
        time.sleep(0.02)

    process.send_signal(signal.SIGINT)

    assert process.wait(60) != 0
    # A zombie for a moment, until the first process of this machine has taken it over.
    while _exists(int(told.read_text())):
        assert time.monotonic() < until + 60
        time.sleep(0.02)
    assert programs.missing() == NAMES
