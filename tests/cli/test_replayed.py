"""Recorded Jobs as they are read: files of any size, what is in memory, and the progress that is shown."""

from __future__ import annotations

import io
import json
import sys
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import urllib3
import yaml

from router import policy
from router.cli import manifests, replayed
from router.cli.cluster import Cluster
from router.errors import ConfigError, InputError
from router.kube.client import Api
from router.policy.decision import NO_QUEUE_STATES
from router.replay.cases import Case, Skipped
from router.replay.manifests import Known
from router.workload.cluster import UNKNOWN_CLUSTER
from tests.cli.test_policydiff import job
from tests.policies import LARGE_GO_TO_HPC

POLICY = policy.load({"all.yaml": LARGE_GO_TO_HPC})
KNOWN = Known((POLICY, POLICY), UNKNOWN_CLUSTER, NO_QUEUE_STATES)
JOBS = [job(f"j{number}", number % 3) for number in range(20)]
SPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default", "labels": {"a": "b"}}}
LISTED_JOB = {key: value for key, value in JOBS[0].items() if key not in {"kind", "apiVersion"}}
NO_OBJECT = "no Kubernetes object: a mapping with a kind was expected"
LISTED = {"apiVersion": "v1", "items": [*JOBS, SPACE], "kind": "List"}


@dataclass
class Bar:
    """A progress bar, and all that it showed: how far of how much."""

    label: str
    length: int | None
    pos: int = 0
    seen: list[tuple[int, int | None]] = field(default_factory=list)

    def update(self, steps: int) -> None:
        self.pos += steps
        self.seen.append((self.pos, self.length))


@pytest.fixture
def bars(monkeypatch: pytest.MonkeyPatch) -> list[Bar]:
    shown: list[Bar] = []

    def progress(length: int | None, label: str) -> AbstractContextManager[Bar]:
        shown.append(Bar(label, length))
        return nullcontext(shown[-1])

    monkeypatch.setattr(replayed, "progress", progress)
    return shown


@pytest.mark.parametrize("dump", [json.dumps, yaml.safe_dump])
def test_a_file_of_any_size_is_read_with_progress(
    dump: Callable[[Any], str], tmp_path: Path, bars: list[Bar], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifests, "LARGEST", 100)
    (tmp_path / "jobs").write_text(dump(LISTED))

    found = list(replayed.from_files([str(tmp_path / "jobs")], KNOWN))

    assert [(one.name, one.requester.namespace_labels) for one in found if isinstance(one, Case)] == [
        (f"default/j{number}", {"a": "b"}) for number in range(20)
    ]
    size = (tmp_path / "jobs").stat().st_size
    assert [(bar.label, bar.length, bar.pos) for bar in bars] == [("Reading", size, size), ("Judging", 20, 20)]


def test_the_progress_of_a_pipe_has_no_known_end(tmp_path: Path, bars: list[Bar]) -> None:
    (tmp_path / "jobs").write_text(json.dumps(LISTED))

    list(replayed.from_files([str(tmp_path / "jobs"), "/dev/null"], KNOWN))

    assert [(bar.label, bar.length) for bar in bars] == [("Reading", None), ("Judging", 20)]


def test_a_bar_without_a_known_end_is_shown() -> None:
    with replayed.progress(None, "Reading") as bar:
        bar.update(7)
        assert (bar.pos, bar.length) == (7, None)
        bar.length = 9
        bar.update(2)
        assert bar.finished


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (json.dumps(JOBS[0]).replace("j0", "\\ud83d"), "jobs:1: has half a character"),
        ("", "jobs: holds no object"),
        ("a: \udc80", "jobs:1: is not UTF-8 (byte 0x80); save it as UTF-8"),
        ("a: [", "jobs:2:1: is not YAML: "),
    ],
)
def test_what_cannot_be_read_is_named(text: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("jobs").write_bytes(text.encode(errors="surrogateescape"))

    with pytest.raises(InputError) as error:
        list(replayed.from_files(["jobs"], KNOWN))

    assert str(error.value).startswith(told)


@pytest.mark.parametrize("read", [manifests.read_text, lambda path: list(replayed.from_files([path], KNOWN))])
def test_a_standard_input_that_is_closed_is_named(
    read: Callable[[str], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", None)  # as Python has it then

    with pytest.raises(InputError, match="standard input: cannot be read: it is closed"):
        read("-")


@pytest.mark.parametrize(
    ("value", "names"),
    [
        # As kubectl get --raw prints it, and as kubectl reads it.
        ({"kind": "JobList", "apiVersion": "batch/v1", "items": [LISTED_JOB]}, ["default/j0"]),
        ({"items": [{"kind": ["Job"]}, {"kind": {}}, JOBS[0]]}, [NO_OBJECT, NO_OBJECT, "default/j0"]),
        ([JOBS[0]], [NO_OBJECT]),
        ({"kind": "ConfigMapList", "apiVersion": "v1", "items": [{"metadata": {"name": "a"}}]}, []),
    ],
)
def test_what_is_no_object_is_told(value: object, names: list[str], tmp_path: Path) -> None:
    (tmp_path / "jobs").write_text(json.dumps(value))

    found = replayed.from_files([str(tmp_path / "jobs")], KNOWN)

    assert [one.name if isinstance(one, Case) else one for one in found] == [
        Skipped(one, f"{tmp_path}/jobs:1") if one == NO_OBJECT else one for one in names
    ]


def test_a_full_temporary_directory_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It is often a file system in memory, and smaller than what was recorded."""
    monkeypatch.setattr(tempfile, "TemporaryFile", partial(Path("/dev/full").open, "w+b"))
    (tmp_path / "jobs").write_text(json.dumps(LISTED))

    with pytest.raises(ConfigError, match=f"{tempfile.gettempdir()}: No space left on device; .*TMPDIR"):
        list(replayed.from_files([str(tmp_path / "jobs")], KNOWN))


class Pages(Api):
    """Answers each list with pages; it reaches nobody."""

    def __init__(self, *, counts: bool) -> None:
        self._counts = counts

    def _answer(self, request: Any) -> urllib3.HTTPResponse:
        kind = request.path.rpartition("/")[2]
        found = JOBS if kind == "jobs" else []
        begin = int(request.query.get("continue", 0))
        end = begin + request.query["limit"]
        metadata: dict[str, Any] = {"resourceVersion": "1"}
        if end < len(found):
            metadata |= {"continue": str(end)} | ({"remainingItemCount": len(found) - end} if self._counts else {})
        page = json.dumps({"metadata": metadata, "items": found[begin:end]}).encode()
        return urllib3.HTTPResponse(io.BytesIO(page), preload_content=False)

    def find(self, path: str, seconds: float = 30) -> None:
        return None


@pytest.mark.parametrize(("counts", "lengths"), [(True, [20] * 20), (False, [None] * 16 + [20] * 4)])
def test_listing_a_cluster_shows_progress(counts: bool, lengths: list[int | None], bars: list[Bar]) -> None:
    cluster = Cluster(Pages(counts=counts), "default", named=False, system="batchgate-system", page=8)

    found = list(replayed.from_cluster(cluster, KNOWN))

    assert [one.place for one in found if isinstance(one, Case)] == [f"jobs/j{number}" for number in range(20)]
    assert [(bar.label, bar.pos) for bar in bars] == [("Listing jobs", 20), ("Listing cronjobs", 0), ("Judging", 20)]
    assert bars[0].seen == list(zip(range(1, 21), lengths, strict=True))
