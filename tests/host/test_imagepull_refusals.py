"""Why there is no image: each reason is a sentence that says what, where and what to do."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from router.host import imagepull
from tests import registry
from tests.host import helpers, puller
from tests.host.puller import Puller
from tests.registry import Image, Registry

_REAL = pytest.mark.skipif(shutil.which("apptainer") is None, reason="not installed: apptainer")
_HOST = imagepull.here()
_AUTH = {"username": "ada", "password": "correct horse"}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with registry.serving(tmp_path_factory.mktemp("open")) as running:
        small = [{"a": b"1"}]
        running.push("team/tool:1", Image([registry.shell(), {"data/a": os.urandom(1 << 20)}]))
        running.push("team/arm:1", Image(small, architecture="arm64"))
        running.push("team/index:1", *(Image(small, architecture=one) for one in ("s390x", "arm64")))
        yield running


@pytest.fixture
def ours() -> Iterator[Puller]:
    with puller.installed() as one:
        yield one


def _said(answer: Mapping[str, object]) -> tuple[object, ...]:
    return answer["state"], answer["reason"], answer["permanent"], answer["message"]


_PULL, _AWAY = ("failed", "ErrImagePull", False), ("failed", "RegistryUnavailable", False)
_LASTING = ("failed", "ErrImagePull", True)
_DO = "push it for linux/amd64 too, or name another image"
_TABLE: list[tuple[str, dict[str, object], tuple[str, str, bool], str]] = [
    ("AT/team/tool:2", {}, _PULL, "AT has no image AT/team/tool:2; look at its name and tag"),
    ("AT/none:1", {"auths": [_AUTH]}, _PULL, "AT has no image AT/none:1; look at its name and tag"),
    ("AT/team/tool:1", {"insecure": False}, _AWAY, "AT does not speak TLS; the site's insecureRegistries may list it"),
    ("AT/team/arm:1", {}, _LASTING, f"AT/team/arm is for linux/arm64, and this site is linux/amd64; {_DO}"),
    (
        "AT/team/index:1",
        {"when": "job"},
        _LASTING,
        f"AT/team/index is for linux/arm64 and linux/s390x, and this site is linux/amd64; {_DO}",
    ),
    (
        "AT/team/tool:1",
        {"policy": "Never"},
        ("failed", "ErrImageNeverPull", True),
        "AT/team/tool:1 is not in CACHE, and its pull policy is Never; let another Job pull it, or change the policy",
    ),
    (
        "AT/team/tool:1",
        {"runtime": "/nowhere/apptainer"},
        _PULL,
        f"there is no /nowhere/apptainer on {_HOST} to pull images with; the site's admins must install it there",
    ),
    (
        "host.invalid/a:1",
        {},
        _AWAY,
        f"{_HOST} finds no address of host.invalid; look at the registry in the image's name",
    ),
    (
        "a:1",
        {"version": 2},
        _PULL,
        f"this is version 1 of imagepull, and version 2 is asked for; install the one that belongs to the agent on {_HOST}",
    ),
    ("a:1", {"cache": "c"}, _LASTING, "the image cache 'c' is no absolute path; mend it in the site's policy"),
    ("a:1", {"policy": None, "cache": 7}, _LASTING, "the question is not understood"),
    (
        "AT/team/tool:1",
        {"cache": "/proc/cache"},
        _PULL,
        f"/proc/cache on {_HOST} cannot be used: No such file or directory; see its permissions",
    ),
]


@pytest.mark.parametrize(("image", "changed", "what", "words"), _TABLE, ids=[row[3][:40] for row in _TABLE])
def test_one_sentence_says_why(
    image: str,
    changed: dict[str, object],
    what: tuple[str, str, bool],
    words: str,
    served: Registry,
    ours: Puller,
) -> None:
    served.forget()

    answer = ours.ask(image.replace("AT", served.address), **changed)

    assert _said(answer) == (*what, words.replace("AT", served.address).replace("CACHE", str(ours.cache)))
    assert len(served.fetched()) <= 1, "nothing but a configuration"


def test_the_oldest_python_of_this_machine_understands_it(served: Registry, tmp_path: Path) -> None:
    question = Puller(Path(), tmp_path, "").question(served.named("team/tool:1"), when="job")
    words = [helpers.oldest_python(), "-I", imagepull.__file__]

    done = subprocess.run(words, input=json.dumps(question), capture_output=True, text=True, check=True)

    assert (json.loads(done.stdout)["state"], done.stderr) == ("ready", "")


def test_a_registry_that_is_down(ours: Puller) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{closed.getsockname()[1]}"

        answer = ours.ask(f"{host}/a:1")

    words = f"nothing listens at {host}; look at the registry in the image's name, or whether the registry is up"
    assert _said(answer) == (*_AWAY, words)


@contextlib.contextmanager
def _answering(
    answers: Mapping[str, tuple[int, Mapping[str, str], bytes]], seconds: float = 0
) -> Iterator[tuple[str, list[str]]]:
    """A registry that says what it is told to, by path; its address, and what was asked with which credentials."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(f"{self.command} {self.path} {self.headers.get('Authorization', '-')[:6]}")
            time.sleep(seconds)
            status, headers, body = answers.get(self.path, (404, {}, b""))
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        do_HEAD = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.parametrize(
    ("status", "headers", "what", "words"),
    [
        (
            429,
            {"Retry-After": "7"},
            _PULL,
            f"AT gives no more images to {_HOST} for 7 seconds (429, too many requests); a pull secret may help",
        ),
        (
            429,
            {},
            _PULL,
            f"AT gives no more images to {_HOST} for now (429, too many requests); a pull secret may help",
        ),
        (503, {}, _AWAY, "AT cannot answer now: it says 503"),
        (418, {}, _PULL, "AT answered 418 when asked for AT/a:1"),
        (
            403,
            {},
            _PULL,
            "AT refuses AT/a:1 to anybody without credentials (403); look at the Pod's pull secret and at the image's name",
        ),
        (
            401,
            {"WWW-Authenticate": 'Bearer realm="file:///etc/passwd"'},
            _AWAY,
            "AT wants its credentials at 'file:///etc/passwd', which is no https address",
        ),
    ],
)
def test_what_a_registry_may_say(
    status: int, headers: dict[str, str], what: tuple[str, str, bool], words: str, ours: Puller
) -> None:
    with _answering({"/v2/a/manifests/1": (status, headers, b"")}) as (host, _):
        answer = ours.ask(f"{host}/a:1")

    assert _said(answer) == (*what, words.replace("AT", host))


