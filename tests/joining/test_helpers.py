"""Settings of a site survive a new release of the site helper."""

from __future__ import annotations

from pathlib import Path

import pytest

from router.errors import InputError
from router.host import imagepull, sitehelper
from router.joining import helpers

OURS = '#!/usr/bin/python3 -I\n"""It."""\nA = 1  # of users\nB = ()\n\nVERSION = 2\n'
PLACE = "/usr/local/libexec/batchgate/sitehelper"


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (None, OURS),
        (OURS, OURS),
        (OURS.replace("VERSION = 2", "VERSION = 1"), OURS),
        (OURS.replace("A = 1", "A = 500"), OURS.replace("A = 1", "A = 500")),
        (
            '#!/opt/python -I\nB = (\n    "x",\n)\nA = 7\nVERSION = 1\n',
            OURS.replace("/usr/bin/python3", "/opt/python")
            .replace("A = 1  # of users", "A = 7")
            .replace("B = ()", 'B = (\n    "x",\n)'),
        ),
        ("B = (1,)\n", OURS.replace("B = ()", "B = (1,)")),
    ],
)
def test_another_release_gets_the_settings_that_are_there(found: str | None, expected: str) -> None:
    assert helpers.merged(OURS, found, ("A", "B"), PLACE) == expected


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ("#!/bin/sh\nexit 0\n", "is no Python file"),
        ("print()\n", "is no file of Batchgate's (it sets none of A, B); move it away"),
        ("\0", "is no Python file"),
    ],
)
def test_a_file_of_somebody_else_is_not_replaced(found: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        helpers.merged(OURS, found, ("A", "B"), PLACE)
    assert str(caught.value).startswith(f"{PLACE}: {words}")


@pytest.mark.parametrize(
    ("file", "settings"),
    [
        (sitehelper.__file__, helpers.HELPER_SETTINGS),
        (imagepull.__file__, helpers.IMAGEPULL_SETTINGS),
    ],
)
def test_the_settings_are_those_of_our_files(file: str, settings: tuple[str, ...]) -> None:
    text = Path(file).read_text()
    named = text.partition("# What an admin may set for a site.\n")[2].partition("\n\n")[0]

    assert tuple(line.partition(" = ")[0] for line in named.splitlines()) == settings
    assert helpers.merged(text, text, settings, file) == text
