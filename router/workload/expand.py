"""Expands ``$(VAR)`` in env, command and args, as the kubelet does.

Pure. The rules are those of Kubernetes' reference for a container's ``command`` and ``env``: ``$(NAME)`` becomes the
variable's value, ``$$`` becomes ``$`` (so ``$$(NAME)`` becomes a literal ``$(NAME)``), and a reference to an unknown
name stays as written. Unlike in a shell, nothing else is special.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from router.errors import JobError, TooLarge
from router.values import unchanging
from router.workload.model import Container

MOST_TEXT: Final = 1024 * 1024
"""Most characters of a container's words and variables, as written and as expanded."""
LENGTH_LATER: Final = 256
"""Characters that are assumed for a value that is known only later: a Kubernetes name has up to 253.

Values from ConfigMaps may be longer, but few are. If each counted as the longest possible variable, three of them in a
URL would be refused. The agent counts again with the values themselves.
"""
LONGEST_STRING: Final = 128 * 1024 - 1
"""Most bytes of one word or variable without its final NUL: ``MAX_ARG_STRLEN`` of Linux with pages of 4 KiB."""
MOST_STRINGS: Final = 2 * 1024 * 1024
"""Most bytes of all words and variables of a process: execve(2), a quarter of the usual stack limit (8 MiB)."""
MOST_REFERENCES: Final = 10_000
"""Most references in a Pod's words and variables, including escaped and unknown ones."""
_REFERENCE: Final = re.compile(r"\$(?:\$|\(([^)]*)\))")
"""Use only on text up to its last closing parenthesis: without one, each attempt would read to the end."""
_LATER: Final = "JOB_COMPLETION_INDEX"
"""The Job controller adds this variable to every container of an Indexed Job, so the manifest never has its value."""
SERVICES: Final = ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "KUBERNETES_SERVICE_PORT_HTTPS")
"""The variables of the API server's Service. A kubelet gives them to every container, and words and values may refer to
them. On HPC the agent gives them with a token."""
_ADDED: Final = frozenset({_LATER, *SERVICES})


def expand(text: str, values: Mapping[str, str]) -> str:
    """The text with each reference replaced by its value; references to unknown names stay as written."""
    if "$" not in text:
        return text
    closed = text.rfind(")") + 1
    end = text[closed:].replace("$$", "$")
    if not closed:
        return end
    return (
        _REFERENCE.sub(lambda match: "$" if match[1] is None else values.get(match[1], match[0]), text[:closed]) + end
    )


def refers(text: str) -> tuple[str, ...]:
    """The names that a text refers to, in order, each as often as it occurs."""
    if "$(" not in text or ")" not in text:
        return ()
    found = _REFERENCE.finditer(text, 0, text.rfind(")") + 1)
    return tuple([match[1] for match in found if match[1] is not None])


def expand_within(text: str, values: Mapping[str, str], path: str) -> str:
    """``expand``, but raises TooLarge first if the result would be too large for a process.

    :param path: the text's field
    """
    size = len(text) + sum([len(values[name]) - len(name) - len("$()") for name in refers(text) if name in values])
    if size > LONGEST_STRING and (size := size - text.count("$$")) > LONGEST_STRING:
        raise string_too_large(path, size)
    return expand(text, values)


def string_too_large(path: str, size: int) -> TooLarge:
    """The error for a word or variable that is too large. ``size`` is in bytes or characters."""
    return TooLarge(path, f"makes a string of {size} bytes; the longest that Linux takes is {LONGEST_STRING}")


def strings_too_large(path: str) -> TooLarge:
    """The error for the field that makes words and variables of a container too large together."""
    advice = "put large values into files"
    return TooLarge(path, f"makes the container's words and variables larger than {MOST_STRINGS} bytes; {advice}")


