"""``$(VAR)`` in env, command and args, as the kubelet resolves it.

Pure. The rules are those of Kubernetes' reference for a container's ``command`` and ``env``: ``$(NAME)`` becomes the
variable's value, ``$$`` becomes ``$`` (so ``$$(NAME)`` stays a literal ``$(NAME)``), and a reference to what does not
exist stays as written. It is no shell: nothing else is special.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from router.errors import JobError
from router.workload.model import Container

MOST_TEXT: Final = 1024 * 1024
"""Characters that a container's words and variables may have, as written and as expanded."""
_LATER: Final = "JOB_COMPLETION_INDEX"
"""Added by the Job controller to every container of an Indexed Job, so it is never known from the manifest."""


def expand(text: str, values: Mapping[str, str]) -> str:
    """The text with each reference replaced by its value; a name that is not among them stays as written."""
    if "$" not in text:
        return text
    return "".join([piece if name is None else values.get(name, piece) for piece, name in _pieces(text)])


def refers(text: str) -> tuple[str, ...]:
    """The names that a text refers to, in order, each as often as it occurs."""
    if "$(" not in text:
        return ()
    return tuple([name for _, name in _pieces(text) if name is not None])


def _pieces(text: str) -> Iterator[tuple[str, str | None]]:
    """Literal pieces, and references with their names. In linear time, whatever is left open."""
    start = 0
    closed = True
    while (dollar := text.find("$", start)) >= 0:
        yield text[start:dollar], None
        following = text[dollar + 1 : dollar + 2]
        end = text.find(")", dollar + 2) if closed and following == "(" else -1
        if end >= 0:
            yield text[dollar : end + 1], text[dollar + 2 : end]
            start = end + 1
            continue
        closed = closed and following != "("
        yield ("$" if following == "$" else "$" + following), None
        start = dollar + 2
    yield text[start:], None


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