def test_a_registry_that_does_not_answer_is_not_waited_for() -> None:
    with puller.installed(REGISTRY_SECONDS=1) as ours, _answering({}, seconds=3) as (host, _):
        answer = ours.ask(f"{host}/a:1")

    assert _said(answer) == (*_AWAY, f"{host} gave no answer within 1 seconds to {_HOST}")


def test_credentials_go_to_no_other_host_and_content_is_compared_with_its_digest(ours: Puller) -> None:
    config = json.dumps({"architecture": "amd64", "os": "linux", "config": {}}).encode()
    digest = "sha256:" + hashlib.sha256(config).hexdigest()
    manifest = json.dumps({"schemaVersion": 2, "config": {"digest": digest}, "layers": []}).encode()
    with _answering({"/elsewhere": (200, {}, config + b" ")}) as (other, asked_there):
        answers: dict[str, tuple[int, dict[str, str], bytes]] = {
            "/v2/a/manifests/1": (401, {"WWW-Authenticate": 'Basic realm="x"'}, b""),
            f"/v2/a/blobs/{digest}": (307, {"Location": f"http://{other}/elsewhere"}, b""),
        }
        with _answering(answers) as (host, asked):
            denied = ours.ask(f"{host}/a:1", auths=[_AUTH])
            answers["/v2/a/manifests/1"] = (200, {}, manifest)
            answers[f"/v2/a/blobs/{digest}"] = (401, {"WWW-Authenticate": 'Basic realm="x"'}, b"")
            refused = ours.ask(f"{host}/a:1", auths=[_AUTH])
            answers[f"/v2/a/blobs/{digest}"] = (307, {"Location": f"http://{other}/elsewhere"}, b"")
            changed = ours.ask(f"{host}/a:1", auths=[_AUTH])

    assert [denied["reason"], refused["reason"]] == ["ErrImagePull", "ErrImagePull"]
    assert any(line.endswith("Basic ") for line in asked)
    assert asked_there == ["GET /elsewhere -"]
    assert changed["message"] == f"{host} gave another content for {host}/a@{digest}"


