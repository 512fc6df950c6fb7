"""Which provider a machine gets, and every command as a value."""

from __future__ import annotations

from pathlib import Path

import pytest

from kindcluster import provider
from kindcluster.commands import KindError
from kindcluster.layout import Layout
from kindcluster.provider import Provider

LAYOUT = Layout("mine", files=Path("/f"), states=Path("/var/lib"), runs=Path("/run"), namespaces=Path("/run/netns"))
INSIDE = ["nsenter", "--net=/run/netns/mine-kind", "--"]
DOCKER, PODMAN = Provider.DOCKER, Provider.PODMAN


@pytest.mark.parametrize(
    ("docker_problem", "root", "release", "machine", "expected"),
    [
        ("", False, "", "arm64", DOCKER),
        ("", True, "bookworm", "x86_64", DOCKER),
        ("no daemon", True, "bookworm", "x86_64", PODMAN),
    ],
)
def test_a_docker_engine_that_answers_wins(
    docker_problem: str, root: bool, release: str, machine: str, expected: Provider
) -> None:
    assert provider.choose(docker_problem, root=root, release=release, machine=machine) is expected


@pytest.mark.parametrize(
    ("root", "release", "machine", "expected"),
    [
        (False, "bookworm", "x86_64", "this is no root on bookworm on x86_64"),
        (True, "", "arm64", "this is root on no Debian on arm64"),
        (True, "trixie", "x86_64", "this is root on trixie on x86_64"),
    ],
)
def test_a_machine_that_can_have_none_is_told_why(root: bool, release: str, machine: str, expected: str) -> None:
    with pytest.raises(KindError) as caught:
        provider.choose("no daemon", root=root, release=release, machine=machine)

    assert str(caught.value) == (
        "kind needs a Docker engine, which does not answer here (no daemon), or root on Debian 12 (bookworm) on x86_64; "
        f"{expected}. Start Docker, or become root on such a machine"
    )


KIND, ADMIN = Path("/c/kind"), ["--kubeconfig", "/f/kubeconfig"]


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (
            provider.create(LAYOUT, DOCKER, KIND),
            ["/c/kind", "create", "cluster", "--name", "mine", "--config", "/f/kind.yaml", *ADMIN, "--wait", "180s"],
        ),
        (
            provider.load(LAYOUT, DOCKER, KIND, [Path("/a.tar"), Path("/b.tar")]),
            ["/c/kind", "load", "image-archive", "--name", "mine", "/a.tar", "/b.tar"],
        ),
        (provider.remove(LAYOUT, DOCKER, ["1", "2"]), ["docker", "rm", "--force", "--volumes", "1", "2"]),
        (provider.kubectl(LAYOUT, DOCKER, Path("/k"), ["get", "pods"]), ["/k", *ADMIN, "get", "pods"]),
        (
            provider.helm(LAYOUT, DOCKER, Path("/h"), Path("/chart"), Path("/values"), {"a[0].b": "c"}),
            [
                *("/h", "upgrade", "--install", "batchgate", "/chart", *ADMIN, "--namespace", "batchgate-system"),
                *(
                    "--create-namespace",
                    "--values",
                    "/values",
                    "--set-string",
                    "a[0].b=c",
                    "--wait",
                    "--timeout",
                    "180s",
                ),
            ],
        ),
    ],
)
def test_the_commands_with_docker(argv: list[str], expected: list[str]) -> None:
    assert argv == expected


@pytest.mark.parametrize(
    ("with_podman", "with_docker"),
    [
        (provider.create(LAYOUT, PODMAN, KIND), provider.create(LAYOUT, DOCKER, KIND)),
        (provider.load(LAYOUT, PODMAN, KIND, [KIND]), provider.load(LAYOUT, DOCKER, KIND, [KIND])),
        (provider.kubectl(LAYOUT, PODMAN, KIND, ["x"]), provider.kubectl(LAYOUT, DOCKER, KIND, ["x"])),
        (provider.helm(LAYOUT, PODMAN, KIND, KIND, KIND, {}), provider.helm(LAYOUT, DOCKER, KIND, KIND, KIND, {})),
        (provider.remove(LAYOUT, PODMAN, ["1"]), ["podman", "rm", "--force", "--volumes", "--time=0", "1"]),
    ],
)
def test_with_podman_the_same_happens_inside_the_network_namespace(
    with_podman: list[str], with_docker: list[str]
) -> None:
    assert with_podman == [*INSIDE, *with_docker]


def test_the_nodes_are_found_by_kinds_label() -> None:
    words = ["ps", "--all", "--quiet", "--filter", "label=io.x-k8s.kind.cluster=mine"]
    of_each = ["container", "inspect", "--format", "{{.State.Status}}", "1", "2"]

    assert [provider.nodes(LAYOUT, one) for one in Provider] == [["docker", *words], ["podman", *words]]
    assert [provider.states(one, ["1", "2"]) for one in Provider] == [["docker", *of_each], ["podman", *of_each]]


def test_podman_has_files_and_a_network_of_the_cluster_alone() -> None:
    assert provider.environment(LAYOUT, DOCKER) == {"KIND_EXPERIMENTAL_PROVIDER": "docker"}
    assert provider.environment(LAYOUT, PODMAN) == {
        "KIND_EXPERIMENTAL_PROVIDER": "podman",
        "KIND_EXPERIMENTAL_PODMAN_NETWORK": "mine-kind",
        "CONTAINERS_CONF": "/var/lib/mine-kind/containers.conf",
        "CONTAINERS_STORAGE_CONF": "/var/lib/mine-kind/storage.conf",
    }


@pytest.mark.parametrize(
    ("said", "expected"),
    [("kind v0.33.0 go1.26.8 linux/amd64\n", "v0.33.0"), ("", ""), ("kind", ""), ("usage: kind of thing", "")],
)
def test_the_version_of_a_kind_on_path(said: str, expected: str) -> None:
    assert provider.version_of(said) == expected
