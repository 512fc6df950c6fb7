"""The image puller against a real registry, with the real runtime, as an ordinary user."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import registry
from tests.host import puller
from tests.host.puller import Puller
from tests.registry import Image, Registry

pytestmark = pytest.mark.skipif(shutil.which("apptainer") is None, reason="not installed: apptainer")

_CONFIG = {
    "Env": ["A=b \"c\" $D 'e'", "PATH=/bin"],
    "Entrypoint": ["/bin/sh", "-c"],
    "Cmd": ["echo hi"],
    "WorkingDir": "/data",
    "User": "5",
}
_TOLD = {"env": _CONFIG["Env"], "entrypoint": ["/bin/sh", "-c"], "cmd": ["echo hi"], "workdir": "/data", "user": "5"}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with registry.serving(tmp_path_factory.mktemp("open")) as running:
        yield running


@pytest.fixture
def ours() -> Iterator[Puller]:
    with puller.installed() as one:
        yield one


def _image(content: bytes = b"1", **changed: object) -> Image:
    return Image([registry.shell(), {"data/a": content}, {"data/b": content}], **{"config": _CONFIG, **changed})  # type: ignore[arg-type]


def _content(image: Path, place: Path) -> dict[str, str]:
    """What files are in an image: read without running it, for which the machine may lack user namespaces."""
    unpacked = place / "unpacked.squashfs"
    with unpacked.open("wb") as file:
        subprocess.run(["apptainer", "sif", "dump", "4", image], stdout=file, check=True)
    words = ["unsquashfs", "-cat", str(unpacked)]
    names = ("data/a", "data/b")
    found = {name: subprocess.run([*words, name], capture_output=True, text=True, check=True).stdout for name in names}
    unpacked.unlink()
    return found


@pytest.mark.parametrize("schema", ["oci", "v2s2"])
def test_an_image_is_pulled_once_each_layer_once(schema: str, served: Registry, ours: Puller) -> None:
    (pushed,) = served.push(f"team/tool:{schema}", _image(schema.encode()), schema=schema)
    served.forget()
    name = served.named(f"team/tool:{schema}")
    stem = pushed.digest.partition(":")[2]

    first = ours.ask(name)
    last = ours.settle(name)

    known = {
        "version": 1,
        "path": str(ours.cache / f"{stem}.sif"),
        "source": f"docker://{served.address}/team/tool@{pushed.digest}",
        "digest": pushed.digest,
        "config": _TOLD,
        "reason": "",
        "permanent": False,
    }
    assert first == {**known, "state": "pulling", "message": first["message"]}
    assert first["message"].startswith(f"is being pulled to {ours.cache} on ")
    assert last == {**known, "state": "ready", "message": ""}
    fetched = served.fetched()
    assert {digest: fetched.count(digest) for digest in pushed.layers} == dict.fromkeys(pushed.layers, 1)
    assert _content(Path(last["path"]), ours.directory) == {"data/a": schema, "data/b": schema}
    assert [path for path in ours.left() if "refs" not in path] == [f"cache/{stem}.json", f"cache/{stem}.sif"]


def test_of_an_image_that_is_there_nothing_is_fetched_again(served: Registry, ours: Puller) -> None:
    served.push("team/there:1", _image(b"there"))
    name = served.named("team/there:1")
    ready = ours.settle(name)
    served.forget()

    again = ours.ask(name)
    asked = served.asked()
    served.forget()
    present = ours.ask(name, policy="IfNotPresent")
    never = ours.ask(name, policy="Never")

    assert (again, present, never) == (ready, ready, ready)
    assert asked == [("HEAD", "/v2/team/there/manifests/1", 200)]
    assert served.asked() == []


def test_a_tag_that_moved_is_pulled_anew_only_where_the_policy_says_so(served: Registry, ours: Puller) -> None:
    name = served.named("team/moved:1")
    (old,) = served.push("team/moved:1", _image(b"old"))
    ours.settle(name)
    (new,) = served.push("team/moved:1", _image(b"new"))

    present = ours.ask(name, policy="IfNotPresent")
    always = ours.settle(name)

    assert (present["digest"], always["digest"]) == (old.digest, new.digest)


def test_the_image_for_this_machine_is_taken_of_several(served: Registry, ours: Puller) -> None:
    pushed = served.push("team/both:1", _image(b"arm", architecture="arm64"), _image(b"amd"))

    answer = ours.settle(served.named("team/both:1"))

    assert (answer["state"], answer["digest"]) == ("ready", pushed[1].digest)


def test_for_a_job_that_pulls_only_the_description_is_asked_for(served: Registry, ours: Puller) -> None:
    (pushed,) = served.push("team/later:1", _image(b"later"))
    served.forget()

    answer = ours.ask(served.named("team/later:1"), when="job")

    assert (answer["state"], answer["digest"], answer["config"]) == ("ready", pushed.digest, _TOLD)
    assert not Path(answer["path"]).exists()
    assert served.fetched() == [pushed.config]


@pytest.mark.parametrize("policy", ["IfNotPresent", "Never"])
def test_what_a_job_has_pulled_is_known_by_its_name(policy: str, served: Registry, ours: Puller) -> None:
    served.push("team/jobs:1", _image(b"jobs"))
    name = served.named("team/jobs:1")
    before = ours.ask(name, when="job", policy="Never")
    told = ours.ask(name, when="job", policy="IfNotPresent")
    file = Path(told["path"])
    file.write_bytes(b"")  # the job's part
    shutil.chown(file, ours.user)
    served.forget()

    assert (before["state"], before["reason"]) == ("failed", "ErrImageNeverPull")
    assert ours.ask(name, when="job", policy=policy) == told
    assert served.asked() == []
