"""Images of ordinary Jobs, from a real registry on loopback to real Apptainer: what runs, and what is told when nothing does."""

from __future__ import annotations

import copy
import json
import pwd
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from router.names import PULL_SECRETS_ROLE
from tests import registry
from tests.agent.bed.conftest import Cluster, Stack, reached
from tests.agent.bed.jobs import SECONDS, apply, end_of, job, pod_of, printed
from tests.agent.bed.site import ADA, LAYOUT, SUDO, BedSite
from tests.agent.bed.tally import await_ends
from tests.agent.whole.waiting import until
from tests.registry import Image, Registry, serving

pytestmark = [pytest.mark.bed, pytest.mark.slurm, pytest.mark.apptainer, pytest.mark.timeout(1200)]

MANIFESTS = Path(__file__).parent.parent.parent.parent / "manifests"
IMAGES = LAYOUT.work / ADA / "images"
SHOWN = ["/bin/sh", "-c", 'echo "$GREETING $PWD $(id -u)"']
CONFIG = {
    "Entrypoint": ["/bin/echo", "entry"],
    "Cmd": ["cmd"],
    "Env": ["PATH=/bin", "GREETING=it's $5"],
    "WorkingDir": "/srv/here",
    "User": "65534",
}

OWN = {"srv/here/file": b"", "etc/passwd": b"root:x:0:0::/:/bin/sh\n", "etc/group": b"root:x:0:\n"}
"""What the runtime would miss."""


@dataclass(frozen=True)
class ImageSite(BedSite):
    """The bed without images of its own: all come from a registry without TLS."""

    def documents(self) -> dict[str, Any]:
        """The files of the policy by their names."""
        found = super().documents()
        site = found["sites.yaml"]["sites"][0]
        del site["images"]
        site["insecureRegistries"] = ["127.0.0.1:*"]
        site["secrets"] = "pull"
        return found


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with serving(tmp_path_factory.mktemp("registry")) as found:
        yield found


@pytest.fixture(scope="module")
def stack(cluster: Cluster) -> Iterator[Stack]:
    shutil.rmtree(IMAGES, ignore_errors=True)
    with reached(cluster, SUDO, kind=ImageSite) as found:
        yield found


def made(image: str, **container: Any) -> dict[str, Any]:
    """A Job of this image; fields of its container that are None are not set."""
    found = job("")
    fields = {"image": image, "command": None, **container}
    first = found["spec"]["template"]["spec"]["containers"][0] | fields
    found["spec"]["template"]["spec"]["containers"] = [
        {key: value for key, value in first.items() if value is not None}
    ]
    return found


def tool(**config: Any) -> Image:
    return Image([registry.shell(), OWN], {**CONFIG, **config})


def described(stack: Stack, name: str) -> str:
    return stack.ada.ok("describe", "pod", "--show-events=true", str(pod_of(stack.ada, name)["metadata"]["name"]))


def await_words(stack: Stack, name: str, *words: str) -> str:
    """``kubectl describe`` of a Job's Pod, once it has all of these."""
    return str(
        until(
            lambda: described(stack, name),
            lambda text: all(word in text for word in words),
            seconds=SECONDS,
            what=f"{name}: {words}",
        )
    )


CASES: dict[str, tuple[dict[str, Any], str]] = {
    "entrypoint and cmd": ({}, "entry cmd"),
    "args": ({"args": ["$(A)", "b c"], "env": [{"name": "A", "value": "it's $5"}]}, "entry it's $5 b c"),
    "command": ({"command": ["/bin/echo", "own"]}, "own"),
    "command and args": ({"command": ["/bin/echo", "own"], "args": ["a"]}, "own a"),
    "env, workdir and user": ({"command": SHOWN}, "it's $5 /srv/here {uid}"),
    "the Job's own": (
        {"command": SHOWN, "workingDir": "/bin", "env": [{"name": "GREETING", "value": "job"}]},
        "job /bin {uid}",
    ),
}


def test_what_an_image_says_counts_as_in_a_kubelet(stack: Stack, served: Registry) -> None:
    (pushed,) = served.push("team/tool:1", tool())
    names = {case: apply(stack.ada, made(served.named("team/tool:1"), **fields)) for case, (fields, _) in CASES.items()}
    digest = served.named(f"team/tool@{pushed.digest}")
    names["by digest"] = apply(stack.ada, made(digest))
    await_ends(stack.ada, list(names.values()), seconds=SECONDS)

    uid = pwd.getpwnam(ADA).pw_uid
    expected = {case: [words.format(uid=uid)] for case, (_, words) in CASES.items()} | {"by digest": ["entry cmd"]}
    assert {case: printed(stack.ada, name) for case, name in names.items()} == expected
    status = pod_of(stack.ada, names["command"])["status"]["containerStatuses"][0]
    assert status["imageID"] == digest
    assert sorted(served.fetched()) == sorted([pushed.config, *pushed.layers, pushed.config])
    text = described(stack, names["entrypoint and cmd"])
    assert f'Successfully pulled image "{served.named("team/tool:1")}"' in text


