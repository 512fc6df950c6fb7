"""What becomes of an image in a script: what the agent knows of it, and containers that cannot be started, under Apptainer."""

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
from tests.script.running import Pod
from tests.script.test_values import variables

pytestmark = [
    pytest.mark.apptainer,
    pytest.mark.skipif(shutil.which("apptainer") is None, reason="no apptainer on this machine"),
]
NEVER = "CreateContainerError"
FILTERED = pytest.mark.skipif(
    os.geteuid() == 0, reason="root, for whom Apptainer may not load the filter of a second start"
)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("image") / "sandbox"
    sandbox.build(path)
    (path / "opt" / "no-such-interpreter").write_text("#!/no/such\n")
    (path / "opt" / "no-such-interpreter").chmod(0o755)
    return path


@pytest.fixture
def where(image: Path) -> Site:
    return on(image)


def on(image: Path, **fields: Any) -> Site:
    return site(images=[{"match": IMAGE, "path": str(image)}], **fields)


def sh(line: str, **fields: Any) -> dict[str, Any]:
    return container("/bin/sh", "-c", line, **fields)


def stage(pod: Pod, folder: str, *words: str, name: str = "main") -> None:
    (pod.path / folder).mkdir(exist_ok=True)
    (pod.path / folder / name).write_bytes(b"".join(word.encode() + b"\0" for word in words))


def test_the_agent_s_file_is_run_in_the_image_s_directory(pod: Pod, image: Path) -> None:
    stage(pod, "image", f"path={image}", "workdir=/usr/bin")

    assert pod.run(text_of(workload(sh("pwd")), site())) == 0, pod.log()
    assert pod.log() == "/usr/bin\n"


def test_the_job_s_working_directory_wins(pod: Pod, image: Path) -> None:
    stage(pod, "image", f"path={image}", "workdir=/usr/bin")

    assert pod.run(text_of(workload(sh("pwd", workingDir="/opt")), site())) == 0, pod.log()
    assert pod.log() == "/opt\n"


def test_an_entrypoint_that_the_agent_knows_is_run(pod: Pod, image: Path) -> None:
    stage(pod, "image", f"path={image}", "command=1")
    stage(pod, "argv", "echo", "of the", "image=1")

    assert pod.run(text_of(workload(container()), site())) == 0, pod.log()
    assert pod.log() == "of the image=1\n"


def test_the_image_s_variables_arrive_byte_for_byte_and_the_job_s_win(pod: Pod, where: Site) -> None:
    values = {f"I{number}": value for number, value in enumerate(NASTY)}
    of_image = {
        **values,
        "HOME": "/of/image",
        "PATH": "/bin:/of image",
        "my.var": "a=b",
        "BOTH": "image",
        "STAGED": "image",
    }
    stage(pod, "image-env", *(f"{name}={value}" for name, value in of_image.items()), "OMP_NUM_THREADS=7")
    stage(pod, "env", "STAGED=pod")
    own = [{"name": "BOTH", "value": "pod"}]

    assert pod.run(text_of(workload(container("/bin/env", "-0", env=own)), where)) == 0, pod.log()

    found = variables(pod.path / "log" / "main.0")
    expected = {**of_image, "BOTH": "pod", "STAGED": "pod", "OMP_NUM_THREADS": "1"}
    assert {name: found.get(name.encode()) for name in expected} == {
        name: value.encode() for name, value in expected.items()
    }


@FILTERED
@pytest.mark.parametrize(
    ("main", "code", "words"),
    [
        (container("nosuch", "a b"), 127, '"nosuch": executable file not found in $PATH'),
        (container("/no/such"), 127, "stat /no/such: no such file or directory"),
        (container("/etc/passwd"), 126, "permission denied"),
        (container("/etc"), 126, "is a directory"),
        (
            container("/opt/no-such-interpreter"),
            126,
            "exec /opt/no-such-interpreter failed: fork/exec /opt/no-such-interpreter: no such file or directory",
        ),
        (
            sh("true", workingDir="/no/such"),
            126,
            "failed to set working directory: chdir /no/such: no such file or directory",
        ),
    ],
)
def test_a_program_that_cannot_be_started(pod: Pod, where: Site, main: Any, code: int, words: str) -> None:
    assert pod.run(text_of(workload(main), where)) == code

    found = pod.exit()
    assert found is not None
    assert (found["code"], found["reason"], found["message"]) == (code, NEVER, words)
    assert pod.log() == f"FATAL:   {words}\n"


