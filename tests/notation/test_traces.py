"""The place of a span: what is believed of an annotation, and ids that follow from a Pod."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.notation.traces import Place, of_pod, read

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


def test_what_is_written_is_read() -> None:
    assert read(f"00-{TRACE}-{SPAN}-01") == Place(TRACE, SPAN)
    assert str(Place(TRACE, SPAN)) == f"00-{TRACE}-{SPAN}-01"


@pytest.mark.parametrize(
    "text",
    [
        None,
        7,
        "",
        "00",
        f"00-{TRACE}-{SPAN}-00",
        f"00-{TRACE}-{SPAN}-03",
        f"01-{TRACE}-{SPAN}-01",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-{SPAN}-01-extra",
        f"00-{TRACE}-{SPAN}-01\n",
        f" 00-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01\0",
        f"00-{TRACE[:-1]}١-{SPAN}-01",
        "00-$(touch /tmp/x)-b-01",
        "0" * 1_000_000,
    ],
)
def test_any_other_text_is_not_believed(text: object) -> None:
    assert read(text) is None


@given(st.text(), st.sampled_from(["pod", "submit", "queue", "run", "finish"]))
def test_the_id_of_a_pods_span_is_valid_and_the_same_each_time(uid: str, name: str) -> None:
    found = of_pod(TRACE, uid, name)

    assert read(str(found)) == found == of_pod(TRACE, uid, name)
    assert found != of_pod(TRACE, uid, f"{name}.")
    assert found.span_id != of_pod(TRACE, f"{uid}.", name).span_id
