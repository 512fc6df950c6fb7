"""What names the node image, and what its node is given."""

from __future__ import annotations

from pathlib import Path

import pytest

from kindcluster import nodeimage, programs, rootfs
from kindcluster.layout import MODULES
from router.controlplane import programs as plane


def digest(folder: Path, **contents: str) -> str:
    """Of files with these names and contents."""
    for name, content in contents.items():
        (folder / name).write_text(content)
    return nodeimage.digest([folder / name for name in contents])


def test_each_byte_and_each_name_counts(tmp_path: Path) -> None:
    several: list[dict[str, str]] = [{"a": "1", "b": "2"}, {"a": "12", "b": ""}, {"a": "1", "c": "2"}, {"a": "1"}, {}]

    digests = [digest(tmp_path, **contents) for contents in several]

    assert len(set(digests)) == 5
    assert digest(tmp_path, **several[0]) == digests[0]


def test_the_key_follows_every_pin_and_the_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    named: list[str] = []
    monkeypatch.setattr(nodeimage, "digest", lambda files: named.extend("/".join(path.parts[-2:]) for path in files))

    nodeimage.key()

    assert [name for name in named if not name.endswith("kubectl")] == [
        *("controlplane/go.mod", "controlplane/go.sum", "kind/go.mod", "kind/go.sum"),
        *("kubernetes/go.mod", "kubernetes/go.sum", "coredns/go.mod", "coredns/go.sum", "coredns/main.go"),
        *("bed/image.py", "controlplane/cloudnode.py", "controlplane/image.py"),
        *("kindcluster/images.py", "kindcluster/nodeimage.py", "kindcluster/podnetwork.py", "kindcluster/rootfs.py"),
    ]
    assert len(named) == 17


def test_the_image_lies_in_the_users_cache_under_its_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(nodeimage, "key", lambda: "abc")

    place = nodeimage.place()

    assert (place.store, place.name) == (tmp_path / "batchgate/kind-abc/store", "localhost/batchgate/node:abc")


def test_node_images_are_forgotten_and_nothing_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    others = ["kind-0123456789ab.lock", "kind-programs-kind-0123456789ab", "kubernetes-v1.36.3-0123456789ab"]
    for name in ("kind-0123456789ab", "kind-0123456789ab.building-7", *others):
        (tmp_path / "batchgate" / name / "store").mkdir(parents=True)
    (tmp_path / "batchgate" / others[0] / "store").rmdir()
    (tmp_path / "batchgate" / others[0]).rmdir()
    told: list[str] = []

    nodeimage.forget(told.append)

    assert sorted(path.name for path in (tmp_path / "batchgate").iterdir()) == others
    assert len(told) == 2


def test_a_container_has_kinds_hook_and_no_limits_of_its_own() -> None:
    specification = {"process": {"cwd": "/", "rlimits": [{"type": "RLIMIT_NOFILE"}]}, "hooks": {"createContainer": [1]}}

    assert rootfs.container(specification) == {
        "process": {"cwd": "/"},
        "hooks": {"createContainer": [1, {"path": "/kind/bin/mount-product-files.sh"}]},
    }
    assert rootfs.container({"process": {}})["hooks"] == {
        "createContainer": [{"path": "/kind/bin/mount-product-files.sh"}]
    }


@pytest.mark.parametrize(
    ("module", "expected"), [("kind", "v0.33.0"), ("kubernetes", plane.version()), ("coredns", "v1.14.2")]
)
def test_the_pinned_versions(module: str, expected: str) -> None:
    assert programs.version(module) == expected


def replaces(module: Path) -> str:
    return (module / "go.mod").read_text().partition("replace (")[2].partition(")")[0]


def test_the_nodes_kubernetes_is_that_of_the_control_plane() -> None:
    """Else the key would not follow it, and kubeadm would want images of another version."""
    assert replaces(MODULES / "kubernetes") == replaces(plane.MODULE) != ""
