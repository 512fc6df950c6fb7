"""Removes contents of Secrets, and tokens, from the directory of a Pod that no longer runs.

Shell. The script does so when its containers have ended; the agent also where a script was killed, or never ran.
"""

from __future__ import annotations

import contextlib
from typing import Final

from router.host import Host
from router.pod import layout
from router.pod.layout import PodDirectory

_STAGED: Final = (layout.ENV, layout.ARGV, layout.FILES)


def holds_credentials(host: Host, directory: PodDirectory) -> bool:
    """Whether credentials were staged in a Pod's directory, and may still be there. Raises OSError."""
    return host.status(directory.path / layout.CREDENTIALS) is not None


def wipe(host: Host, directory: PodDirectory) -> bool:
    """Remove staged credentials; returns whether there were any. What a killed wipe leaves, the next one removes.

    :raises OSError: some are left
    """
    if not holds_credentials(host, directory):
        return False
    for name in _STAGED:
        try:
            host.remove_tree(directory.path / name)
        except NotADirectoryError:  # its user's link or file, or a directory that its user has locked
            with contextlib.suppress(NotADirectoryError):
                host.remove(directory.path / name)
    with contextlib.suppress(NotADirectoryError, IsADirectoryError):
        host.remove(directory.path / layout.CREDENTIALS)
    return True
