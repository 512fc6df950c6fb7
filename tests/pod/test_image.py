"""An image: what imagepull is asked, what is believed of its answer and for how long, and what a container runs."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from router.pod.image import (
    Config,
    ImageState,
    Question,
    Seen,
    Used,
    Wait,
    asked_now,
    environment,
    pull_policy,
    read,
    request,
    seen,
    staged,
    stands,
    unanswered,
    wait_for,
    words,
)

DIGEST = "sha256:" + "ab" * 32
SOURCE = f"docker://docker.io/library/perl@{DIGEST}"
QUESTION = Question("perl:5.34", None, "/scratch/ada/images", "IfNotPresent")
READY = ImageState("ready", "/c/ab.sif", SOURCE, DIGEST, Config())
PULLING = ImageState("pulling", "/c/ab.sif")
FAILED = ImageState("failed", reason="ErrImagePull", message="no such image")
NOW = 1000.0


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        ({"image": "perl"}, "Always"),
        ({"image": "perl:latest"}, "Always"),
        ({"image": "perl:5.34"}, "IfNotPresent"),
        ({"image": "registry:5000/perl"}, "Always"),
        ({"image": "registry:5000/perl:5.34"}, "IfNotPresent"),
        ({"image": f"perl@{DIGEST}"}, "IfNotPresent"),
        ({"image": f"perl:latest@{DIGEST}"}, "IfNotPresent"),
        ({"image": "perl", "imagePullPolicy": "Never"}, "Never"),
        ({"image": "perl:5.34", "imagePullPolicy": "Always"}, "Always"),
    ],
)
def test_the_pull_policy_is_kubernetes_default_unless_it_is_set(container: dict[str, str], expected: str) -> None:
    assert pull_policy(container) == expected


def test_a_question_and_no_password_where_it_is_shown() -> None:
    question = replace(QUESTION, insecure=True, auths=(("ada", "secret"),))

    assert json.loads(request(question)) == {
        "version": 1,
        "image": "perl:5.34",
        "file": None,
        "cache": "/scratch/ada/images",
        "policy": "IfNotPresent",
        "when": "host",
        "runtime": "apptainer",
        "insecure": True,
        "auths": [{"username": "ada", "password": "secret"}],
    }
    assert "secret" not in repr(question)


def _answered(**fields: Any) -> bytes:
    usual = {"version": 1, "state": "ready", "path": "/c/ab.sif", "source": SOURCE, "digest": DIGEST, "config": None}
    return json.dumps({**usual, **fields}).encode()


@pytest.mark.parametrize(
    ("stdout", "expected"),
    [
        (_answered(), replace(READY, config=None)),
        (
            _answered(config={"env": ["A=b"], "entrypoint": ["/e"], "cmd": None, "workdir": "/w", "user": "root"}),
            replace(READY, config=Config(("A=b",), ("/e",), (), "/w")),
        ),
        (_answered(path="/apps/x.sif", source=None, digest=None), ImageState("ready", "/apps/x.sif")),
        (
            _answered(state="failed", path="", source=None, digest=None, reason="InvalidImageName", message="a\n b\0"),
            ImageState("failed", reason="InvalidImageName", message="a b"),
        ),
        (
            _answered(state="failed", path=None, source=None, digest=None, reason="Weird", message="x" * 2000),
            ImageState("failed", reason="ErrImagePull", message="x" * 999 + "…"),
        ),
        (_answered(state="pulling"), replace(READY, state="pulling", config=None)),
    ],
)
def test_answers(stdout: bytes, expected: ImageState) -> None:
    assert read(stdout) == expected


@pytest.mark.parametrize(
    ("stdout", "why"),
    [
        (b"", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"[]", "is not an object with version 1"),
        (_answered(version=2), "is not an object with version 1"),
        (_answered(state="done"), "has none of the states ready, pulling and failed"),
        (_answered(path=""), "says that the image is ready, but not its path"),
        (_answered(path="relative"), "has an invalid path"),
        (_answered(path="/a\nb"), "has an invalid path"),
        (_answered(source="library://x"), "has an invalid source"),
        (_answered(digest="sha256:1"), "has an invalid digest"),
        (_answered(config=[]), "has an invalid config"),
        (_answered(config={"env": "A=b"}), "has a config whose env is not a list of words"),
        (_answered(config={"cmd": ["a\0b"]}), "has a config whose cmd is not a list of words"),
        (_answered(config={"workdir": 1}), "has an invalid workdir"),
        (_answered(config={"workdir": "/a\0"}), "has an invalid workdir"),
        (_answered(config={"workdir": "/\ud800"}), "has an invalid workdir"),
        (_answered(config={"env": ["A=\ud800"]}), "has a config whose env is not a list of words"),
        (_answered(config={"entrypoint": ["\udfff"]}), "has a config whose entrypoint is not a list of words"),
        (_answered(path="/a\ud800"), "has an invalid path"),
        (_answered(source=SOURCE.replace("perl", "\ud800")), "has an invalid source"),
    ],
)
def test_what_is_no_answer_is_not_believed(stdout: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=f"^{why}$"):
        read(stdout)


def test_failures_are_asked_about_after_pauses_as_long_as_a_kubelets() -> None:
    known, pauses = None, []
    now = NOW
    for _ in range(7):
        known = seen(known, FAILED, now, now)
        pauses.append(known.until - now)
        now = known.until
    assert pauses == [10, 20, 40, 80, 160, 300, 300]
    assert known is not None
    assert seen(known, READY, now, now).failures == 0
    assert seen(known, FAILED, known.at + 601, known.at + 601).failures == 1


def test_a_pull_is_asked_about_the_less_often_the_longer_it_takes_and_its_time_is_known() -> None:
    known, pauses = None, []
    now = NOW
    for _ in range(20):
        known = seen(known, PULLING, now, now)
        pauses.append(known.until - now)
        now = known.until
    assert pauses[:6] == [1, 1, 1, 1, 1, 1.25]
    assert pauses == sorted(pauses)
    assert pauses[-1] == 10
    done = seen(known, READY, now, now + 0.5)
    assert done.waited == now + 0.5 - NOW
    assert seen(done, READY, now + 90, now + 91).waited == done.waited


def test_a_pull_that_fails_again_and_again_is_backed_off_from_though_it_seems_to_go_on_between() -> None:
    known = seen(None, FAILED, NOW, NOW)
    known = seen(known, PULLING, NOW + 10, NOW + 10)
    known = seen(known, FAILED, NOW + 12, NOW + 12)

    assert known.until == NOW + 32


@pytest.mark.parametrize(
    ("known", "question", "created", "expected"),
    [
        (Seen(READY, NOW - 59, NOW - 59), QUESTION, NOW - 10, True),
        (Seen(READY, NOW - 60, NOW - 60), QUESTION, NOW - 10, False),
        (Seen(READY, NOW - 5, NOW - 4), replace(QUESTION, policy="Always"), NOW - 5, True),
        (Seen(READY, NOW - 5, NOW - 4), replace(QUESTION, policy="Always"), NOW - 4.5, False),
        (Seen(READY, NOW - 5, NOW - 4), replace(QUESTION, policy="Always", file="/x.sif"), NOW, True),
        (Seen(FAILED, NOW - 9, NOW - 9, until=NOW + 1), QUESTION, NOW, True),
        (Seen(FAILED, NOW - 9, NOW - 9, until=NOW), QUESTION, NOW, False),
        (Seen(PULLING, NOW - 1, NOW - 1, until=NOW + 1), QUESTION, NOW, True),
    ],
)
def test_how_long_an_answer_is_believed(known: Seen, question: Question, created: float, *, expected: bool) -> None:
    assert stands(known, question, created, NOW) is expected


def _failed(reason: str, at: float) -> Seen:
    return Seen(replace(FAILED, reason=reason), at, at, failures=1, until=at + 10)


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        (Seen(READY, NOW, NOW), None),
        (Seen(PULLING, NOW, NOW, since=NOW, until=NOW + 1), Wait("", 'Pulling image "perl"', NOW + 1)),
        (_failed("ErrImagePull", NOW), Wait("ErrImagePull", "no such image", NOW + 3)),
        (_failed("RegistryUnavailable", NOW), Wait("RegistryUnavailable", "no such image", NOW + 10)),
        (
            _failed("ErrImagePull", NOW - 3),
            Wait("ImagePullBackOff", 'Back-off pulling image "perl": ErrImagePull: no such image', NOW + 7),
        ),
        (_failed("ErrImageNeverPull", NOW - 3), Wait("ErrImageNeverPull", "no such image", NOW + 7)),
        (_failed("InvalidImageName", NOW - 3), Wait("InvalidImageName", "no such image", NOW + 7)),
        (_failed("RegistryUnavailable", NOW - 3), Wait("RegistryUnavailable", "no such image", NOW + 7)),
    ],
)
def test_what_a_container_waits_for(known: Seen, expected: Wait | None) -> None:
    assert wait_for(known, "perl", NOW) == expected


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        (None, Wait("", "", NOW + 1)),
        (Seen(READY, NOW - 99, NOW - 99), Wait("", "", NOW + 1)),
        (Seen(PULLING, NOW - 1, NOW - 1, until=NOW), Wait("", 'Pulling image "perl"', NOW + 1)),
        (
            _failed("ErrImagePull", NOW - 10),
            Wait("ImagePullBackOff", 'Back-off pulling image "perl": ErrImagePull: no such image', NOW + 1),
        ),
    ],
)
def test_while_a_question_is_under_way_what_was_said_holds(known: Seen | None, expected: Wait) -> None:
    assert asked_now(known, "perl", NOW) == expected


@pytest.mark.parametrize(
    ("command", "args", "expected"),
    [
        (None, None, ("/ep", "e1", "c1")),
        (None, ("a",), ("/ep", "e1", "a")),
        (("b",), None, ("b",)),
        (("b",), ("a",), ("b", "a")),
        ((), None, ("/ep", "e1", "c1")),
        ((), (), ("/ep", "e1", "c1")),
    ],
)
def test_entrypoint_and_cmd_against_command_and_args(command: Any, args: Any, expected: tuple[str, ...]) -> None:
    """The table of Kubernetes' "Define a Command and Arguments for a Container"."""
    assert words(Config(entrypoint=("/ep", "e1"), cmd=("c1",)), command, args) == expected


