"""``$(VAR)`` in env, command and args, as the kubelet resolves it.

Pure. The rules are those of Kubernetes' reference for a container's ``command`` and ``env``: ``$(NAME)`` becomes the
variable's value, ``$$`` becomes ``$`` (so ``$$(NAME)`` stays a literal ``$(NAME)``), and a reference to what does not
exist stays as written. It is no shell: nothing else is special.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from router.workload.model import Container

_REFERENCE: Final = re.compile(r"\$(?:\$|\(([^)]*)\))")
_LATER: Final = "JOB_COMPLETION_INDEX"
"""Added by the Job controller to every container of an Indexed Job, so it is never known from the manifest."""


def expand(text: str, values: Mapping[str, str]) -> str:
    """The text with each reference replaced by its value; a name that is not among them stays as written."""
    if "$" not in text:
        return text

    def replacement(match: re.Match[str]) -> str:
        name = match.group(1)
        if name is None:
            return "$"
        return values.get(name, match.group())

    return _REFERENCE.sub(replacement, text)


def refers(text: str) -> tuple[str, ...]:
    """The names that a text refers to, in order, each as often as it occurs."""
    if "$(" not in text:
        return ()
    return tuple(match.group(1) for match in _REFERENCE.finditer(text) if match.group(1) is not None)


def literal_env(container: Container) -> dict[str, str]:
    """The variables whose values the manifest alone gives, expanded.

    A variable sees those before it in the list, and those of ``envFrom``. One that refers to something known only
    later is itself known only later, and is not in the result.
    """
    known: dict[str, str] = {}
    later: set[str] = set()
    for variable in container.env:
        name, value = variable.name, variable.value
        if value is None or _waits(value, known, later, container):
            later.add(name)
            known.pop(name, None)
        else:
            known[name] = expand(value, known)
            later.discard(name)
    return known


def _waits(value: str, known: Mapping[str, str], later: set[str], container: Container) -> bool:
    return any(name in later or (container.env_from and name not in known) for name in refers(value))


def known_text(text: str, values: Mapping[str, str], container: Container) -> str | None:
    """The text expanded from the literal variables, or None where it refers to one that is known only later."""
    for name in refers(text):
        if name not in values and (container.env_from or name == _LATER or _declares(container, name)):
            return None
    return expand(text, values)


def _declares(container: Container, name: str) -> bool:
    return any(variable.name == name for variable in container.env)


def argv(container: Container) -> tuple[str, ...] | None:
    """The words that the container (or each rank of it) runs, where the manifest alone tells them; else None.

    With a lifted launcher that is its program; with args alone it is the args, which the image's entrypoint gets.
    """
    words = written_argv(container)
    if not any("$" in word for word in words):
        return words
    values = literal_env(container)
    known = [known_text(word, values, container) for word in words]
    return None if None in known else tuple([word for word in known if word is not None])


def resolve_argv(container: Container, values: Mapping[str, str]) -> tuple[str, ...]:
    """The words with every reference resolved from the Pod's whole environment, which is given here."""
    return tuple([expand(word, values) for word in written_argv(container)])


def written_argv(container: Container) -> tuple[str, ...]:
    """The words as the manifest has them."""
    if container.launcher is not None:
        return container.launcher.argv
    return (*(container.command or ()), *(container.args or ()))
