"""A container's last word: what it writes to ``terminationMessagePath``, or the end of its log."""

from __future__ import annotations

import base64
import shutil
from pathlib import Path
from typing import Any

import pytest

from router import script
from router.demo import sandbox
from tests.script.builders import IMAGE, container, route, site, text_of, workload
from tests.script.running import Pod

NO_APPTAINER = pytest.mark.skipif(shutil.which("apptainer") is None, reason="no apptainer on this machine")
C0 = "spec.template.spec.containers[0]"
LAST = {"terminationMessagePolicy": "FallbackToLogsOnError"}


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("image") / "sandbox"
    sandbox.build(path)
    return path


def said(pod: Pod, container: str = "main", restart: int = 0) -> str | None:
    found = (pod.exit(container, restart) or {}).get("said")
    return None if found is None else base64.b64decode(found).decode(errors="replace")


def sh(line: str, path: str = "", **fields: Any) -> dict[str, Any]:
    return container("/bin/sh", "-c", line, **({"terminationMessagePath": path} if path else {}), **fields)


@pytest.mark.apptainer
@NO_APPTAINER
@pytest.mark.parametrize(
    ("path", "line", "fields", "expected"),
    [
        ("/tmp/why", "printf 'two\\nlines' >/tmp/why", {}, "two\nlines"),
        ("/tmp/deep/er", "printf x >/tmp/deep/er", {}, "x"),
        ("/var/tmp/why", "printf x >/var/tmp/why; exit 3", {}, "x"),
        ("/run/my own/why", "printf x >'/run/my own/why'", {}, "x"),
        ("/no/such/directory/why", "printf '\\377x' >/no/such/directory/why", {}, "\ufffdx"),
        ("/why", "printf %05000d 0 >/why; printf end >>/why", {}, "0" * 4093 + "end"),
        ("/why", "echo log; exit 1", {}, None),
        ("/why", "echo log; exit 1", LAST, "log\n"),
        ("/why", "echo log; printf own >/why; exit 1", LAST, "own"),
        ("/why", "echo log", LAST, None),
        (
            "/why",
            "i=0; while [ $i != 100 ]; do echo $((i+=1)); done; exit 1",
            LAST,
            "".join([f"{number}\n" for number in range(21, 101)]),
        ),
        ("/why", "printf %04000d 0; exit 1", LAST, "0" * 2048),
    ],
)
def test_what_a_program_says_last(
    pod: Pod, image: Path, path: str, line: str, fields: dict[str, Any], expected: str | None
) -> None:
    text = text_of(workload(sh(line, path, **fields)), site(images=[{"match": IMAGE, "path": str(image)}]))

    pod.run(text)

    assert said(pod) == expected, pod.log()


@pytest.mark.apptainer
@NO_APPTAINER
def test_each_run_begins_with_an_empty_one(pod: Pod, image: Path) -> None:
    line = "[ -e /e/x ] && exit 0; : >/e/x; printf first >/why; exit 1"
    mount = [{"name": "e", "mountPath": "/e"}]
    job = workload(sh(line, "/why", volumeMounts=mount), restartPolicy="OnFailure", volumes=[{"name": "e"}])

    assert pod.run(text_of(job, site(images=[{"match": IMAGE, "path": str(image)}]))) == 0

    assert (said(pod), said(pod, restart=1)) == ("first", None)


@pytest.mark.apptainer
@NO_APPTAINER
def test_the_default_file_is_not_there_where_the_node_has_none(pod: Pod, image: Path) -> None:
    text = text_of(
        workload(sh("ls /dev/termination-log; echo $$?")), site(images=[{"match": IMAGE, "path": str(image)}])
    )

    assert pod.run(text) == 0
    assert (said(pod), Path("/dev/termination-log").exists()) == (None, False)


def test_without_a_container_the_log_stands_in(pod: Pod) -> None:
    job = workload(sh("echo a; exit 4", **LAST), sh("echo b; exit 4", name="quiet"))

    assert pod.run(text_of(job, site("local", runtime="host"))) == 4

    assert (said(pod), said(pod, "quiet")) == ("a\n", None)


@pytest.mark.parametrize(
    ("fields", "where", "words"),
    [
        (
            {"terminationMessagePath": "/tmp/why"},
            {"runtime": "host"},
            "/tmp/why is a file of the machine, so it is not read",
        ),
        ({}, {"runtime": "host"}, None),
        ({"terminationMessagePath": "/tmp/why"}, {}, None),
        ({"terminationMessagePath": "/v/why"}, {}, "/v/why lies in a volume, so no termination message is read"),
        ({"terminationMessagePath": "/v"}, {}, "/v lies in a volume, so no termination message is read"),
        ({"terminationMessagePath": "why"}, {}, "why is not a plain absolute path, so no termination message is read"),
        (
            {"terminationMessagePath": "/a/../b"},
            {},
            "/a/../b is not a plain absolute path, so no termination message is read",
        ),
        ({"terminationMessagePath": "/dev/why"}, {}, "/dev/why is read only on nodes that have such a file"),
    ],
)
def test_what_cannot_be_read_is_told(fields: dict[str, Any], where: dict[str, Any], words: str | None) -> None:
    mounts: dict[str, Any] = {} if where else {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    job = workload(container("true", **fields, **mounts), volumes=[{"name": "v", "emptyDir": {}}])

    warnings = script.render(job, route(job, site("local", **where))).warnings

    found = [one for one in warnings if "terminationMessagePath" in one]
    assert [one.startswith(f"{C0}.terminationMessagePath: {words}") for one in found] == [True] * (words is not None)