@unchanging
class Environment:
    """The variables of a container as far as the manifest gives them.

    :param values: the variables known now, expanded
    :param later: the names of variables known only later, with the number of characters assumed for each
    :param env_from: whether the container has further variables from ``envFrom``
    """

    values: Mapping[str, str]
    later: Mapping[str, int]
    env_from: bool

    def is_later(self, name: str) -> bool:
        """Whether a variable's value is known only later."""
        return name not in self.values and (self.env_from or name in _ADDED or name in self.later)

    def size(self, text: str, names: tuple[str, ...]) -> int:
        """The most characters that a text with references to these names may expand to, as far as known now."""
        return len(text) + sum([self._length(name) for name in names])

    def _length(self, name: str) -> int:
        if (value := self.values.get(name)) is not None:
            return len(value)
        return self.later.get(name, LENGTH_LATER) if self.is_later(name) else 0

    def known(self, text: str) -> str | None:
        """The text expanded, or None if it refers to a variable that is known only later."""
        return None if any(map(self.is_later, refers(text))) else expand(text, self.values)


def environment_of(container: Container) -> Environment:
    """A container's variables. Raises JobError if their references make more text than any process may have.

    A variable sees those before it in the list, and those of ``envFrom``. One that refers to something known only
    later is itself known only later.
    """
    known: dict[str, str] = {}
    later: dict[str, int] = {}
    found = Environment(known, later, container.env_from)  # filled by the loop below
    total = 0
    for index, variable in enumerate(container.env):
        name, value = variable.name, variable.value
        names = refers(value) if value is not None else ()
        size = LENGTH_LATER if value is None else found.size(value, names)
        total += 0 if value is None else size
        if total > MOST_TEXT:
            raise JobError(
                f"{container.path}.env[{index}]",
                f"the variables up to this one may expand to more than {MOST_TEXT} characters",
            )
        if value is None or any(
            ref in later or (ref not in known and (container.env_from or ref in SERVICES)) for ref in names
        ):
            known.pop(name, None)
            later[name] = size
        else:
            expanded = expand(value, known)
            later.pop(name, None)
            known[name] = expanded
    return found


def refers_to_itself(container: Container) -> bool:
    """Whether a container's words or values refer to one of its variables. If not, they are passed on as written.

    Shell text such as ``$(seq 1 3)`` looks like a reference, and names no variable. To know this early saves 8 % of a
    review (3.13 million instructions in place of 3.39).
    """
    values = [variable.value for variable in container.env if variable.value is not None]
    texts = [text for text in (*written_argv(container), *values) if "$(" in text]
    if not texts or container.env_from:
        return bool(texts)
    known = _ADDED.union([variable.name for variable in container.env])
    return any(not known.isdisjoint(refers(text)) for text in texts)


def literal_env(container: Container) -> dict[str, str]:
    """The variables whose values the manifest alone gives, expanded."""
    return dict(environment_of(container).values)


def check_expansion(container: Container) -> None:
    """Raise JobError if references expand words or variables to more text than any process may have."""
    if not refers_to_itself(container):
        return
    words = (*(container.command or ()), *(container.args or ()))
    environment = environment_of(container)
    size = sum([environment.size(word, refers(word)) for word in words])
    if size > MOST_TEXT:
        raise JobError(container.path, f"command and args may expand to more than {MOST_TEXT} characters")


def argv(container: Container) -> tuple[str, ...] | None:
    """The words that the container (or each of its ranks) runs, if the manifest alone gives them; else None.

    With a lifted launcher these are its program; with args alone they are the args for the image's entrypoint.
    """
    words = written_argv(container)
    if not any("$" in word for word in words):
        return words
    if not refers_to_itself(container):
        return tuple([expand(word, {}) for word in words])
    environment = environment_of(container)
    known = [environment.known(word) for word in words]
    return None if None in known else tuple([word for word in known if word is not None])


def resolve_argv(
    container: Container, values: Mapping[str, str], path: str, room: int = MOST_STRINGS
) -> tuple[str, ...]:
    """The words with every reference resolved from the Pod's whole environment.

    :param values: the whole environment
    :param path: the field of the words
    :param room: most characters of all words, each with its final NUL
    :raises TooLarge: if the words are too large for a process
    """
    found = []
    for word in written_argv(container):
        found.append(expand_within(word, values, path))
        room -= len(found[-1]) + 1
        if room < 0:
            raise strings_too_large(path)
    return tuple(found)


def written_argv(container: Container) -> tuple[str, ...]:
    """The words as the manifest has them."""
    if container.launcher is not None:
        return container.launcher.argv
    return (*(container.command or ()), *(container.args or ()))
