"""The commands by which a person does in a terminal what the page shows.

Pure. Each is one line for a POSIX shell, with every name quoted.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from router import names
from router.operating.story import Story


def commands(found: Story) -> tuple[tuple[str, str], ...]:
    """What each does, and the line."""
    return tuple((title, shlex.join(words)) for title, words in _commands(found))


def _commands(found: Story) -> Iterator[tuple[str, list[str]]]:
    place = ["-n", found.namespace]
    yield "The same story", ["batchgate", "describe", found.name, *place]
    yield "The Job and its Events", ["kubectl", "describe", "job", found.name, *place]
    yield (
        "Its Pods",
        ["kubectl", "get", "pods", *place, "-l", f"{names.JOB_NAME}={found.name}", "-o", "wide"],
    )
    yield "Follow its logs", ["kubectl", "logs", "-f", *place, f"job/{found.name}", "--all-containers"]
    if not found.ended:
        yield "End it", ["kubectl", "delete", "job", found.name, *place]
        yield "Hold it", ["kubectl", "patch", "job", found.name, *place, "-p", '{"spec":{"suspend":true}}']