def test_an_image_that_is_not_there_is_backed_off_from_and_used_when_it_is(stack: Stack, served: Registry) -> None:
    image = served.named("team/later:1")
    name = apply(stack.ada, made(image))

    text = await_words(stack, name, "ErrImagePull", "ImagePullBackOff", "Back-off pulling image")
    assert f'Failed to pull image "{image}": 127.0.0.1' in text
    assert "has no image" in text
    served.push("team/later:1", tool())
    assert end_of(stack.ada, name) == "Complete"
    assert printed(stack.ada, name) == ["entry cmd"]


def test_a_registry_that_is_down_is_waited_for(stack: Stack, served: Registry) -> None:
    served.push("team/down:1", tool())
    served.stop()
    name = apply(stack.ada, made(served.named("team/down:1")))

    text = await_words(stack, name, "RegistryUnavailable")
    assert f"nothing listens at {served.address}" in text
    served.start()
    assert end_of(stack.ada, name) == "Complete"


def test_what_can_never_be_run_is_told_with_its_reason(stack: Stack, served: Registry) -> None:
    served.push("team/arm:1", Image([registry.shell()], CONFIG, "arm64"))
    served.push("team/bare:1", Image([registry.shell()]))
    served.push("team/unseen:1", tool())
    cases = {
        served.named("team/arm:1"): ({}, "ErrImagePull", "is for linux/arm64"),
        served.named("team/bare:1"): ({}, "CreateContainerError", "has neither ENTRYPOINT nor CMD"),
        served.named("team/unseen:1"): ({"imagePullPolicy": "Never"}, "ErrImageNeverPull", "Never"),
        "Wrong/NAME:1": ({}, "InvalidImageName", "is no name of an image"),
    }
    names = {image: apply(stack.ada, made(image, **fields)) for image, (fields, _, _) in cases.items()}

    for image, (_, reason, words) in cases.items():
        await_words(stack, names[image], reason, words)
    for name in names.values():
        assert "job-id" not in json.dumps(pod_of(stack.ada, name)["metadata"]["annotations"])
        stack.ada.ok("delete", "job", name)


def test_always_asks_which_image_a_tag_is_and_if_not_present_does_not(stack: Stack, served: Registry) -> None:
    image = served.named("team/moving:1")

    def says(policy: str) -> list[str]:
        name = apply(stack.ada, made(image, imagePullPolicy=policy))
        assert end_of(stack.ada, name) == "Complete"
        return printed(stack.ada, name)

    served.push("team/moving:1", tool(Cmd=["first"]))
    assert says("IfNotPresent") == ["entry first"]
    served.push("team/moving:1", tool(Cmd=["second"]))
    assert says("IfNotPresent") == ["entry first"]
    assert says("Always") == ["entry second"]


def test_a_private_image_is_pulled_with_the_pods_own_secret(
    stack: Stack, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with serving(tmp_path_factory.mktemp("private"), private=True) as private:
        private.push("team/secret:1", tool())
        words = ["--docker-server", private.address, "--docker-username", registry.USER]
        stack.ada.ok("create", "secret", "docker-registry", "ours", *words, "--docker-password", registry.PASSWORD)
        without = apply(stack.ada, made(private.named("team/secret:1")))
        await_words(stack, without, "ErrImagePull", "refuses", "look at the Pod's pull secret")
        with_secret = made(private.named("team/secret:1"))
        with_secret["spec"]["template"]["spec"]["imagePullSecrets"] = [{"name": "ours"}]
        name = apply(stack.ada, with_secret)
        await_words(stack, name, "ErrImagePull", "the agent may not read pull secret ours")
        stack.admin.ok("apply", "-k", str(MANIFESTS / "pull-secrets"))
        bound = ["--clusterrole", PULL_SECRETS_ROLE, "--serviceaccount", "batchgate-system:batchgate-agent"]
        stack.admin.ok("create", "rolebinding", "pull-secrets", *bound)

        assert end_of(stack.ada, name) == "Complete"
        assert printed(stack.ada, name) == ["entry cmd"]
        secret = registry.PASSWORD.encode()
        files = [path for path in LAYOUT.work.joinpath(ADA).rglob("*") if path.is_file() and not path.is_symlink()]
        assert [path for path in files if secret in path.read_bytes()] == []
        assert secret.decode() not in described(stack, name) + described(stack, without)
        stack.ada.ok("delete", "job", without)


def test_fifty_jobs_of_one_image_are_one_pull(stack: Stack, served: Registry) -> None:
    (pushed,) = served.push("team/burst:1", Image([registry.shell(), OWN, {"data": b"\0" * (1 << 20)}], CONFIG))
    served.forget()
    first = made(served.named("team/burst:1"))
    jobs = []
    for number in range(50):
        one = copy.deepcopy(first)
        one["metadata"]["name"] = f"{first['metadata']['name']}-{number}"
        jobs.append(one)
    stack.ada.ok("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": jobs}))
    names = [one["metadata"]["name"] for one in jobs]

    assert await_ends(stack.ada, names, seconds=4 * SECONDS) == dict.fromkeys(names, "Complete")
    assert printed(stack.ada, names[49]) == ["entry cmd"]
    fetched = served.fetched()
    assert {digest: fetched.count(digest) for digest in pushed.layers} == dict.fromkeys(pushed.layers, 1)
    assert len(list(Path(IMAGES).glob(f"{pushed.digest.partition(':')[2]}.sif"))) == 1
    assert len(served.asked()) < 50
