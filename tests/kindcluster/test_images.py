"""The images of the control plane's Pods, and the archives of images in general."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest

from kindcluster import images
from kindcluster.commands import KindError
from router.controlplane import image

CONTAINERD = '[plugins]\n  # fixed\n  sandbox_image = "registry.k8s.io/pause:3.10"\n'


def test_a_node_needs_what_kubeadm_lists_with_the_pause_image_of_containerd() -> None:
    listed = (
        "registry.k8s.io/kube-proxy:v1.36.3\nregistry.k8s.io/coredns/coredns:v1.14.2\nregistry.k8s.io/pause:3.10.2\n"
    )

    assert images.wanted(listed, CONTAINERD) == [
        "registry.k8s.io/kube-proxy:v1.36.3",
        "registry.k8s.io/coredns/coredns:v1.14.2",
        "registry.k8s.io/pause:3.10",
    ]


def test_a_configuration_without_a_pause_image_is_not_known() -> None:
    with pytest.raises(KindError, match="names no sandbox_image"):
        images.wanted("", "[plugins]\n")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("registry.k8s.io/coredns/coredns:v1.14.2", "coredns"),
        ("registry.k8s.io/etcd:3.6.8-0", "etcd"),
        ("pause", "pause"),
    ],
)
def test_the_program_of_an_image(name: str, expected: str) -> None:
    assert images.program(name) == expected


def test_the_libraries_that_ldd_names() -> None:
    said = (
        "/usr/sbin/nft:\n"
        "\tlinux-vdso.so.1 (0x00007ffe)\n"
        "\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)\n"
        "\t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n"
        "/usr/lib/x.so:\n\tstatically linked\n"
    )

    assert images.libraries(said) == ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"]


def members(archive: Path) -> dict[str, bytes]:
    with tarfile.open(archive) as tar:
        return {one.name: tar.extractfile(one).read() for one in tar if one.isfile()}  # type: ignore[union-attr]


def test_an_image_is_one_layer_with_its_program(tmp_path: Path) -> None:
    program = tmp_path / "coredns"
    program.write_bytes(b"the program")

    images.make(tmp_path / "images", tmp_path, ["registry.k8s.io/coredns/coredns:v1.14.2"], {"coredns": program})

    assert [path.name for path in (tmp_path / "images").iterdir()] == ["coredns.tar"]
    found = members(tmp_path / "images/coredns.tar")
    (manifest,) = json.loads(found["manifest.json"])
    assert manifest["RepoTags"] == ["registry.k8s.io/coredns/coredns:v1.14.2"]
    configuration, (layer,) = found[manifest["Config"]], [found[name] for name in manifest["Layers"]]
    assert json.loads(configuration) == {
        "architecture": "amd64",
        "os": "linux",
        "created": "1970-01-01T00:00:00Z",
        "config": {"Env": [f"PATH={image.PATH}"], "Entrypoint": ["/coredns"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    with tarfile.open(fileobj=io.BytesIO(layer)) as tar:
        assert tar.extractfile("coredns").read() == b"the program"  # type: ignore[union-attr]
        assert (tar.getmember("coredns").mode, tar.getmember("tmp").mode) == (0o755, 0o1777)


def test_an_image_without_a_program_is_named(tmp_path: Path) -> None:
    with pytest.raises(KindError, match=r"needs the image registry.k8s.io/new:1, and no program new is built for it"):
        images.make(tmp_path / "images", tmp_path, ["registry.k8s.io/new:1"], {})


def test_images_of_one_layer_share_it(tmp_path: Path) -> None:
    layer = tmp_path / "layer"
    image.write_layer(layer, {}, {"bin/sh": "busybox"})
    several = [image.Image(("a:1", "b:1"), layer, command=("sh",)), image.Image(("c:1",), layer)]

    image.write_images(tmp_path / "all.tar", several)

    manifest = json.loads(members(tmp_path / "all.tar")["manifest.json"])
    assert [one["RepoTags"] for one in manifest] == [["a:1", "b:1"], ["c:1"]]
    assert manifest[0]["Layers"] == manifest[1]["Layers"]
    assert len(members(tmp_path / "all.tar")) == 4
