"""The image puller without a registry: names, platforms, configurations, what the runtime's words mean."""

from __future__ import annotations

import ast
import errno
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.host import imagepull
from router.host.imagepull import Name, Refused

_DIGEST = "sha256:" + "0123456789abcdef" * 4


def test_it_is_written_in_python_3_6_and_its_standard_library() -> None:
    tree = ast.parse(Path(imagepull.__file__).read_text(), feature_version=(3, 6))

    imported = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    imported |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in imported} <= sys.stdlib_module_names
    assert "__future__" not in imported, "annotations came with 3.7"


@pytest.mark.parametrize(
    ("image", "name"),
    [
        ("perl:5.34", Name("docker.io", "library/perl", "5.34")),
        ("perl", Name("docker.io", "library/perl", "latest")),
        ("team/tool:1", Name("docker.io", "team/tool", "1")),
        ("docker.io/perl", Name("docker.io", "library/perl", "latest")),
        ("index.docker.io/team/tool", Name("docker.io", "team/tool", "latest")),
        ("localhost/tool:1", Name("localhost", "tool", "1")),
        ("localhost:5000/tool", Name("localhost:5000", "tool", "latest")),
        ("ghcr.io/x/y@" + _DIGEST, Name("ghcr.io", "x/y", _DIGEST)),
        ("ghcr.io/x/y:1@" + _DIGEST, Name("ghcr.io", "x/y", _DIGEST)),
        ("[::1]:5000/a/b_c/d__e-f.g:V_1.2-x", Name("[::1]:5000", "a/b_c/d__e-f.g", "V_1.2-x")),
    ],
)
def test_a_name_is_completed_as_docker_does(image: str, name: Name) -> None:
    assert imagepull.name_of(image) == name


@pytest.mark.parametrize(
    "image",
    [
        *("", " ", "Perl", "a:b:c", "a@sha256:12", "a@sha512:" + 128 * "0", "docker://perl", "a b", "a/", "/a", "a//b"),
        *("user:secret@host.org/a", "a..b", "a\n", "a:", "host.org:port/a", "a/B", "a:" + 129 * "t", "x/" * 300 + "y"),
    ],
)
def test_what_is_no_name(image: str) -> None:
    with pytest.raises(Refused, match="is no name of an image: write registry/path:tag") as caught:
        imagepull.name_of(image)

    assert (caught.value.reason, caught.value.permanent) == ("InvalidImageName", True)


def test_of_a_configuration_only_what_has_its_type_counts() -> None:
    config = {"Env": ["A=1", 2], "Entrypoint": "sh", "Cmd": None, "WorkingDir": 3, "User": "5"}

    assert imagepull.normalised(config, "x") == {
        "env": ["A=1"],
        "entrypoint": [],
        "cmd": [],
        "workdir": "",
        "user": "5",
    }


_LARGE = "this image has more than 2000 words or 262144 bytes of variables, entrypoint and command in its configuration"


@pytest.mark.parametrize(
    "config",
    [
        {"Env": ["A=1"] * 2001},
        {"Env": ["A=1"] * 1000, "Entrypoint": ["a"] * 1000, "Cmd": ["a"]},
        {"Env": ["A=" + "x" * 200_000], "WorkingDir": "/" + "x" * 70_000},
        {"User": "\u00fc" * 131_073},
    ],
)
def test_a_configuration_that_is_too_large_is_refused(config: dict[str, object]) -> None:
    with pytest.raises(Refused, match=_LARGE) as caught:
        imagepull.normalised(config, "this image")

    assert (caught.value.reason, caught.value.permanent) == ("ErrImagePull", True)


@pytest.mark.parametrize(
    "config",
    [{"Env": ["A=\ud800"]}, {"Entrypoint": ["a\0b"]}, {"Cmd": ["\udfff"]}, {"WorkingDir": "/\0"}, {"User": "\ud800"}],
)
def test_words_that_no_process_can_be_given_are_refused(config: dict[str, object]) -> None:
    with pytest.raises(Refused) as caught:
        imagepull.normalised(config, "this image")

    assert (caught.value.reason, caught.value.permanent, caught.value.message) == (
        "ErrImagePull",
        True,
        "this image has a NUL or half a character in its configuration, which no process can be given; build it without",
    )


_DEEP = b"[" * 100_000


