"""Scripts whose containers are real: Apptainer with a directory made of this machine's shell as the image."""

from __future__ import annotations

import os
import pwd
import shutil
from pathlib import Path
from typing import Any

import pytest

from router.demo import sandbox
from router.site.schema import Site
from tests.script.builders import IMAGE, container, site, text_of, workload
from tests.script.nasty import NASTY
from tests.script.running import Pod, wait_for
from tests.script.test_values import ENV, fields, variables, written

pytestmark = [
    pytest.mark.apptainer,
    pytest.mark.skipif(shutil.which("apptainer") is None, reason="no apptainer on this machine"),
]
RECORD = 'printf "%s\\0" "$$@"'


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("image") / "sandbox"
    sandbox.build(path)
    return path


@pytest.fixture
def where(image: Path) -> Site:
    return on(image)


def on(image: Path, **fields: Any) -> Site:
    return site(images=[{"match": IMAGE, "path": str(image)}], **fields)


def sh(line: str, **fields: Any) -> dict[str, Any]:
    return container("/bin/sh", "-c", line, **fields)


def test_values_arrive_byte_for_byte(pod: Pod, where: Site) -> None:
    arguments = [written(value) for value in NASTY]
    text = text_of(workload(sh(RECORD, args=["sh", *arguments]), container("env", "-0", name="env", env=ENV)), where)

    assert pod.run(text) == 0

    assert fields(pod.path / "log" / "main.0") == [value.encode() for value in NASTY]
    found = variables(pod.path / "log" / "env.0")
    assert {name: found[name] for name in found if name[:1] == b"N" and name[1:].isdigit()} == {
        f"N{number}".encode(): value.encode() for number, value in enumerate(NASTY)
    }


def test_values_survive_a_runtime_that_evaluates_them(pod: Pod, image: Path) -> None:
    text = text_of(workload(container("env", "-0", env=ENV)), on(image, runtimeVersion="1.0.3"))
    assert "options=(--cleanenv --no-home --pid" in text

    assert pod.run(text) == 0

    found = variables(pod.path / "log" / "main.0")
    assert {name: found[name] for name in found if name[:1] == b"N" and name[1:].isdigit()} == {
        f"N{number}".encode(): value.encode() for number, value in enumerate(NASTY)
    }


NAMES = ["HOME", "my.var", "UID", "EUID", "PATH", "LANG", "IFS", "PS1", "A-B", "_", "PPID", "OLDPWD", "TERM"]


@pytest.mark.parametrize("name", NAMES)
def test_a_variable_of_any_name_has_its_value(pod: Pod, where: Site, name: str) -> None:
    value = "/bin:/x y" if name == "PATH" else "a b"

    assert pod.run(text_of(workload(container("/bin/env", "-0", env=[{"name": name, "value": value}])), where)) == 0
    assert variables(pod.path / "log" / "main.0")[name.encode()] == value.encode()


def test_an_empty_home_is_as_none(pod: Pod, where: Site) -> None:
    """As in the cloud, where runc names the home of the user then."""
    empty = container("/bin/env", "-0", name="empty", env=[{"name": "HOME", "value": ""}])
    assert pod.run(text_of(workload(container("/bin/env", "-0"), empty), where)) == 0

    homes = [variables(pod.path / "log" / f"{name}.0")[b"HOME"] for name in ("main", "empty")]
    assert homes == [pwd.getpwuid(os.getuid()).pw_dir.encode()] * 2


def test_nothing_of_the_host_s_environment_is_inside(pod: Pod, where: Site) -> None:
    pod.run(text_of(workload(container("env", "-0")), where), SECRET_OF_HOST="1", OMPI_COMM_WORLD_RANK="3")

    found = variables(pod.path / "log" / "main.0")
    assert not {b"SECRET_OF_HOST", b"OMPI_COMM_WORLD_RANK", b"PBS_JOBID", b"BATCHGATE_DIR"} & found.keys()
    assert found[b"OMP_NUM_THREADS"] == b"1"


def test_containers_share_an_empty_dir_and_have_a_tmp_each(pod: Pod, where: Site) -> None:
    scratch = [{"name": "scratch", "mountPath": "/data/deep"}]
    text = text_of(
        workload(
            sh("cat /data/deep/from-init; ls /tmp /var/tmp; echo own >/tmp/x; pwd", volumeMounts=scratch),
            initContainers=[
                sh("echo hello >/data/deep/from-init; echo x >/tmp/of-init", name="init", volumeMounts=scratch)
            ],
            volumes=[{"name": "scratch", "emptyDir": {"medium": "Memory"}}],
        ),
        where,
    )

    assert pod.run(text) == 0, pod.log()
    assert pod.log() == "hello\n/tmp:\n\n/var/tmp:\n/\n"


