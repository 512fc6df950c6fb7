from __future__ import annotations

from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.errors import RequestError
from router.kubelet.query import LogQuery, log_query

NOW = 1_700_000_000_000


def read(query: str) -> LogQuery:
    return log_query(parse_qsl(query, keep_blank_values=True), NOW)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", LogQuery()),
        ("follow=true&previous=1&timestamps=yes", LogQuery(follow=True, previous=True, timestamps=True)),
        # Convert_Slice_string_To_bool of apimachinery: all but "false" and "0" is true
        ("follow=false&previous=0&timestamps=FALSE", LogQuery()),
        ("follow", LogQuery(follow=True)),
        ("follow=true&follow=false", LogQuery(follow=True)),
        ("tailLines=0", LogQuery(tail=0)),
        ("tailLines=%2B12", LogQuery(tail=12)),
        ("tail=7&tailLines=3", LogQuery(tail=7)),
        ("tail=all&tailLines=3", LogQuery()),
        ("tail=&tailLines=3", LogQuery(tail=3)),
        ("limitBytes=1", LogQuery(limit=1)),
        ("sinceSeconds=60", LogQuery(since=NOW - 60_000)),
        (f"sinceSeconds={2**63 - 1}", LogQuery(since=0)),
        ("sinceTime=2023-11-14T22:13:20Z", LogQuery(since=NOW)),
        ("sinceTime=2023-11-14T22:13:20.25Z", LogQuery(since=NOW + 250)),
        ("sinceTime=2023-11-14T22:13:20.0019999999Z", LogQuery(since=NOW + 1)),
        ("sinceTime=2023-11-15T00:13:20%2B02:00", LogQuery(since=NOW)),
        ("sinceTime=2023-11-14t22:13:20z", LogQuery(since=NOW)),
        ("sinceTime=0001-01-01T00:00:00%2B12:00", LogQuery(since=0)),
        ("sinceTime=9999-12-31T23:59:59-12:00", LogQuery(since=253_402_343_999_000)),
        ("sinceTime=null", LogQuery()),
        ("sinceTime=", LogQuery()),
        ("stream=All", LogQuery()),
        ("stream=", LogQuery()),
        ("unknown=1", LogQuery()),
    ],
)
def test_parameters_are_read_as_a_kubelet_reads_them(query: str, expected: LogQuery) -> None:
    assert read(query) == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("tailLines=-1", "tailLines: -1 must be greater than or equal to 0"),
        ("tailLines=x", "tailLines: 'x' is no whole number"),
        ("tailLines=", "tailLines: '' is no whole number"),
        ("tailLines=1_0", "tailLines: '1_0' is no whole number"),
        ("tailLines=%D9%A1", "tailLines: '١' is no whole number"),
        ("tailLines=9223372036854775808", "tailLines: '9223372036854775808' is no whole number"),
        ("tail=-2", "tail: -2 must be greater than or equal to 0"),
        ("limitBytes=0", "limitBytes: 0 must be greater than or equal to 1"),
        ("sinceSeconds=0", "sinceSeconds: 0 must be greater than or equal to 1"),
        ("sinceSeconds=1.5", "sinceSeconds: '1.5' is no whole number"),
        (
            "sinceSeconds=1&sinceTime=2023-11-14T22:13:20Z",
            "at most one of `sinceTime` or `sinceSeconds` may be specified",
        ),
        ("sinceTime=yesterday", "sinceTime: 'yesterday' is no RFC 3339 time, as 2006-01-02T15:04:05Z"),
        ("sinceTime=2023-02-30T00:00:00Z", None),
        ("sinceTime=2023-11-14T22:13:20", None),
        ("sinceTime=2023-11-14", None),
        ("sinceTime=2023-11-14T22:13:20%2B99:00", None),
        ("stream=Stdout", "stream: stdout and stderr of a batch job go into one log; ask for All"),
    ],
)
def test_what_may_not_be_is_refused_with_the_field(query: str, expected: str | None) -> None:
    with pytest.raises(RequestError) as refused:
        read(query)

    assert refused.value.status == 400
    if expected is not None:
        assert refused.value.text == expected


NAMES = st.sampled_from(
    ["follow", "tail", "tailLines", "sinceTime", "sinceSeconds", "limitBytes", "timestamps", "previous", "stream"]
)


@given(st.lists(st.tuples(NAMES, st.text(max_size=30) | st.integers().map(str))))
def test_whatever_is_asked_is_answered_or_refused(parameters: list[tuple[str, str]]) -> None:
    answer = answered(parameters)

    if isinstance(answer, RequestError):
        assert answer.status == 400
        assert "\n" not in answer.text
    else:
        assert answer.tail is None or answer.tail >= 0
        assert answer.limit is None or answer.limit >= 1


def answered(parameters: list[tuple[str, str]]) -> LogQuery | RequestError:
    try:
        return log_query(parameters, NOW)
    except RequestError as error:
        return error
