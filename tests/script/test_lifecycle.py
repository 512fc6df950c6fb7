"""Hooks and probes of containers, run by the script: with commands in place of containers, and in real containers."""

from __future__ import annotations

import base64
import os
import shutil
import signal
import ssl
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from bed.standing import layout
from router.script import rendering
from router.site.schema import Site
from tests.script.builders import IMAGE, container, site, text_of, workload
from tests.script.running import LONG, Pod, wait_for
from tests.script.tls import self_signed

HOST = site("local", runtime="host", margin=5)
WALLTIME = "batchgate.dev/walltime"
RUNTIME = Path(rendering.__file__).with_name("runtime") / "1"


@pytest.fixture(params=["host", pytest.param("apptainer", marks=pytest.mark.apptainer)])
def where(request: pytest.FixtureRequest, image: Path) -> Site:
    """A site without containers, and one with."""
    if request.param == "host":
        return HOST
    if shutil.which("apptainer") is None:
        pytest.skip("no apptainer on this machine")
    return site(images=[{"match": IMAGE, "path": str(image)}])


def sh(line: str, name: str = "main", **fields: Any) -> dict[str, Any]:
    return container("/bin/sh", "-c", line, name=name, **fields)


def execs(*command: str) -> dict[str, Any]:
    return {"exec": {"command": list(command)}}


def probe(*command: str, **fields: Any) -> dict[str, Any]:
    """A command, with more time than it needs on a busy machine."""
    return {**execs(*command), "periodSeconds": 1, "timeoutSeconds": 10, **fields}


def state(pod: Pod, name: str = "main") -> list[tuple[int, bool, bool]]:
    """Run, ready, started of each change."""
    found = [(note["restart"], note["ready"], note["started"]) for note in notes(pod) if note["container"] == name]
    return [one for index, one in enumerate(found) if not index or found[index - 1] != one]


def notes(pod: Pod) -> list[dict[str, Any]]:
    return [note for note in pod.notes() if note["event"] == "probed"]


def told(pod: Pod, name: str = "main") -> list[tuple[str, str]]:
    """Reason and words of each Event."""
    return [
        (note["reason"], base64.b64decode(note["said"]).decode())
        for note in notes(pod)
        if note["reason"] and note["container"] == name
    ]


WAITS = "trap 'exit 0' TERM; while :; do sleep 0.1; done"


def asked_until(pod: Pod, text: str, holds: Callable[[], object]) -> None:
    """Run a Job that goes on, and end it once this holds: nobody knows when its probes come on a busy machine."""
    job = pod.start(text)
    wait_for(holds, f"in {pod.work}")
    job.terminate()
    assert job.wait(LONG) == 143


def flag(pod: Pod) -> list[dict[str, str]]:
    """A variable with a directory that containers may write: only without a container. Else /tmp is theirs."""
    return [{"name": "D", "value": str(pod.work)}]


# --- hooks ------------------------------------------------------------------------------------------------------------


def test_hooks_run_in_the_container_with_its_environment(pod: Pod, where: Site) -> None:
    text = text_of(
        workload(
            sh(
                'echo "$$NAME $$PWD"; cd /; trap "while read -r l; do echo \\$$l; done <$$D/said; exit 3" TERM; while :; do sleep 0.1; done',
                workingDir="/var/tmp",
                env=[
                    {"name": "NAME", "value": "it's"},
                    {"name": "D", "value": "/tmp" if where is not HOST else str(pod.work)},
                ],
                lifecycle={
                    "postStart": execs("sh", "-c", 'echo "post $NAME $PWD" >>$D/said; echo in >$D/up'),
                    "preStop": execs("sh", "-c", 'echo "pre $NAME $PWD" >>$D/said'),
                },
            )
        ),
        where,
    )
    job = pod.start(text)
    pod.awaits_log("it's /var/tmp")
    wait_for(lambda: any(pod.work.glob("batchgate.*/main.posted")), "for the end of the first hook")

    job.terminate()

    assert job.wait(LONG) == 3, pod.output()
    assert pod.log().splitlines() == ["it's /var/tmp", "post it's /var/tmp", "pre it's /var/tmp"]


