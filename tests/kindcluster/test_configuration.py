"""Configuration files, read as their programs read them."""

from __future__ import annotations

import json
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from kindcluster import configuration, installing, podnetwork
from kindcluster.layout import SOURCE, Layout
from router import policy

LAYOUT = Layout("mine", files=Path("/f il'es/kind"), states=Path("/s"), runs=Path("/r"))


@pytest.mark.parametrize(
    ("files", "processes", "expected"),
    [
        (20000, 96365, ["nofile=20000:20000", "nproc=32768:32768"]),
        (-1, -1, ["nofile=1048576:1048576", "nproc=32768:32768"]),
        (1024, 100, ["nofile=1024:1024", "nproc=100:100"]),
    ],
)
def test_podman_raises_no_limit(files: int, processes: int, expected: list[str]) -> None:
    assert tomllib.loads(configuration.containers_conf(LAYOUT, files=files, processes=processes)) == {
        "containers": {"default_ulimits": expected, "pids_limit": 0},
        "network": {"network_config_dir": "/s/mine-kind/networks"},
        "engine": {"events_logger": "none", "runtime": "runc"},
    }


def test_podman_reads_the_node_image_where_it_is_kept() -> None:
    assert tomllib.loads(configuration.storage_conf(LAYOUT, Path("/cache/store"))) == {
        "storage": {
            "driver": "overlay",
            "runroot": "/r/mine-kind",
            "graphroot": "/s/mine-kind/storage",
            "options": {"additionalimagestores": ["/cache/store"]},
        }
    }


@pytest.mark.parametrize(("image", "node"), [("", {}), ("localhost/node:1", {"image": "localhost/node:1"})])
def test_the_cluster_has_one_node(image: str, node: dict[str, Any]) -> None:
    read = yaml.safe_load(configuration.cluster(image))

    (patch,) = read.pop("kubeadmConfigPatches")
    assert yaml.safe_load(patch) == {"kind": "KubeletConfiguration", "failCgroupV1": False}
    assert read == {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "nodes": [{"role": "control-plane", **node}],
        "networking": {"ipFamily": "ipv4"},
    }


def test_pods_have_a_network_of_pairs() -> None:
    read = json.loads(podnetwork.configuration())

    assert [plugin["type"] for plugin in read["plugins"]] == ["ptp", "portmap"]
    assert read["plugins"][0]["ipam"]["ranges"] == [[{"subnet": "10.244.0.0/24"}]]
    assert yaml.safe_load(podnetwork.manifest())["kind"] == "ConfigMap"


def test_the_policy_checks_and_has_the_rules_of_the_examples() -> None:
    texts = yaml.safe_load(installing.VALUES.read_text())["policies"]
    rules = (SOURCE / "examples" / "policies" / "30-rules.yaml").read_text()

    assert policy.load(texts).warnings == ()
    assert yaml.safe_load(texts["30-rules.yaml"]) == yaml.safe_load(rules)


def test_a_shell_finds_the_cluster(tmp_path: Path) -> None:
    variables = tmp_path / "kind.env"
    variables.write_text(configuration.variables(LAYOUT))

    done = subprocess.run(
        ["/bin/sh", "-ec", '. "$1"; echo "$KUBECONFIG"; echo "$PATH"', "sh", variables],
        env={"PATH": "/bin"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.splitlines() == ["/f il'es/kind/kubeconfig", "/f il'es/kind/bin:/bin"]


def test_the_script_kubectl_hands_its_arguments_on(tmp_path: Path) -> None:
    script = tmp_path / "kubectl"
    script.write_text(configuration.kubectl_script(["printf", "%s|", "a b"]))

    done = subprocess.run(["/bin/sh", script, "c d", "$x"], capture_output=True, text=True, check=True)

    assert done.stdout == "a b|c d|$x|"
