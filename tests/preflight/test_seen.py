"""What probes printed, made into values; half of it, and rubbish."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.preflight.seen import Sample, attribute_of, first, names_delay, report_of, sizes_delay, stamps_of

WHOLE = b"begin \nhost node1\nrank node1\nrank node2\nimage 0 \nend \n"


def test_a_whole_report() -> None:
    report = report_of(WHOLE)

    assert report == {"host": ("node1",), "rank": ("node1", "node2"), "image": ("0",)}
    assert (first(report, "rank"), first(report, "nothing")) == ("node1", "")


@pytest.mark.parametrize("cut", range(len(WHOLE) - 3))
def test_a_report_that_is_cut_is_none(cut: int) -> None:
    assert report_of(WHOLE[:cut]) is None


@given(st.binary())
def test_any_bytes(content: bytes) -> None:
    report_of(content)
    assert all(stamp >= 0 for stamp in stamps_of(content))


def test_stamps() -> None:
    assert stamps_of(b"0000000012\n12.500000000\nrubbish\n\n") == (12.0, 12.5)


NAMES = frozenset({"100.0", "101.1", "102.2"})


@pytest.mark.parametrize(
    ("samples", "delay"),
    [
        ([], 0.0),
        ([(99.0, ()), (104.0, ("100.0", "101.1", "102.2"))], 0.0),
        ([(100.9, ())], 0.0),  # cut to whole seconds, it may be as young as that
        ([(130.0, ()), (161.0, ()), (162.0, ("100.0", "101.1", "102.2"))], 60.0),
        ([(110.0, ("100.0", "101.1"))], 7.0),
    ],
)
def test_how_late_names_are_seen(samples: list[tuple[float, tuple[str, ...]]], delay: float) -> None:
    looks = [Sample(at, frozenset(names), 0) for at, names in samples]

    assert names_delay(looks, NAMES) == delay


@pytest.mark.parametrize(
    ("samples", "delay"),
    [
        ([], 0.0),
        ([(99.0, 0), (100.5, 0), (101.5, 11), (105.0, 33)], 0.0),
        ([(120.0, 0), (121.0, 33)], 19.0),
        ([(120.0, 22), (121.0, 27), (122.0, 33)], 18.0),
    ],
)
def test_how_late_sizes_are_seen(samples: list[tuple[float, int]], delay: float) -> None:
    looks = [Sample(at, frozenset(), size) for at, size in samples]

    assert sizes_delay(looks, (100.0, 101.0, 102.0)) == delay


@pytest.mark.parametrize(
    "details",
    [
        "    Job_Name = x\n    Account_Name = physics\n    queue = workq\n",
        '{"Jobs": {"1.s": {"Account_Name":"physics", "queue":"workq"}}}',
        "<Job><Account_Name>physics</Account_Name><queue>workq</queue></Job>",
        "Job Id: 1.s\x1eAccount_Name=physics\x1equeue=workq",
    ],
)
def test_an_account_in_what_each_system_prints(details: str) -> None:
    assert (attribute_of(details, "Account_Name"), attribute_of(details, "project")) == ("physics", "")
