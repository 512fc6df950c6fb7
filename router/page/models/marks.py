"""Characters that are not seen, but change what is read: a script is shown with them escaped.

Pure. A mark such as U+202E turns the direction of what follows it.
"""

from __future__ import annotations

import re
from typing import Final

_BLANK: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Letters and marks by their category, which show as a blank or as nothing."""


def seen(text: str) -> str:
    """The text with each such character but tabs and ends of lines as bash writes it in ``$'...'``, such as ``\\u202e``."""
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join([one if _is_seen(one) else _escaped(one) for one in text])


def _is_seen(one: str) -> bool:
    return one in "\n\t" or (one.isprintable() and not _BLANK.match(one))


def _escaped(one: str) -> str:
    return f"\\u{ord(one):04x}" if ord(one) <= 0xFFFF else f"\\U{ord(one):08x}"
