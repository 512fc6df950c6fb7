"""Images asked of a real program on the machine (a fake of imagepull): once for all Pods, and nobody waits for long."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from router.agent.submission.images import Images, ImageWait, cache_directory
from router.host.local import LocalHost
from router.pod.image import Config, ImageState, Used
from router.site.schema import ImageMap, Runtime, Site
from tests.agent.fake_imagepull import DIGEST, PULLING, FakeImagepull, failed, ready
from tests.gates import checked
from tests.local.queue import until

LONG = 120.0
"""Seconds that a busy machine may take for a small program."""
PERL = f"docker://docker.io/library/perl@{DIGEST}"


class World:
    """One site, its program, and what is asked of it by a clock of the test's own."""

    def __init__(self, root: Path, **site: Any) -> None:
        self.now = 1000.0
        self.imagepull = FakeImagepull(root / "imagepull").make()
        (found,) = checked().sites
        self.site: Site = found.model_copy(update={"imagepull": str(self.imagepull.program), **site})
        self.images = self.asking(LONG)

    def asking(self, patience: float) -> Images:
        host = LocalHost(self.imagepull.here / "site")
        return Images(host, self.site, "ada", clock=lambda: self.now, patience=patience)

    def of(self, *images: str, created: float = 0.0, policy: str = "IfNotPresent") -> dict[str, Used]:
        containers = [
            {"name": f"c{number}", "image": image, "imagePullPolicy": policy} for number, image in enumerate(images)
        ]
        return self.images.of({"spec": {"containers": containers}}, created)

    def waits(self, *images: str, created: float = 0.0) -> tuple[str, str, float]:
        with pytest.raises(ImageWait) as error:
            self.of(*images, created=created)
        return error.value.reason, str(error.value), error.value.until - self.now


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., World]:
    return lambda **site: World(tmp_path, **site)


@pytest.fixture
def world(make: Callable[..., World]) -> World:
    return make()


def test_an_image_is_asked_for_once_for_all_pods_and_containers(world: World) -> None:
    world.imagepull.answers(perl=ready(env=["A=b"], entrypoint=["perl"]))
    used = Used(ImageState("ready", "/cache/ab.sif", PERL, DIGEST, Config(("A=b",), ("perl",))))

    assert [world.of("perl", "perl") for _ in range(50)] == [{"c0": used, "c1": used}] * 50
    assert world.imagepull.asked == [
        {
            "version": 1,
            "image": "perl",
            "file": None,
            "cache": cache_directory(world.site, "ada"),
            "policy": "IfNotPresent",
            "when": "host",
            "runtime": "apptainer",
            "insecure": False,
            "auths": [],
        }
    ]


