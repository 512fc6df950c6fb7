"""The ssh command that takes a program into a running job on its node, with a program of the batch system's in between.

Pure. It is what the job's user could type where the batch system's commands run: with the user's own keys and rights.
``router.host.sitehelper`` becomes it in exactly this form, so both change together.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Final

from router.hpc import Commands

OPTIONS: Final = (
    "-T",  # the terminal is made on the node, beside the command
    "-x",
    "-a",
    "-oBatchMode=yes",
    "-oStrictHostKeyChecking=yes",
    "-oClearAllForwardings=yes",
    "-oPermitLocalCommand=no",
    "-oControlMaster=no",  # a master would outlive the session, and hold its pipes
    "-oControlPath=none",
    "-oConnectTimeout=20",
    "-oServerAliveInterval=20",
    "-oServerAliveCountMax=3",
    "-oLogLevel=ERROR",  # without the banner, which would be taken for the reason of a failure
)
_HOST: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")


def argv(hosts: str, attach: Sequence[str], words: Sequence[str], commands: Commands) -> tuple[str, ...] | None:
    """``ssh NODE /usr/bin/env PATH=... pbs_attach -j ID program``; None if ``hosts`` lacks a host's name.

    The far words pass the user's login shell, whichever that is, so each is quoted and ``env`` sets the variables.

    :param hosts: ``exec_host`` of the job: ``n1/0*4+n2/0*4``, the node of the script first
    :param attach: words that take a program into the job
    """
    host = hosts.partition("+")[0].partition("/")[0]
    if not _HOST.fullmatch(host):
        return None
    settings = [f"{name}={value}" for name, value in commands.environment if name == "PATH" or name.startswith("PBS_")]
    far = ("/usr/bin/env", *settings, *attach, *words)
    return commands.argv("ssh", *OPTIONS, host, " ".join(map(shlex.quote, far)))
