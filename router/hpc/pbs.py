"""Whether a PBS submit command was ended by a signal behind a site's own script, which says so by its exit code alone.

Pure. A shell adds 128 to the signal's number. PBS' own codes, modulo 256, begin at 153 (PBSE_UNKJOBID) on OpenPBS and
TORQUE alike; there its commands say ``qsub: …`` as well.
"""

from __future__ import annotations

import re
from typing import Final

_BELOW_PBS: Final = range(128 + 1, 153)
_AS_PBS: Final = range(153, 128 + 31 + 1)
_OWN_WORDS: Final = re.compile(r"^qsub: ", re.MULTILINE)


def by_signal(returncode: int, words: str) -> bool:
    """Whether qsub's end may be that of a command which a signal has ended: then nobody knows whether it made a job."""
    return returncode in _BELOW_PBS or (returncode in _AS_PBS and not _OWN_WORDS.search(words))
