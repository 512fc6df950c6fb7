"""The site helper by itself: whom it serves, what it runs, and that the oldest Python understands it."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.host import HostUnavailable, inside, sitehelper
from router.host.eventloop import EventLoop
from router.host.framing import Decoder, encode
from router.host.remote import RemoteHost
from router.hpc import BatchSystem, nodelogin, openpbs, slurm, torque
from tests.host import contract, helpers


@pytest.fixture
def loop() -> Iterator[EventLoop]:
    started = EventLoop()
    yield started
    started.stop()


@pytest.fixture
def made(tmp_path: Path, loop: EventLoop) -> Iterator[Callable[[Path], RemoteHost]]:
    hosts = []

    def make(helper: Path) -> RemoteHost:
        hosts.append(RemoteHost(tmp_path / "site", helpers.piped(helper), loop))
        return hosts[-1]

    yield make
    for host in hosts:
        host.close()


@pytest.mark.parametrize("program", [sitehelper, inside], ids=["the site helper", "what runs on a node"])
def test_it_is_written_in_python_3_6_and_its_standard_library(program: ModuleType) -> None:
    tree = ast.parse(Path(str(program.__file__)).read_text(), feature_version=(3, 6))

    imported = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    imported |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in imported} <= sys.stdlib_module_names
    assert "__future__" not in imported, "annotations came with 3.7"


def test_nobody_with_a_low_uid_is_served(tmp_path: Path, made: Callable[[Path], RemoteHost]) -> None:
    helper = helpers.installed(tmp_path, least_uid=os.getuid() + 1)

    with pytest.raises(HostUnavailable, match=f"does not serve uid {os.getuid()}") as caught:
        made(helper).check()

    assert caught.value.lasting
    assert not (tmp_path / "site").exists()


def test_as_it_is_shipped_it_serves_no_system_account() -> None:
    assert (sitehelper.LEAST_UID, sitehelper.ROOTS, sitehelper.FURTHER_PROGRAMS) == (1000, (), ())
    assert sitehelper.ENTERING == ("srun", "ssh")


def test_the_directory_lies_where_the_installer_says(tmp_path: Path, made: Callable[[Path], RemoteHost]) -> None:
    made(helpers.installed(tmp_path, roots=[str(tmp_path)])).check()

    with pytest.raises(HostUnavailable, match="does not lie below a directory that ROOTS in the site helper names"):
        made(helpers.installed(tmp_path, roots=[f"{tmp_path}/{{user}}", f"{tmp_path}/sit"])).check()


def test_a_directory_of_somebody_else_is_refused(tmp_path: Path, made: Callable[[Path], RemoteHost]) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make a directory somebody else's")
    (tmp_path / "site").mkdir()
    os.chown(tmp_path / "site", 12345, 12345)

    with pytest.raises(HostUnavailable, match="belongs to uid 12345"):
        made(helpers.installed(tmp_path)).check()


def test_a_directory_that_cannot_be_made_is_one_sentence(tmp_path: Path, made: Callable[[Path], RemoteHost]) -> None:
    (tmp_path / "site").write_text("a file")

    with pytest.raises(HostUnavailable, match=r"the site's work directory cannot be used: .*/site: File exists"):
        made(helpers.installed(tmp_path)).check()


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["sh", "-c", "id"], "runs no sh;"),
        (["/bin/sh", "-c", "id"], "runs no /bin/sh;"),
        (["env", "-i", "PATH=/bin", "sh", "-c", "id"], "runs no sh;"),
        (["env", "sh"], "runs no env;"),
        *(([name, "7"], f"runs no {name};") for name in ("qhold", "qrls", "qmove", "qalter", "qrerun", "sacctmgr")),
        (["scontrol", "requeue", "7"], "runs scontrol show, and nothing else of scontrol"),
        (["env", "-i", "/usr/bin/scontrol", "-o", "show", "job"], "runs scontrol show, and nothing else of scontrol"),
        (["scontrol"], "runs scontrol show, and nothing else of scontrol"),
        (["env", "-i", "LD_PRELOAD=/x.so", "qstat"], "gives no command the variable LD_PRELOAD"),
        (["env", "-i", "BASH_ENV=/x", "qstat"], "gives no command the variable BASH_ENV"),
        *(
            (["env", "-i", f"{name}=/x", "qstat"], f"gives no command the variable {name}")
            for name in ("PBS_EXEC", "PBS_HOME", "SBATCH_GET_USER_ENV", "SLURM_SPANK_X", "SLURM_CONF2", "XSLURM_CONF")
        ),
        (
            ["env", "-i", "SLURM_CONF=slurm.conf", "squeue"],
            "no command SLURM_CONF=slurm.conf, which the user can change",
        ),
        (["env", "-i", "SLURM_CONF_SERVER=evil:6817", "squeue"], "SLURM_CONF_SERVER=evil:6817; CONF_SERVERS in it may"),
        (["env", "-i", "PATH=/bin"], "was given no command"),
        (["qstat", "a\0b"], "was given no command"),
        (["env", "-i", "PATH=relative", "qstat"], "qstat: No such file or directory"),
    ],
)
def test_what_it_does_not_run(argv: list[str], words: str, tmp_path: Path, made: Callable[[Path], RemoteHost]) -> None:
    done = made(helpers.installed(tmp_path)).run(argv, 60)

    assert done.returncode is None
    assert words in done.stderr.decode()


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["srun", "--overlap", "sh"], "starts srun within a running job only"),
        (["env", "-i", "PATH=/bin", "srun", "sh"], "does not start srun: .* starts srun within a running job only"),
        (["env", "-i", "PATH=/bin", "ssh", "n1", "id"], "does not start ssh: .* starts ssh in one form only"),
        (["srun", "--jobid=7", "sh"], "starts srun within a running job only"),
        (["srun", "--overlap", "--jobid=7;x", "sh"], "starts srun within a running job only"),
        (
            ["srun", "--partition=large", "sh", "-c", "id", "--overlap", "--jobid=7"],
            "starts srun within a running job only",
        ),
        (["srun", "-plarge", "--overlap", "--jobid=7", "sh"], "starts srun within a running job only"),
        (["srun", "--comment", "--overlap", "--comment", "--jobid=7", "sh"], "starts srun within a running job only"),
        (["sbatch", "--jobid=7", *sitehelper.PLACE, "inside"], "its ENTERING does not name sbatch"),
        (["sh", "--overlap", "--jobid=7"], "its ENTERING does not name sh"),
        (["srun", "--jobid=7", *sitehelper.PLACE, "/etc/inside"], "starts srun within a running job only"),
        (
            ["env", "-i", "LD_PRELOAD=/x.so", "srun", "--overlap", "--jobid=7"],
            "gives no command the variable LD_PRELOAD",
        ),
    ],
)
def test_what_it_does_not_become(
    argv: list[str], words: str, tmp_path: Path, made: Callable[[Path], RemoteHost]
) -> None:
    with pytest.raises(HostUnavailable, match=words):
        made(helpers.installed(tmp_path)).pipe(argv)


SITE = Path("/scratch/ada's jobs")
FAR = (
    "/usr/bin/env PATH=/opt/pbs/bin:/bin pbs_attach -j 12.head /usr/bin/python3 -I '/scratch/ada'\"'\"'s jobs/p/inside'"
)


@pytest.mark.parametrize("system", [openpbs, torque])
@given(
    number=st.integers(0, 10**6),
    host=st.from_regex(r"\A[a-z0-9][a-z0-9.-]{0,20}\Z"),
    below=st.lists(
        st.text(st.characters(exclude_characters="\0/\\", exclude_categories=["Cs"]), min_size=1), max_size=3
    ),
)
def test_ssh_into_a_running_job_is_what_the_batch_systems_ask_for(
    system: BatchSystem, number: int, host: str, below: list[str]
) -> None:
    path = "/".join(["/scratch/ada", *(one for one in below if one not in {".", ".."}), "inside"])
    argv = system.over_ssh(f"{number}.head", f"{host}/0", ("/usr/bin/python3", "-I", path))

    assert argv is not None
    environment, words = sitehelper.command_of(list(argv))
    assert (list(environment), words[0]) == (["PATH"], "ssh")
    assert sitehelper.over_ssh(words, b"/scratch/ada")


@pytest.mark.parametrize(
    ("options", "node", "far"),
    [
        ([], "n1", FAR),
        (list(nodelogin.OPTIONS[:-1]), "n1", FAR),
        ([*nodelogin.OPTIONS, "-oProxyCommand=id"], "n1", FAR),
        (["-oProxyCommand=id", *nodelogin.OPTIONS[1:]], "n1", FAR),
        (list(nodelogin.OPTIONS), "-oProxyCommand=id", FAR),
        (list(nodelogin.OPTIONS), "root@n1", FAR),
        (list(nodelogin.OPTIONS), "n1", ""),
        (list(nodelogin.OPTIONS), "n1", "id"),
        (list(nodelogin.OPTIONS), "n1", f"{FAR}; id"),
        (list(nodelogin.OPTIONS), "n1", f"{FAR} more"),
        (list(nodelogin.OPTIONS), "n1", f" {FAR}"),
        (list(nodelogin.OPTIONS), "n1", FAR.replace("pbs_attach -j 12.head ", "")),
        (list(nodelogin.OPTIONS), "n1", FAR.replace("12.head", "12.head;id")),
        (list(nodelogin.OPTIONS), "n1", FAR.replace("pbs_attach -j 12.head", "pbs_attach -p 1 -j 12.head")),
        (list(nodelogin.OPTIONS), "n1", FAR.replace("pbs_attach", "/home/ada/pbs_attach")),
        (list(nodelogin.OPTIONS), "n1", FAR.replace("/opt/pbs/bin", "/opt/$(id)")),
        (list(nodelogin.OPTIONS), "n1", FAR.replace("PATH=", "LD_PRELOAD=")),
        (list(nodelogin.OPTIONS), "n1", FAR.replace("PATH=", "PBS_MOM_SERVICE_PORT=")),
        (list(nodelogin.OPTIONS), "n1", FAR.replace("/p/", "/\\/")),
        (list(nodelogin.OPTIONS), "n1", FAR.replace(" -I ", " ")),
        (list(nodelogin.OPTIONS), "n1", FAR.replace("inside", "other")),
        (list(nodelogin.OPTIONS), "n1", FAR.replace("/p/", "/../p/")),
        (list(nodelogin.OPTIONS), "n1", FAR.replace("/scratch", "/home")),
        (list(nodelogin.OPTIONS), "n1", FAR.partition("'")[0] + "/scratch/inside"),
        (list(nodelogin.OPTIONS), "n1", FAR.partition("'")[0] + "'/scratch/inside"),
    ],
)
def test_ssh_has_one_form(options: list[str], node: str, far: str) -> None:
    root = bytes(SITE)

    assert sitehelper.over_ssh(["ssh", *nodelogin.OPTIONS, "n1", FAR], root)
    assert not sitehelper.over_ssh(["ssh", *options, node, far], root)
    with pytest.raises(ValueError, match=r"^the site helper starts ssh in one form only, into a running job$"):
        sitehelper.within_a_job(["ssh", *options, node, far], {}, root)


def test_an_installed_helper_that_names_srun_alone_starts_no_ssh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sitehelper, "ENTERING", ("srun",))

    with pytest.raises(ValueError, match=r"^its ENTERING does not name ssh$"):
        sitehelper.within_a_job(["ssh", *nodelogin.OPTIONS, "n1", FAR], {}, bytes(SITE))


SRUN = ["srun", "--jobid=7", *sitehelper.PLACE, "/scratch/ada/p/inside"]


def test_srun_is_what_slurm_is_asked_for() -> None:
    asked = slurm.within_argv("7", ("/usr/bin/python3", "-I", "/scratch/ada/p/inside"))

    environment, words = sitehelper.command_of(list(asked))

    assert words == SRUN
    assert set(environment) <= sitehelper.SRUN_VARIABLES


@pytest.mark.parametrize(
    ("environment", "argv", "words"),
    [
        ({}, [*SRUN[:3], "--prolog=/scratch/ada/p/inside", *SRUN[3:]], "in one form$"),
        ({}, [*SRUN[:2], "--output=/home/ada/.profile", *SRUN[2:]], "in one form$"),
        ({}, [*SRUN[:-1], "-c"], "in one form$"),
        ({}, [*SRUN, "more"], "in one form$"),
        ({}, SRUN[:2], "in one form$"),
        ({"SLURM_PROLOG": "/scratch/ada/p/inside"}, SRUN, "with PATH, SLURM_CONF, .* alone$"),
        ({}, ["/opt/site/qstat", *SRUN[1:]], "^its ENTERING does not name /opt/site/qstat$"),
    ],
    ids=["prolog", "output", "command", "more", "nothing", "prolog by variable", "a further program"],
)
def test_srun_has_one_form(
    environment: dict[str, str], argv: list[str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sitehelper, "FURTHER_PROGRAMS", ("/opt/site/qstat",))

    with pytest.raises(ValueError, match=words):
        sitehelper.within_a_job(argv, environment, b"/scratch/ada")


@pytest.mark.parametrize("name", ["ssh", "srun", "/usr/bin/ssh"])
def test_what_enters_jobs_is_never_run_in_another_form(
    name: str, tmp_path: Path, made: Callable[[Path], RemoteHost]
) -> None:
    done = made(helpers.installed(tmp_path, programs=[name])).run([name, "-oProxyCommand=touch x", "n1"], 60)

    assert (done.returncode, done.stderr.decode()) == (
        None,
        f"the site helper runs no {name}; kubectl exec alone starts it, within a running job",
    )


AS_USER = """
import sys
scope = {"__name__": "sitehelper"}
exec(compile(open(sys.argv[1]).read(), "sitehelper", "exec"), scope)
print(*[scope["is_users"](path) for path in sys.argv[2:]])
try:
    scope["program_of"]("qstat", sys.argv[2])