def test_an_image_is_asked_for_again_where_there_was_no_thread(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.imagepull.answers(perl=ready())

    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", start)
        with pytest.raises(RuntimeError):
            world.of("perl")

    assert [one["image"] for one in world.imagepull.asked] == []
    assert list(world.of("perl")) == ["c0"]


def test_with_always_a_pod_that_was_made_after_the_last_question_asks_again(world: World) -> None:
    world.imagepull.answers(perl=ready())

    for created in (900.0, 950.0, 1000.0):
        world.of("perl", created=created, policy="Always")
    assert len(world.imagepull.asked) == 1
    world.now = 1010.0
    world.of("perl", created=1005.0, policy="Always")
    assert len(world.imagepull.asked) == 2


def test_a_pull_a_failure_and_its_back_off_are_told_in_turn_and_then_the_image_is_used(world: World) -> None:
    world.imagepull.answers(perl=PULLING)
    told = [world.waits("perl")]
    world.now += 1
    world.imagepull.answers(perl=failed(message="toomanyrequests"))
    told.append(world.waits("perl"))
    world.now += 3
    told.append(world.waits("perl"))
    world.now += 7
    world.imagepull.answers(perl=ready())

    assert told == [
        ("ContainerCreating", 'Pulling image "perl"', 1.0),
        ("ErrImagePull", "toomanyrequests", 3.0),
        ("ImagePullBackOff", 'Back-off pulling image "perl": ErrImagePull: toomanyrequests', 7.0),
    ]
    assert world.of("perl")["c0"].answer.path == "/cache/ab.sif"
    assert len(world.imagepull.asked) == 3


def test_who_asks_does_not_wait_for_a_registry_that_hangs_and_nobody_asks_beside(world: World) -> None:
    world.images = world.asking(0.01)
    world.imagepull.answers(perl={**ready(), "after": 2})

    assert [world.waits("perl") for _ in range(5)] == [("ContainerCreating", "", 1.0)] * 5
    until(lambda: world.imagepull.asked)
    world.imagepull.answers(perl=ready(), busybox=ready("/cache/bb.sif"))
    world.images._patience = LONG
    assert world.of("busybox")["c0"].answer.path == "/cache/bb.sif"
    assert world.of("perl")["c0"].answer.path == "/cache/ab.sif"
    assert [one["image"] for one in world.imagepull.asked] == ["perl", "busybox"]


def test_what_no_pod_asked_for_lately_is_dropped_and_what_waits_is_not(world: World) -> None:
    world.imagepull.answers(perl=ready(), busybox=failed(message="toomanyrequests"))
    world.of("perl")
    pauses = []
    while world.now < 1700:
        *_, pause = world.waits("busybox")
        pauses.append(pause)
        world.now += pause
    world.waits("busybox")

    assert [question.image for question in world.images._seen] == ["busybox"]
    assert set(world.images._wanted) == set(world.images._seen)
    assert max(pauses) > 150, "failures in a row are remembered"


def test_of_many_answers_those_are_kept_that_were_asked_for_last(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("router.agent.submission.images.MOST_KEPT", 3)
    world.imagepull.answers(**dict.fromkeys("abcd", ready()))
    for image in "abcad":
        world.now += 1
        world.of(image)

    assert {question.image for question in world.images._seen} == {"a", "c", "d"}
    assert set(world.images._wanted) == set(world.images._seen)


def test_what_is_wrong_with_one_image_is_said_of_that(world: World) -> None:
    world.imagepull.answers(perl=ready(), busybox=failed("InvalidImageName", "is no name", permanent=True))

    with pytest.raises(ImageWait) as error:
        world.of("perl", "busybox")
    assert (error.value.image, error.value.reason) == ("busybox", "InvalidImageName")


@pytest.mark.parametrize("site", [{"pull": "never"}, {"runtime": Runtime.HOST}])
def test_where_nothing_is_pulled_nothing_is_asked(make: Callable[..., World], site: dict[str, Any]) -> None:
    world = make(**site)

    assert world.of("perl") == {}
    assert world.imagepull.asked == []


def test_a_file_of_the_site_is_only_looked_into_and_need_not_be_seen_here(make: Callable[..., World]) -> None:
    world = make(images=(ImageMap(match="perl*", path="/apps/perl.sif"),))
    config = {"env": ["A=b"], "entrypoint": [], "cmd": ["perl"], "workdir": "/w", "user": ""}
    file = {"state": "ready", "path": "/apps/perl.sif", "source": None, "digest": None, "config": config}
    world.imagepull.answers(perl=file, **{"perl:1": failed(message="no such file")})

    answer = ImageState("ready", "/apps/perl.sif", config=Config(("A=b",), (), ("perl",), "/w"))
    assert world.of("perl", "perl:1") == {"c0": Used(answer)}
    assert {one["file"] for one in world.imagepull.asked} == {"/apps/perl.sif"}


def test_a_job_that_pulls_is_told_from_where_and_looks_itself_for_what_this_host_does_not_reach(
    make: Callable[..., World],
) -> None:
    world = make(pull="job", insecure_registries=("reg:*",))
    registry = "reg:5000/perl"
    world.imagepull.answers(
        **{
            registry: ready(repository=registry),
            "away:1": failed("RegistryUnavailable", "cannot be reached"),
            "wrong:1": failed(message="manifest unknown"),
        }
    )
    found = world.of(registry, "away:1", "silent:1")

    cache = cache_directory(world.site, "ada")
    answer = ImageState("ready", "/cache/ab.sif", f"docker://{registry}@{DIGEST}", DIGEST, Config())
    assert found == {"c0": Used(answer, cache=cache, insecure=True)}
    assert world.waits("wrong:1")[:2] == ("ErrImagePull", "manifest unknown")
    assert {one["when"] for one in world.imagepull.asked} == {"job"}


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("away:1", ("RegistryUnavailable", "cannot be reached")),
        ("silent:1", ("ErrImagePull", "knows no silent:1; the site's admin must install it there (imagepull)")),
    ],
)
def test_what_is_never_to_be_pulled_is_not_left_to_a_job_that_would(
    make: Callable[..., World], image: str, expected: tuple[str, str]
) -> None:
    world = make(pull="job")
    world.imagepull.answers(**{"away:1": failed("RegistryUnavailable", "cannot be reached")})

    with pytest.raises(ImageWait) as error:
        world.of(image, policy="Never")
    reason, words = expected
    assert (error.value.reason, str(error.value).endswith(words)) == (reason, True)


def test_a_file_of_the_site_is_left_to_the_job_though_nothing_is_ever_to_be_pulled(make: Callable[..., World]) -> None:
    world = make(pull="job", images=(ImageMap(match="perl*", path="/apps/perl.sif"),))

    assert world.of("perl", policy="Never") == {}


def test_a_program_that_is_not_there_is_told_with_what_to_do(make: Callable[..., World]) -> None:
    world = make(imagepull="/no/such/imagepull")

    reason, message, pause = world.waits("perl")
    assert (reason, pause) == ("ErrImagePull", 3.0)
    assert message.startswith("/no/such/imagepull on site hpc1, which pulls images, gave no answer: env: ")
    assert message.endswith("; the site's admin must install it there (imagepull), or set pull: job")


def test_an_answer_that_is_none_is_told(world: World) -> None:
    world.imagepull.answers(perl={"state": "done"})

    program = world.imagepull.program
    words = f"the answer of {program} on site hpc1 has none of the states ready, pulling and failed"
    assert world.waits("perl")[:2] == ("ErrImagePull", words)


@pytest.mark.parametrize(
    ("site", "expected"),
    [
        ({"work_dir": "/scratch/{user}"}, "/scratch/ada/images"),
        ({"work_dir": "/scratch/{user}/"}, "/scratch/ada/images"),
        ({"image_cache": "/big/{user}/sif"}, "/big/ada/sif"),
    ],
)
def test_where_a_users_images_lie(make: Callable[..., World], site: dict[str, str], expected: str) -> None:
    assert cache_directory(make(**site).site, "ada") == expected