def test_staged_volumes_are_read_only_and_a_sub_path_is_one_file(pod: Pod, where: Site) -> None:
    (pod.path / "files" / "conf").mkdir()
    (pod.path / "files" / "conf" / "a.ini").write_text("from configMap\n")
    text = text_of(
        workload(
            sh(
                "cat /etc/conf/a.ini /opt/one.ini; echo x >/etc/conf/b || echo read-only",
                volumeMounts=[
                    {"name": "conf", "mountPath": "/etc/conf"},
                    {"name": "conf", "mountPath": "/opt/one.ini", "subPath": "a.ini"},
                ],
            ),
            volumes=[{"name": "conf", "configMap": {"name": "c"}}],
        ),
        where,
    )

    assert pod.run(text) == 0
    assert pod.log().startswith("from configMap\nfrom configMap\n")
    assert pod.log().endswith("read-only\n")


@pytest.mark.parametrize(
    "name", ["plain", "with space", "com,ma", "co:lon", 'quo"te', "back\\slash", "grüße", "$(x)", "-dash"]
)
def test_directories_of_the_site_whatever_their_names(pod: Pod, image: Path, name: str) -> None:
    offered = pod.work / "site"
    (offered / name).mkdir(parents=True)
    (offered / name / "file").write_text("there\n")
    text = text_of(
        workload(
            sh(
                "cat /in/file; echo new >/in/written; echo x >/ro/no || echo read-only; echo sub >/sub/file",
                volumeMounts=[
                    {"name": "data", "mountPath": "/in"},
                    {"name": "data", "mountPath": "/ro", "readOnly": True},
                    {"name": "data", "mountPath": "/sub", "subPath": "made/for me"},
                ],
            ),
            volumes=[{"name": "data", "hostPath": {"path": f"/mnt/data/{name}"}}],
        ),
        on(image, volumes=[{"hostPath": "/mnt/data", "path": str(offered)}]),
    )

    assert pod.run(text) == 0, pod.log()
    assert pod.log().splitlines()[0] == "there"
    assert pod.log().splitlines()[-1] == "read-only"
    assert (offered / name / "written").read_text() == "new\n"
    assert (offered / name / "made" / "for me" / "file").read_text() == "sub\n"


def test_a_mount_below_another_one(pod: Pod, where: Site) -> None:
    text = text_of(
        workload(
            sh(
                "echo in >/a/b/in; ls /a /a/b; echo t >/tmp/cache/t; ls /tmp",
                volumeMounts=[
                    {"name": "inner", "mountPath": "/a/b"},
                    {"name": "outer", "mountPath": "/a"},
                    {"name": "cache", "mountPath": "/tmp/cache"},
                ],
            ),
            volumes=[{"name": name, "emptyDir": {}} for name in ("inner", "outer", "cache")],
        ),
        where,
    )

    assert pod.run(text) == 0, pod.log()
    assert pod.log() == "/a:\nb\n\n/a/b:\nin\ncache\n"


@pytest.mark.parametrize(
    ("writable", "read_only", "code"),
    [("tmpfs", False, 0), ("overlay", False, 0), ("none", False, 1), ("tmpfs", True, 1)],
)
def test_writes_outside_volumes(pod: Pod, image: Path, writable: str, read_only: bool, code: int) -> None:
    main = sh(
        "echo x >/opt/written && cat /opt/written || exit 1", securityContext={"readOnlyRootFilesystem": read_only}
    )

    status = pod.run(text_of(workload(main), on(image, writable=writable)))

    assert status == code, pod.log()
    assert not (image / "opt" / "written").exists()


def test_the_working_directory(pod: Pod, where: Site) -> None:
    assert pod.run(text_of(workload(sh("pwd", workingDir="/usr/bin")), where)) == 0
    assert pod.log() == "/usr/bin\n"


def test_the_pod_s_directory_is_not_visible_inside(pod: Pod, where: Site) -> None:
    pod.run(text_of(workload(sh(f"ls {pod.path} || echo no such place")), where))

    assert pod.log().endswith("no such place\n")