NAMES = (
    "nsenter",
    "timeout",
    "limit",
    "enter",
    "entry",
    "inner_path",
    "IFS",
    "LD_PRELOAD",
    "my.var",
    "BASH_ENV",
    "batchgate_entry",
)


def value_of(name: str) -> str:
    return "" if name == "LD_PRELOAD" else f"/of {name}"


def test_variables_of_a_job_are_its_programs_alone(pod: Pod, image: Path) -> None:
    """They have names of the script's own, of which one would be a program to run outside of the container."""
    if shutil.which("apptainer") is None:
        pytest.skip("no apptainer on this machine")
    main = sh(
        "sleep 3; while [ ! -e /tmp/done ]; do sleep 0.1; done; cat /tmp/seen",
        env=[{"name": name, "value": value_of(name)} for name in NAMES],
        readinessProbe=probe("env", failureThreshold=1),
        lifecycle={"postStart": execs("sh", "-c", "ls /proc/self/fd >/tmp/seen; echo >/tmp/done")},
    )
    text = text_of(workload(main), site(images=[{"match": IMAGE, "path": str(image)}]))
    shown = text.replace("said=$(tr -d", f'cat "$at.said" >>{pod.work}/said; said=$(tr -d')
    assert shown != text

    assert pod.run(shown) == 0, pod.log()

    said = dict(line.partition("=")[::2] for line in (pod.work / "said").read_text().splitlines())
    assert {name: said.get(name) for name in NAMES} == {name: value_of(name) for name in NAMES}
    assert pod.log().split() == ["0", "1", "2", "3"]  # the last is that of ls


@pytest.mark.apptainer
def test_variables_of_a_program_run_nothing_on_the_node(pod: Pod, image: Path) -> None:
    """A shell computes what some of its own variables are set to, so a value of these would be a command."""
    if shutil.which("apptainer") is None:
        pytest.skip("no apptainer on this machine")
    marks = pod.work / "ran"
    marks.mkdir()
    computed = {name: f"x[$(touch {marks}/{name})]" for name in COMPUTED}
    loaded = {name: str(pod.work) for name in ("GCONV_PATH", "GETCONF_DIR", "LOCPATH", "NLSPATH", "TMPDIR", "TZDIR")}
    loaded |= {"GLIBC_TUNABLES": "glibc.malloc.check=0", "RES_OPTIONS": "debug"}
    given = {**computed, **loaded}
    main = sh(
        "sleep 4",
        env=[{"name": name, "value": value} for name, value in given.items()],
        readinessProbe=probe("sh", "-c", f"env; exec {NAP}", timeoutSeconds=3),
    )
    text = text_of(workload(main), site(images=[{"match": IMAGE, "path": str(image)}]))
    job = pod.start(text.replace("said=$(tr -d", f'cat "$at.said" >>{pod.work}/said; said=$(tr -d'))

    outside = wait_for(lambda: environments("nsenter", NAP) or environments("timeout", NAP) or job.poll() is not None)

    assert job.wait(LONG) == 0, pod.log()
    assert list(marks.iterdir()) == []
    assert {name for name, _ in outside} & set(loaded) == set()
    said = dict(line.partition("=")[::2] for line in (pod.work / "said").read_text().splitlines())
    assert {name: said.get(name) for name in given} == given


NAP = "sleep 2.25"
COMPUTED = ("RANDOM", "SRANDOM", "HISTCMD", "LINENO", "SECONDS")


