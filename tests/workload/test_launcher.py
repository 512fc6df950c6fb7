"""Launchers found, read and lifted; and left alone wherever that is not certain to be right."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from router.workload import workload_of
from router.workload.expand import argv
from router.workload.launcher import NotLifted, find_launcher
from router.workload.launchernames import mention
from router.workload.model import Container, ContainerKind, EnvVar, Launcher
from router.workload.shellbudget import ShellBudget

PATH = "the command"


def find(
    *command: str,
    args: tuple[str, ...] | None = None,
    env: dict[str, str | None] | None = None,
    env_from: bool = False,
) -> Launcher | NotLifted | None:
    variables = tuple(EnvVar(name, value) for name, value in (env or {}).items())
    return find_launcher(
        Container("c", ContainerKind.MAIN, "p", "image", command or None, args, variables, env_from),
        PATH,
        ShellBudget(),
    )


def lifted(*command: str, **others: object) -> Launcher:
    found = find(*command, **others)  # type: ignore[arg-type]
    assert isinstance(found, Launcher), found
    return found


def line(text: str) -> list[str]:
    return text.split()


def summary(launcher: Launcher) -> tuple[str, tuple[str, ...], int | None]:
    return launcher.program, launcher.argv, launcher.ranks.value if launcher.ranks else None


SOLVER = ("./solver", "input")

FOUND = [
    # where it stands
    (("mpirun", "-np", "8", *SOLVER), ("mpirun", SOLVER, 8)),
    (("/usr/bin/mpirun", "-n", "8", *SOLVER), ("mpirun", SOLVER, 8)),
    (("mpiexec", "-n", "8", *SOLVER), ("mpiexec", SOLVER, 8)),
    (("mpiexec.hydra", "-n", "8", *SOLVER), ("mpiexec.hydra", SOLVER, 8)),
    (("/opt/openmpi/bin/mpirun.openmpi", "-c", "8", *SOLVER), ("mpirun.openmpi", SOLVER, 8)),
    (("orterun", "--np", "8", *SOLVER), ("orterun", SOLVER, 8)),
    (("prterun", "--np", "8", *SOLVER), ("prterun", SOLVER, 8)),
    (("srun", "-n", "8", *SOLVER), ("srun", SOLVER, 8)),
    (("srun", "-n8", *SOLVER), ("srun", SOLVER, 8)),
    (("srun", "--ntasks=8", *SOLVER), ("srun", SOLVER, 8)),
    (("srun", "--ntasks", "8", "--", *SOLVER), ("srun", SOLVER, 8)),
    (("mpirun", *SOLVER), ("mpirun", SOLVER, None)),
    (("sh", "-c", "mpirun -np 8 ./solver input"), ("mpirun", SOLVER, 8)),
    (("bash", "-c", "mpirun -np 8 ./solver input"), ("mpirun", SOLVER, 8)),
    (("/bin/sh", "-ec", "mpirun -np 8 ./solver input"), ("mpirun", SOLVER, 8)),
    (("bash", "-euo", "pipefail", "-c", "mpirun -np 8 ./solver input"), ("mpirun", SOLVER, 8)),
    (("bash", "-o", "pipefail", "-c", "mpirun -np 8 ./solver input"), ("mpirun", SOLVER, 8)),
    # what changes nothing about the one command
    (("tini", "--", "mpirun", "-np", "8", *SOLVER), ("mpirun", SOLVER, 8)),
    (("/sbin/tini", "-g", "mpirun", "-np", "8", *SOLVER), ("mpirun", SOLVER, 8)),
    (("dumb-init", "bash", "-c", "exec mpirun -np 8 ./solver input"), ("mpirun", SOLVER, 8)),
    (("sh", "-c", "mpirun -np 8 ./solver input;"), ("mpirun", SOLVER, 8)),
    (("sh", "-c", "mpirun -np 8 ./solver input ;\n # ;\n"), ("mpirun", SOLVER, 8)),
    (("sh", "-c", "set -e; mpirun -np 8 ./solver input"), ("mpirun", SOLVER, 8)),
    (("sh", "-c", "# é\nset -e -u\nset -o errexit && mpirun -np 8 ./solver input\n"), ("mpirun", SOLVER, 8)),
    (("bash", "-c", "set -euo pipefail\nexec mpirun -np 8 ./solver input;"), ("mpirun", SOLVER, 8)),
    (("sh", "-c", "set -eu; mpirun -np 8 ./a $X"), ("mpirun", ("sh", "-c", "set -eu; exec ./a $X"), 8)),
    (("sh", "-c", "mpirun -np 8 ./solver input 2>&1"), ("mpirun", SOLVER, 8)),
    (("sh", "-c", "set -e; mpirun -np 8 ./a é 2>&1;"), ("mpirun", ("./a", "é"), 8)),
    (("sh", "-c", "mpirun -np 8 ./a >/dev/null"), ("mpirun", ("sh", "-c", "exec ./a >/dev/null"), 8)),
    (("sh", "-c", "mpirun -np 8 ./a 'x y' > /dev/null"), ("mpirun", ("sh", "-c", "exec ./a 'x y' >/dev/null"), 8)),
    # a login shell may set the PATH that finds the program, so each rank has one
    (("bash", "-lc", "mpirun -np 8 ./solver"), ("mpirun", ("bash", "-lc", "exec ./solver"), 8)),
    (("bash", "-l", "-c", "mpirun -np 8 ./solver"), ("mpirun", ("bash", "-l", "-c", "exec ./solver"), 8)),
    (("bash", "--login", "-c", "mpirun -np 8 ./a"), ("mpirun", ("bash", "--login", "-c", "exec ./a"), 8)),
    (("sh", "-c", "exec mpirun -np 8 ./solver input"), ("mpirun", SOLVER, 8)),
    (("sh", "-c", "time -p mpirun -np 8 ./solver input"), ("mpirun", SOLVER, 8)),
    (("sh", "-c", "nice -n 5 /usr/bin/mpirun -np 8 ./solver input"), ("mpirun", SOLVER, 8)),
    (("env", "A=1", "mpirun", "-np", "8", *SOLVER), ("mpirun", SOLVER, 8)),
    (("env", "A=1", "bash", "-c", "exec mpirun -np 8 ./solver input"), ("mpirun", SOLVER, 8)),
    (("nohup", "mpirun", "-np", "8", *SOLVER), ("mpirun", SOLVER, 8)),
    # quotes, comments, lines
    (
        ("sh", "-c", "mpirun -np 8 ./solver 'a b' \"c d\" e\\ f ''"),
        ("mpirun", ("./solver", "a b", "c d", "e f", ""), 8),
    ),
    (("sh", "-c", "\n# the run\nmpirun -np 8 \\\n  ./solver input # done\n\n"), ("mpirun", SOLVER, 8)),
    (("sh", "-c", "mpirun -np 8 ./solver input\n"), ("mpirun", SOLVER, 8)),
    (("sh", "-c", "mpirun -np '8' ./solver \"x;y|z\""), ("mpirun", ("./solver", "x;y|z"), 8)),
    (("sh", "-c", "mpirun -np 8 sh -c 'cd /tmp && ./a > out'"), ("mpirun", ("sh", "-c", "cd /tmp && ./a > out"), 8)),
    (("sh", "-c", "mpirun -np 8 ./solver 'it costs $5'"), ("mpirun", ("./solver", "it costs $5"), 8)),
    (("sh", "-c", "mpirun -np 8 ./solver \\$HOME"), ("mpirun", ("./solver", "$HOME"), 8)),
    # what the shell would expand, it expands per rank
    (("sh", "-c", "mpirun -np 8 ./solver $INPUT"), ("mpirun", ("sh", "-c", "exec ./solver $INPUT"), 8)),
    (("bash", "-ec", 'mpirun -np 8 ./solver "$A b" *.in'), ("mpirun", ("bash", "-ec", 'exec ./solver "$A b" *.in'), 8)),
    (("sh", "-c", "mpirun -np 8 ./solver $(IN) # x"), ("mpirun", ("sh", "-c", "exec ./solver $(IN)"), 8)),
    (("sh", "-c", "mpirun -np 8 ~/solver"), ("mpirun", ("sh", "-c", "exec ~/solver"), 8)),
    (("bash", "-c", "mpirun -np 8 ./s {a,b}"), ("mpirun", ("bash", "-c", "exec ./s {a,b}"), 8)),
    (("sh", "-c", "mpirun -np 8 ./s $1", "name", "x"), ("mpirun", ("sh", "-c", "exec ./s $1", "name", "x"), 8)),
    # no shell: nothing is expanded, and Kubernetes' own references stay
    (
        ("mpirun", "-np", "8", "./solver", "$HOME", "*.in", "$(IN)"),
        ("mpirun", ("./solver", "$HOME", "*.in", "$(IN)"), 8),
    ),
    # the last -np counts, as with the launchers themselves
    (("mpirun", "-np", "2", "-np", "8", *SOLVER), ("mpirun", SOLVER, 8)),
]


@pytest.mark.parametrize(("command", "expected"), FOUND, ids=range(len(FOUND)))
def test_a_launcher_is_lifted_where_it_is_the_whole_command(
    command: tuple[str, ...], expected: tuple[str, tuple[str, ...], int | None]
):
    assert summary(lifted(*command)) == expected


def test_a_launcher_in_args_is_found():
    assert summary(lifted(args=("mpirun", "-np", "8", *SOLVER))) == ("mpirun", SOLVER, 8)


def test_command_and_args_are_read_as_one():
    assert summary(lifted("mpirun", args=("-np", "8", *SOLVER))) == ("mpirun", SOLVER, 8)
    assert summary(lifted("bash", "-c", args=("mpirun -np 8 ./solver input",))) == ("mpirun", SOLVER, 8)


def test_every_option_that_has_a_meaning_here_is_kept():
    found = lifted(
        *line("mpirun -np 8 --map-by ppr:4:node:PE=2 --bind-to core -x OMP_NUM_THREADS -x MODE=fast"),
        *line("--oversubscribe -wdir /scratch -genv A 1 -genv B=2 -env C 3 -genvlist D,E ./solver"),
    )
    assert found.ranks is not None
    assert found.ranks_per_node is not None
    assert found.cores_per_rank is not None
    assert found == Launcher(
        program="mpirun",
        argv=("./solver",),
        source=PATH,
        ranks=found.ranks,
        ranks_per_node=found.ranks_per_node,
        environment=(
            *(
                ("OMP_NUM_THREADS", None),
                ("MODE", "fast"),
                ("A", "1"),
                ("B", "2"),
                ("C", "3"),
                ("D", None),
                ("E", None),
            ),
        ),
        working_dir="/scratch",
        mapping="ppr:4:node:PE=2",
        binding="core",
        dropped=("--oversubscribe",),
        cores_per_rank=found.cores_per_rank,
    )
    assert (found.ranks.value, found.ranks.origin) == (8, "mpirun -np 8 in the command")
    assert (found.ranks_per_node.value, found.cores_per_rank.value) == (4, 2)


@pytest.mark.parametrize("words", ["-m cyclic", "--distribution=cyclic", "--distribution cyclic"])
def test_srun_s_distribution_is_a_mapping(words: str) -> None:
    assert lifted(*line(f"srun -n 4 {words} ./solver")).mapping == "cyclic"


def test_srun_has_meanings_of_its_own():
    found = lifted(*line("srun -N 2 --ntasks-per-node=4 -c2 --cpu-bind=cores --export=ALL,A=1,B -D /s ./solver"))
    assert (
        found.nodes and found.nodes.value,
        found.ranks_per_node and found.ranks_per_node.value,
        found.cores_per_rank and found.cores_per_rank.value,
        found.binding,
        found.environment,
        found.working_dir,
        found.dropped,
    ) == (2, 4, 2, "cores", (("A", "1"), ("B", None)), "/s", ())


@pytest.mark.parametrize(
    "option", ["-N 4", "-npernode 4", "--npernode 4", "-ppn 4", "-perhost 4", "--map-by ppr:4:node"]
)
def test_ranks_per_node_have_many_spellings(option: str):
    found = lifted("mpirun", *option.split(), "./solver").ranks_per_node
    assert found is not None
    assert found.value == 4


@pytest.mark.parametrize(
    ("options", "origin"),
    [
        ("mpirun --map-by socket:pe=2", "mpirun --map-by socket:pe=2 in the command"),
        ("mpirun --map-by=socket:pe=2", "mpirun --map-by socket:pe=2 in the command"),
        ("mpirun -map-by ppr:4:node:PE=2", "mpirun -map-by ppr:4:node:PE=2 in the command"),
        ("mpirun -ppr 4:node:pe=2", "mpirun -ppr 4:node:pe=2 in the command"),
        ("srun --cpus-per-task=2", "srun --cpus-per-task 2 in the command"),
    ],
)
def test_the_origin_of_a_figure_is_the_option_with_its_value_as_written(options: str, origin: str):
    found = lifted(*options.split(), "./solver").cores_per_rank
    assert found is not None
    assert (found.value, found.origin) == (2, origin)


def test_the_origin_of_a_range_of_nodes_is_the_range():
    nodes = lifted(*line("srun -N 2-4 -n 8 ./solver")).nodes
    assert nodes is not None
    assert (nodes.value, nodes.origin) == (2, "srun -N 2-4 in the command")


DROPPED = [
    ("--hostfile hosts", ("--hostfile hosts",)),
    ("-machinefile hosts", ("-machinefile hosts",)),
    ("-f hosts", ("-f hosts",)),
    ("-H a,b", ("-H a,b",)),
    ("--host a:2,b:2", ("--host a:2,b:2",)),
    ("--mca plm rsh", ("--mca plm rsh",)),
    ("--mca btl self,tcp --mca pml ob1", ("--mca btl self,tcp", "--mca pml ob1")),
    ("--allow-run-as-root", ("--allow-run-as-root",)),
    ("--prefix /opt/mpi --tag-output", ("--prefix /opt/mpi", "--tag-output")),
    ("--frobnicate -v", ("--frobnicate", "-v")),
    ("--frobnicate=yes", ("--frobnicate=yes",)),
    ("-bootstrap ssh -iface ib0", ("-bootstrap ssh", "-iface ib0")),
]


@pytest.mark.parametrize(("options", "dropped"), DROPPED)
def test_what_is_the_sites_business_is_dropped_by_name(options: str, dropped: tuple[str, ...]):
    found = lifted(*f"mpirun {options} -np 8 ./solver input".split())
    assert (summary(found), found.dropped) == (("mpirun", SOLVER, 8), dropped)


def test_sruns_own_options_are_dropped_with_their_values():
    found = lifted(*line("srun --mpi=pmix -p debug -t 10 --gres gpu:1 -lu -n 8 ./solver input"))
    assert (summary(found), found.dropped) == (
        ("srun", SOLVER, 8),
        ("--mpi=pmix", "-p debug", "-t 10", "--gres gpu:1", "-lu"),
    )


def test_variables_set_before_the_launcher_reach_the_ranks():
    found = lifted("sh", "-c", "A=1 B='x y' env C=3 mpirun -x D -np 8 ./solver input")
    assert found.environment == (("A", "1"), ("B", "x y"), ("C", "3"), ("D", None))


@pytest.mark.parametrize(
    ("words", "seconds"),
    [
        ("timeout 600", 600),
        ("/usr/bin/timeout 5m", 300),
        ("timeout --foreground -s TERM 2h", 7200),
        ("timeout --signal=15 -- 1d", 86400),
        ("timeout -sSIGTERM 90s", 90),
        ("timeout 0", 0),
        ("timeout 90 timeout 60", 60),
        ("timeout 60 timeout 0", 60),
        ("tini -- timeout 60 nice", 60),
    ],
)
def test_a_timeout_is_a_limit_of_the_launcher(words: str, seconds: int) -> None:
    for command in ([*words.split(), "mpirun", "-np", "8", "./a"], ["sh", "-c", f"set -e; {words} mpirun -np 8 ./a;"]):
        found = lifted(*command)
        assert (found.time_limit, summary(found)) == (seconds, ("mpirun", ("./a",), 8))


def test_values_that_the_manifest_gives_are_resolved():
    env: dict[str, str | None] = {"NP": "8", "DIR": "/data"}
    assert summary(lifted("mpirun", "-np", "$(NP)", *SOLVER, env=env)) == ("mpirun", SOLVER, 8)
    assert summary(lifted("sh", "-c", "mpirun -np $NP ./solver input", env=env)) == ("mpirun", SOLVER, 8)
    assert summary(lifted("sh", "-c", 'mpirun -np "${NP}" ./solver input', env=env)) == ("mpirun", SOLVER, 8)
    assert summary(lifted("sh", "-c", "mpirun -np $(NP) ./solver input", env=env)) == ("mpirun", SOLVER, 8)
    assert lifted("mpirun", "-wdir", "$(DIR)", "./a", env=env).working_dir == "/data"


PROGRAM = "./program 'a  b' $X"
FORMS = [
    f"mpirun -np 8 {PROGRAM};",
    f"set -e; mpirun -np 8 {PROGRAM}",
    f"set -eu; mpirun -np 8 {PROGRAM}; # the end",
    f"set -euo pipefail\n# before\nexec mpirun -np 8 {PROGRAM} 2>&1\n",
    f"set -u; mpirun -np 8 {PROGRAM} >/dev/null",
    f"set -u && mpirun -np 8 {PROGRAM}",
    f"mpirun -np 8 {PROGRAM} 1> /dev/null;",
]


@pytest.mark.parametrize("text", FORMS)
@pytest.mark.parametrize("code", ["0", "3"])
@pytest.mark.parametrize("variable", [{}, {"X": "c d"}])
def test_a_real_shell_does_the_same(text: str, code: str, variable: dict[str, str], tmp_path: Path) -> None:
    """A launcher that starts one rank has the output and the exit code of what is lifted from its text."""
    for name, lines in (
        ("mpirun", 'shift 2; exec "$@"'),
        ("program", f'printf "<%s>" "$@"; echo error >&2; exit {code}'),
    ):
        (tmp_path / name).write_text(f"#!/bin/sh\n{lines}\n")
        (tmp_path / name).chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", **variable}

    def run(*words: str) -> tuple[int, bytes]:
        done = subprocess.run(
            words, cwd=tmp_path, env=environment, stdout=-1, stderr=subprocess.STDOUT, check=False, timeout=120
        )
        return done.returncode, done.stdout

    as_written, as_lifted = run("bash", "-c", text), run(*lifted("bash", "-c", text).argv)
    if b"unbound variable" in as_written[1]:
        assert (as_lifted[0], b"unbound variable" in as_lifted[1]) == (as_written[0], True)
    else:
        assert as_lifted == as_written


STAYS = [
    ("cd /work && mpirun -np 8 ./solver", "stands in a list of commands (&&)"),
    ("mpirun -np 8 ./solver || true", "stands in a list of commands (||)"),
    ("mpirun -np 8 ./solver | tee log", "stands in a pipeline"),
    ("mpirun -np 8 ./solver > log 2>&1", "stands in a command with a redirection"),
    ("mpirun -np 8 ./solver < in", "stands in a command with a redirection"),
    ("mpirun -np 8 ./solver &", "stands in a background command"),
    ("(mpirun -np 8 ./solver)", "stands in a subshell or function"),
    ("set -ex; mpirun -np 8 ./solver", "stands in a list of commands (;)"),
    ("set -euo pipefail; mpirun -np 8 ./solver", "stands in a list of commands (;)"),  # an error in dash
    ("set -e -- a; mpirun -np 8 ./solver", "stands in a list of commands (;)"),
    ("set -e || mpirun -np 8 ./solver", "stands in a list of commands (||)"),
    ("set -e; set -u", None),
    ("mpirun -np 8 ./solver; set -e", "stands in a list of commands (;)"),
    ("set -e & mpirun -np 8 ./solver", "stands in a background command"),
    ("mpirun -np 8 ./solver; ./b;", "stands in a list of commands (;)"),
    ("mpirun -np 8 ./solver >>log", "stands in a command with a redirection"),
    ("mpirun -np 8 ./solver 2>/dev/null", "stands in a command with a redirection"),
    ("mpirun -np 8 ./solver >/dev/null 2>&1", "stands in a command with a redirection"),
    ("mpirun -np 8 2>&1 ./solver", "stands in a command with a redirection"),
    ("mpirun -np 8 ./solver 2>&1 x", "stands in a command with a redirection"),
    ("mpirun -np 8 ./solver\necho done\n", "stands in a script of several commands"),
    ("while true\ndo mpirun ./solver\ndone", "stands in a loop, a condition or a group"),
    ("for i in 1 2 3; do mpirun -np 8 ./solver $i; done", "stands in a loop, a condition or a group"),
    ("for i in $(seq 3)\ndo\n  mpirun -np 8 ./solver $i\ndone", "stands in a loop, a condition or a group"),
    ("if [ -f in ]; then mpirun ./solver in; fi", "stands in a loop, a condition or a group"),
    ("[[ -f in ]] && mpirun ./solver in", "stands in a loop, a condition or a group"),
    ("until mpirun ./solver; do sleep 1; done", "stands in a loop, a condition or a group"),
    ("{ mpirun ./solver }", "stands in a loop, a condition or a group"),
    ("! mpirun ./solver", "stands in a loop, a condition or a group"),
    ("mpirun -np 8 ./solver `date`", "stands in a command with a substitution in backticks"),
    ("mpirun -np 8 ./solver $(date '+%s')", "stands in a command with a substitution that is not plain"),
    ("mpirun -np 8 ./solver $'a'", "stands in a command with $'…' quotes"),
    ("mpirun -np 8 ./solver 'a", "stands in a command with an unclosed quote"),
    ('mpirun -np 8 ./solver "a', "stands in a command with an unclosed quote"),
    ("mpirun -np 8 ./solver \\", "stands in a command that ends in a backslash"),
    ("echo mpirun", "is not the first command of the container, which is echo"),
    ("timeout -k 5 1h mpirun -np 8 ./solver", "stands behind timeout -k"),
    ("timeout -s KILL 1h mpirun -np 8 ./solver", "stands behind timeout -s"),
    ("timeout -s=TERM 1h mpirun -np 8 ./solver", "stands behind timeout -s=TERM"),
    ("timeout --signal==TERM 1h mpirun -np 8 ./solver", "stands behind timeout --signal==TERM"),
    ("timeout -s 1h mpirun -np 8 ./solver", "stands behind timeout -s"),
    ("timeout 5 exec mpirun -np 8 ./solver", "stands behind exec, which is no program"),
    ("nice exec mpirun -np 8 ./solver", "stands behind exec, which is no program"),
    ("exec exec mpirun -np 8 ./solver", "stands behind exec, which is no program"),
    ("env command mpirun -np 8 ./solver", "stands behind command, which is no program"),
    ("/bin/exec mpirun -np 8 ./solver", "stands behind /bin/exec, which is no program"),
    ("timeout --preserve-status 1h mpirun -np 8 ./solver", "stands behind timeout --preserve-status"),
    *[
        (
            f"timeout {duration} mpirun -np 8 ./solver",
            "stands behind a timeout that is not a whole number of seconds, minutes, hours or days",
        )
        for duration in ("0.5", "1w", "$T", "-- $(T)", "9999999999")
    ],
    ("/usr/bin/stdbuf -oL mpirun -np 8 ./solver", "is not the first command of the container, which is stdbuf"),
    ("bash -c 'mpirun -np 8 ./solver'", "is not the first command of the container, which is bash"),
    ("'a b/c d' mpirun", "is not the first command of the container"),
    ("module load openmpi && mpirun -np 8 ./solver", "stands in a list of commands (&&)"),
    ("source /opt/intel/setvars.sh; mpirun -np 8 ./solver", "stands in a list of commands (;)"),
    ("set -ex\nexport A=1\nexec mpirun -np 8 ./solver", "stands in a script of several commands"),
    ("[ -f in ] && mpirun -np 8 ./solver in", "stands in a list of commands (&&)"),
    ("trap 'rm -f x' EXIT; mpirun -np 8 ./solver", "stands in a list of commands (;)"),
    ("mpirun -np 8 ./solver; exit $?", "stands in a list of commands (;)"),
    ("mpirun -np 8 ./solver 2>&1 | tee log", "stands in a command with a redirection"),
    ("mpirun -np 8 ./solver |& tee log", "stands in a pipeline"),
    ("mpirun -np 8 ./solver <<EOF\n1\nEOF\n", "stands in a command with a redirection"),
    ("mpirun -np 8 ./solver & wait", "stands in a background command"),
    ("mpirun -np $(nproc) ./solver", "has -np $(nproc), whose value is known only when it runs; write it out"),
    ("mpirun -np ${NP:-4} ./solver", "has -np ${NP:-4}, whose value is known only when it runs; write it out"),
    ("eval mpirun -np 8 ./solver", "is not the first command of the container, which is eval"),
    ("exec -a name mpirun -np 8 ./solver", "stands behind exec -a"),
    ("sudo -E mpirun -np 8 ./solver", "is not the first command of the container, which is sudo"),
    ("mpirun -np 4 ./a : -np 4 ./b", "starts several programs (':'), which cannot be told apart by rank here"),
    ("mpirun --app plan", "has --app, which is not one program on many ranks"),
    ("srun --multi-prog plan", "has --multi-prog, which is not one program on many ranks"),
    ("mpirun -np 8", "is followed by no program"),
    ("mpirun -np", "has -np without its value"),
    ("mpirun -np 0 ./a", "has -np 0, which is not a whole number from 1 to 1000000"),
    ("mpirun --map-by socket:pe=0 ./a", "has --map-by socket:pe=0, where 0 is not a whole number from 1 to 1000000"),
    ("srun -N 0-2 ./a", "has -N 0-2, where 0 is not a whole number from 1 to 1000000"),
    ("mpirun -np many ./a", "has -np many, which is not a whole number from 1 to 1000000"),
    ("mpirun -np $N ./a", "has -np $N, whose value is known only when it runs; write it out"),
    ("mpirun -np $((2*4)) ./a", "has -np $((2*4)), whose value is known only when it runs; write it out"),
    ("A=$B mpirun ./a", "gets A from a value that is known only when it runs; set it in env"),
    ("env -i mpirun ./a", "stands behind env -i"),
    (
        "mpirun --frobnicate ./a in",
        (
            "has the unknown option --frobnicate, after which it cannot be told where the program starts; "
            "write it before another option, or leave it out"
        ),
    ),
    ("srun -ln8 ./a", "has -ln8, several options in one; write them apart"),
]


@pytest.mark.parametrize(("script", "why"), STAYS, ids=range(len(STAYS)))
def test_a_launcher_that_is_not_the_whole_command_stays(script: str, why: str | None):
    found = find("sh", "-c", script)
    assert found == (None if why is None else NotLifted("srun" if "srun" in script else "mpirun", why))


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (("bash", "/run-mpirun.sh", "mpirun"), "stands in a script that bash reads from a file"),
        (("bash", "script.sh", "mpirun"), "stands in a script that bash reads from a file"),
        (("bash", "-i", "-c", "mpirun ./a"), "stands behind bash -i"),
        (("bash", "-c"), None),
        (("sh", "-c", "mpirun ./a" + " x" * 40000), "stands in a script that is too long to look into"),
    ],
)
def test_other_ways_to_a_shell(command: tuple[str, ...], why: str | None):
    assert find(*command) == (None if why is None else NotLifted("mpirun", why))


@pytest.mark.parametrize(
    "command",
    [
        ("python", "train.py"),
        ("./mpirun-benchmark",),
        ("./my_srun",),
        ("cat", "mpirun.sh"),
        ("sh", "-c", "echo rpmpirun"),
    ],
)
def test_what_only_looks_like_a_launcher_is_none(command: tuple[str, ...]):
    assert find(*command) is None


def test_a_value_known_only_later_is_never_guessed():
    assert find("mpirun", "-np", "$(NP)", "./a", env={"NP": None}) == NotLifted(
        "mpirun", "has -np $(NP), whose value is known only when it runs; write it out"
    )
    assert isinstance(find("mpirun", "-np", "$(NP)", "./a", env_from=True), NotLifted)


def test_shell_syntax_in_a_variable_that_kubernetes_puts_in_is_seen():
    found = find("sh", "-c", "mpirun ./a $(ARGS)", env={"ARGS": "x; rm y"})
    assert found == NotLifted("mpirun", "stands in a command whose $(ARGS) holds shell syntax")
    found = find("sh", "-c", "# $(ARGS)\nset -e; mpirun ./a", env={"ARGS": "x; rm y"})
    assert found == NotLifted("mpirun", "stands in a command whose $(ARGS) holds shell syntax")


def test_the_program_runs_with_the_values_of_its_references():
    job = {
        "spec": {
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [
                        {
                            "name": "c",
                            "command": ["sh", "-c", "mpirun -np 2 ./a $(IN) $$HOME"],
                            "env": [{"name": "IN", "value": "data"}],
                        }
                    ],
                }
            }
        }
    }
    (container,) = workload_of(job, namespace="n").containers
    assert argv(container) == ("sh", "-c", "exec ./a data $HOME")


def test_a_launcher_is_found_wherever_it_is_named():
    assert mention(["xmpirun", "a mpirun-np srun.sh; srun -n 4 && mpirun b"]) == "srun"
    assert mention(["exec mpirun.mpich x"]) == "mpirun.mpich"
    assert mention(["mpirun-" * 1000, "run", "mpirun.sh"]) == ""
    assert mention(["x" * 100_000 + " mpiexec"]) == "mpiexec"


def test_no_text_is_searched_beyond_what_a_script_can_hold():
    assert mention(["x" * 262_144 + " mpirun"]) == ""
