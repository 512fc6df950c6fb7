"""What is kept of checks: whose lines hold after another check, and what agents and people are told of it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.errors import InputError
from router.preflight import Line, Mark
from router.preflight.record import (
    LONGEST,
    MOST_LINES,
    Kept,
    after,
    brief,
    document,
    kept_of,
    praise,
    sentence,
    sentence_on_profiles,
)

EARLY, LATE = "2026-03-01T12:00:00Z", "2026-03-01T13:00:00Z"
GOOD = Line("reach", "ada", Mark.OK, "local", "a way")
SLOW = Line("kill-delay", "ada", Mark.WARNING, "KILL 1.0 s after TERM", "more", "set it")
FULL = Line("work-directory", "ada", Mark.MUST, "the disk is full", "room", "make room")
AWAY = Line("reach", "ben", Mark.MUST, "no route", "a way", "see hosts")
QUEUED = Line("probe", "ada", Mark.WARNING, "still queued", "it starts", "--wait longer", undecided=True)
BROKEN = Kept({"ada": EARLY, "ben": EARLY}, {"ada": ("work-directory",), "ben": ("reach",)}, (FULL, AWAY))


@pytest.mark.parametrize(
    ("before", "lines", "users", "whole", "expected"),
    [
        pytest.param(Kept(), [GOOD, SLOW], ["ada"], True, Kept({"ada": LATE}), id="warnings refuse nothing"),
        pytest.param(
            Kept(), [GOOD, FULL], ["ada"], True, Kept({"ada": LATE}, {"ada": ("work-directory",)}, (FULL,)), id="must"
        ),
        pytest.param(BROKEN, [GOOD], ["ada"], True, Kept({"ada": LATE}), id="a check of all begins anew"),
        pytest.param(
            BROKEN,
            [GOOD],
            ["ada"],
            False,
            Kept({"ada": LATE, "ben": EARLY}, {"ben": ("reach",)}, (AWAY,)),
            id="who was not checked is as before",
        ),
        pytest.param(
            BROKEN,
            [QUEUED],
            ["ada"],
            False,
            Kept({"ada": LATE, "ben": EARLY}, BROKEN.broken, (FULL, AWAY)),
            id="a probe that did not start mends nothing",
        ),
        pytest.param(
            BROKEN,
            [QUEUED, FULL],
            ["ada"],
            True,
            Kept({"ada": LATE}, {"ada": ("work-directory",)}, (FULL,)),
            id="nor does it tell twice",
        ),
        pytest.param(Kept(), [QUEUED], ["ada"], True, Kept({"ada": LATE}), id="nor does it refuse"),
        pytest.param(
            Kept(),
            [FULL, Line("queues", "", Mark.MUST, "no answer", "figures", "mend")],
            ["ada"],
            True,
            Kept(
                {"ada": LATE, "": LATE},
                {"ada": ("work-directory",), "": ("queues",)},
                (FULL, Line("queues", "", Mark.MUST, "no answer", "figures", "mend")),
            ),
            id="lines of nobody",
        ),
    ],
)
def test_after_a_check(before: Kept, lines: list[Line], users: list[str], whole: bool, expected: Kept) -> None:
    found = after(before, lines, users, LATE, whole=whole)

    assert found == expected
    assert kept_of(document(found)) == found


def test_what_is_kept_is_short_and_can_be_written() -> None:
    long = Line("probe", "ada", Mark.MUST, "a\nb \udcff" + "c" * 1000, "", "")
    lines = [long, *(Line(f"queue/{number}", "ada", Mark.MUST, "", "", "") for number in range(MOST_LINES))]

    found = after(Kept(), lines, ["ada"], LATE, whole=True)

    assert (len(found.lines), len(found.names)) == (MOST_LINES, MOST_LINES + 1)
    assert found.lines[0].seen == f"a b ?{'c' * (LONGEST - 5)}"
    assert kept_of(document(found)) == found


def test_words() -> None:
    one = Kept({"ada": EARLY}, {"ada": ("work-directory",)}, (FULL,))

    assert [sentence(Kept()), brief(Kept(), "hpc1", "")] == ["", ""]
    assert praise(Kept()) == "no check of the site is known"
    assert praise(Kept({"ada": EARLY, "ben": LATE})) == f"checked at {LATE}: no problems"
    assert sentence(one) == (
        f"batchgate site check, {EARLY}, found problems: work-directory (ada): the disk is full; make room. "
        "Fix them and check again"
    )
    assert "make room. one more such line. Fix them" in sentence(BROKEN)
    assert brief(BROKEN, "hpc1", "") == (
        "the last check of site hpc1 failed (work-directory, reach); nothing is submitted until this is fixed"
    )


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "{}",
        "null",
        json.dumps({"users": [], "lines": []}),
        json.dumps({"users": {"ada": {"time": 1, "must": []}}, "lines": []}),
        json.dumps({"users": {"ada": {"time": LATE}}, "lines": []}),
        json.dumps({"users": {}, "lines": [{"name": "reach"}]}),
    ],
)
def test_what_is_no_record(text: str) -> None:
    with pytest.raises(InputError, match="is not the record of a site check"):
        kept_of(text)


names = st.sampled_from(["reach", "probe", "links", "queue/a"])
people = st.sampled_from(["", "ada", "ben", "eve"])
found_lines = st.lists(
    st.builds(Line, names, people, st.sampled_from(Mark), st.text(), st.text(), st.text(), undecided=st.booleans()),
    max_size=6,
)
checks = st.lists(st.tuples(found_lines, st.lists(people, min_size=1, unique=True), st.booleans()), max_size=4)


@given(checks)
def test_any_row_of_checks(row: list[Any]) -> None:
    """What is written is read back; the lines of the last check are among what holds; nothing holds that none found."""
    kept = Kept()
    for lines, users, whole in row:
        before, kept = kept, after(kept, lines, users, LATE, whole=whole)
        musts = {(line.user, line.name) for line in lines if line.mark is Mark.MUST}
        holds = {(user, name) for user, some in kept.broken.items() for name in some}

        assert kept_of(document(kept)) == kept
        assert musts <= holds
        assert holds - musts <= {(user, name) for user, some in before.broken.items() for name in some}
        assert bool(sentence(kept)) == bool(holds)


NO_RANK = Line("launcher/open-mpi", "ada", Mark.MUST, "exit code 1", "2 ranks", "fix MPI profile open-mpi: no slots")


def test_a_profile_that_must_be_mended_refuses_its_own_jobs_alone() -> None:
    kept = after(Kept(), [GOOD, NO_RANK, replace(NO_RANK, user="ben")], ["ada", "ben"], LATE, whole=True)

    assert (kept.names, kept.profiles, sentence(kept)) == ((), ("open-mpi",), "")
    assert sentence_on_profiles(kept) == (
        "MPI Jobs of profile open-mpi are not submitted, all others are: batchgate site check, 2026-03-01T13:00:00Z, found "
        "problems: launcher/open-mpi (ada): exit code 1; fix MPI profile open-mpi: no slots. one more such line. "
        "Fix them and check again"
    )
    assert {profile: brief(kept, "s", profile) for profile in ("", "mpich", "open-mpi")} == {
        "": "",
        "mpich": "",
        "open-mpi": "the last check of site s failed for MPI profile open-mpi; no MPI Job of that profile is submitted until "
        "this is fixed",
    }


def test_a_site_that_is_refused_refuses_all() -> None:
    kept = after(Kept(), [NO_RANK, FULL], ["ada"], LATE, whole=True)

    assert (kept.names, kept.profiles) == (("work-directory",), ("open-mpi",))
    assert sentence(kept).startswith("batchgate site check, 2026-03-01T13:00:00Z, found problems: work-directory (ada)")
    assert {brief(kept, "s", profile) for profile in ("", "mpich", "open-mpi")} == {
        "the last check of site s failed (work-directory); nothing is submitted until this is fixed"
    }