def environments(program: str, words: str) -> list[tuple[str, str]]:
    """The variables of the processes that run a program of the node with these words."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            argv = (place / "cmdline").read_text().split("\0")
            if Path(argv[0]).name == program and any(words in word for word in argv):
                pairs = (place / "environ").read_text(errors="replace").split("\0")
                found += [(name, value) for name, _, value in (pair.partition("=") for pair in pairs)]
        except OSError:
            continue
    return found


def test_a_post_start_that_fails_ends_the_container(pod: Pod, where: Site) -> None:
    job = sh("sleep 300", lifecycle={"postStart": execs("sh", "-c", "exit 1")})

    assert pod.run(text_of(workload(job, terminationGracePeriodSeconds=2), where)) in {143, 137}

    assert told(pod) == [("FailedPostStartHook", "PostStartHook failed"), ("Killing", "FailedPostStartHook")]


def test_the_grace_period_holds_for_hook_and_program_together(pod: Pod, where: Site) -> None:
    deaf = sh("trap '' TERM; echo up; while :; do sleep 0.05; done", lifecycle={"preStop": execs("sleep", "3000")})
    job = pod.start(text_of(workload(deaf, terminationGracePeriodSeconds=2), where))
    pod.awaits_log("up")
    asked = time.monotonic()

    job.terminate()

    assert job.wait(LONG) == 137
    assert 1.5 <= time.monotonic() - asked <= 60


def test_a_pre_stop_that_sleeps_lets_the_program_go_on(pod: Pod, where: Site) -> None:
    main = sh(
        "trap 'echo asked; exit 4' TERM; echo up; while :; do sleep 0.05; done",
        lifecycle={"preStop": {"sleep": {"seconds": 2}}},
    )
    job = pod.start(text_of(workload(main), where))
    pod.awaits_log("up")
    asked = time.monotonic()

    job.terminate()

    assert job.wait(LONG) == 4
    assert time.monotonic() - asked >= 1.9
    assert pod.log() == "up\nasked\n"


# --- probes -----------------------------------------------------------------------------------------------------------


def test_a_liveness_probe_that_fails_ends_the_container_and_it_runs_again(pod: Pod, where: Site) -> None:
    text = text_of(
        workload(
            sh("trap 'exit 0' TERM; echo up; while :; do sleep 0.05; done",
               livenessProbe=probe("sh", "-c", "echo broken; exit 7", failureThreshold=2)),
            restartPolicy="OnFailure",
            annotations={WALLTIME: "300"},
            terminationGracePeriodSeconds=3,
        ),
        where,
    ).replace("delay=10", "delay=1")  # fmt: skip
    job = pod.start(text)

    wait_for(lambda: pod.code(restart=1) is not None, "for a second run")
    job.terminate()
    job.wait(LONG)

    assert [(pod.exit(restart=run) or {}).get("again") for run in (0, 1)] == ["yes", "yes"]
    assert [pod.code(restart=run) for run in (0, 1)] == [0, 0]
    assert told(pod)[:3] == [
        ("Unhealthy", "Liveness probe failed: broken"),
        ("Unhealthy", "Liveness probe failed: broken"),
        ("Killing", "Container main failed liveness probe, will be restarted"),
    ]


def test_with_restart_policy_never_the_pod_ends(pod: Pod, where: Site) -> None:
    main = sh("trap '' TERM; echo up; while :; do sleep 0.05; done",
              livenessProbe=probe("sh", "-c", "exit 1", failureThreshold=1, terminationGracePeriodSeconds=1))  # fmt: skip

    assert pod.run(text_of(workload(main, terminationGracePeriodSeconds=100), where)) == 137

    assert told(pod)[-1] == ("Killing", "Container main failed liveness probe")


def test_readiness_is_shown_and_ends_nothing(pod: Pod, where: Site) -> None:
    place = "/tmp" if where is not HOST else str(pod.work)
    counts = "n=0; [ ! -e $D/n ] || read -r n <$D/n; n=$((n+1)); echo $n >$D/n; [ $n = 2 ] || [ $n = 3 ]"
    env = [{"name": "D", "value": place}]
    main = sh(WAITS, env=env, readinessProbe=probe("sh", "-c", counts, failureThreshold=1))

    asked_until(pod, text_of(workload(main), where), lambda: len(state(pod)) == 4)

    assert state(pod) == [(0, False, False), (0, False, True), (0, True, True), (0, False, True)]
    assert {reason for reason, _ in told(pod)} == {"Unhealthy"}


def test_other_probes_wait_for_the_startup_probe(pod: Pod, where: Site) -> None:
    place = "/tmp" if where is not HOST else str(pod.work)
    main = sh(
        f"sleep 3; : >$$D/started; {WAITS}",
        env=[{"name": "D", "value": place}],
        startupProbe=probe("sh", "-c", "[ -e $D/started ]", failureThreshold=30),
        livenessProbe=probe("sh", "-c", "[ -e $D/started ]", failureThreshold=1),
    )

    asked_until(pod, text_of(workload(main), where), lambda: len(state(pod)) > 1)

    assert state(pod) == [(0, False, False), (0, True, True)]


def test_a_startup_probe_that_never_succeeds_ends_the_container(pod: Pod, where: Site) -> None:
    main = sh("sleep 300", startupProbe=probe("sh", "-c", "exit 1", failureThreshold=2))

    assert pod.run(text_of(workload(main, terminationGracePeriodSeconds=1), where)) in {143, 137}

    assert told(pod)[-1] == ("Killing", "Container main failed startup probe")
    assert state(pod) == [(0, False, False)]


def test_the_next_init_container_waits_for_a_sidecars_startup_probe(pod: Pod, where: Site) -> None:
    side = sh("sleep 2; echo open >/tmp/open-$$UNIQUE; sleep 300", name="side", restartPolicy="Always",
              env=[{"name": "UNIQUE", "value": pod.work.name}],
              startupProbe=probe("sh", "-c", "[ -e /tmp/open-$UNIQUE ]", failureThreshold=30))  # fmt: skip
    job = workload(sh("echo ran"), initContainers=[side, sh("echo ran", name="after")], terminationGracePeriodSeconds=2)

    assert pod.run(text_of(job, where)) == 0
    Path(f"/tmp/open-{pod.work.name}").unlink(missing_ok=True)

    order = [(note["event"], note.get("container")) for note in pod.notes() if note["event"] in {"running", "exited"}]
    assert order.index(("running", "side")) < order.index(("running", "after")) < order.index(("running", "main"))
    begun = {note["container"]: note["time"] for note in pod.notes() if note["event"] == "running"}
    assert begun["after"] - begun["side"] >= 2


def test_a_probe_that_hangs_is_ended_with_all_that_it_started(pod: Pod, where: Site) -> None:
    main = sh(
        "sleep 9", livenessProbe=probe("sh", "-c", "sleep 4324 & sleep 4324", failureThreshold=9, timeoutSeconds=1)
    )

    assert pod.run(text_of(workload(main), where)) == 0

    assert told(pod)[0] == ("Unhealthy", "Liveness probe failed: timed out after 1s")
    wait_for(lambda: not any(b"sleep\x004324" in line for line in command_lines()), "for their end")


def command_lines() -> Iterator[bytes]:
    """Of all processes; some end meanwhile."""
    for one in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            yield (one / "cmdline").read_bytes()


def test_a_probe_that_prints_much_is_a_good_probe(pod: Pod, where: Site) -> None:
    shout = "i=0; while [ $i -lt 3000 ]; do echo 0123456789012345678901234567890123456789012345678901234567890123456789; i=$((i+1)); done"
    main = sh(WAITS, readinessProbe=probe("sh", "-c", shout))

    asked_until(pod, text_of(workload(main), where), lambda: state(pod)[-1:] == [(0, True, True)])

    assert [one.name for one in pod.work.iterdir() if one.name.startswith("batchgate.")] == []


def test_a_container_that_ends_during_a_probe_ends_as_it_would(pod: Pod, where: Site) -> None:
    main = sh("sleep 2; exit 5", livenessProbe=probe("sleep", "600", timeoutSeconds=1000, failureThreshold=1))
    begun = time.monotonic()

    assert pod.run(text_of(workload(main), where)) == 5

    assert time.monotonic() - begun < 50
    assert told(pod) == []


def test_a_program_that_is_not_there_neither_succeeds_nor_fails(pod: Pod, image: Path) -> None:
    if shutil.which("apptainer") is None:
        pytest.skip("no apptainer on this machine")
    main = sh("sleep 3", livenessProbe=probe("/no/such", failureThreshold=1))

    assert pod.run(text_of(workload(main), site(images=[{"match": IMAGE, "path": str(image)}]))) == 0

    assert told(pod)[0][1].startswith("Liveness probe errored: nsenter: failed to execute /no/such")


# --- over the network -------------------------------------------------------------------------------------------------


@contextmanager
def server(
    codes: list[int], tls: ssl.SSLContext | None = None
) -> Iterator[tuple[int, list[tuple[str, dict[str, str]]]]]:
    """Answers with these codes, the last of them for ever; what it is asked."""
    asked: list[tuple[str, dict[str, str]]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
            self.send_response(codes.pop(0) if len(codes) > 1 else codes[0])
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    found = HTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        found.socket = tls.wrap_socket(found.socket, server_side=True)
    threading.Thread(target=found.serve_forever, daemon=True).start()
    try:
        yield found.server_port, asked
    finally:
        found.shutdown()
        found.server_close()


@pytest.mark.parametrize(
    ("code", "expected"), [("200", 0), ("399", 0), ("099", 1), ("400", 1), ("199", 1), ("a[$(touch x)]", 1)]
)
def test_an_answer_of_http_is_no_arithmetic(tmp_path: Path, code: str, expected: int) -> None:
    text = 'source "$1"; judge_answer "$2"'

    done = subprocess.run(
        ["/bin/bash", "-c", text, "bash", str(RUNTIME / "asking.sh"), code],
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )

    assert (done.returncode, list(tmp_path.iterdir())) == (expected, [])


@pytest.mark.parametrize("scheme", ["HTTP", "HTTPS"])
def test_http_probes_send_what_the_job_says(pod: Pod, where: Site, tmp_path: Path, scheme: str) -> None:
    with server([200, 500, 302], self_signed(tmp_path) if scheme == "HTTPS" else None) as (port, asked):
        get = {
            "scheme": scheme,
            "path": "/health z?a=b",
            "port": "web",
            "httpHeaders": [{"name": "X-A", "value": "it's 5"}, {"name": "host", "value": "own"}],
        }
        main = sh(WAITS, ports=[{"name": "web", "containerPort": port}],
                  readinessProbe={"httpGet": get, "periodSeconds": 1, "timeoutSeconds": 10, "failureThreshold": 1})  # fmt: skip

        asked_until(pod, text_of(workload(main), where), lambda: len(state(pod)) == 5)

    assert state(pod) == [(0, False, False), (0, False, True), (0, True, True), (0, False, True), (0, True, True)]
    assert told(pod) == [
        ("Unhealthy", "Readiness probe failed: HTTP probe failed with statuscode: 500"),
        ("ProbeWarning", "Readiness probe warning: Probe terminated redirects"),
    ]
    path, headers = asked[0]
    assert (path, headers["host"], headers["x-a"], headers["accept"]) == ("/health%20z?a=b", "own", "it's 5", "*/*")


def test_a_port_that_nobody_opens(pod: Pod, where: Site) -> None:
    with server([200]) as (port, _):
        pass
    main = sh("sleep 300", livenessProbe={"tcpSocket": {"port": port}, "periodSeconds": 1, "failureThreshold": 1})

    assert pod.run(text_of(workload(main, terminationGracePeriodSeconds=2), where)) in {143, 137}

    assert "Connection refused" in told(pod)[0][1]


def test_an_open_port(pod: Pod, where: Site) -> None:
    with server([200]) as (port, _):
        main = sh(WAITS, readinessProbe={"tcpSocket": {"port": port}, "periodSeconds": 1})
        asked_until(pod, text_of(workload(main), where), lambda: state(pod)[-1:] == [(0, True, True)])


# --- rules by which a container runs again ------------------------------------------------------------------------------


def rule(operator: str, *codes: int) -> dict[str, Any]:
    return {"action": "Restart", "exitCodes": {"operator": operator, "values": list(codes)}}


COUNTS = 'n=0; [ ! -e $$D/n ] || read -r n <$$D/n; n=$$((n+1)); echo $$n >$$D/n; echo "run $$n"; '


@pytest.mark.parametrize(
    ("pods", "policy", "rules", "exits", "expected"),
    [
        ("Never", "Never", [rule("In", 42, 7)], [7, 42, 3], [(7, "yes"), (42, "yes"), (3, "no")]),
        ("Never", "Never", [rule("NotIn", 3)], [0, 3], [(0, "yes"), (3, "no")]),
        ("Never", "OnFailure", [], [9, 0], [(9, "yes"), (0, "no")]),
        ("OnFailure", "Never", [], [9], [(9, "no")]),
        ("OnFailure", "Never", [rule("In", 1), rule("In", 2)], [2, 5], [(2, "yes"), (5, "no")]),
    ],
)
def test_a_container_has_a_policy_of_its_own(
    pod: Pod, pods: str, policy: str, rules: list[dict[str, Any]], exits: list[int], expected: list[tuple[int, str]]
) -> None:
    line = COUNTS + "".join(f"[ $$n != {number} ] || exit {code}; " for number, code in enumerate(exits, 1))
    main = sh(line, env=flag(pod), restartPolicy=policy, restartPolicyRules=rules)
    text = text_of(workload(main, restartPolicy=pods), HOST).replace("delay=10", "delay=1")

    assert pod.run(text) == exits[-1]

    found = [pod.exit(restart=run) or {} for run in range(len(exits) + 1)]
    assert [(one["code"], one.get("again")) for one in found if one] == expected


def test_an_init_container_runs_again_before_the_others(pod: Pod, where: Site) -> None:
    place = "/tmp" if where is not HOST else str(pod.work)
    first = sh("exit 42", name="first", restartPolicy="Never", restartPolicyRules=[rule("In", 42)])
    text = text_of(workload(sh("echo ran"), initContainers=[first]), where)
    job = pod.start(text.replace("delay=10", "delay=1"))
    wait_for(lambda: pod.exit("first", 1), "for its second run")

    job.terminate()

    assert job.wait(LONG) == 42, place

    assert [(pod.exit("first", run) or {}).get("again") for run in (0, 1)] == ["yes", "yes"]
    assert pod.exit("main") is None


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to become another user")
def test_processes_of_other_users_are_no_ranks() -> None:
    """They could have the container ended as one that nobody may enter."""
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        rank = Path(place) / "main.rank"
        rank.write_text("sleep 60\nexit\n")
        for path, mode in ((rank, 0o644), (Path(place), 0o755)):
            path.chmod(mode)
        made = [subprocess.Popen(["/bin/bash", str(rank)], user=user, start_new_session=True) for user in (0, 65534)]
        find = f'dir={place} roots=(); source "$0"; find_ranks; echo "${{roots[*]}}"'
        try:
            found = subprocess.run(
                ["/bin/bash", "-c", find, str(RUNTIME / "entering.sh")], capture_output=True, text=True, check=True
            )
        finally:
            for process in made:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    assert found.stdout.split() == [str(made[0].pid)]


# --- real images, ranks, and what cannot be entered -------------------------------------------------------------------

SIF = layout().image
apptainer = [
    pytest.mark.apptainer,
    pytest.mark.skipif(shutil.which("apptainer") is None, reason="no apptainer on this machine"),
    pytest.mark.skipif(not SIF.exists(), reason=f"{SIF} is not built: make bed"),
]


class TestRealImages:
    pytestmark = apptainer

    @pytest.mark.skipif(os.getuid() != 0, reason="needs root to become another user")
    def test_an_unprivileged_users_probe_sees_its_containers_own_files(self, tmp_path: Path) -> None:
        """In an image file, where the runtime has made a user namespace. The probe runs each second: its file is whole."""
        main = sh("echo own >/own; until [ -s /tmp/seen ]; do sleep 0.1; done; sleep 2; cat /tmp/seen", image="mpi:1", env=[{"name": "WORD", "value": "it's"}],
                  readinessProbe=probe("sh", "-c", '{ cat /own; echo "$WORD $(id -u) $PWD $$$$"; } >/tmp/new; mv /tmp/new /tmp/seen', timeoutSeconds=5))  # fmt: skip
        text = text_of(workload(main), site(images=[{"match": "mpi:*", "path": str(SIF)}]))
        pod = Pod(tmp_path / "work").make()
        (pod.work / "script").write_text(text)
        for one in (tmp_path, *tmp_path.parents[:-2]):  # all but /tmp and /
            one.chmod(0o755)
        subprocess.run(["chown", "-R", "1000:1000", str(pod.work)], check=True)
        become = ["setpriv", "--reuid=1000", "--regid=1000", "--clear-groups"]
        environment = {"PATH": os.environ["PATH"], "HOME": str(pod.work), "PBS_JOBID": "7.pbs", "BATCHGATE_DIR": str(pod.path), "TMPDIR": str(pod.work)}  # fmt: skip

        run = subprocess.run([*become, "bash", str(pod.work / "script")], env=environment, capture_output=True, text=True, check=False, timeout=LONG)  # fmt: skip

        assert run.returncode == 0, run.stdout + run.stderr
        own, seen = pod.log().splitlines()[:2]
        assert (own, seen.rpartition(" ")[0]) == ("own", "it's 1000 /")
        assert int(seen.rpartition(" ")[2]) < 1000
        assert state(pod)[-1] == (0, True, True)

    @pytest.mark.mpi
    @pytest.mark.skipif(shutil.which("mpirun") is None, reason="no mpirun on this machine")
    def test_a_probe_of_ranks_runs_once_in_one_of_them(self, pod: Pod) -> None:
        as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"} if os.getuid() == 0 else {}
        nodefile = pod.work / "nodefile"
        nodefile.write_text(f"{os.uname().nodename}\n" * 2)
        where = site(images=[{"match": "mpi:*", "path": str(SIF)}], mpi=[{"name": "m", "launcher": "openmpi"}])
        main = container("mpirun", "-np", "2", "sh", "-c", "sleep 6; cat /tmp/probed", image="mpi:1",
                         readinessProbe=probe("sh", "-c", "echo $OMPI_COMM_WORLD_SIZE >>/tmp/probed", periodSeconds=100, timeoutSeconds=5))  # fmt: skip

        assert pod.run(text_of(workload(main), where), PBS_NODEFILE=str(nodefile), **as_root) == 0, pod.log()

        assert pod.log().split() == ["2", "2"]  # one line, which both ranks see
        assert state(pod)[-1] == (0, True, True)

    def test_a_container_that_starts_ranks_itself_is_asked_as_any_other(self, pod: Pod) -> None:
        nodefile = pod.work / "nodefile"
        nodefile.write_text("n1\nn1\nn2\nn2\n")
        where = site(images=[{"match": "mpi:*", "path": str(SIF)}], mpi=[{"name": "m", "launcher": "openmpi"}])
        main = sh("echo own >/own; sleep 4; cat /tmp/seen; exit 5; mpirun -np 4 ring", image="mpi:1",
                  readinessProbe=probe("sh", "-c", "cat /own >/tmp/seen", timeoutSeconds=5))  # fmt: skip
        hints = {"batchgate.dev/ranks": "4", "batchgate.dev/nodes": "2"}
        text = text_of(workload(main, annotations=hints), where)
        assert " launches " in text

        assert pod.run(text, PBS_NODEFILE=str(nodefile)) == 5, pod.log()

        assert (pod.log(), state(pod)[-1]) == ("own\n", (0, True, True))

    @pytest.mark.skipif(os.getuid() != 0, reason="needs root to become another user")
    def test_where_nobody_may_enter_the_container_is_not_run(self, pod: Pod) -> None:
        """A runtime with setuid makes no user namespace. Root needs none, so here the script is told that it is not root."""
        where = site(images=[{"match": "mpi:*", "path": str(SIF)}])
        main = sh("sleep 100", image="mpi:1", readinessProbe=probe("true"))

        assert pod.run(text_of(workload(main), where).replace("((!EUID)) ||", "")) == 126

        found = pod.exit() or {}
        words = "lets nobody enter its containers, as hooks and probes must; it is installed with setuid"
        assert (found["reason"], found["message"].partition(" on ")[0]) == (
            "CreateContainerError",
            "the container runtime",
        )
        assert words in found["message"]
        assert words in pod.log()

    def test_there_the_network_can_still_be_asked(self, tmp_path: Path) -> None:
        where = site(images=[{"match": "mpi:*", "path": str(SIF)}])
        with server([200]) as (port, _):
            probes: dict[str, Any] = {
                "readinessProbe": {"httpGet": {"port": port}},
                "lifecycle": {"preStop": {"sleep": {"seconds": 1}}},
            }
            pod = Pod(tmp_path).make()
            text = text_of(workload(sh("sleep 4; exit 6", image="mpi:1", **probes)), where)
            assert pod.run(text.replace("((!EUID)) ||", "")) == 6

        assert state(pod)[-1] == (0, True, True)