def test_json_that_is_nested_too_deeply_is_no_description(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"^the manifest of a is no JSON object$"):
        imagepull.parsed(_DEEP, "the manifest of a")
    (tmp_path / "ab.json").write_bytes(_DEEP)
    assert imagepull.stored_config(str(tmp_path), "sha256:ab") is None


def test_an_image_file_with_such_a_description_has_none(tmp_path: Path) -> None:
    place = imagepull.SIF_HEADER.size
    start = place + imagepull.SIF_DESCRIPTOR.size
    header = imagepull.SIF_HEADER.pack(b"", imagepull.SIF_MAGIC, b"", b"", b"", 0, 0, 0, 1, place, 0, 0, 0)
    about = (imagepull.SIF_JSON, True, 1, 0, 0, start, len(_DEEP), *[0] * 5, b"oci-config.json", b"")
    (tmp_path / "a.sif").write_bytes(header + imagepull.SIF_DESCRIPTOR.pack(*about) + _DEEP)

    assert imagepull.sif_config(str(tmp_path / "a.sif")) is None


def _layers(*sizes: object) -> dict[str, object]:
    return {"layers": [{"size": size} for size in sizes]}


def test_an_image_that_is_larger_than_the_site_takes_is_refused() -> None:
    name = Name("h.org", "a", "1")
    for fine in (_layers(), _layers(1 << 36), _layers(1 << 35, "x", None, -1, 1 << 35), {}, {"layers": [1]}):
        imagepull.weighed(name, fine)

    with pytest.raises(Refused) as caught:
        imagepull.weighed(name, _layers(1 << 35, -5, 1 + (1 << 35)))

    words = "h.org/a has layers of 68719476737 bytes, and HOST pulls images of at most 68719476736 (MOST_BYTES)"
    said = caught.value
    assert (said.reason, said.permanent) == ("ErrImagePull", True)
    assert said.message.replace(imagepull.here(), "HOST") == f"{words}; make it smaller, or ask the site's admins"


def test_a_pull_that_makes_no_progress_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imagepull, "HEARTBEAT", 0.1)
    monkeypatch.setattr(imagepull, "STILL_SECONDS", 5)
    claim, half, scratch = tmp_path / "a.claim", tmp_path / "half", tmp_path / "scratch"
    claim.write_text("one\n")
    scratch.mkdir()

    def ended(script: str) -> int:
        process = subprocess.Popen(["sh", "-c", script], cwd=tmp_path, start_new_session=True)
        return imagepull.awaited(process, str(claim), "one", (str(half), str(scratch)))

    assert ended("for n in $(seq 35); do echo >>half; sleep 0.2; done; exit 3") == 3
    assert ended("for n in $(seq 35); do echo >scratch/$n; sleep 0.2; done; exit 4") == 4
    monkeypatch.setattr(imagepull, "STILL_SECONDS", 0.5)
    began = time.monotonic()
    with pytest.raises(Refused, match=r"^the pull made no progress on \S+ for 0.5 seconds; the registry may hang"):
        ended("sleep 60")
    assert time.monotonic() - began < 30


