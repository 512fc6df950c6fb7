"""Watches of a real API server that is cut off, restarted, and has forgotten."""

from __future__ import annotations

import random
import shutil
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from router.background.backoff import BackOff
from router.controlplane.options import APISERVER, CONTROLLER_MANAGER, ETCD, SCHEDULER, Options
from router.controlplane.plane import ControlPlane
from router.controlplane.programs import Programs
from router.controlplane.start import control_plane
from router.kube import watching
from router.kube.client import Api, Gone, connect
from router.kube.watching import Watch
from tests.kube.wire import Wire, await_true

CHANGES = 120


@dataclass
class Seen:
    """What a caller of a Watch would keep: the present objects' values by name, and everything that came."""

    values: dict[str, str] = field(default_factory=dict)
    history: list[tuple[str, str, str]] = field(default_factory=list)
    lists: int = 0

    def on_list(self, objects: Iterator[dict[str, Any]]) -> None:
        found = {one["metadata"]["name"]: value(one) for one in objects}
        self.values = found
        self.lists += 1

    def on_change(self, kind: str, found: dict[str, Any]) -> None:
        name = found["metadata"]["name"]
        self.history.append((kind, name, value(found)))
        if kind == "DELETED":
            del self.values[name]
        else:
            self.values[name] = value(found)


def value(found: dict[str, Any]) -> str:
    return str((found.get("data") or {}).get("n", ""))


