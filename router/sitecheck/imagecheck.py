"""Checks the program that pulls images on the site's host: it must exist and have the agent's version.

Pure.
"""

from __future__ import annotations

import json
from typing import Final

from router.host import Ended
from router.pod import image as ociimage
from router.preflight import Line, Mark

QUESTION: Final = json.dumps({"version": ociimage.VERSION, "image": ""}).encode()
"""A question without an image: only the version in the answer counts."""


def imagepull_line(user: str, program: str, ended: Ended) -> Line:
    """The line for an answer to ``QUESTION``: at most a warning, as images in the site's files need no such program."""
    expected = f"{program} of version {ociimage.VERSION}"
    change = f"install the agent's imagepull.py as {program}, root's with mode 0755; or write pull: job, or pull: never"
    try:
        if ended.returncode == 0:
            ociimage.read(ended.stdout)
            return Line("imagepull", user, Mark.OK, expected, expected)
        words = " ".join(ended.stderr.decode(errors="replace").split())[-200:]
        seen = f"no answer: {words or f'exit code {ended.returncode}'}"
    except ValueError as error:
        seen = f"the answer {error}"
    return Line("imagepull", user, Mark.WARNING, seen, expected, change)