def test_a_pull_that_takes_too_much_of_the_disk_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the registry said of the sizes: what lies there is counted, also of a pull that has just ended well."""
    monkeypatch.setattr(imagepull, "MOST_DISK", 1 << 20)
    claim, half, scratch = tmp_path / "a.claim", tmp_path / "half", tmp_path / "scratch"
    claim.write_text("one\n")
    words = r"^the image takes more than 1048576 bytes of disk on \S+ \(MOST_DISK\) while it is pulled; make it smaller"
    bombs = [
        "mkdir scratch; truncate -s 2M scratch/layer; exit 0",
        "mkdir -p scratch/a; for n in $(seq 300); do : >scratch/a/$n; done; sleep 600",
        "while :; do head -c 65536 /dev/zero >>half; done",
    ]
    for script in bombs:
        process = subprocess.Popen(["sh", "-c", script], cwd=tmp_path, start_new_session=True)
        with pytest.raises(Refused, match=words) as caught:
            imagepull.awaited(process, str(claim), "one", (str(half), str(scratch)))
        assert caught.value.permanent
        assert process.returncode is not None
        subprocess.run(["rm", "-rf", "half", "scratch"], cwd=tmp_path, check=True)


def test_very_deep_directories_are_counted(tmp_path: Path) -> None:
    deep = tmp_path
    for _ in range(1500):
        deep = deep / "d"
    subprocess.run(["mkdir", "-p", str(deep)], check=True)

    try:
        assert imagepull.size_of((str(tmp_path),)) > 1500 * imagepull.BLOCK
    finally:  # pytest's own removal of old temporary directories is recursive, and would fail in some later run
        subprocess.run(["rm", "-rf", "d"], cwd=tmp_path, check=True)


class _Says(imagepull.Registry):
    """A registry that answers every question with the same."""

    def __init__(self, body: bytes) -> None:
        super().__init__(Name("h.org", "a", "1"), None, insecure=False)
        self.body = body

    def ask(self, what: str, kinds: tuple[str, ...] = (), method: str = "GET") -> tuple[Any, bytes]:
        return ({}, b"") if method == "HEAD" else ({}, self.body)


_JSON: st.SearchStrategy[object] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda below: (
        st.lists(below, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["schemaVersion", "manifests", "config", "digest", "layers", "size", "platform", "os", "x"]
            ),
            below,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(answer=_JSON)
def test_whatever_a_registry_answers_is_an_image_or_is_refused(answer: object) -> None:
    with tempfile.TemporaryDirectory() as cache, pytest.raises(Refused):
        imagepull.resolved(_Says(json.dumps(answer).encode()), cache)


_RUBBISH = [
    ({"manifests": [5, None]}, "h.org gave what is no index of an image for h.org/a"),
    ({"manifests": None}, "h.org gave what is no index of an image for h.org/a"),
    ({"manifests": {"a": 1}}, "h.org gave what is no index of an image for h.org/a"),
    ({"error": "log in first"}, "h.org gave what is no manifest of an image for h.org/a"),
    ({"schemaVersion": 2, "config": [1]}, "h.org gave what is no manifest of an image for h.org/a"),
    ({"schemaVersion": "2", "config": {}}, "h.org gave what is no manifest of an image for h.org/a"),
    ("<html>", "the manifest of h.org/a is no JSON object"),
]


@pytest.mark.parametrize(("answer", "words"), _RUBBISH)
def test_rubbish_is_asked_for_again(answer: object, words: str, tmp_path: Path) -> None:
    with pytest.raises(Refused) as caught:
        imagepull.resolved(_Says(json.dumps(answer).encode()), str(tmp_path))

    assert (caught.value.reason, caught.value.permanent) == ("ErrImagePull", False)
    assert caught.value.message.startswith(words)


_LASTING = [
    ({"manifests": [{"platform": {"os": "plan9", "architecture": 5}, "digest": 7}, {"platform": 3}]}, "is for plan9/5"),
    ({"schemaVersion": 1}, "has a manifest of the oldest kind"),
    ({"schemaVersion": 2, "config": {"digest": 5}}, "has no configuration"),
]


@pytest.mark.parametrize(("answer", "words"), _LASTING)
def test_what_only_another_image_mends_is_not(answer: object, words: str, tmp_path: Path) -> None:
    with pytest.raises(Refused) as caught:
        imagepull.resolved(_Says(json.dumps(answer).encode()), str(tmp_path))

    assert caught.value.permanent
    assert caught.value.message.startswith(f"h.org/a {words}")


_WORDS = [
    (
        "INFO: x\nFATAL:   While making image from oci registry: write /cache/b.sif: no space left on device",
        ("ErrImagePull", "the disk with /cache on HOST is full; free space there, or tell the site's admins"),
    ),
    (
        "FATAL:   error writing layer: write SCRATCH/bundle-temp-1: no space left on device",
        ("ErrImagePull", "the disk with /tmp on HOST is full; free space there, or tell the site's admins"),
    ),
    (
        "FATAL:   While creating SIF: write /cache/b.sif: disk quota exceeded",
        ("ErrImagePull", "the user's disk quota for /cache on HOST is used up; remove files there, or ask for more"),
    ),
    (
        'FATAL:   while creating squashfs: exec: "mksquashfs": executable file not found in $PATH',
        ("ErrImagePull", "the runtime finds no mksquashfs on HOST; the site's admins must install squashfs-tools"),
    ),
    (
        "FATAL:   reading manifest 1 in h.org/a: toomanyrequests: You have reached your pull rate limit",
        (
            "ErrImagePull",
            (
                "h.org gives no more images for now (429); a pull secret may help: reading manifest 1 in h.org/a: "
                "toomanyrequests: You have reached your pull rate limit"
            ),
        ),
    ),
    (
        "FATAL:   pinging container registry h.org: dial tcp 1.2.3.4:443: connect: connection refused",
        (
            "RegistryUnavailable",
            (
                "h.org could not be reached while the image was pulled: pinging container registry h.org: "
                "dial tcp 1.2.3.4:443: connect: connection refused"
            ),
        ),
    ),
    (
        "FATAL:   Image file already exists: /cache/f3a4291.sif",
        ("ErrImagePull", "apptainer could not make the image on HOST: Image file already exists: /cache/f3a4291.sif"),
    ),
    ("FATAL:   something new", ("ErrImagePull", "apptainer could not make the image on HOST: something new")),
    ("", ("ErrImagePull", "apptainer could not make the image on HOST: apptainer ended with code 255")),
]


@pytest.mark.parametrize(("said", "meant"), _WORDS, ids=[reason[1][:30] for _, reason in _WORDS])
def test_what_the_runtime_says(said: str, meant: tuple[str, str]) -> None:
    asked = {"image": "h.org/a:1", "runtime": "apptainer", "cache": "/cache"}

    why = imagepull.failure(255, said.replace("SCRATCH", "/tmp/batch-1"), asked, "/tmp/batch-1")

    assert (why.reason, why.message.replace(imagepull.here(), "HOST")) == meant


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.ENOSPC, "x", "/c/a"), r"the disk with /c on \S+ is full;"),
        (OSError(errno.EDQUOT, "x", "/c/a"), r"the user's disk quota for /c on \S+ is used up;"),
        (OSError(errno.EACCES, "Permission denied", "/c/a"), r"/c/a on \S+ cannot be used: Permission denied; see"),
    ],
)
def test_an_error_of_the_disk_is_a_sentence(error: OSError, words: str) -> None:
    assert re.match(words, imagepull.trouble(error, "/c").message)


def test_no_form_of_a_password_is_told() -> None:
    auth = {"username": "ada", "password": "correct/horse"}

    told = imagepull.without_secrets(
        "a correct/horse b correct/horse c YWRhOmNvcnJlY3QvaG9yc2U= d correct%2Fhorse", [auth, None]
    )

    assert "horse" not in told
    assert "YWRh" not in told


OWN = "VERSION, OLDEST = 1, 1"


@pytest.mark.parametrize(
    ("asked", "version", "said"),
    [
        (0, 2, "this is version 2 of imagepull, and version 0 is asked for; install the one that belongs to the agent"),
        (1, 1, "'' is no name of an image"),
        (2, 2, "'' is no name of an image"),
        (3, 2, "this is version 2 of imagepull, and version 3 is asked for; install the one that belongs to the agent"),
    ],
)
def test_the_next_release_answers_an_agent_of_this_one_in_its_own_version(
    tmp_path: Path, asked: int, version: int, said: str
) -> None:
    text = Path(imagepull.__file__).read_text()
    assert OWN in text
    program = tmp_path / "imagepull"
    program.write_text(text.replace(OWN, "VERSION, OLDEST = 2, 1"))

    done = subprocess.run(
        [sys.executable, "-I", str(program)],
        input=json.dumps({"version": asked, "image": ""}),
        capture_output=True,
        text=True,
        check=True,
    )

    answer = json.loads(done.stdout)
    assert (answer["version"], answer["message"].startswith(said)) == (version, True), answer


LATE = """
import io, os, signal, sys, time
from router.host import imagepull

class Freed:
    def __del__(self):
        time.sleep(60)  # the first alarm comes now, and what its handler raises is dropped

def answered(asked):
    freed = Freed()
    del freed
    time.sleep(60)
    return {}

imagepull.ANSWER_SECONDS, imagepull.ALARM_SECONDS, imagepull.answered = 1, 1, answered
imagepull.main()
"""


def test_an_alarm_without_effect_comes_again() -> None:
    argv = [sys.executable, "-c", LATE]
    done = subprocess.run(
        argv,
        input='{"version": 1}',
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
        cwd=Path(__file__).parents[2],
    )

    answer = json.loads(done.stdout)
    assert (answer["state"], answer["message"].partition(" within")[0].partition(" on ")[0]) == (
        "failed",
        "no answer was found",
    )
