"""The pictures of the documentation show the page as it is now."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.page import pictures

DOCS = Path(__file__).parent.parent.parent / "docs"


@pytest.mark.parametrize("name", pictures.NAMES)
def test_a_picture_is_of_the_page_of_now(name: str) -> None:
    """If this fails, ``BATCHGATE_PICTURES=docs pytest tests/agent/whole/test_page.py -k pictures`` takes them anew."""
    assert pictures.digest_in(DOCS / name) == pictures.digest(name)
    assert (DOCS / name).stat().st_size < pictures.MOST_BYTES
    assert f"({name})" in (DOCS / "page.md").read_text()