def _image(layers: list[object], config: bytes) -> dict[str, tuple[int, dict[str, str], bytes]]:
    """What a registry answers about the image ``a:1``."""
    digest = "sha256:" + hashlib.sha256(config).hexdigest()
    manifest = json.dumps({"schemaVersion": 2, "config": {"digest": digest}, "layers": layers}).encode()
    return {"/v2/a/manifests/1": (200, {}, manifest), f"/v2/a/blobs/{digest}": (200, {}, config)}


_CONFIG = json.dumps({"architecture": "amd64", "os": "linux", "config": {}}).encode()


def test_of_an_image_that_is_too_large_nothing_but_its_manifest_is_asked_for() -> None:
    with (
        puller.installed(MOST_BYTES=5000) as ours,
        _answering(_image([{"size": 3000}, {"size": 2001}], _CONFIG)) as (host, asked),
    ):
        answers = [ours.ask(f"{host}/a:1", when=when) for when in ("host", "job")]

    said = f"{host}/a has layers of 5001 bytes, and {_HOST} pulls images of at most 5000 (MOST_BYTES)"
    assert [_said(one) for one in answers] == [(*_LASTING, f"{said}; make it smaller, or ask the site's admins")] * 2
    assert not any("blobs" in line for line in asked)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (b"[" * 100_000, "the configuration of AT/a is no JSON object"),
        (_CONFIG.replace(b"{}", b'{"Env": ["A=\\ud800"]}'), "AT/a has a NUL or half a character in its configuration"),
        (
            _CONFIG.replace(b"{}", json.dumps({"Cmd": ["x" * (1 << 19)]}).encode()),
            "AT/a has more than 2000 words or 262144 bytes of variables, entrypoint and command in its configuration",
        ),
    ],
    ids=["deep", "half a character", "large"],
)
def test_a_configuration_that_no_container_is_started_with(config: bytes, words: str, ours: Puller) -> None:
    with _answering(_image([], config)) as (host, _):
        answer = ours.ask(f"{host}/a:1")

    assert (answer["state"], answer["reason"]) == ("failed", "ErrImagePull")
    assert answer["message"].startswith(words.replace("AT", host)), answer["message"]
    assert [path for path in ours.left() if path.startswith("cache")] == []


def test_a_registry_that_answers_rubbish_is_asked_again(ours: Puller) -> None:
    said = json.dumps({"manifests": [5, None]}).encode()
    with _answering({"/v2/a/manifests/1": (200, {}, said)}) as (host, _):
        answer = ours.ask(f"{host}/a:1")

    words = f"{host} gave what is no index of an image for {host}/a; look at the registry, or a proxy before it"
    assert _said(answer) == (*_PULL, words)


@_REAL
def test_what_a_registry_says_of_sizes_is_not_believed(served: Registry) -> None:
    """A layer of 256 MiB of zeros, which is 256 KiB on its way; the runtime unpacks it, and is looked at while it does."""
    served.push("bomb:1", Image([{"zeros": bytes(256 << 20), **registry.shell()}]))
    with puller.installed(MOST_DISK=16 << 20, HEARTBEAT=0.05) as ours:
        answer = ours.settle(served.named("bomb:1"))
        left = list(ours.scratch.iterdir())

    words = f"the image takes more than {16 << 20} bytes of disk on {_HOST} (MOST_DISK) while it is pulled"
    assert _said(answer) == (*_LASTING, f"{words}; make it smaller, or ask the site's admins")
    assert left == []


def test_a_pull_that_hangs_is_ended_and_leaves_nothing() -> None:
    with (
        puller.installed(STILL_SECONDS=2, HEARTBEAT=1) as ours,
        _answering(_image([], _CONFIG)) as (host, _),
    ):
        program = ours.directory / "runtime"
        program.write_text("#!/bin/sh\nsleep 300\n")
        program.chmod(0o755)
        answer = ours.settle(f"{host}/a:1", runtime=str(program))
        left = list(ours.scratch.iterdir())

    words = f"the pull made no progress on {_HOST} for 2 seconds; the registry may hang, try again later"
    assert _said(answer) == (*_PULL, words)
    assert left == []


