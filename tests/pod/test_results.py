"""Which files are results, what a manifest says, what an Event says."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.errors import TooLarge
from router.pod import results
from router.pod.life import Exit
from router.pod.results import Brought, Collected, Left, Subject
from router.workload import resultpaths, workload_of
from router.workload.fields import LONGEST_WARNING
from router.workload.resultpaths import Plan, Wanted

SUBJECT = Subject("lab", "solve", "solve-x7k2p", "0f9c2d3e-aaaa", "1111-2222", "noindex", "hpc1", "workq", "7.vm")


def _plan(paths: list[str], *containers: dict[str, Any], volumes: list[dict[str, Any]]) -> Plan:
    given = [{"name": f"c{number}", "image": "i", **one} for number, one in enumerate(containers)]
    spec = {"restartPolicy": "Never", "containers": given, "volumes": volumes}
    job = {
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": {"spec": spec}},
    }  # fmt: skip
    return resultpaths.resolve(workload_of(job, namespace="n"), paths, "the hint")


def _mount(name: str, path: str, sub_path: str = "") -> dict[str, str]:
    return {"name": name, "mountPath": path, **({"subPath": sub_path} if sub_path else {})}


VOLUMES: list[dict[str, Any]] = [{"name": name, "emptyDir": {}} for name in ("work", "out", "data")]
WORK, OUT, DATA = VOLUMES


@pytest.mark.parametrize(
    ("path", "container", "wanted"),
    [
        # by the name of a volume
        ("work/a/*.dat", {}, [("work", ("a", "*.dat"))]),
        ("work", {}, [("work", ())]),
        ("work/", {"workingDir": "/elsewhere"}, [("work", ())]),
        ("work//a/./b", {}, [("work", ("a", "b"))]),
        # relative to the working directory, which lies in a volume
        ("*.dat", {"workingDir": "/w", "volumeMounts": [_mount("work", "/w")]}, [("work", ("*.dat",))]),
        ("a/b", {"workingDir": "/w/sub", "volumeMounts": [_mount("work", "/w")]}, [("work", ("sub", "a", "b"))]),
        (".", {"workingDir": "/w/s", "volumeMounts": [_mount("work", "/w/")]}, [("work", ("s",))]),
        ("a", {"workingDir": "/w", "volumeMounts": [_mount("work", "/w", "in/[x]")]}, [("work", ("in", "[[]x]", "a"))]),
        # as the container sees it, whatever the working directory
        ("w/a", {"volumeMounts": [_mount("work", "/w")]}, [("work", ("a",))]),
        ("w", {"volumeMounts": [_mount("work", "/w/deep/er")]}, [("work", ())]),
        ("*/a", {"volumeMounts": [_mount("work", "/w"), _mount("data", "/d")]}, [("data", ("a",)), ("work", ("a",))]),
        ("**/*.h5", {"volumeMounts": [_mount("work", "/w")]}, [("work", ("**", "*.h5"))]),
        ("**/**/**/a/**/**", {"volumeMounts": [_mount("work", "/w")]}, [("work", ("**", "a", "**"))]),
        ("**/w/**/x", {"volumeMounts": [_mount("work", "/w")]}, [("work", ("**", "w", "**", "x")), ("work", ("**", "x"))]),
        # a mount in a volume: both can hold it
        (
            "out/x",
            {"workingDir": "/w", "volumeMounts": [_mount("work", "/w"), _mount("data", "/w/out")]},
            [("work", ("out", "x")), ("data", ("x",))],
        ),
        # a volume's name and a directory of the same name
        ("data/x", {"workingDir": "/w", "volumeMounts": [_mount("work", "/w")]}, [("data", ("x",))]),
        ("./data/x", {"workingDir": "/w", "volumeMounts": [_mount("work", "/w")]}, [("work", ("data", "x"))]),
        # a directory whose name has wildcards is that directory
        ("a", {"workingDir": "/w/*", "volumeMounts": [_mount("work", "/w")]}, [("work", ("[*]", "a"))]),
        # the launcher's own working directory
        (
            "a",
            {"command": ["mpirun", "-np", "2", "-wdir", "/w/run", "./solver"], "volumeMounts": [_mount("work", "/w")]},
            [("work", ("run", "a"))],
        ),
    ],
)  # fmt: skip
def test_what_a_path_means(path: str, container: dict[str, Any], wanted: list[tuple[str, tuple[str, ...]]]) -> None:
    plan = _plan([path], container, volumes=[WORK, DATA])

    assert plan.problems == ()
    assert sorted(plan.wanted, key=str) == sorted((Wanted(path, *one) for one in wanted), key=str)


def test_a_path_means_what_each_container_sees() -> None:
    one = {"workingDir": "/w", "volumeMounts": [_mount("work", "/w")]}
    two = {"workingDir": "/o", "volumeMounts": [_mount("out", "/o"), _mount("work", "/w")]}

    plan = _plan(["a", "work/b"], one, two, volumes=[WORK, OUT])

    assert plan.wanted == (Wanted("a", "work", ("a",)), Wanted("a", "out", ("a",)), Wanted("work/b", "work", ("b",)))


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("a", "a: is not in an emptyDir of the Pod; other files of a container are deleted with it"),
        (
            "d/a",
            "d/a: lies in volume disk (hostPath), which is not an emptyDir: results are collected only from emptyDir volumes",
        ),
        (
            "disk/a",
            "disk/a: lies in volume disk (hostPath), which is not an emptyDir: results are collected only from emptyDir volumes",
        ),
    ],
)
def test_paths_that_can_be_nowhere(path: str, words: str) -> None:
    disk = {"name": "disk", "hostPath": {"path": "/x"}}

    plan = _plan([path], {"workingDir": "/app", "volumeMounts": [_mount("disk", "/app/d")]}, volumes=[disk])

    assert plan == Plan((), (words,))


@pytest.mark.parametrize(
    ("pattern", "path", "meant"),
    [
        ((), "a/.b/c", True),
        (("a",), "a", True),
        (("a",), "a/b/.c", True),
        (("a",), "ab", False),
        (("a",), "b/a", False),
        (("*.dat",), "x.dat", True),
        (("*.dat",), ".x.dat", False),
        ((".*",), ".x.dat", True),
        (("*.dat",), "a/x.dat", False),
        (("a", "?", "x[ab]"), "a/1/xb", True),
        (("a", "?", "x[ab]"), "a/12/xb", False),
        (("**", "x"), "x", True),
        (("**", "x"), "a/b/x", True),
        (("**", "x"), "a/.b/x", False),
        (("a", "**"), "a/b", True),
        (("a", "**"), "b", False),
        (("**", "b", "**", "x"), "a/b/c/x", True),
        (("**", "b", "**", "x"), "b/x", True),
        (("**", "b", "**", "x"), "a/x", False),
        (("["), "[", True),
        (("*" * 40 + "b",), "a" * 200, False),
    ],
)
def test_globs(pattern: tuple[str, ...], path: str, meant: bool) -> None:
    patterns = resultpaths.opened([tuple(pattern)])
    for name in path.split("/"):
        patterns = resultpaths.after(patterns, name)

    assert resultpaths.is_meant(patterns) is meant


_PARTS = st.text(st.characters(exclude_characters="/\0", codec="utf-8"), min_size=1, max_size=8).filter(
    lambda part: part not in {".", ".."}
)


def _told(paths: list[str], mounts: int = 1) -> tuple[str, ...]:
    containers = [{"name": f"c{n}", "image": "i", "volumeMounts": [_mount("work", f"/w{n}")]} for n in range(mounts)]
    spec = {"restartPolicy": "Never", "containers": containers, "volumes": [WORK, {"name": "in", "configMap": {}}]}
    hint = {"annotations": {"batchgate.dev/results": "\n".join(paths)}}
    job = {
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"},
        "spec": {"template": {"metadata": hint, "spec": spec}},
    }  # fmt: skip
    return resultpaths.warnings(resultpaths.plan(workload_of(job, namespace="n")).problems)


def test_paths_that_can_be_nowhere_are_told_at_once() -> None:
    nowhere = "is not in an emptyDir of the Pod; other files of a container are deleted with it."
    assert _told(["w0/out/*.txt", "work/x"]) == ()
    assert _told([]) == ()
    assert _told(["out/*.txt", "work/x", "in/a"]) == (
        f"Result out/*.txt: {nowhere}",
        "Result in/a: lies in volume in (configMap), which is not an emptyDir: results are collected only from emptyDir volumes.",
    )
    assert _told([f"out{n}" for n in range(9)])[2:] == (
        f"Result out2: {nowhere}",
        "6 more such results will not be collected.",
    )
    assert all(len(one) <= LONGEST_WARNING for one in _told(["x" * 500 + "/" + "x" * 500]))


DEEP = "/" + "/".join(["a"] * 100)
TOO_MUCH: list[tuple[list[str], dict[str, Any], str]] = [
    (
        [f"out{n}" for n in range(100)],
        {"volumeMounts": [_mount("work", "/", f"s{n}") for n in range(11)]},
        "the hint: means more than 1000 places in the Pod's volumes",
    ),
    (
        ["x" * 500 + f"/{n}" for n in range(24)],
        {"volumeMounts": [_mount("work", "/", f"s{n}") for n in range(20)]},
        "the hint: means places in the Pod's volumes of more than 131072 characters",
    ),
    (
        ["**/a" * 16 + f"/{n}" for n in range(100)],
        {"volumeMounts": [_mount("work", DEEP + f"/m{n}") for n in range(20)]},
        "volumeMounts[0].mountPath: has more than 100 parts",
    ),
    (
        ["**/" + "a/**/" * 15 + f"{n}" for n in range(100)],
        {"volumeMounts": [_mount("work", f"{DEEP[:-2]}") for n in range(20)]},
        "the hint: takes more than 60000 comparisons with the paths of mounts",
    ),
    (
        ["*".join("a" * 200) + f"/{n}" for n in range(30)],
        {"volumeMounts": [_mount("work", "/" + "a" * 255) for n in range(1000)]},
        "the hint: takes more than 60000 comparisons with the paths of mounts",
    ),
    (["a"], {"workingDir": DEEP + "/b"}, "workingDir: has more than 100 parts"),
    (["a"], {"volumeMounts": [_mount("work", "/w", DEEP[1:] + "/b")]}, "volumeMounts[0].subPath: has more than"),
]


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("paths", "container", "words"), TOO_MUCH)
def test_what_would_take_too_long_to_look_up_is_refused(
    paths: list[str], container: dict[str, Any], words: str
) -> None:
    with pytest.raises(TooLarge) as caught:
        _plan(paths, container, volumes=[WORK])

    assert words in str(caught.value)


def test_what_is_taken_is_read_from_a_plan_as_it_was_written() -> None:
    mounts = [_mount("work", "/", f"s{n}") for n in range(10)]
    plan = _plan([f"\N{GRINNING FACE}out{n}" for n in range(100)], {"volumeMounts": mounts}, volumes=[WORK])

    assert len(plan.wanted) == 1000
    assert results.read_plan(results.plan_text(plan)) == plan


_GLOBS = st.lists(st.sampled_from(["**", "a", "b", "*"]), min_size=1, max_size=6)
_PATHS = st.lists(st.sampled_from(["a", "b"]), max_size=4)


@given(glob=_GLOBS, mount=_PATHS, below=_PATHS)
def test_a_plan_means_what_the_line_means(glob: list[str], mount: list[str], below: list[str]) -> None:
    plan = _plan(["./" + "/".join(glob)], {"volumeMounts": [_mount("work", "/" + "/".join(mount))]}, volumes=[WORK])
    by_line = resultpaths.opened([tuple(glob)])
    for name in [*mount, *below]:
        by_line = resultpaths.after(by_line, name)
    by_plan = resultpaths.opened([one.pattern for one in plan.wanted])
    for name in below:
        by_plan = resultpaths.after(by_plan, name)

    assert resultpaths.is_meant(by_plan) is resultpaths.is_meant(by_line)


def test_each_pattern_is_compiled_once_however_many_there_are() -> None:
    patterns = resultpaths.opened([("**", f"*[a-c]{number}*x*") for number in range(1000)])
    resultpaths._matcher.cache_clear()

    for number in range(20):
        resultpaths.after(patterns, f"file-{number}.dat")

    assert resultpaths._matcher.cache_info().misses == 1000


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "pattern", ["*a" * 100 + "b", "a*" * 127 + "b", "*" * 200 + "b", "*[ab]" * 50 + "c", "*?" * 100 + "b"]
)
def test_no_glob_takes_long(pattern: str) -> None:
    for _ in range(200):
        assert resultpaths.after(frozenset({(pattern,)}), "a" * 255) == frozenset()


def test_a_plan_that_names_too_much_is_not_believed() -> None:
    wanted = Wanted("x" * 100, "v", ("y" * 200,))

    assert results.read_plan(results.plan_text(Plan((wanted,) * 500))) == Plan(
        (), ("results in the Pod's directory was overwritten: it names more places than a plan can have",)
    )


@given(st.lists(st.tuples(st.text(), _PARTS, st.lists(_PARTS).map(tuple)).map(lambda one: Wanted(*one))))
def test_a_plan_is_read_as_it_was_written(wanted: list[Wanted]) -> None:
    plan = Plan(tuple(wanted), ("a sentence",))

    assert results.read_plan(results.plan_text(plan)) == plan


@pytest.mark.parametrize(
    "content",
    [
        b"{", b"[]", b"null", b"\xff", b'{"wanted": 1, "problems": []}', b'{"wanted": [{}], "problems": []}',
        b'{"wanted": [{"said": "x", "volume": "..", "pattern": []}], "problems": []}',
        b'{"wanted": [{"said": "x", "volume": "v", "pattern": ["a", ".."]}], "problems": []}',
        b'{"wanted": [{"said": "x", "volume": "v", "pattern": ["a/b"]}], "problems": []}',
        b'{"wanted": [{"said": "x", "volume": "", "pattern": []}], "problems": []}',
        b'{"wanted": [{"said": "x", "volume": "v", "pattern": ["\\u0000"]}], "problems": []}',
        b"[" * 100_000,
    ],
)  # fmt: skip
def test_what_is_no_plan_brings_nothing_and_says_so(content: bytes) -> None:
    assert results.read_plan(content) == Plan(
        (), ("results in the Pod's directory was overwritten: its content is not a plan of results",)
    )


def test_a_pod_without_a_plan_has_none() -> None:
    assert results.read_plan(b"") == Plan()


def test_a_plan_that_is_too_long_is_not_looked_at() -> None:
    words = "results in the Pod's directory was overwritten: it has more than 2097152 bytes"

    assert results.read_plan(b"[" * (results.MOST_PLAN + 1)) == Plan((), (words,))


@given(st.binary())
def test_any_file_is_a_plan_or_none(content: bytes) -> None:
    results.read_plan(content)


def test_where_results_go() -> None:
    assert results.place(SUBJECT) == ("lab", "solve", "solve-x7k2p.0f9c2d3e")


@pytest.mark.parametrize("name", ["", "..", "a/b", ".a", "A", "a\n", "a" * 254])
@pytest.mark.parametrize("field", ["namespace", "job", "pod", "uid"])
def test_names_that_lead_elsewhere(name: str, field: str) -> None:
    with pytest.raises(ValueError, match="not a valid name"):
        results.place(Subject(**{**_fields(), field: name}))


def _fields() -> dict[str, Any]:
    return {name: getattr(SUBJECT, name) for name in Subject.__dataclass_fields__}


def test_a_manifest() -> None:
    subject = Subject(**{**_fields(), "exits": {"solve": Exit(1, 137, 9, 100, 200, deadline=True)}})
    collected = Collected(
        files=(Brought("log/solve.0", 3, "abc", 7.25), Brought("results/v/\udcff", 2, "def", 8.0, changed=True)),
        left=(Left("results/v/link", "a link, or no ordinary file"), Left("results/v/big", "more than it may be", 99)),
        left_count=2,
        missing=("out",),
        problems=("x: lies nowhere",),
    )

    plan = Plan((Wanted("v", "v", ()), Wanted("out", "v", ("out",)), Wanted("out", "w", ("out",))))

    assert json.loads(results.manifest_text(subject, plan, collected)) == {
        "version": 1, "namespace": "lab", "job": "solve", "jobUid": "1111-2222", "index": "noindex",
        "pod": "solve-x7k2p", "podUid": "0f9c2d3e-aaaa", "site": "hpc1", "queue": "workq", "batchJob": "7.vm",
        "containers": {
            "solve": {"restart": 1, "code": 137, "signal": 9, "started": 100, "finished": 200, "deadline": True}
        },
        "asked": ["out", "v"], "complete": False, "size": 5,
        "files": [
            {"path": "log/solve.0", "size": 3, "sha256": "abc", "modified": 7.25},
            {"path": "results/v/\\xff", "pathHex": b"results/v/\xff".hex(), "size": 2, "sha256": "def",
             "modified": 8.0, "changed": True},
        ],
        "left": [
            {"path": "results/v/link", "reason": "a link, or no ordinary file"},
            {"path": "results/v/big", "size": 99, "reason": "more than it may be"},
        ],
        "leftCount": 2, "missing": ["out"], "problems": ["x: lies nowhere"],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("collected", "complete", "words"),
    [
        (Collected(), True, "0 files, 0 bytes, brought to /r"),
        (Collected(files=(Brought("a", 1536, "", 0),)), True, "1 file, 1.5 KiB, brought to /r"),
        (
            Collected(
                files=(Brought("a", 3 << 30, "", 0), Brought("b", 0, "", 0, changed=True)), missing=tuple("wxyz")
            ),
            False,
            "2 files, 3.0 GiB, brought to /r; nothing matched w, x, y and 1 more; changed while they were copied: b",
        ),
        (
            Collected(left=(Left("l", "a link"),), left_count=5, problems=("p: lies nowhere",)),
            False,
            "0 files, 0 bytes, brought to /r; p: lies nowhere; not brought: l (a link) and 4 more",
        ),
    ],
)
def test_the_words_of_an_event(collected: Collected, complete: bool, words: str) -> None:
    assert (collected.complete, results.sentence(collected, "/r")) == (complete, words)
