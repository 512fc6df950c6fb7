"""Bringing results: real files, real links, copies that are cut off, destinations that are full or taken."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path, PurePath
from typing import Any

import pytest

from router import names
from router.agent.files.results import Limits, Results, collect
from router.agent.records import Record
from router.host import MOST_READ, HostUnavailable
from router.host.local import LocalHost
from router.kube.events import Kind, Reference
from router.pod import layout, results
from router.pod.layout import PodDirectory
from router.pod.results import Collected, Subject
from router.pod.view import view
from router.reconcile import outcomes
from router.site.schema import Site
from router.workload.resultpaths import Plan, Wanted
from tests.processes import started

UID = "0f9c2d3e-1111-2222-3333-444444444444"
SUBJECT = Subject("lab", "solve", "solve-x7k2p", UID, "job-uid", "noindex", "hpc1", "workq", "7.vm")
LIMITS = Limits(size=1 << 30, files=100, reserve=0)
HERE = ("lab", "solve", "solve-x7k2p.0f9c2d3e")


class PodFiles:
    """One Pod's directory, as a script would have left it, and a place for results."""

    def __init__(self, root: Path) -> None:
        self.host: LocalHost = LocalHost(root / "work")
        self.directory = PodDirectory(str(root / "work"), "job-uid", "noindex", UID)
        self.path = Path(self.directory.path)
        self.into = root / "results"
        self.brought = self.into.joinpath(*HERE)
        (self.path / layout.LOG).mkdir(parents=True)

    def volume(self, name: str) -> Path:
        path = self.path / layout.VOLUMES / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    def want(self, *wanted: tuple[str, str, tuple[str, ...]]) -> None:
        plan = Plan(tuple(Wanted(*one) for one in wanted))
        (self.path / layout.RESULTS).write_bytes(results.plan_text(plan))

    def collect(self, limits: Limits = LIMITS) -> Collected:
        collected = collect(self.host, self.directory, SUBJECT, self.into, limits)
        assert collected is not None
        return collected

    def manifest(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.brought / "manifest.json").read_text())
        return found

    def files(self) -> dict[str, bytes]:
        """What lies in the Pod's results, but the manifest."""
        found = {
            str(path.relative_to(self.brought)): path.read_bytes()
            for path in self.brought.rglob("*")
            if path.is_file() and path.name != "manifest.json"
        }
        assert {str(path) for path in self.brought.rglob("*") if path.is_symlink()} == set()
        return found

    def half(self) -> list[str]:
        return [path.name for path in self.into.rglob("*.half")]


@pytest.fixture
def site(tmp_path: Path) -> PodFiles:
    return PodFiles(tmp_path)


def test_logs_and_results_with_a_manifest_that_is_true(site: PodFiles) -> None:
    (site.path / layout.OUTPUT).write_text("batchgate: words\n")
    (site.path / layout.LOG / "solve.0").write_text("first run\n")
    (site.path / layout.LOG / "solve.1").write_bytes(b"\xff" * (3 * MOST_READ + 7))
    (site.path / layout.LOG / ".solve.1.index").write_text("the agent's own")
    out = site.volume("work") / "out"
    (out / "deep" / ".hidden").mkdir(parents=True)
    for name in (
        "a.dat",
        ".b.dat",
        "c.txt",
        "deep/d.dat",
        "deep/.hidden/e",
        "with\nnewline.dat",
        os.fsdecode(b"\xfe.dat"),
    ):
        (out / name).write_text(name, errors="surrogateescape")
    site.want(("out/*.dat", "work", ("out", "*.dat")), ("deep", "work", ("out", "deep")), ("no", "work", ("no",)))

    collected = site.collect()

    found = site.files()
    assert set(found) == {
        "output", "log/solve.0", "log/solve.1", "results/work/out/a.dat", "results/work/out/deep/d.dat",
        "results/work/out/deep/.hidden/e", "results/work/out/with\nnewline.dat", os.fsdecode(b"results/work/out/\xfe.dat"),
    }  # fmt: skip
    assert found["log/solve.1"] == b"\xff" * (3 * MOST_READ + 7)
    assert {one.path: (one.size, one.sha256) for one in collected.files} == {
        path: (len(content), hashlib.sha256(content).hexdigest()) for path, content in found.items()
    }
    manifest = site.manifest()
    assert [one["path"] for one in manifest["files"]][:3] == ["output", "log/solve.0", "log/solve.1"]
    assert (manifest["podUid"], manifest["missing"], manifest["complete"]) == (UID, ["no"], False)
    assert site.half() == []


