"""kubectl exec, cp and attach through a real API server into real containers that a script started."""

from __future__ import annotations

import hashlib
import os
import select
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import kubernetes
import pytest

from router.demo import sandbox
from router.host import inside
from router.host.local import LocalHost
from router.kubelet.runs import LoggedContainer, LoggedPod, RunState
from router.pod.layout import PodDirectory
from tests.kubelet.cluster import Cluster
from tests.processes import started
from tests.script.builders import IMAGE, container, site, text_of, workload
from tests.script.running import Pod, wait_for

pytestmark = [
    pytest.mark.apptainer,
    pytest.mark.skipif(shutil.which("apptainer") is None, reason="no apptainer on this machine"),
]
MOST = 3
"""Commands at once of one namespace, by the settings of the tests' kubelet API."""
PROGRAM = (sys.executable, "-I", inside.__file__)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("image") / "sandbox"
    sandbox.build(path)
    sandbox._add_programs(path, ("tar", "stty", "tty", "sha256sum", "head"))
    return path


class Running:
    """A Pod of the cluster with a container that runs, as the script starts it."""

    def __init__(self, cluster: Cluster, namespace: str, pod: Pod) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.pod = pod

    def kubectl(self, *words: str, stdin: bytes = b"") -> tuple[int, bytes, str]:
        done = subprocess.run(
            [str(self.cluster.plane.programs.kubectl), *words, "-n", self.namespace],
            env=self.cluster.plane.environment("ada"), input=stdin, capture_output=True, timeout=120, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr.decode()

    def exec(self, *words: str, options: tuple[str, ...] = (), stdin: bytes = b"") -> tuple[int, bytes, str]:
        done = subprocess.run(
            [str(self.cluster.plane.programs.kubectl), "exec", "-n", self.namespace, *options, "work", "--", *words],
            env=self.cluster.plane.environment("ada"), input=stdin, capture_output=True, timeout=120, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr.decode()


@pytest.fixture
def pod(tmp_path: Path) -> Iterator[Pod]:
    made = Pod(tmp_path).make()
    yield made
    made.close()
    wait_for(lambda: not made.alive(), f"for the end of {made.alive()}")


@pytest.fixture
def running(cluster: Cluster, namespace: str, pod: Pod, image: Path) -> Iterator[Running]:
    known = cluster.pod(namespace, "work", LoggedContainer("main", RunState.RUNNING, 0))
    status = {"phase": "Running", "conditions": [], "containerStatuses": []}
    cluster.api.patch(f"/api/v1/namespaces/{namespace}/pods/work/status", {"status": status})
    spec = container("/bin/sh", "-c", "echo begun; while :; do sleep 1; done", env=[{"name": "FOO", "value": "a b"}])
    pod.start(text_of(workload(spec), site(images=[{"match": IMAGE, "path": str(image)}])))
    pod.awaits_log("begun")
    cluster.site.known[namespace, "work"] = replace(known, directory=_directory(pod, known))
    before, cluster.site.host = cluster.site.host, LocalHost(pod.work)
    cluster.site.entrance, cluster.site.contained = PROGRAM, True
    yield Running(cluster, namespace, pod)
    cluster.site.entrance, cluster.site.host = None, before


def _directory(pod: Pod, known: LoggedPod) -> PodDirectory:
    return replace(known.directory, work_dir=str(pod.work), job_uid="job-uid", pod_uid="pod-uid")


def test_a_command_runs_in_the_container(running: Running) -> None:
    assert running.exec("sh", "-c", 'echo "$FOO" in $PWD; echo wrong >&2; exit 7') == (
        7,
        b"a b in /\n",
        "wrong\ncommand terminated with exit code 7\n",
    )


SPAWNED = "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)"
"""Gives kubectl a terminal."""


@pytest.mark.parametrize(
    ("words", "options", "stdin", "expected"),
    [
        (["true"], (), b"", (0, b"", "")),
        (["cat"], ("-i",), b"through \0\xff", (0, b"through \0\xff", "")),
        (["sh", "-c", "cat; echo end"], ("-i",), b"x" * 300_000, (0, b"x" * 300_000 + b"end\n", "")),
        (["head", "-c", "3"], ("-i",), b"abc" * 1_000_000, (0, b"abc", "")),
        (["sh", "-c", "kill -9 $$"], (), b"", (137, b"", "command terminated with exit code 137\n")),
        (["sh", "-c", 'echo "$1"', "sh", "a  $HOME;'"], (), b"", (0, b"a  $HOME;'\n", "")),
        (["sh", "-c", "exec >&2; echo ü; exit 255"], (), b"", (255, b"", "ü\ncommand terminated with exit code 255\n")),
    ],
)
def test_commands(
    running: Running, words: list[str], options: tuple[str, ...], stdin: bytes, expected: tuple[int, bytes, str]
) -> None:
    assert running.exec(*words, options=options, stdin=stdin) == expected


def test_a_program_that_is_missing(running: Running) -> None:
    code, out, words = running.exec("no-such-program")

    assert (code, out) == (1, b"")
    assert 'exec of "no-such-program" failed: executable file not found in $PATH' in words


def test_a_terminal(running: Running) -> None:
    program = str(running.cluster.plane.programs.kubectl)
    shown = 'stty size; tty; echo "$TERM"; echo error >&2; exit 3'
    argv = [
        sys.executable,
        "-c",
        SPAWNED,
        program,
        "exec",
        "-it",
        "-n",
        running.namespace,
        "work",
        "--",
        "sh",
        "-c",
        shown,
    ]
    done = subprocess.run(
        argv, env=running.cluster.plane.environment("ada"), stdin=subprocess.DEVNULL, capture_output=True, timeout=60,
        check=False, start_new_session=True,
    )  # fmt: skip
    size, tty, term, error, *rest = done.stdout.decode().splitlines()

    assert (len(size.split()), tty[:9], term, error) == (2, "/dev/pts/", "xterm", "error")
    assert (done.returncode, rest) == (3, ["command terminated with exit code 3"])


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_files_are_copied_both_ways(running: Running, tmp_path: Path) -> None:
    there, back = tmp_path / "there", tmp_path / "back"
    with there.open("wb") as file:
        for _ in range(200):
            file.write(os.urandom(1 << 20))
    before = _resident()

    assert running.kubectl("cp", str(there), "work:/var/tmp/copy")[0] == 0
    assert running.exec("sha256sum", "/var/tmp/copy")[1].split()[0].decode() == digest(there)
    assert running.kubectl("cp", "work:/var/tmp/copy", str(back))[0] == 0
    assert digest(back) == digest(there)
    assert _resident() - before < 40 << 20


def _resident() -> int:
    """Bytes of memory of this process, in which the kubelet API runs."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_what_a_client_leaves_behind_is_ended(running: Running) -> None:
    argv = [str(running.cluster.plane.programs.kubectl), "exec", "-n", running.namespace, "work", "--"]
    words = ["sh", "-c", "trap '' HUP; (sleep 4321 & wait); sleep 4321"]
    with started([*argv, *words], env=running.cluster.plane.environment("ada")) as kubectl:
        wait_for(lambda: _processes("4321"))
        kubectl.kill()

    wait_for(lambda: not _processes("4321"), "for the end of the command")
    wait_for(lambda: not _processes(inside.__file__), "for the end of the program that ran it")


def _processes(word: str) -> list[str]:
    """Processes with this word, beside kubectl, which has it before anything runs."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if word in words and Path(words[0]).name != "kubectl":
            found.append(path.parent.name)
    return found


def test_a_command_ends_with_its_container(running: Running) -> None:
    argv = [str(running.cluster.plane.programs.kubectl), "exec", "-n", running.namespace, "work", "--", "sleep", "4322"]
    with started(argv, env=running.cluster.plane.environment("ada"), stderr=subprocess.PIPE) as kubectl:
        wait_for(lambda: _processes("4322"))
        running.pod.started[0].terminate()

        assert kubectl.wait(60) == 137
    assert not _processes("4322")


def test_attach_shows_what_comes_from_now_on(running: Running) -> None:
    argv = [str(running.cluster.plane.programs.kubectl), "attach", "-n", running.namespace, "work"]
    log = running.pod.path / "log" / "main.0"
    log.write_bytes(b"before\n")
    with started(
        argv, env=running.cluster.plane.environment("ada"), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as kubectl:
        shown = kubectl.stdout
        assert shown is not None
        # Nothing tells from when on it shows what comes: on a busy machine long after it has connected.
        wait_for(lambda: _added(log, b"now\n") and select.select([shown], [], [], 0.1)[0])
        running.cluster.site.end(running.cluster.site.known[running.namespace, "work"])
        assert (kubectl.wait(60), {*shown}) == (0, {b"now\n"})


def _added(log: Path, line: bytes) -> bool:
    with log.open("ab") as file:
        return file.write(line) > 0


def test_a_container_that_has_ended(running: Running) -> None:
    running.cluster.site.end(running.cluster.site.known[running.namespace, "work"])

    code, out, words = running.exec("true")
    assert (code, out) == (1, b"")
    assert 'container not found ("main")' in words


def test_a_site_that_does_not_allow_it(running: Running) -> None:
    running.cluster.site.entrance = None

    code, out, words = running.exec("true")
    assert (code, out) == (1, b"")
    assert "exec is not possible, as site demo does not allow it" in words


def test_more_commands_than_a_namespace_may_have_at_once(running: Running) -> None:
    argv = [str(running.cluster.plane.programs.kubectl), "exec", "-n", running.namespace, "work", "--", "sleep", "4323"]
    environment = running.cluster.plane.environment("ada")
    started = [subprocess.Popen(argv, env=environment, stderr=subprocess.DEVNULL) for _ in range(MOST)]
    try:
        wait_for(lambda: len(_processes("4323")) >= MOST)
        assert f"{MOST} commands of namespace" in running.exec("true")[2]
    finally:
        for one in started:
            one.kill()
            one.wait()
    wait_for(lambda: running.exec("true")[0] == 0)


def test_the_client_of_python_speaks_websockets_of_version_4(running: Running) -> None:
    configuration = kubernetes.client.Configuration()
    plane = running.cluster.plane
    kubernetes.config.load_kube_config(str(plane.kubeconfig("ada")), client_configuration=configuration)
    api = kubernetes.client.CoreV1Api(kubernetes.client.ApiClient(configuration))
    words = ["sh", "-c", 'echo "error" >&2; head -c 5; exit 4']
    answer = kubernetes.stream.stream(
        api.connect_get_namespaced_pod_exec, "work", running.namespace, command=words, stdin=True, stdout=True,
        stderr=True, tty=False, _preload_content=False,
    )  # fmt: skip
    answer.write_stdin("hello, and more")
    answer.run_forever(timeout=60)
    answer.sock.shutdown()
    api.api_client.close()

    assert (answer.read_stdout(), answer.read_stderr(), answer.returncode) == ("hello", "error\n", 4)