@pytest.mark.parametrize(
    ("content", "words"), [(None, "no such file or directory"), (b"x" * 5000, "image format not recognized")]
)
def test_an_image_file_that_cannot_be_run(pod: Pod, content: bytes | None, words: str) -> None:
    path = pod.work / "image.sif"
    if content is not None:
        path.write_bytes(content)
    stage(pod, "image", f"path={path}")

    assert pod.run(text_of(workload(sh("true")), site())) == 126

    found = pod.exit()
    assert found is not None
    assert found["reason"] == NEVER
    assert str(path) in found["message"]
    assert found["message"].endswith(words)


@pytest.mark.parametrize(
    "line",
    [
        "exit 255",
        'echo "FATAL:   stat /x: no such file or directory" >&2; exit 255',
        'echo "FATAL:   \\"sh\\": executable file not found in \\$PATH" >&2; exit 255',
        'echo "FATAL:   exec /opt/x failed: permission denied" >&2; exit 255',
        'echo once >>/e/runs; echo "FATAL:   permission denied" >&2; exit 255',
        'echo "ERROR  : Failed to create user namespace" >&2; exit 1',
    ],
)
def test_a_program_that_says_so_itself_has_run_and_runs_once(pod: Pod, where: Site, line: str) -> None:
    mounts = [{"name": "e", "mountPath": "/e"}]
    main = sh(f"echo ran >>/e/runs; {line.replace('$', '$$')}", volumeMounts=mounts)

    status = pod.run(text_of(workload(main, volumes=[{"name": "e", "emptyDir": {}}]), where))

    found = pod.exit()
    assert found is not None
    assert {"reason", "message"}.isdisjoint(found)
    assert found["code"] == status == int(line.rpartition(" ")[2])
    assert (pod.path / "volumes" / "e" / "runs").read_text().count("ran\n") == 1


@pytest.mark.parametrize(
    ("kib", "words"),
    [
        (8 * 1024, ["it said nothing"]),
        (64 * 1024, ["fatal error: out of memory allocating heap arena map"]),
        # Which of its threads asks first depends on how busy the machine is.
        (
            100 * 1024,
            [
                "runtime/cgo: pthread_create failed: Resource temporarily unavailable",
                "fatal error: runtime: cannot allocate memory",
            ],
        ),
    ],
)
def test_a_runtime_that_dies_of_too_little_memory_has_started_nothing(
    pod: Pod, image: Path, kib: int, words: list[str]
) -> None:
    """TORQUE's MoM limits a job's data to its ``mem``."""
    text = text_of(workload(sh("true")), on(image, pre=[f"ulimit -d {kib}"]))

    assert pod.run(text) == 126

    found = pod.exit()
    assert found is not None
    messages = [
        f"the container runtime died at its start: {one} (memory: {kib} KiB of data, ulimit -d)" for one in words
    ]
    assert (found["code"], found["reason"]) == (126, NEVER)
    assert found["message"] in messages


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("echo 'fatal error: out of memory' >&2; exit 2", 2),
        ("echo 'runtime/cgo: pthread_create failed: no' >&2; exit 134", 134),
        ("exit 2", 2),
        ("exit 139", 139),
    ],
)
def test_a_program_that_dies_as_a_runtime_does_has_run_and_runs_once(
    pod: Pod, image: Path, line: str, code: int
) -> None:
    mounts = [{"name": "e", "mountPath": "/e"}]
    main = sh(f"echo ran >>/e/runs; {line}", volumeMounts=mounts)
    where = on(image, pre=[f"ulimit -d {512 * 1024}"])

    assert pod.run(text_of(workload(main, volumes=[{"name": "e", "emptyDir": {}}]), where)) == code

    found = pod.exit()
    assert found is not None
    assert {"reason", "message"}.isdisjoint(found)
    assert found["code"] == code
    assert (pod.path / "volumes" / "e" / "runs").read_text() == "ran\n"


