from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.policy import conditions, variables
from router.policy.conditions import Condition, Fault, Read
from router.policy.decision import QueueState, Requester
from router.policy.variables import QueueNow
from router.site.schema import Queue
from router.workload.model import Workload
from tests.policy.given import UNHURRIED, workload

ASKING = Requester("ada", ("staff", "physicists"), "lab", {"tier": "gold"}, 1_772_404_200.9)
"""A Sunday, 2026-03-01T22:30:00Z: in Berlin half past eleven at night, in Tokyo already Monday."""
NOTHING = workload()
MUCH = workload({"cpu": "2500m", "memory": "3Gi", "nvidia.com/gpu": "2"}, parallelism=3, activeDeadlineSeconds=7200)
QUEUE = Queue(name="q", nodes=2, cpus_per_node=4)
QUEUES = {
    "q": QueueNow(QUEUE, QueueState("s", "q", up=True, free_nodes=0), "Europe/Berlin"),
    "unknown": QueueNow(QUEUE, None, "UTC"),
}


def _verdict(source: str, about: Workload = MUCH) -> bool | str:
    condition = conditions.compile_condition(source)
    assert isinstance(condition, Condition)
    queues = {key: variables.queue_message(now) for key, now in QUEUES.items()}
    values = conditions.activation(
        variables.job_message(about),
        variables.request_message(ASKING),
        queues,
    )
    return conditions.evaluate(condition, values)


HOLDS = [
    "true",
    "job.cpus == 3 && job.totalCpus == 8",  # 2.5 cores rounded up; 7.5 in all, rounded up
    "job.memory == quantity('3Gi') && job.totalMemory == 9 * 1024 * 1024 * 1024",
    "job.gpus == 2 && job.totalGpus == 6 && job.gpuVendor == 'nvidia'",
    "job.walltime == seconds('2h') && job.walltime == seconds('2:00:00')",
    "job.parallelism == 3 && job.pods == 3",
    "!job.mpi && !has(job.ranks) && job.ranks == 0",
    "job.images == ['registry.example.org/tool:1'] && job.containers == ['main']",
    "job.images.exists(i, i.startsWith('registry.example.org/'))",
    "job.labels['team'] == 'x' && job.labels.team == 'x' && !('no' in job.labels)",
    "request.user == 'ada' && 'physicists' in request.groups && request.namespace == 'lab'",
    "request.namespaceLabels['tier'] == 'gold'",
    "queues['q'].up && has(queues['q'].freeNodes) && queues['q'].freeNodes == 0",
    "!has(queues['unknown'].up) && !queues['unknown'].up && !has(queues['unknown'].freeNodes)",
    "queues['unknown'].nodes == 2 && !has(queues['unknown'].walltimeMax)",
    "queues.exists(q, queues[q].up) && 'q' in queues && !('x' in queues)",
    "job.name.matches('^j$') && job.restartPolicy == 'Never'",
    "quantity(string(job.gpus)) == 2",
    "\"quantity('1Gx')\" != '' // seconds('soon')\n",
    "(job).mpi == dyn(job).mpi",
    "request.time == timestamp('2026-03-01T22:30:00Z') && has(request.time)",
    "request.time.getHours() == 22 && request.time.getHours('Europe/Berlin') == 23",
    "request.time.getDayOfWeek() == 0 && request.time.getDayOfWeek('Asia/Tokyo') == 1",
    "request.time.getHours(queues['q'].timeZone) == 23 && request.time.getHours(queues['unknown'].timeZone) == 22",
    "request.time < timestamp('2026-03-01T23:00:00+01:00') + duration('31m')",
    r"job.name.matches(r'^\w$') && matches(job.name, '^[a-j]') && job.name.matches(job.name)",
]


@pytest.mark.parametrize("source", HOLDS)
def test_what_holds(source: str) -> None:
    assert _verdict(source) is True
    assert _verdict(f"!({source})") is False


@pytest.mark.parametrize("figure", ["cpus", "totalCpus", "memory", "totalMemory", "gpus", "walltime", "ranks", "nodes"])
def test_what_nobody_asked_for_reads_0_and_is_not_there(figure: str) -> None:
    assert _verdict(f"job.{figure} == 0 && !has(job.{figure})", NOTHING) is True


