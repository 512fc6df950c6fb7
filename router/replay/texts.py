"""Makes text of a user harmless where it is shown: on a terminal, in Markdown, in XML.

Pure. Names of users, images in reasons and the like are written by whoever creates a Job.
"""

from __future__ import annotations

from typing import Final

_LONGEST: Final = 2000


def plain(text: str) -> str:
    """One line without characters that control a terminal, or that turn the direction of text; cut if it is long."""
    text = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
    whole = text.encode("utf-8", "replace").decode()
    return "".join([one if one.isprintable() else " " for one in whole])


def code(text: str) -> str:
    """A code span of Markdown: nothing in it is a link, a mention or HTML. Its bars cannot end a cell of a table."""
    inner = plain(text).replace("`", "'").replace("|", "\N{FULLWIDTH VERTICAL LINE}").strip()
    return f"`{inner}`" if inner else "-"
