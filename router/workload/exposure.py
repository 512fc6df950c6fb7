"""Finds values of Secrets that would stand in a command line, which everyone on a node can read.

Pure. On a node of the cluster nobody else is there to read them, so Kubernetes lets ``args`` refer to them. The runtime
takes variables from its own environment, but it can set those of some names only by a command line.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Final

from router.values import unchanging
from router.workload.expand import refers
from router.workload.model import Container

_SOURCE: Final = "secretKeyRef"
_EXPORTED: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OWN: Final = frozenset({"HOME", "UID", "EUID", "GID"})
"""Variables that the runtime sets itself: another value goes to ``env`` inside the container."""
_INNER: Final = re.compile(
    r"POSIXLY_CORRECT|GCONV_PATH|GETCONF_DIR|GLIBC_TUNABLES|HOSTALIASES|LOCALDOMAIN|LOCPATH|NIS_PATH|NLSPATH|RES_OPTIONS"
    r"|RESOLV_HOST_CONF|TMPDIR|TZ|TZDIR|LD_[A-Z].*|PPID|GROUPS|BASH.*|SHELLOPTS|FUNCNAME|DIRSTACK|batchgate_.*"
)
"""What programs of the node heed: ``run_exec`` of the runtime hands it to ``env`` inside, for a hook or probe."""
_CONSTANT: Final = re.compile(r"[A-Z][A-Z0-9]*_[A-Z0-9_]*|[A-Z][A-Z0-9]+")
"""Names that are hardly shell commands. ``$(date)`` in a shell's text is a command, even beside an ``envFrom``."""


@unchanging
class Exposed:
    """A field that would put a value of a Secret into a command line, and the variable that holds the value."""

    path: str
    variable: str

    @property
    def reason(self) -> str:
        """What is wrong, and what to do, as one clause."""
        return (
            f"would put {self.variable}, a value of a Secret, into a command line that others on the node can read; "
            "have the program read a variable or a file"
        )


def is_exported(name: str) -> bool:
    """Whether the runtime takes a variable of this name from its own environment, also for hooks and probes."""
    return _EXPORTED.fullmatch(name) is not None and name not in _OWN and _INNER.fullmatch(name) is None


def exposed(container: Container) -> tuple[Exposed, ...]:
    """The fields of a container that expose a Secret, as far as the manifest tells.

    With ``envFrom`` the names of variables are unknown: a reference to a name in capitals that nothing else sets counts
    as one to a Secret.
    """
    if not container.secrets:
        return ()
    open_end = any(not one.key for one in container.secrets)
    secret, known = _follow(container, (), open_end=open_end)
    return (*_by_name(container, secret), *_by_words(container, secret, known, open_end=open_end))


def exposed_by(container: Container, keys: Collection[str]) -> tuple[Exposed, ...]:
    """The same with the variables that ``envFrom`` takes from Secrets."""
    secret, _ = _follow(container, keys, open_end=False)
    return (*_by_name(container, secret), *_by_words(container, secret, (), open_end=False))


def _follow(container: Container, keys: Collection[str], *, open_end: bool) -> tuple[set[str], set[str]]:
    """The variables that hold a Secret, or a text with one, and all that ``env`` names."""
    secret, known = set(keys), set[str]()
    for variable in container.env:
        names = refers(variable.value) if variable.value is not None else ()
        holds = variable.source == _SOURCE or any(_is_secret(one, secret, known, open_end=open_end) for one in names)
        known.add(variable.name)
        (secret.add if holds else secret.discard)(variable.name)
    return secret, known


def _is_secret(name: str, secret: Collection[str], known: Collection[str], *, open_end: bool) -> bool:
    return name in secret or (open_end and name not in known and _CONSTANT.fullmatch(name) is not None)


def _by_name(container: Container, secret: Collection[str]) -> Iterator[Exposed]:
    for index, variable in enumerate(container.env):
        if variable.name in secret and not is_exported(variable.name):
            yield Exposed(f"{container.path}.env[{index}].name", variable.name)


def _by_words(
    container: Container, secret: Collection[str], known: Collection[str], *, open_end: bool
) -> Iterator[Exposed]:
    for field, words in (("command", container.command), ("args", container.args)):
        for index, word in enumerate(words or ()):
            for name in dict.fromkeys(refers(word)):
                if _is_secret(name, secret, known, open_end=open_end):
                    yield Exposed(f"{container.path}.{field}[{index}]", name)