def test_a_plan_of_many_places_is_read_whole(site: PodFiles) -> None:
    out = site.volume("work")
    for number in range(300):
        (out / f"file-{number}").write_text("x")
    site.want(*((f"file-{number}", "work", (f"file-{number}",)) for number in range(300)))

    assert len(site.collect(Limits(size=1 << 30, files=300, reserve=0)).files) == 300


@pytest.mark.timeout(60)
def test_a_plan_that_takes_too_long_to_look_for_is_left_and_said(site: PodFiles) -> None:
    out = site.volume("work")
    for number in range(200):
        (out / f"{'a' * 200}{number}").mkdir()
    site.want(*((f"{number}", "work", ("**", "*a" * 8 + f"b{number}")) for number in range(1000)))
    for number in range(3000):
        (out / f"{number}").mkdir()

    collected = site.collect()

    assert [(one.path, one.reason) for one in collected.left] == [
        ("results/work", "more than 2000000 comparisons of names with what the Job names")
    ]


def test_a_pod_without_a_plan_has_logs(site: PodFiles) -> None:
    (site.path / layout.LOG / "solve.0").write_text("hello\n")

    assert site.collect().complete
    assert site.files() == {"log/solve.0": b"hello\n"}


def test_a_directory_that_is_named_and_empty_is_not_missing(site: PodFiles) -> None:
    (site.volume("work") / "out").mkdir()
    site.want(("out", "work", ("out",)), ("work", "work", ()), ("gone", "gone", ()))

    assert site.collect().missing == ("gone",)


# --- links and other things that are no files ---------------------------------------------------------------------