@pytest.fixture
def path(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


@pytest.fixture
def watches() -> Iterator[list[Watch]]:
    """Watches that are ended with the test."""
    started: list[Watch] = []
    yield started
    for watch in started:
        watch.stop()
    for watch in started:
        watch.await_end(30)
        assert not watch.alive


OURS = {"labelSelector": "ours=yes"}


def started(watches: list[Watch], api: Api, path: str) -> tuple[Watch, Seen]:
    seen = Seen()
    watch = Watch(api, path, seen.on_list, seen.on_change, OURS)
    watches.append(watch)
    watch.start()
    return watch, seen


def put(api: Api, path: str, name: str, number: int) -> None:
    body = {"metadata": {"name": name, "labels": {"ours": "yes"}}, "data": {"n": str(number)}}
    if number == 0:
        api.create(path, body)
    else:
        api.patch(f"{path}/{name}", {"data": {"n": str(number)}})


def test_what_is_there_is_listed_and_then_what_changes_is_told(api: Api, path: str, watches: list[Watch]) -> None:
    put(api, path, "a", 0)
    watch, seen = started(watches, api, path)
    await_true(watch.synced.is_set, "listed")
    assert seen.values == {"a": "0"}

    put(api, path, "b", 0)
    put(api, path, "b", 1)
    api.create(path, {"metadata": {"name": "not-ours"}})
    api.delete(f"{path}/a")

    await_true(lambda: len(seen.history) == 3, "three changes")
    assert seen.history == [("ADDED", "b", "0"), ("MODIFIED", "b", "1"), ("DELETED", "a", "0")]
    assert (seen.values, seen.lists, watch.problem) == ({"b": "1"}, 1, "")


def test_a_long_list_comes_in_pages(api: Api, path: str, watches: list[Watch], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "PAGE", 3)
    for number in range(8):
        put(api, path, f"c{number}", 0)

    watch, seen = started(watches, api, path)
    await_true(watch.synced.is_set, "listed")
    put(api, path, "c7", 1)
    await_true(lambda: seen.history, "a change")

    assert (len(seen.values), seen.lists, seen.history) == (8, 1, [("MODIFIED", "c7", "1")])


def test_a_connection_that_is_cut_anywhere_loses_nothing_and_repeats_nothing(
    plane: ControlPlane, wired: tuple[Wire, Api], path: str, watches: list[Watch], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "BACK_OFF", BackOff(first=0.2, longest=0.2))
    wire, through = wired
    direct = connect(str(plane.kubeconfig()))
    padding = "x" * 5_000  # so that most cuts are in the middle of an event
    direct.create(path, {"metadata": {"name": "pad", "labels": {"ours": "yes"}}, "data": {"pad": padding}})
    watch, seen = started(watches, through, path)
    await_true(watch.synced.is_set, "listed")
    generator = random.Random(4)

    for number in range(CHANGES):
        direct.patch(f"{path}/pad", {"data": {"n": str(number)}})
        if number % 5 == 0:
            wire.cut_after = generator.randrange(4_000, 40_000)
            cut_and_wait(wire)
    wire.mend()
    wire.cut()
    await_true(lambda: seen.values.get("pad") == str(CHANGES - 1), "the last change")

    assert [entry[2] for entry in seen.history] == [str(number) for number in range(CHANGES)]
    assert seen.lists == 1
    assert wire.connections > CHANGES // 5


def cut_and_wait(wire: Wire) -> None:
    before = wire.connections
    wire.cut()
    await_true(lambda: wire.connections > before, "another try")


def test_silence_shows_and_ends(
    wired: tuple[Wire, Api], path: str, watches: list[Watch], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A network that swallows everything: nothing is known any more, and the Watch finds out by itself."""
    monkeypatch.setattr(watching, "WATCH_SECONDS", 2)
    monkeypatch.setattr("router.kube.client._WATCH_MARGIN", 1.0)
    wire, api = wired
    put(api, path, "a", 0)
    watch, seen = started(watches, api, path)
    await_true(watch.synced.is_set, "listed")
    before = watch.since
    await_true(lambda: watch.since > before, "life without any change: bookmarks, and new watches")

    wire.stop()
    await_true(lambda: watch.problem, "the silence is noticed")
    stale = watch.since
    wire.refuses = True
    wire.cut()
    wire._passes.set()
    assert watch.since == stale
    wire.mend()

    await_true(lambda: watch.since > stale and not watch.problem, "life again")
    assert (seen.values, seen.history) == ({"a": "0"}, [])


@pytest.fixture(scope="module")
def own_plane(control_plane_programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane whose parts may be killed."""
    with control_plane(tmp_path_factory.mktemp("own") / "plane", Options(users=())) as plane:
        yield plane


@pytest.fixture
def own_path(own_plane: ControlPlane) -> str:
    """An empty list on it."""
    own_plane.kubectl("delete", "configmaps", "-n", "default", "-l", "ours=yes")
    return "/api/v1/namespaces/default/configmaps"


@pytest.mark.timeout(900)
def test_a_server_that_is_killed_is_found_again(own_plane: ControlPlane, own_path: str, watches: list[Watch]) -> None:
    """A new server has forgotten old versions: what changed while it was away is seen by listing again."""
    api = connect(str(own_plane.kubeconfig()))
    for name in ("kept", "changed", "deleted"):
        put(api, own_path, name, 0)
    watch, seen = started(watches, api, own_path)
    await_true(watch.synced.is_set, "listed")

    own_plane.end(APISERVER)
    await_true(lambda: watch.problem, "the end is noticed")
    stale = watch.since
    own_plane.start(APISERVER)
    with pytest.raises(Gone):
        list(api.watch(own_path, "1", seconds=1))
    put(api, own_path, "changed", 1)
    api.delete(f"{own_path}/deleted")
    put(api, own_path, "new", 0)

    await_true(lambda: seen.values == {"kept": "0", "changed": "1", "new": "0"}, "the present state")
    await_true(lambda: watch.since > stale and not watch.problem, "life again")
    assert len(seen.history) == len(set(seen.history))


@pytest.mark.timeout(900)
def test_an_older_state_that_is_restored_is_seen(
    own_plane: ControlPlane, own_path: str, tmp_path: Path, watches: list[Watch], monkeypatch: pytest.MonkeyPatch
) -> None:
    """etcd from a backup: versions are lower than those known, and a watch from there says nothing."""
    monkeypatch.setattr(watching, "WATCH_SECONDS", 2)
    api = connect(str(own_plane.kubeconfig()))
    put(api, own_path, "old", 0)
    data, backup = data_of_etcd(own_plane), tmp_path / "backup"
    stop_all(own_plane)
    shutil.copytree(data, backup)
    start_all(own_plane)
    for number in range(300):  # more than the restored server writes by itself while it starts
        put(api, own_path, f"lost-{number}", 0)
    watch, seen = started(watches, api, own_path)
    await_true(watch.synced.is_set, "listed")
    assert len(seen.values) == 301

    stop_all(own_plane)
    shutil.rmtree(data)
    shutil.copytree(backup, data)
    start_all(own_plane)

    await_true(lambda: seen.values == {"old": "0"}, "the restored state")


def stop_all(plane: ControlPlane) -> None:
    for name in (CONTROLLER_MANAGER, SCHEDULER, APISERVER, ETCD):
        plane.end(name)


def start_all(plane: ControlPlane) -> None:
    for name in (ETCD, APISERVER, CONTROLLER_MANAGER, SCHEDULER):
        plane.components[name].start()
        plane.await_ready(name)


def data_of_etcd(plane: ControlPlane) -> Path:
    (data,) = (path.parent for path in plane.directory.rglob("member") if path.is_dir())
    return data


def test_a_list_is_read_again_at_times(
    api: Api, path: str, watches: list[Watch], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "LIST_AGAIN_SECONDS", 0.1)
    monkeypatch.setattr(watching, "WATCH_SECONDS", 1)
    put(api, path, "a", 0)

    _, seen = started(watches, api, path)

    await_true(lambda: seen.lists >= 3, "listed three times")
    assert (seen.values, seen.history) == ({"a": "0"}, [])


def test_a_list_that_breaks_off_is_not_half_believed(
    wired: tuple[Wire, Api], plane: ControlPlane, path: str, watches: list[Watch], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "PAGE", 1)
    wire, api = wired
    direct = connect(str(plane.kubeconfig()))
    for name in "abc":
        put(direct, path, name, 0)
    pages: list[int] = []
    seen = Seen()

    def on_list(objects: Iterator[dict[str, Any]]) -> None:
        def counted() -> Iterator[dict[str, Any]]:
            for number, found in enumerate(objects):
                pages.append(number)
                if len(pages) == 2:
                    wire.refuses = True
                    wire.cut()
                yield found

        seen.on_list(counted())

    watch = Watch(api, path, on_list, seen.on_change, OURS)
    watches.append(watch)
    watch.start()
    await_true(lambda: watch.problem, "the list breaks off")
    assert (seen.values, seen.lists, watch.synced.is_set()) == ({}, 0, False)
    wire.mend()

    await_true(watch.synced.is_set, "listed")
    assert seen.values == {"a": "0", "b": "0", "c": "0"}


def test_what_may_not_be_listed_is_a_problem_until_it_may(
    plane: ControlPlane, namespace: str, path: str, watches: list[Watch]
) -> None:
    eve = connect(str(plane.kubeconfig("eve")))
    watch, seen = started(watches, eve, path)
    await_true(lambda: 'User "eve" cannot list' in watch.problem, "the refusal")
    assert not watch.synced.is_set()

    plane.kubectl("create", "rolebinding", "eve", "--clusterrole=view", "--user=eve", "-n", namespace)

    await_true(watch.synced.is_set, "listed")
    assert (seen.lists, watch.problem) == (1, "")


@pytest.mark.parametrize("moment", ["at once", "listed", "unreachable"])
def test_a_watch_ends_soon_when_it_is_told_to(wired: tuple[Wire, Api], path: str, moment: str) -> None:
    wire, api = wired
    watch = Watch(api, path, lambda _: None, lambda *_: None)
    if moment == "unreachable":
        wire.refuses = True
    watch.start()
    if moment == "listed":
        await_true(watch.synced.is_set, "listed")
    if moment == "unreachable":
        await_true(lambda: watch.problem, "refused")
    began = time.monotonic()
    watch.stop()
    watch.await_end(watching.WATCH_SECONDS)

    assert not watch.alive
    assert time.monotonic() - began < watching.WATCH_SECONDS / 2


def test_a_caller_that_fails_ends_the_watch_visibly(api: Api, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ends: list[object] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: ends.append(args.exc_value))

    def fails(_: object) -> None:
        raise KeyError("a bug")

    watch = Watch(api, path, fails, lambda *_: None)
    watch.start()
    watch.await_end(60)

    assert not watch.alive
    assert [str(end) for end in ends] == ["'a bug'"]