@_REAL
def test_a_full_disk_is_said_for_a_while_and_tried_again_then(served: Registry, ours: Puller) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make a small file system")
    name = served.named("team/tool:1")
    ours.cache.mkdir()
    size = "size=512k,mode=700,uid=" + str(ours.directory.stat().st_uid)
    subprocess.run(["mount", "-t", "tmpfs", "-o", size, "none", ours.cache], check=True)
    try:
        first = ours.settle(name)
        served.forget()
        again = ours.ask(name)
        meanwhile = served.fetched()
        (said,) = ours.cache.glob("*.failed")
        os.utime(said, (time.time() - 31, time.time() - 31))
        with contextlib.suppress(OSError), (ours.cache / "filling").open("wb", buffering=0) as filling:
            while filling.write(bytes(4096)):
                pass
        fuller = ours.ask(name)
        (ours.cache / "filling").unlink()
        subprocess.run(["mount", "-o", "remount,size=64m", ours.cache], check=True)
        last = ours.settle(name)
    finally:
        subprocess.run(["umount", ours.cache], check=True)

    words = f"the disk with {ours.cache} on {_HOST} is full; free space there, or tell the site's admins"
    assert _said(first) == _said(again) == _said(fuller) == (*_PULL, words)
    assert meanwhile == []
    assert last["state"] == "ready"


@_REAL
@pytest.mark.parametrize(
    ("runtime", "words"),
    [
        (
            'exec strace -f -qq -o /dev/null -e trace=write,pwrite64 -e inject=write,pwrite64:error=EDQUOT -P "$4" apptainer "$@"',
            "the user's disk quota for CACHE on HOST is used up; remove files there, or ask for more",
        ),
        ("kill -9 $$", "the pull was killed on HOST by SIGKILL; it may lack memory there"),
        ("echo FATAL: no such thing >&2; exit 3", "RUNTIME could not make the image on HOST: no such thing"),
        ("exit 3", "RUNTIME could not make the image on HOST: RUNTIME ended with code 3"),
        ("exit 0", "CACHE/.*sif on HOST cannot be used: No such file or directory; see its permissions"),
    ],
    ids=["quota", "killed", "words", "no words", "nothing made"],
)
def test_a_pull_that_fails_leaves_a_sentence_and_nothing_else(
    runtime: str, words: str, served: Registry, ours: Puller
) -> None:
    if "strace" in runtime and shutil.which("strace") is None:
        pytest.skip("not installed: strace")
    program = ours.directory / "runtime"
    program.write_text(f"#!/bin/sh\n{runtime}\n")
    program.chmod(0o755)

    answer = ours.settle(served.named("team/tool:1"), runtime=str(program))

    assert _said(answer)[:3] == _PULL
    expected = words.replace("CACHE", str(ours.cache)).replace("HOST", _HOST).replace("RUNTIME", str(program))
    assert re.fullmatch(expected.replace("+", "."), answer["message"]), answer["message"]
    assert {Path(path).suffix for path in ours.left() if "refs" not in path} == {".failed", ".json", ""}
    assert list(ours.scratch.iterdir()) == []


def test_images_of_the_site_are_read_and_not_pulled(ours: Puller) -> None:
    box = ours.directory / "box"
    box.mkdir(0o755)
    other, hidden = ours.directory / "other.img", ours.directory / "hidden.sif"
    other.write_bytes(b"hsqs" + bytes(999))
    hidden.write_bytes(b"")
    hidden.chmod(0)

    answers = [ours.ask("perl:5.34", file=str(path)) for path in (box, other, hidden)]
    away = ours.ask("perl:5.34", file="/nowhere/gone.sif")

    assert [(one["state"], one["path"], one["config"]) for one in answers] == [
        ("ready", str(box), None),
        ("ready", str(other), None),
        ("failed", None, None),
    ]
    assert answers[2]["message"] == (
        f"the site's image {hidden} cannot be read on {_HOST}: Permission denied; tell the site's admins"
    )
    assert (away["state"], away["path"], away["config"]) == ("ready", "/nowhere/gone.sif", None)
    assert not ours.cache.exists()