def test_asking_for_0_is_not_asking_for_nothing() -> None:
    assert _verdict("job.cpus == 0 && has(job.cpus)", workload({"cpu": "0"})) is True


ERRORS = [
    ("job.labels['nope'] == 'x'", 'Key not found in map : "nope"'),
    ("queues['nope'].up", 'Key not found in map : "nope"'),
    ("9223372036854775807 + job.gpus > 0", "integer overflow"),
    ("job.cpus / (job.gpus - 2) == 1", "divide by zero"),
    ("quantity(job.name) > 1", "'j' is not a quantity such as 500m, 2, 1.5Gi or 1e3"),
]


@pytest.mark.parametrize(("source", "message"), ERRORS)
def test_an_evaluation_error_never_holds(source: str, message: str) -> None:
    assert message == _verdict(source)
    assert _verdict(f"{source} || true") is True  # CEL's own rule: the other side decides


FAULTS = [
    (
        "request.time.getHours('Europe/Berln') < 6",
        22,
        "'Europe/Berln' is not a time zone; write a name such as Europe/Berlin, or UTC",
    ),
    ("request.time.getHours('') < 6", 22, "'' is not a time zone; write a name such as Europe/Berlin, or UTC"),
    ("request.time > timestamp('noon')", 25, "String to Timestamp conversion failed"),
    ("request.time > 5", 13, "> does not work on Timestamp and int"),
    (
        "getHours(request.time) > 3",
        0,
        "getHours is called on a value, as in request.time.getHours('Europe/Berlin')",
    ),
    ("request.time.getHour() > 5", 13, "there is no function 'getHour'; did you mean getHours?"),
    ("", 0, "the condition ends too early"),
    ("job.cpus >", 10, "the condition ends too early"),
    ("job.cpus", 0, "is int, not true or false; compare it with something"),
    ("'x'", 0, "is string, not true or false; compare it with something"),
    ("job.cpu > 3", 4, "job has no 'cpu'; did you mean cpus?"),
    ("cpus > 3", 0, "there is no 'cpus'; did you mean job.cpus?"),
    ("namspace == 'x'", 0, "there is no 'namspace'; did you mean request.namespace?"),
    ("queues['q'].freeNodez > 1", 12, "queues['…'] has no 'freeNodez'; did you mean freeNodes?"),
    ("job.cpus > 3.5", 9, "> does not work on int and double; figures are whole numbers: write 3, not 3.0"),
    ("request.namespace = 'prod'", 18, "= is not an operator; compare with =="),
    ("job.gpus > 0 & job.mpi", 13, "& is not an operator; write && for and"),
    ("job.gpus > 0 | job.mpi", 13, "| is not an operator; write || for or"),
    ("job.cpus => 3", 9, "=> is not an operator; write >="),
    ("job.memory > '64Gi'", 11, "> does not work on int and string; write quantity('64Gi')"),
    ('job.walltime <= "1h"', 13, '<= does not work on int and string; write seconds("1h")'),
    ("job.cpus > '4'", 9, "> does not work on int and string; write a number, without quotes: 4"),
    (
        "job.walltime > duration('1h')",
        13,
        "> does not work on int and duration; times are whole seconds: write seconds('1h')",
    ),
    (
        "request.groups.contains('physics')",
        23,
        "contains does not work on list(string) and string; for a list write 'physics' in request.groups",
    ),
    (
        "request.groups == 'physics'",
        15,
        "== does not work on list(string) and string; for a list write 'physics' in request.groups",
    ),
    (
        "request.groups in 'physics'",
        15,
        "in does not work on list(string) and string; for a list write 'physics' in request.groups",
    ),
    (
        "request.user == 'a' || 'b'",
        20,
        "|| does not work on bool and string; compare on both sides, as in a == 'x' || a == 'y'",
    ),
    ("request.namespace.startswith('x')", 18, "there is no function 'startswith'; did you mean startsWith?"),
    ("sise(job.images) > 1", 0, "there is no function 'sise'; did you mean size?"),
    ("job.images.exist(i, i == 'x')", 11, "there is no function 'exist'; did you mean exists?"),
    (
        "startsWith(request.namespace, 'x')",
        0,
        "startsWith is called on a value, as in request.namespace.startsWith(…)",
    ),
    ("request.namespace == prod", 21, "there is no 'prod'; if it is text, put it in quotes: 'prod'"),
    ("request.namespace == lab.x", 21, "there is no 'lab.x'; if it is text, put it in quotes: 'lab.x'"),
    ("reqeust.namespace == 'x'", 0, "there is no 'reqeust.namespace'; did you mean request.namespace?"),
    ("job.name > 3", 9, "> does not work on string and int"),
    (
        "job.memory > 64Gi",
        15,
        "syntax: extraneous input 'Gi'; write quantity('64Gi') for sizes, seconds('2h') for times",
    ),
    ("job.mpi and job.indexed", 8, "syntax: mismatched input 'and'; write && for and, || for or, ! for not"),
    ("quantity('64Gib') > 1", 9, "'64Gib' is not a quantity such as 500m, 2, 1.5Gi or 1e3"),
    ("job.walltime > seconds('soon')", 23, "'soon' is not a duration; write 5400, 1:30:00 or 1h30m"),
    ("job.name.matches('(')", 17, "invalid regular expression: missing ): ("),
    ("matches(request.namespace, r'a(?=b)')", 27, "invalid regular expression: invalid perl operator: (?="),
    (
        "'.matches(\"(\")' != '' && request.namespace.matches('*')",
        51,
        "invalid regular expression: no argument for repetition operator: *; this is a regular expression, not a glob: write .* for any text",
    ),
    ("matches(string(job.cpus), '(')", 26, "invalid regular expression: missing ): ("),
    ("job.name.matches('a' + '(')", 17, "invalid regular expression: missing ): a("),
    ("job.name.matches( ('(') )", 18, "invalid regular expression: missing ): ("),
    ("job.mpi &&\n  job.memry > 1", 17, "job has no 'memry'; did you mean memory?"),
]