def test_a_runtime_that_is_not_there_says_so_in_the_exit_file(pod: Pod, image: Path) -> None:
    assert pod.run(text_of(workload(sh("true")), on(image, runtimePath="/no/such/apptainer"))) == 127

    found = pod.exit()
    assert found is not None
    assert found["reason"] == NEVER
    assert found["message"].startswith("there is no /no/such/apptainer on ")


OF_THE_RUNTIME = frozenset({"APPNAME", "BIND", "COMMAND", "CONTAINER", "ENVIRONMENT", "NAME", "NO_EVAL"})
ALWAYS = frozenset(
    {"HOME", "HOSTNAME", "LANG", "LD_LIBRARY_PATH", "OMP_NUM_THREADS", "PATH", "PROMPT_COMMAND", "PS1", "PWD"}
)
OF_HOST = (
    *("TERM", "http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "no_proxy", "all_proxy", "ftp_proxy"),
    *("USER", "LOGNAME", "MAIL", "SSH_AUTH_SOCK", "SLURM_JOB_ID", "OMPI_X", "PMIX_RANK"),
    *("APPTAINERENV_A", "SINGULARITYENV_A", "PYTHONPATH"),
)


def test_all_variables_that_are_inside(pod: Pod, where: Site) -> None:
    stage(pod, "image-env", "OF_IMAGE=1")
    text = text_of(workload(container("/bin/env", "-0")), where)

    assert pod.run(text, **dict.fromkeys(OF_HOST, "secret")) == 0, pod.log()

    found = {name.decode() for name in variables(pod.path / "log" / "main.0")}
    own = {name for name in found if not name.startswith(("APPTAINER_", "SINGULARITY_"))}
    assert own - ALWAYS == {"OF_IMAGE"}
    assert {name.partition("_")[2] for name in found - own} <= OF_THE_RUNTIME


def test_the_user_is_the_hpc_user_and_has_no_home_of_the_host(pod: Pod, where: Site) -> None:
    home = pwd.getpwuid(os.getuid()).pw_dir

    status = pod.run(text_of(workload(sh('cat /proc/self/status; ls -A /home /root; ls -d "$$HOME" || :; pwd')), where))

    assert status == 0, pod.log()
    status_lines, _, rest = pod.log().partition("/home:")
    ids = dict(line.split(":\t", 1) for line in status_lines.splitlines() if ":\t" in line)
    assert ids["Uid"].split() == [str(os.getuid())] * 4
    assert ids["Gid"].split() == [str(os.getgid())] * 4
    assert home.rpartition("/")[2] not in rest.replace(f"'{home}'", "").split() or home == "/root"
    assert rest.endswith("/\n")


@pytest.mark.parametrize(
    ("writable", "where_to", "code"),
    [
        ("none", "/opt/x", 1),
        ("none", "/tmp/x", 0),
        ("tmpfs", "/opt/x", 0),
        ("overlay", "/opt/x", 0),
        ("none", "/dev/shm/batchgate-test", 0),
    ],
)
def test_where_an_image_can_be_written(pod: Pod, image: Path, writable: str, where_to: str, code: int) -> None:
    line = f"echo x >{where_to} && cat {where_to} || exit 1; : >{where_to}"

    assert pod.run(text_of(workload(sh(line)), on(image, writable=writable))) == code, pod.log()
    Path("/dev/shm/batchgate-test").unlink(missing_ok=True)
    assert not (image / "opt" / "x").exists()


def test_binds_that_the_site_adds(pod: Pod, image: Path) -> None:
    (pod.work / "licences").mkdir()
    (pod.work / "licences" / "server").write_text("port 27000\n")
    options = ["--bind", f"{pod.work}/licences:/opt/licences:ro"]
    main = sh("cat /opt/licences/server; echo x >/opt/licences/no || echo read-only")

    assert pod.run(text_of(workload(main), on(image, runtimeOptions=options))) == 0, pod.log()
    assert pod.log().startswith("port 27000\n")
    assert pod.log().endswith("read-only\n")