def test_links_lead_nowhere(site: PodFiles, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("secret")
    work = site.volume("work")
    (work / "link").symlink_to(secret / "key")
    (work / "directory").symlink_to(secret)
    (work / "sub").symlink_to(secret)
    (site.path / layout.LOG / "solve.0").symlink_to(secret / "key")
    (site.path / layout.OUTPUT).symlink_to(secret / "key")
    (site.path / layout.VOLUMES / "linked").symlink_to(secret)
    os.mkfifo(work / "pipe")
    # A socket's path has room for about 100 characters, so it is bound by its name.
    with socket.socket(socket.AF_UNIX) as listener, contextlib.chdir(work):
        listener.bind("socket")
        site.want(("all", "work", ()), ("sub", "work", ("sub", "key")), ("linked", "linked", ()))
        collected = site.collect()

    assert site.files() == {}
    assert {one.path for one in collected.left} == {
        "output", "log/solve.0", "results/work/link", "results/work/directory", "results/work/sub",
        "results/work/pipe", "results/work/socket", "results/linked",
    }  # fmt: skip
    assert collected.missing == ("sub",)


def test_a_log_directory_that_is_a_link_is_left_out(site: PodFiles, tmp_path: Path) -> None:
    (site.path / layout.LOG).rmdir()
    (site.path / layout.LOG).symlink_to(tmp_path)

    (tmp_path / "solve.0").write_text("secret")

    left = [(one.path, one.reason) for one in site.collect().left]

    assert left == [("log", "a link, or locked by its own mode")]
    assert site.files() == {}


def test_a_plan_that_the_job_has_changed_leads_nowhere(site: PodFiles, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    document = {"wanted": [{"said": "x", "volume": "../../../../../..", "pattern": ["secret"]}], "problems": []}
    (site.path / layout.RESULTS).write_text(json.dumps(document))

    assert site.collect().files == ()


class Closed(LocalHost):
    """A host that may not read what is named ``closed``, as an ordinary user is told (root would not be)."""

    def read(self, path: PurePath | str, offset: int = 0, limit: int = MOST_READ) -> bytes:
        return super().read(_open(path), offset, limit)

    def names(self, path: PurePath | str) -> list[str]:
        return super().names(_open(path))


def _open(path: PurePath | str) -> PurePath | str:
    if PurePath(path).name == "closed":
        raise PermissionError(errno.EACCES, "Permission denied", str(path))
    return path


def test_what_cannot_be_read_is_left(site: PodFiles) -> None:
    (site.volume("work") / "closed").write_text("x")
    (site.volume("other") / "closed" / "below").mkdir(parents=True)
    (site.volume("work") / "open").touch()
    site.want(("work", "work", ()), ("other", "other", ()))
    site.host = Closed(site.directory.work_dir)

    collected = site.collect()

    assert [(one.path, one.reason) for one in collected.left] == [
        ("results/other/closed", "cannot be listed: Permission denied"),
        ("results/work/closed", "cannot be read: Permission denied"),
    ]
    assert set(site.files()) == {"results/work/open"}


class Away(LocalHost):
    """A host that is cut off in the middle: ``names`` or ``read`` of what is named ``far`` is not answered."""

    def __init__(self, root: Path, what: str) -> None:
        super().__init__(root)
        self._what = what

    def names(self, path: PurePath | str) -> list[str]:
        return super().names(self._reached(path, "names"))

    def read(self, path: PurePath | str, offset: int = 0, limit: int = MOST_READ) -> bytes:
        return super().read(self._reached(path, "read"), offset, limit)

    def _reached(self, path: PurePath | str, what: str) -> PurePath | str:
        if PurePath(path).name == "far" and what == self._what:
            raise HostUnavailable("ada on login: the site helper was cut off")
        return path


@pytest.mark.parametrize("what", ["names", "read"])
def test_a_host_that_is_cut_off_in_mid_copy_is_no_file_that_cannot_be_read(site: PodFiles, what: str) -> None:
    """Nothing is left out for that: all of it is brought when the host answers again."""
    far = site.volume("work") / "far"
    if what == "names":
        far.mkdir()
    (far / "result" if what == "names" else far).write_bytes(b"much")
    (site.volume("work") / "near").write_bytes(b"little")
    site.want(("all", "work", ()))
    local, site.host = site.host, Away(site.path.parents[3], what)

    with pytest.raises(HostUnavailable, match="was cut off"):
        site.collect()
    assert not site.brought.exists()
    assert site.half() == []

    site.host = local
    assert site.collect().complete
    assert sorted(site.files().values()) == [b"little", b"much"]


# --- limits --------------------------------------------------------------------------------------------------------


def test_limits(site: PodFiles) -> None:
    (site.path / layout.LOG / "solve.0").write_bytes(b"1" * 600)
    work = site.volume("work")
    (work / "a").write_bytes(b"1" * 500)
    (work / "b").write_bytes(b"1" * 400)
    with (work / "c").open("wb") as sparse:
        sparse.truncate(1 << 40)
    (work / "d").touch()
    (work / "e").touch()
    site.want(("work", "work", ()))

    collected = site.collect(Limits(size=1000, files=3, reserve=0))

    assert sorted(site.files()) == ["log/solve.0", "results/work/b", "results/work/d"]
    too_large = "more than the 1000 bytes that the site brings of a Pod"
    too_many = "more than the 3 files that the site brings of a Pod"
    assert [(one.path, one.size, one.reason) for one in collected.left] == [
        ("results/work/a", 500, too_large), ("results/work/c", 1 << 40, too_large), ("results/work/e", 0, too_many)
    ]  # fmt: skip


def test_without_room_nothing_is_begun_and_later_all_is_brought(site: PodFiles) -> None:
    (site.path / layout.LOG / "solve.0").write_text("hello\n")

    with pytest.raises(OSError, match="no room"):
        site.collect(Limits(size=1 << 30, files=100, reserve=1 << 62))
    assert not site.brought.exists()
    assert site.half() == []

    assert site.collect().complete


def test_many_files_left_are_counted_and_not_all_named(site: PodFiles) -> None:
    work = site.volume("work")
    for number in range(1100):
        (work / str(number)).symlink_to("x")
    site.want(("work", "work", ()))

    collected = site.collect()

    assert (collected.left_count, len(collected.left)) == (1100, 1000)


def test_a_very_deep_tree_ends_somewhere(site: PodFiles) -> None:
    path = site.volume("work")
    for _ in range(102):
        path = path / "d"
    path.mkdir(parents=True)
    (path / "file").touch()
    site.want(("work", "work", ()))

    assert [one.reason for one in site.collect().left] == ["more than 100 directories below each other"]


# --- files that change -------------------------------------------------------------------------------------------


class Meddling(LocalHost):
    """A host under which something happens after each block that is read of a file named ``moving``."""

    def __init__(self, root: Path, meddle: Callable[[Path, int], None]) -> None:
        super().__init__(root)
        self._meddle = meddle
        self._count = 0

    def read(self, path: PurePath | str, offset: int = 0, limit: int = MOST_READ) -> bytes:
        found = super().read(path, offset, limit)
        if PurePath(path).name == "moving":
            self._count += 1
            self._meddle(Path(path), self._count)
        return found


def _meddled(site: PodFiles, meddle: Callable[[Path, int], None]) -> Collected:
    (site.volume("work") / "moving").write_bytes(b"1" * 100)
    site.want(("work", "work", ()))
    site.host = Meddling(Path(site.directory.work_dir), meddle)
    return site.collect(Limits(size=1000, files=100, reserve=0))


def test_a_file_that_changes_once_is_copied_again(site: PodFiles) -> None:
    def shrink(path: Path, count: int) -> None:
        if count == 1:
            path.write_bytes(b"2" * 50)

    collected = _meddled(site, shrink)

    assert site.files() == {"results/work/moving": b"2" * 50}
    assert collected.complete


def test_a_file_that_does_not_come_to_rest_is_marked(site: PodFiles) -> None:
    def grow(path: Path, count: int) -> None:
        with path.open("ab") as file:
            file.write(b"+")

    (one,) = _meddled(site, grow).files

    content = site.files()["results/work/moving"]
    assert one.changed
    assert (one.size, one.sha256) == (len(content), hashlib.sha256(content).hexdigest())
    assert site.manifest()["files"][0]["changed"] is True


@pytest.mark.parametrize(
    ("meddle", "reason"),
    [
        (lambda path, count: path.unlink(), "went away"),
        (lambda path, count: (path.unlink(), path.symlink_to("/etc/passwd")), "went away"),
        (lambda path, count: path.write_bytes(b"3" * 2000), "has grown beyond"),
    ],
)
def test_a_file_that_goes_or_grows_too_much_is_left(
    site: PodFiles, meddle: Callable[[Path, int], None], reason: str
) -> None:
    collected = _meddled(site, meddle)

    assert [one.path for one in collected.left] == ["results/work/moving"]
    assert reason in collected.left[0].reason
    assert site.files() == {}


# --- whole or not at all -----------------------------------------------------------------------------------------


def test_what_is_there_is_left_as_it_is(site: PodFiles) -> None:
    (site.path / layout.LOG / "solve.0").write_text("hello\n")
    site.collect()
    (site.path / layout.LOG / "solve.0").write_text("other\n")

    assert collect(site.host, site.directory, SUBJECT, site.into, LIMITS) is None
    assert site.files() == {"log/solve.0": b"hello\n"}


def test_something_else_in_its_place_is_an_error_and_stays(site: PodFiles) -> None:
    site.brought.mkdir(parents=True)
    (site.brought / "precious").touch()

    with pytest.raises(FileExistsError, match="move it away"):
        site.collect()
    assert (site.brought / "precious").exists()


def test_links_in_the_results_directory_lead_nowhere(site: PodFiles, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    site.into.mkdir()
    (site.into / "lab").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(OSError, match="lab"):
        site.collect()
    assert list((tmp_path / "elsewhere").iterdir()) == []


COLLECTING = """
import sys
from pathlib import Path
from tests.agent.files.test_results import LIMITS, SUBJECT
from router.agent.files.results import collect
from router.host.local import LocalHost
from router.pod.layout import PodDirectory
root = Path(sys.argv[1])
print("ready", flush=True)
collect(LocalHost(root / "work"), PodDirectory(str(root / "work"), "job-uid", "noindex", SUBJECT.uid), SUBJECT,
        root / "results", LIMITS)
"""


def test_killed_at_any_moment_a_copy_is_whole_or_not_there(site: PodFiles, tmp_path: Path) -> None:
    work = site.volume("work")
    for number in range(60):
        (work / f"{number:02}").write_bytes(b"x" * 20_000)
    site.want(("work", "work", ()))
    whole = {f"results/work/{number:02}" for number in range(60)}
    seen = set()
    for pause in (0.0, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16):
        argv = [sys.executable, "-c", COLLECTING, str(tmp_path)]
        with started(argv, stdout=subprocess.PIPE, cwd=Path(__file__).parents[3]) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(pause)  # a moment, whichever
            process.kill()
        seen.add(site.brought.exists())
        if site.brought.exists():
            assert set(site.files()) == whole
            assert (site.brought / "manifest.json").exists()
            break

    collect(site.host, site.directory, SUBJECT, site.into, LIMITS)

    assert set(site.files()) == whole
    assert site.half() == []


# --- who may read it ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "directories", "files"), [(0o700, 0o700, 0o600), (0o2750, 0o2750, 0o640), (0o755, 0o755, 0o644)]
)
def test_all_is_readable_by_whom_the_results_directory_is(
    site: PodFiles, mode: int, directories: int, files: int
) -> None:
    site.into.mkdir()
    site.into.chmod(mode)
    (site.path / layout.LOG / "solve.0").touch()
    before = os.umask(0o077)
    try:
        site.collect()
    finally:
        os.umask(before)

    modes = {path: path.stat().st_mode & 0o7777 for path in site.into.rglob("*")}
    assert {modes[path] for path in modes if path.is_dir()} == {directories}
    assert {modes[path] for path in modes if path.is_file()} == {files}


def test_a_results_directory_that_is_made_is_private(site: PodFiles) -> None:
    site.collect()

    assert site.into.stat().st_mode & 0o7777 == 0o700


# --- as the agent calls it ---------------------------------------------------------------------------------------


class Told:
    """What was told about Pods."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str, str]] = []

    def tell(self, regarding: Reference, kind: Kind, reason: str, message: str) -> None:
        self.events.append((regarding.name, kind, reason, message))


def _record(site: PodFiles, **more: Any) -> Record:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "solve", "uid": "job-uid", "controller": True}
    metadata = {"namespace": "lab", "name": "solve-x7k2p", "uid": UID, "ownerReferences": [owner], **more}
    return Record(outcomes.first(view({"metadata": metadata, "spec": {"containers": []}})), site.directory)


def _site_of(site: PodFiles, **more: Any) -> Site:
    queue = {"name": "workq", "nodes": 1, "cpusPerNode": 1}
    fields = {"name": "hpc1", "system": "local", "workDir": site.directory.work_dir, "queues": [queue]}
    return Site.model_validate({**fields, "resultsDir": str(site.into), "resultsReserve": "0", **more})


def test_the_pod_s_user_is_told(site: PodFiles) -> None:
    (site.path / layout.LOG / "solve.0").write_text("hello\n")
    told = Told()
    bring = Results(site.host, _site_of(site), told.tell)

    bring.collect(_record(site))
    bring.collect(_record(site))  # there already: nothing new to tell

    assert told.events == [
        ("solve-x7k2p", "Normal", names.REASON_RESULTS, f"1 file, 6 bytes, brought to {site.brought}")
    ]


def test_the_pod_s_user_is_told_what_is_missing_and_what_is_wrong(site: PodFiles) -> None:
    site.want(("out", "work", ("out",)))
    told = Told()
    with pytest.raises(OSError, match="no room"):
        Results(site.host, _site_of(site, resultsReserve="4000000Ti"), told.tell).collect(_record(site))
    Results(site.host, _site_of(site), told.tell).collect(_record(site))

    assert [(kind, reason) for _, kind, reason, _ in told.events] == [("Warning", names.REASON_RESULTS_INCOMPLETE)] * 2
    assert "has no room for 0 bytes" in told.events[0][3]
    assert told.events[1][3] == f"0 files, 0 bytes, brought to {site.brought}; nothing matched out"


def test_where_no_directory_is_named_nothing_is_brought(site: PodFiles) -> None:
    told = Told()

    Results(site.host, _site_of(site, resultsDir=None), told.tell).collect(_record(site))

    assert (told.events, site.into.exists()) == ([], False)
