from __future__ import annotations

from contextlib import ExitStack

import pytest

from router.errors import RequestError
from router.kubelet.limits import Places


def refusal(places: Places, namespace: str) -> tuple[int, str]:
    with pytest.raises(RequestError) as refused, places.place(namespace):
        pass
    return refused.value.status, refused.value.text


def test_a_namespace_takes_half_of_the_places_at_most() -> None:
    places = Places(4)
    with ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(places.place("ada"))

        assert refusal(places, "ada") == (
            429,
            (
                '2 logs of namespace "ada" are being read at once, which is the limit for one; '
                "end some of them, or try again later"
            ),
        )
        stack.enter_context(places.place("bob"))
        stack.enter_context(places.place("eve"))
        assert refusal(places, "dan") == (
            429,
            "4 logs are being read at once, which is the limit; try again later",
        )

    with places.place("ada"), places.place("ada"):
        pass


def test_a_place_is_given_back_also_after_an_error() -> None:
    places = Places(1)

    for _ in range(3):
        with pytest.raises(KeyError), places.place("ada"):
            raise KeyError("something")