def test_the_images_variables_without_what_none_can_have_and_without_its_libraries() -> None:
    config = Config(env=("A=1", "B=x=y", "LD_LIBRARY_PATH=/lib", "=x", "lone", "C=", "A=2"))

    assert environment(config) == ("A=2", "B=x=y", "C=")


@pytest.mark.parametrize(
    ("used", "complete", "expected"),
    [
        (Used(READY), True, ("path=/c/ab.sif", "command=1")),
        (Used(replace(READY, config=Config(workdir="/w"))), False, ("path=/c/ab.sif", "workdir=/w")),
        (
            Used(READY, cache="/c", insecure=True),
            False,
            ("path=/c/ab.sif", f"source={SOURCE}", "cache=/c", "insecure=1"),
        ),
    ],
)
def test_what_the_script_is_told(used: Used, expected: tuple[str, ...], *, complete: bool) -> None:
    assert staged(used, complete=complete) == expected


def test_image_ids() -> None:
    assert READY.image_id == f"docker.io/library/perl@{DIGEST}"
    assert ImageState("ready", "/apps/x.sif").image_id == ""
    assert unanswered("a\nb") == ImageState("failed", reason="ErrImagePull", message="a b", silent=True)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"env": ["A=1"] * 2001}, "has a config of more than 2000 words or 262144 bytes"),
        ({"env": ["A=1"] * 1000, "entrypoint": ["a"] * 1000, "cmd": ["a"]}, "has a config of more than 2000 words"),
        ({"env": ["A=" + "x" * 200_000], "workdir": "/" + "x" * 70_000}, "has a config of more than 2000 words"),
        ({"cmd": ["\u00fc" * 131_073]}, "has a config of more than 2000 words"),
    ],
)
def test_a_configuration_that_would_fill_the_memory_is_not_kept(config: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read(_answered(config=config))


def test_a_byte_that_is_no_character_is_kept() -> None:
    assert read(_answered(config={"env": ["A=\udcff"]})).config == Config(("A=\udcff",))


def test_the_largest_configuration_that_is_kept() -> None:
    env = ["A=" + "x" * 129] * 2000

    answer = read(_answered(config={"env": env, "workdir": "/" + "x" * 143}))

    assert answer.config == Config(tuple(env), workdir="/" + "x" * 143)