@pytest.mark.parametrize(("source", "offset", "message"), FAULTS)
def test_what_does_not_compile(source: str, offset: int, message: str) -> None:
    faults = conditions.compile_condition(source)

    assert isinstance(faults, tuple)
    assert (faults[0].offset, faults[0].message) == (offset, message)


def test_all_faults_of_a_condition_are_found() -> None:
    faults = conditions.compile_condition("job.cpu > 3 && request.usr == 'x'")

    assert faults == (
        Fault(4, "job has no 'cpu'; did you mean cpus?"),
        Fault(23, "request has no 'usr'; did you mean user?"),
    )


def test_what_is_too_complex_is_a_fault() -> None:
    faults = conditions.compile_condition("(" * 40 + "true" + ")" * 40)

    assert isinstance(faults, tuple)
    assert "recursion limit" in faults[0].message


READS = [
    ("true", (), set()),
    ("'job.cpus' == request.user // job.memory", (Read("request", "user", "", 14),), set()),
    ("job.images.exists(i, i == job.name)", (Read("job", "images", "", 0), Read("job", "name", "", 26)), set()),
    ("queues['a/b'].up || queues[ \"a/b\" ].up", (Read("queues", "up", "a/b", 0),), set()),
    ("queues.exists(q, queues[q].up)", (), {"queues"}),
    ("(job).mpi || [request].exists(r, r.user == 'x')", (), {"job", "request"}),
    (r"request.user == '\'' || job.mpi", (Read("request", "user", "", 0), Read("job", "mpi", "", 24)), set()),
]


@pytest.mark.parametrize(("source", "reads", "whole"), READS)
def test_reads(source: str, reads: tuple[Read, ...], whole: set[str]) -> None:
    assert (reads, frozenset(whole)) == conditions.find_reads(source)


CONSTANTS = [
    ("64 * 1024", 65536),
    ("quantity('1Ki')", 1024),
    ("job.cpus", None),
    ("1 / 0", None),
    ("1.5", None),
    ("(", None),
]


@pytest.mark.parametrize(("source", "value"), CONSTANTS)
def test_constants(source: str, value: int | None) -> None:
    assert value == conditions.constant(source)


@UNHURRIED
@given(st.text(max_size=60) | st.text(alphabet="job.cpus><=&|!()[]'\"0123 queues\n\\", max_size=60))
def test_any_text_compiles_or_has_faults_inside_it(source: str) -> None:
    made = conditions.compile_condition(source)

    assert isinstance(made, Condition) or all(0 <= fault.offset <= len(source) and fault.message for fault in made)
    assert isinstance(made, Condition) or made
