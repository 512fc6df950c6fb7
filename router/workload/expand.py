"""``$(VAR)`` in env, command and args, as the kubelet resolves it.

Pure. The rules are those of Kubernetes' reference for a container's ``command`` and ``env``: ``$(NAME)`` becomes the
variable's value, ``$$`` becomes ``$`` (so ``$$(NAME)`` stays a literal ``$(NAME)``), and a reference to what does not
exist stays as written. It is no shell: nothing else is special.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from router.errors import JobError, TooLarge
from router.values import unchanging
from router.workload.model import Container

MOST_TEXT: Final = 1024 * 1024
"""Characters that a container's words and variables may have, as written and as expanded."""
LENGTH_LATER: Final = 256
"""Characters that a value counts for which is known only later: a name of Kubernetes has up to 253. Keys of ConfigMaps
may be longer, but few are; were they counted as the longest that a variable can be, three of them in an URL would be
refused. The agent counts again with the values themselves."""
LONGEST_STRING: Final = 128 * 1024 - 1
"""Bytes of one word or variable without the NUL behind it: ``MAX_ARG_STRLEN`` of Linux with pages of 4 KiB."""
MOST_STRINGS: Final = 2 * 1024 * 1024
"""Bytes of all words and variables of a process: execve(2), a quarter of the usual limit of a stack (8 MiB)."""
MOST_REFERENCES: Final = 10_000
"""References, escaped or not and known or not, that a Pod's words and variables may have."""
_REFERENCE: Final = re.compile(r"\$(?:\$|\(([^)]*)\))")
"""Only for text up to its last closing parenthesis: where one is missing, each attempt would read to the end."""
_LATER: Final = "JOB_COMPLETION_INDEX"
"""Added by the Job controller to every container of an Indexed Job, so it is never known from the manifest."""


def expand(text: str, values: Mapping[str, str]) -> str:
    """The text with each reference replaced by its value; a name that is not among them stays as written."""
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
    """The same as ``expand``; TooLarge, before anything is built, where no process could be given what comes of it.

    :param path: the text's field
    """
    size = len(text) + sum([len(values[name]) - len(name) - len("$()") for name in refers(text) if name in values])
    if size > LONGEST_STRING and (size := size - text.count("$$")) > LONGEST_STRING:
        raise string_too_large(path, size)
    return expand(text, values)


def string_too_large(path: str, size: int) -> TooLarge:
    """The error for a word or variable of so many bytes or characters."""
    return TooLarge(path, f"makes a string of {size} bytes; Linux gives a process none of more than {LONGEST_STRING}")


def strings_too_large(path: str) -> TooLarge:
    """The error for the field that makes words and variables of a container too large together."""
    advice = "put large values into files"
    return TooLarge(path, f"makes the container's words and variables larger than {MOST_STRINGS} bytes; {advice}")


@unchanging
class Environment:
    """What a container's manifest says of its variables: those known now, expanded, and the names known only later.

    ``later`` has the characters that each of those counts for.
    """

    values: Mapping[str, str]
    later: Mapping[str, int]
    env_from: bool

    def is_later(self, name: str) -> bool:
        """Whether a variable is one that is known only later."""
        return name not in self.values and (self.env_from or name == _LATER or name in self.later)

    def size(self, text: str, names: tuple[str, ...]) -> int:
        """At most so many characters come of a text that refers to these names, as far as can be told now."""
        return len(text) + sum([self._length(name) for name in names])

    def _length(self, name: str) -> int:
        if (value := self.values.get(name)) is not None:
            return len(value)
        return self.later.get(name, LENGTH_LATER) if self.is_later(name) else 0

    def known(self, text: str) -> str | None:
        """The text expanded, or None where it refers to a variable that is known only later."""
        return None if any(map(self.is_later, refers(text))) else expand(text, self.values)


def environment_of(container: Container) -> Environment:
    """A container's variables. JobError where their references make more text than any process can be given.

    A variable sees those before it in the list, and those of ``envFrom``. One that refers to something known only
    later is itself known only later.
    """
    known: dict[str, str] = {}
    later: dict[str, int] = {}
    found = Environment(known, later, container.env_from)  # as far as the loop has come
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
        if value is None or any(ref in later or (container.env_from and ref not in known) for ref in names):
            known.pop(name, None)
            later[name] = size
        else:
            expanded = expand(value, known)
            later.pop(name, None)
            known[name] = expanded
    return found


def refers_to_itself(container: Container) -> bool:
    """Whether a container's words or values refer to one of its variables. If not, they are passed on as written.

    Shell text such as ``$(seq 1 3)`` looks like a reference, and names no variable.
    """
    values = [variable.value for variable in container.env if variable.value is not None]
    texts = [text for text in (*written_argv(container), *values) if "$(" in text]
    if not texts or container.env_from:
        return bool(texts)
    known = {_LATER, *[variable.name for variable in container.env]}
    return any(not known.isdisjoint(refers(text)) for text in texts)


def literal_env(container: Container) -> dict[str, str]:
    """The variables whose values the manifest alone gives, expanded."""
    return dict(environment_of(container).values)


def check_expansion(container: Container) -> None:
    """JobError where references make more text of words or variables than any process can be given."""
    if not refers_to_itself(container):
        return
    words = (*(container.command or ()), *(container.args or ()))
    environment = environment_of(container)
    size = sum([environment.size(word, refers(word)) for word in words])
    if size > MOST_TEXT:
        raise JobError(container.path, f"command and args may expand to more than {MOST_TEXT} characters")


def argv(container: Container) -> tuple[str, ...] | None:
    """The words that the container (or each rank of it) runs, where the manifest alone tells them; else None.

    With a lifted launcher that is its program; with args alone it is the args, which the image's entrypoint gets.
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
    """The words with every reference resolved from the Pod's whole environment, which is given here.

    :param path: the field of the words
    :param room: characters that all words may have, each with the NUL behind it
    :raises TooLarge: no process can be given them
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