TRAPS = "trap 'echo asked; sleep 1; cat /etc/passwd >/dev/null && echo image still there; exit 6' TERM; echo up; while :; do sleep 0.05; done"


def test_term_reaches_the_program_with_its_grace_period(pod: Pod, where: Site) -> None:
    job = pod.start(text_of(workload(sh(TRAPS)), where))
    pod.awaits_log("up")

    job.terminate()

    assert job.wait(30) == 6
    assert pod.log() == "up\nasked\nimage still there\n"


def test_the_program_is_killed_after_its_grace_period(pod: Pod, where: Site) -> None:
    job = pod.start(
        text_of(
            workload(sh("trap '' TERM; echo up; while :; do sleep 0.05; done"), terminationGracePeriodSeconds=1), where
        )
    )
    pod.awaits_log("up")

    job.terminate()

    assert job.wait(30) == 137


def test_what_a_container_leaves_behind_ends_with_it(pod: Pod, where: Site) -> None:
    mark = "123456.75"

    assert pod.run(text_of(workload(sh(f"sleep {mark} & exit 0")), where)) == 0

    wait_for(lambda: not _running(mark), "for the end of the leftover")


def _running(mark: str) -> list[str]:
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                line = (process / "cmdline").read_bytes()
            except OSError:
                continue
            if line == b"sleep\0" + mark.encode() + b"\0":
                found.append(process.name)
    return found


@pytest.mark.parametrize(("line", "code"), [("exit 42", 42), ("kill -SEGV $$$$", 139), ("exit 0", 0)])
def test_exit_codes(pod: Pod, where: Site, line: str, code: int) -> None:
    assert pod.run(text_of(workload(sh(line)), where)) == code
    assert pod.code() == code


def test_a_runtime_that_is_not_there_is_one_clear_sentence(pod: Pod, image: Path) -> None:
    status = pod.run(text_of(workload(sh("true"), sh("true", name="two")), on(image, runtimePath="/no/such/apptainer")))

    assert status == 127
    for name in ("main", "two"):
        assert pod.log(name).startswith("batchgate: there is no /no/such/apptainer on ")
        assert pod.code(name) == 127


@pytest.mark.parametrize(
    ("link", "sub_path"), [("/", "x/tmp"), ("/etc", "x"), ("..", "x"), ("/etc/passwd", "x")], ids=str
)
def test_a_link_that_leads_out_of_a_volume_is_not_followed(pod: Pod, where: Site, link: str, sub_path: str) -> None:
    mount = {"name": "shared", "mountPath": "/e"}
    text = text_of(
        workload(
            sh("ls /out; echo ran", volumeMounts=[{"name": "shared", "mountPath": "/out", "subPath": sub_path}]),
            initContainers=[sh(f"ln -s {link} /e/x", name="plant", volumeMounts=[mount])],
            volumes=[{"name": "shared", "emptyDir": {}}],
        ),
        where,
    )

    assert pod.run(text) == 126
    assert (
        pod.log()
        == f"batchgate: the subPath {sub_path} leads out of its volume, by a link: the container is not started\n"
    )


def test_a_link_within_a_volume_is_followed(pod: Pod, where: Site) -> None:
    mount = {"name": "shared", "mountPath": "/e"}
    text = text_of(
        workload(
            sh("cat /out/file", volumeMounts=[{"name": "shared", "mountPath": "/out", "subPath": "x"}]),
            initContainers=[
                sh("mkdir /e/deep; echo there >/e/deep/file; ln -s deep /e/x", name="plant", volumeMounts=[mount])
            ],
            volumes=[{"name": "shared", "emptyDir": {}}],
        ),
        where,
    )

    assert pod.run(text) == 0, pod.log()
    assert pod.log() == "there\n"


def test_a_container_that_starts_again_has_a_tmp_of_its_own(pod: Pod, where: Site) -> None:
    text = text_of(
        workload(
            sh(
                "ls /tmp; [ -e /e/second ] || { : >/e/second; : >/tmp/old; exit 7; }",
                volumeMounts=[{"name": "shared", "mountPath": "/e"}],
            ),
            volumes=[{"name": "shared", "emptyDir": {}}],
            restartPolicy="OnFailure",
        ),
        where,
    )

    assert pod.run(text.replace("delay=10", "delay=1")) == 0
    assert (pod.log(restart=0), pod.log(restart=1)) == ("", "")