except ValueError as error:
    print(error)
print(scope["changed_on_the_way"](f"/usr/bin/env PATH=/usr/bin:{sys.argv[2]} pbs_attach -j 7 /usr/bin/python3 -I /x"))
print(scope["changed_on_the_way"]("/usr/bin/env PATH=/usr/bin:/nowhere/bin pbs_attach -j 7 /usr/bin/python3 -I /x"))
print([scope["changed_by"]({name: place}) for name in scope["CONF_FILES"] for place in (sys.argv[2], "/etc/x.conf", "x")])
print(scope["given"]({"PATH": f"{sys.argv[2]}:/usr/bin::bin:/tmp", "TZ": "UTC"}), scope["given"]({}))
print(scope["changed_on_the_way"](f"/usr/bin/env PBS_CONF_FILE={sys.argv[2]} pbs_attach -j 7 /usr/bin/python3 -I /x"))
"""


def test_a_user_puts_no_program_in_the_way() -> None:
    """A link of the user's to a shell would pass for a command of the batch system, and a PATH of theirs on a node."""
    if os.geteuid() != 0:
        pytest.skip("only root can start a program as somebody else")
    with tempfile.TemporaryDirectory(dir="/tmp") as made:
        place, helper = Path(made), Path(made, "sitehelper.py")
        place.chmod(0o755)
        helper.write_text(Path(sitehelper.__file__).read_text())
        (place / "theirs").mkdir()
        (place / "theirs/qstat").symlink_to("/bin/sh")
        os.chown(place / "theirs", 12345, 12345)
        asked = [str(place / "theirs"), "/usr/bin", "/usr/bin/../bin/sh", "/proc/self/cwd", "relative", "/nowhere"]
        done = subprocess.run(
            ["/usr/bin/python3", "-I", "-c", AS_USER, str(helper), *asked],
            user=12345, group=12345, extra_groups=[], cwd="/", capture_output=True, text=True, check=False,
        )  # fmt: skip

    assert (done.stdout.splitlines(), done.stderr) == (
        [
            "True False False True True False",
            f"the site helper does not run {asked[0]}/qstat, which the user can change",
            asked[0],
            "None",
            str(
                [
                    f"{name}={place}" if place else None
                    for name in ("SLURM_CONF", "PBS_CONF_FILE")
                    for place in (asked[0], "", "x")
                ]
            ),
            "{b'PATH': b'/usr/bin', b'TZ': b'UTC'} {}",
            asked[0],
        ],
        "",
    )


