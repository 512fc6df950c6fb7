"""``$(VAR)`` in env, command and args, as the kubelet resolves it.

Pure. The rules are those of Kubernetes' reference for a container's ``command`` and ``env``: ``$(NAME)`` becomes the
variable's value, ``$$`` becomes ``$`` (so ``$$(NAME)`` stays a literal ``$(NAME)``), and a reference to what does not
exist stays as written. It is no shell: nothing else is special.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from router.errors import JobError
from router.workload.model import Container

MOST_TEXT: Final = 1024 * 1024
"""Characters that a container's words and variables may have, as written and as expanded."""
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


@dataclass(frozen=True, slots=True)
class Environment:
    """What a container's manifest says of its variables: those known now, expanded, and the names known only later."""

    values: Mapping[str, str]
    later: frozenset[str]
    env_from: bool

    def known(self, text: str) -> str | None:
        """The text expanded, or None where it refers to a variable that is known only later."""
        for name in refers(text):
            if name not in self.values and (self.env_from or name == _LATER or name in self.later):
                return None
        return expand(text, self.values)


def environment_of(container: Container) -> Environment:
    """A container's variables. JobError where their references make more text than any process can be given.

    A variable sees those before it in the list, and those of ``envFrom``. One that refers to something known only
    later is itself known only later.
    """
    known: dict[str, str] = {}
    later: set[str] = set()
    size = 0
    for variable in container.env:
        name, value = variable.name, variable.value
        names = refers(value) if value is not None else ()
        if value is None or any(ref in later or (container.env_from and ref not in known) for ref in names):
            later.add(name)
            known.pop(name, None)
            continue
        size += len(value) + sum([len(known.get(ref, "")) for ref in names])
        if size > MOST_TEXT:
            raise JobError(f"{container.path}.env", f"expands to more than {MOST_TEXT} characters")
        known[name] = expand(value, known)
        later.discard(name)
    return Environment(known, frozenset(later), container.env_from)


def literal_env(container: Container) -> dict[str, str]:
    """The variables whose values the manifest alone gives, expanded."""
    return dict(environment_of(container).values)


def check_expansion(container: Container) -> None:
    """JobError where references make more text of words or variables than any process can be given."""
    words = (*(container.command or ()), *(container.args or ()))
    references = [name for word in words for name in refers(word)]
    if not references and not any("$(" in (variable.value or "") for variable in container.env):
        return
    values = environment_of(container).values
    size = sum(map(len, words)) + sum([len(values.get(name, "")) for name in references])
    if size > MOST_TEXT:
        raise JobError(container.path, f"command and args expand to more than {MOST_TEXT} characters")


def argv(container: Container) -> tuple[str, ...] | None:
    """The words that the container (or each rank of it) runs, where the manifest alone tells them; else None.

    With a lifted launcher that is its program; with args alone it is the args, which the image's entrypoint gets.
    """
    words = written_argv(container)
    if not any("$" in word for word in words):
        return words
    environment = environment_of(container)
    known = [environment.known(word) for word in words]
    return None if None in known else tuple([word for word in known if word is not None])


def resolve_argv(container: Container, values: Mapping[str, str]) -> tuple[str, ...]:
    """The words with every reference resolved from the Pod's whole environment, which is given here."""
    return tuple([expand(word, values) for word in written_argv(container)])


def written_argv(container: Container) -> tuple[str, ...]:
    """The words as the manifest has them."""
    if container.launcher is not None:
        return container.launcher.argv
    return (*(container.command or ()), *(container.args or ()))
