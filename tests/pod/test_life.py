"""What a Pod's script has left: read from what real scripts write, in any order, whole or cut."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.pod.leftovers import read_exit, read_note
from router.pod.life import (
    CANCELLED,
    Began,
    ContainerNotes,
    End,
    Event,
    Exit,
    Exited,
    JobNotes,
    Life,
    Note,
    Run,
    Start,
    fold,
    fold_all,
    with_alive,
    with_claim,
    with_exit,
    with_logs,
)
from tests.script.builders import container, site, text_of, workload
from tests.script.running import Pod, wait_for

UID = "0c0ffee0-1111-4222-8333-444455556666"
HOST = site("local", runtime="host")


def note(event: str, number: int = 1, **fields: Any) -> Note:
    content = json.dumps({"event": event, "job": "7.pbs", "host": "n1", "time": 1000, **fields}) + "\n"
    found = read_note(f"{UID}.{number}.{event}", content.encode())
    assert isinstance(found, Note), found
    return found


# --- single files ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "fields", "expected"),
    [
        (
            "started",
            {},
            Note(UID, 3, Event.STARTED, "7.pbs", "n1", 1000),
        ),
        (
            "running",
            {"container": "main", "restart": 2},
            Note(UID, 3, Event.RUNNING, "7.pbs", "n1", 1000, container="main", restart=2),
        ),
        (
            "probed",
            {"container": "main", "restart": 1, "ready": False, "started": True, "reason": "Unhealthy", "said": "bm8="},
            Note(UID, 3, Event.PROBED, "7.pbs", "n1", 1000, "main", 1, reason="Unhealthy", up=True, said="no"),
        ),
        (
            "exited",
            {"container": "main", "code": 137, "restart": 1},
            Note(UID, 3, Event.EXITED, "7.pbs", "n1", 1000, container="main", restart=1, code=137),
        ),
        (
            "ended",
            {"code": 143, "reason": "signal"},
            Note(UID, 3, Event.ENDED, "7.pbs", "n1", 1000, code=143, reason="signal"),
        ),
    ],
)
def test_a_note(name: str, fields: dict[str, Any], expected: Note) -> None:
    assert note(name, 3, **fields) == expected


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("notes.txt", b"{}\n", "is not a script's note"),
        (f"{UID}.0.started", b"{}\n", "is not a script's note"),
        (f"{UID}.1.sleeping", b"{}\n", "is not a script's note"),
        (f"../{UID}.1.started", b"{}\n", "is not a script's note"),
        (f"{UID}.1.started", b"", "truncated"),
        (f"{UID}.1.started", b'{"event":"started","job":"7","host":"n","time":1}', "truncated"),
        (f"{UID}.1.started", b'{"event":"sta', "truncated"),
        (f"{UID}.1.started", b"[1]\n", "not written by a script"),
        (f"{UID}.1.started", b'{"event":"ended","job":"7","host":"n","time":1}\n', "not written by a script"),
        (f"{UID}.1.started", b'{"event":"started","host":"n","time":1}\n', "invalid values"),
        (f"{UID}.1.started", b'{"event":"started","job":"7","host":"n","time":"1"}\n', "invalid values"),
        (f"{UID}.1.started", b'{"event":"started","job":"7","host":"n","time":1e99}\n', "invalid values"),
        (f"{UID}.1.started", b'{"event":"started","job":"7\\n8","host":"n","time":1}\n', "invalid values"),
        (f"{UID}.1.ended", b'{"event":"ended","job":"7","host":"n","time":1,"code":256}\n', "invalid values"),
        (f"{UID}.1.running", b'{"event":"running","job":"7","host":"n","time":1}\n', "invalid values"),
        *(
            (
                f"{UID}.1.started",
                f'{{"event":"started","job":"{job}","host":"n","time":1}}\n'.encode(),
                "invalid values",
            )
            for job in ("-u root", "nonsense", "71[].vm", "7[1].vm", "7.vm@evil", "٧", "7.", "7 8")
        ),
        (f"{UID}.1.started", b"[" * 100_000 + b"\n", "truncated"),
        (f"{UID}.1.started", b"\xff\xfe\n", "truncated"),
    ],
)
def test_what_is_no_note_is_said_in_words(name: str, content: bytes, words: str) -> None:
    found = read_note(name, content)

    assert isinstance(found, str)
    assert words in found


def test_an_exit_file() -> None:
    content = b'{"code":137,"signal":9,"started":10,"finished":12,"deadline":true}\n'

    assert read_exit("my-main.12", content) == ("my-main", Exit(12, 137, 9, 10, 12, deadline=True))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"reason": "CreateContainerError", "message": "no  \x1b[0m\nsuch"}, ("CreateContainerError", "no   [0m such")),
        ({"reason": "ErrImagePull"}, ("ErrImagePull", "")),
        ({"reason": "ErrImagePull", "message": "x" * 2000}, ("ErrImagePull", "x" * 1000)),
        ({"reason": "ErrImagePull", "message": {"a": 1}}, ("ErrImagePull", "")),
        ({"reason": "Evicted", "message": "not a reason of a script"}, ("", "")),
        ({"reason": ["CreateContainerError"], "message": "x"}, ("", "")),
        ({"message": "of nothing"}, ("", "")),
    ],
)
def test_an_exit_file_that_says_why_its_program_was_never_started(
    fields: dict[str, Any], expected: tuple[str, str]
) -> None:
    numbers = {"code": 127, "signal": 0, "started": 10, "finished": 12, "deadline": False}
    reason, message = expected

    found = read_exit("main.0", json.dumps({**numbers, **fields}).encode() + b"\n")

    assert found == ("main", Exit(0, 127, 0, 10, 12, deadline=False, reason=reason, message=message))


def test_an_exit_file_that_says_how_long_the_log_was() -> None:
    content = b'{"code":0,"signal":0,"started":10,"finished":12,"deadline":false,"log":4096}\n'

    assert read_exit("main.0", content) == ("main", Exit(0, 0, 0, 10, 12, deadline=False, log=4096))


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("dHdvCmxpbmVz", "two\nlines"),
        ("/w==", "\ufffd"),
        (base64.b64encode(b"x" * 4097).decode(), "x" * 4096),
        ("no base64!", ""),
        ("é", ""),
        (7, ""),
    ],
)
def test_an_exit_file_with_the_program_s_last_word(said: object, expected: str) -> None:
    numbers = {"code": 0, "signal": 0, "started": 10, "finished": 12, "deadline": False}

    found = read_exit("main.0", json.dumps({**numbers, "said": said}).encode() + b"\n")

    assert found == ("main", Exit(0, 0, 0, 10, 12, deadline=False, said=expected))


def test_logs_are_held_against_what_the_exit_files_say() -> None:
    life = with_exit(Life(), "main", Exit(1, 0, 0, 10, 12, deadline=False, log=100))
    life = with_exit(life, "old", Exit(0, 0, 0, 10, 12, deadline=False))

    short = with_logs(life, {"main.1": 99, "old.0": 0, "nobody.0": 0})

    assert short.short == ("main.1",)
    assert with_logs(short, {"main.1": 100, "old.0": 0}).short == ()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (".main.0", b'{"code":0,"signal":0,"started":1,"finished":1,"deadline":false}\n'),
        ("main.01", b'{"code":0,"signal":0,"started":1,"finished":1,"deadline":false}\n'),
        ("main", b'{"code":0,"signal":0,"started":1,"finished":1,"deadline":false}\n'),
        ("main.0", b'{"code":0,"signal":0,"started":1,"finished":1,"deadline":false}'),
        ("main.0", b'{"code":0,"signal":0,"started":1,"finished":1}\n'),
        ("main.0", b'{"code":true,"signal":0,"started":1,"finished":1,"deadline":false}\n'),
        ("main.0", b'{"code":-1,"signal":0,"started":1,"finished":1,"deadline":false}\n'),
        ("main.0", b'{"code":0,"signal":0,"started":1,"finished":1,"deadline":0}\n'),
        ("main.0", b'{"code":0,"signal":0,"started":1,"finished":1,"deadline":false,"log":-1}\n'),
        ("main.0", b""),
    ],
)
def test_what_is_no_exit_file_is_said_in_words(name: str, content: bytes) -> None:
    assert isinstance(read_exit(name, content), str)


@given(name=st.text(), content=st.binary())
def test_no_file_of_a_user_s_is_too_strange(name: str, content: bytes) -> None:
    read_note(name, content)
    read_exit(name, content)
    with_claim(Life(), content)
    read_note(f"{UID}.1.started", content + b"\n")
    read_exit("main.0", content + b"\n")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"12.pbs.example.org.1234567\n", Life(owner="12.pbs.example.org")),
        (b"4711.99\n", Life(owner="4711")),
        (b"39[7].pbs.5\n", Life()),
        (b"39[].pbs.5\n", Life()),
        (b"nonsense.1\n", Life()),
        (b"-u.1\n", Life()),
        (b"12.pbs@evil.example.1\n", Life()),
        (b"12.pbs:15001.1\n", Life()),
        ("١٢.pbs.1\n".encode(), Life()),
        (b"12.-pbs.1\n", Life()),
        (b"cancelled\n", Life(cancelled=True)),
        (b"cancelled", Life()),
        (b"", Life()),
        (b"12.pbs.12", Life()),
        (b"12\n", Life()),
        (b"two words.12\n", Life()),
        (b"a.1\nb.2\n", Life()),
    ],
)
def test_a_claim(content: bytes, expected: Life) -> None:
    assert with_claim(Life(), content) == expected


# --- folding --------------------------------------------------------------------------------------------------------

WHOLE = [
    note("started", 1, time=1000),
    note("running", 2, time=1001, container="main", restart=0),
    note("exited", 3, time=1005, container="main", restart=0, code=7),
    note("running", 4, time=1015, container="main", restart=1),
    note("exited", 5, time=1020, container="main", restart=1, code=0),
    note("ended", 6, time=1021, code=0, reason=""),
]


def test_a_whole_life() -> None:
    life = with_claim(fold_all(Life(), WHOLE), b"7.pbs.1\n")

    assert life == Life(
        owner="7.pbs",
        jobs=(
            JobNotes(
                "7.pbs",
                start=Start(1000, "n1"),
                end=End(1021, 0, ""),
                containers=(ContainerNotes("main", Began(1, 1015), Exited(1, 1020, 0)),),
            ),
        ),
    )
    assert life.end == End(1021, 0, "")
    assert life.unread == (("main", 1),)
    assert life.run("main") == Run(1, 1015, None, Exited(1, 1020, 0), None)
    assert life.run("other") is None


def test_a_run_with_its_exit_files() -> None:
    first, second = Exit(0, 7, 0, 1000, 1005, deadline=False), Exit(1, 0, 0, 1015, 1020, deadline=False)
    life = with_claim(fold_all(Life(), WHOLE), b"7.pbs.1\n")
    life = with_exit(with_exit(life, "main", second), "main", first)

    assert life.unread == ()
    assert life.run("main") == Run(1, 1015, second, Exited(1, 1020, 0), first)


def test_of_many_exit_files_the_last_two_are_kept() -> None:
    life = Life(owner="7.pbs")
    exits = [Exit(number, 1, 0, number, number, deadline=False) for number in range(9)]
    for one in (*exits[4:], *exits[:4]):
        life = with_exit(life, "main", one)

    assert life.exits == (("main", tuple(exits[-2:])),)


def test_notes_of_another_job_than_the_claim_s_are_not_believed() -> None:
    forged = fold(Life(owner="8.pbs"), WHOLE[-1])

    assert forged.end is None
    assert forged.notes == JobNotes("8.pbs")


def test_notes_without_a_claim_are_not_believed() -> None:
    assert fold_all(Life(), WHOLE).notes is None
    assert not fold_all(Life(), WHOLE).ran


@pytest.mark.parametrize(
    ("life", "ran", "sealed"),
    [
        (Life(), False, False),
        (Life(owner="7.pbs"), True, False),
        (Life(cancelled=True), False, True),
        (Life(owner="7.pbs", cancelled=True), True, False),
        (fold(Life(cancelled=True), WHOLE[0]), True, False),
    ],
    ids=["nothing", "claimed", "sealed", "taken", "taken, by what an agent finds that has forgotten it"],
)
def test_who_has_the_claim(life: Life, ran: bool, sealed: bool) -> None:
    assert (life.ran, life.sealed) == (ran, sealed)


def test_silence_is_measured_by_one_clock() -> None:
    assert Life().silence is None
    assert with_alive(Life(), None, 5000).silence is None
    life = with_alive(Life(), 4000, 4010)
    assert life.silence == 10
    assert with_alive(life, None, 4100).silence == 100, "a file that is gone is no sign of life"
    assert with_alive(life, 4090, 4100).silence == 10
    assert with_alive(life, 4020, 4015).silence == 0


NOTES = st.builds(
    Note,
    uid=st.just(UID),
    number=st.integers(1, 9),
    event=st.sampled_from(Event),
    job=st.sampled_from(["7.pbs", "8.pbs"]),
    host=st.sampled_from(["n1", "n2"]),
    time=st.integers(0, 3),
    container=st.sampled_from(["a", "b"]),
    restart=st.integers(0, 2),
    code=st.sampled_from([0, 1]),
    reason=st.sampled_from(["", "signal"]),
    ready=st.booleans(),
    up=st.booleans(),
)
EXITS = st.builds(
    Exit,
    restart=st.integers(0, 4),
    code=st.integers(0, 1),
    signal=st.just(0),
    started=st.integers(0, 2),
    finished=st.integers(0, 2),
    deadline=st.booleans(),
)
PIECES = st.one_of(
    NOTES,
    st.tuples(st.sampled_from(["a", "b"]), EXITS),
    st.sampled_from([b"7.pbs.1\n", f"{CANCELLED}\n".encode()]),
    st.tuples(st.none() | st.integers(0, 5), st.integers(5, 9)),
)


def _all(pieces: list[Any]) -> Life:
    life = Life()
    for piece in pieces:
        match piece:
            case Note():
                life = fold(life, piece)
            case bytes():
                life = with_claim(life, piece)
            case (str() as name, Exit() as one):
                life = with_exit(life, name, one)
            case (alive, clock):
                life = with_alive(life, alive, clock)
    return life


@given(pieces=st.lists(PIECES, max_size=12), data=st.data())
def test_order_and_repetition_change_nothing(pieces: list[Any], data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(pieces))
    again = data.draw(st.lists(st.sampled_from(pieces), max_size=5)) if pieces else []

    assert _all(shuffled + again) == _all(pieces)


# --- what real scripts write ----------------------------------------------------------------------------------------


@pytest.fixture
def pod(tmp_path: Path) -> Pod:
    return Pod(tmp_path).make()


def _life(pod: Pod) -> Life:
    life = with_claim(Life(), (pod.path / "claim").read_bytes())
    spool = pod.work / "spool"
    wait_for(lambda: not list(spool.glob(".*")), "the last note, which a script does not wait for")
    for path in spool.iterdir():
        found = read_note(path.name, path.read_bytes())
        assert isinstance(found, Note), found
        life = fold(life, found)
    for path in (pod.path / "exit").iterdir():
        exit_file = read_exit(path.name, path.read_bytes())
        assert not isinstance(exit_file, str), exit_file
        life = with_exit(life, *exit_file)
    return life


def test_the_files_of_a_real_script(pod: Pod) -> None:
    init = container("sh", "-c", "exit 0", name="prepare")
    main = container("sh", "-c", "exit 3")
    pod.run(text_of(workload(main, initContainers=[init]), HOST), job_id="7.pbs")

    life = _life(pod)

    assert life.owner == "7.pbs"
    assert life.unread == ()
    assert life.end is not None
    assert (life.end.code, life.end.reason) == (3, "")
    for name, code in (("prepare", 0), ("main", 3)):
        run = life.run(name)
        assert run is not None
        assert run.exit is not None
        assert run.exited is not None
        assert (run.restart, run.exit.code, run.exited.code) == (0, code, code)
        assert run.began is not None
        assert run.exit.started <= run.began <= run.exit.finished + 1


def test_the_files_of_a_real_script_that_was_told_to_end(pod: Pod) -> None:
    job = pod.start(text_of(workload(container("sh", "-c", "echo up; exec sleep 300")), HOST), job_id="7.pbs")
    pod.awaits_log("up")
    job.terminate()
    job.wait(60)

    life = _life(pod)

    assert life.end is not None
    assert (life.end.code, life.end.reason) == (143, "signal")
    run = life.run("main")
    assert run is not None
    assert run.exit is not None
    assert (run.exit.code, run.exit.signal, run.exit.deadline) == (143, 15, False)