def test_a_step_is_nothing_that_it_runs_and_waits_for(tmp_path: Path, made: Callable[[Path], RemoteHost]) -> None:
    done = made(helpers.installed(tmp_path)).run(["srun", "--overlap", "--jobid=7", "id"], 60)

    assert (done.returncode, b"runs no srun;" in done.stderr) == (None, True)


def test_a_command_that_others_can_change_is_not_run(tmp_path: Path, made: Callable[[Path], RemoteHost]) -> None:
    (tmp_path / "qstat").write_text("#!/bin/sh\necho theirs\n")
    (tmp_path / "qstat").chmod(0o777)
    argv = ["env", "-i", f"PATH={tmp_path}:/bin", "qstat"]

    done = made(helpers.installed(tmp_path)).run(argv, 60)

    assert (done.returncode, done.stderr.decode()) == (
        None,
        f"the site helper does not run {tmp_path}/qstat, which the user can change",
    )


@pytest.mark.parametrize(
    ("owner", "mode", "ran"),
    [(0, 0o755, True), (0, 0o775, False), (0, 0o757, False), (1234, 0o755, False)],
    ids=["root's", "of a group", "of all", "of another"],
)
def test_the_image_puller_is_run_where_nobody_but_root_can_change_it(
    owner: int, mode: int, ran: bool, tmp_path: Path, made: Callable[[Path], RemoteHost]
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can install it")
    program = tmp_path / "imagepull"
    program.write_text("#!/bin/sh\ncat; echo $HOME $SECRET\n")
    program.chmod(mode)
    os.chown(program, owner, -1)
    words = ["env", "-i", "PATH=/bin", "HOME=/home/ada", str(program)]

    done = made(helpers.installed(tmp_path)).run(words, 60, b"the question\n")

    said = b"the question\n/home/ada\n" if ran else f"the site helper does not run {program}".encode()
    assert (done.returncode, (done.stdout + done.stderr)[: len(said)]) == (0 if ran else None, said)


def test_a_command_that_the_installer_names_is_run_whoever_owns_it(
    tmp_path: Path, made: Callable[[Path], RemoteHost]
) -> None:
    (tmp_path / "qstat").write_text("#!/bin/sh\necho $0 $1\n")
    (tmp_path / "qstat").chmod(0o777)
    helper = helpers.installed(tmp_path, programs=[f"{tmp_path}/qstat"])

    done = made(helper).run(["env", "-i", "PATH=/bin", f"{tmp_path}/qstat", "a b"], 60)

    assert (done.returncode, done.stdout.decode()) == (0, f"{tmp_path}/qstat a b\n")


def test_output_without_an_end_is_cut(tmp_path: Path, made: Callable[[Path], RemoteHost]) -> None:
    host = made(helpers.installed(tmp_path, programs=[contract.SHELL]))

    done = host.run([contract.SHELL, "-c", "cat /dev/zero"], 100)

    assert done.returncode is None
    assert len(done.stdout) < sitehelper.MOST_OUTPUT + 2 * sitehelper.BLOCK
    assert done.stderr == b"printed more than 16777216 bytes"


class Spoken:
    """A site helper that is spoken to by hand."""

    def __init__(self, helper: Path, root: Path) -> None:
        self.process = subprocess.Popen([helper], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.decoder = Decoder(lambda _: sitehelper.MOST_BODY)
        self.say({"n": 0, "do": "hello", "root": str(root)})
        self.hear()

    def say(self, head: dict[str, object], body: bytes = b"") -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(encode(head, body))
        self.process.stdin.flush()

    def hear(self) -> dict[str, object]:
        assert self.process.stdout is not None
        while True:
            data = os.read(self.process.stdout.fileno(), 1 << 16)
            assert data
            if messages := self.decoder.feed(data):
                return dict(messages[0].head)

    def end(self) -> int:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        return self.process.wait(60)


@pytest.fixture
def spoken(tmp_path: Path) -> Iterator[Spoken]:
    one = Spoken(helpers.installed(tmp_path, programs=[contract.SHELL]), tmp_path / "site")
    yield one
    one.process.kill()
    one.end()


def test_what_arrives_too_late_is_not_done(spoken: Spoken, tmp_path: Path) -> None:
    asked = {"do": "put", "path": str(tmp_path / "site" / "a")}

    spoken.say({"n": 1, "at": -100.0, "seconds": 60.0, **asked}, b"x")
    late = spoken.hear()
    spoken.say({"n": 2, "do": "run", "argv": [contract.SHELL, "-c", f"touch {tmp_path}/ran"], "at": -9.0, "seconds": 5})
    too = spoken.hear()

    assert (late["n"], late["error"]) == (1, "arrived too late, and was not done")
    assert (too["n"], too["error"]) == (2, "arrived too late, and was not done")
    assert list((tmp_path / "site").iterdir()) == []
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "asked",
    [{"do": "shell"}, {}, {"do": "names"}, {"do": "read", "path": 5}, {"do": "run", "argv": 7}],
    ids=str,
)
def test_a_question_that_is_none_is_refused_and_the_next_is_answered(spoken: Spoken, asked: dict[str, object]) -> None:
    spoken.say({"n": 1, "at": 0.0, "seconds": 600.0, **asked})
    answer = spoken.hear()
    spoken.say({"n": 2, "do": "ping", "at": 0.0, "seconds": 600.0})

    assert (answer["n"], answer["errno"]) == (1, -1)
    assert spoken.hear()["n"] == 2


def test_commands_end_with_who_asked_for_them(spoken: Spoken, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    argv = [contract.SHELL, "-c", f"echo $$ > {pid}; sleep 600"]
    spoken.say({"n": 1, "do": "run", "argv": argv, "at": 0.0, "seconds": 500.0})
    deadline = time.monotonic() + 60
    while not (pid.exists() and pid.read_text().strip()):
        assert time.monotonic() < deadline
        time.sleep(0.05)

    assert spoken.end() == 0

    while _lives(int(pid.read_text())):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except (ProcessLookupError, FileNotFoundError):
        return False


def test_a_message_that_is_too_long_ends_it(spoken: Spoken) -> None:
    assert spoken.process.stdin is not None
    spoken.process.stdin.write(sitehelper.LENGTHS.pack(1 << 30, 0))
    spoken.process.stdin.flush()

    assert spoken.process.wait(60) not in {0, -signal.SIGKILL}
