"""Checks what Linux and the runtime can pass to a container: the size of one word or variable, and of all together.

Pure. Measured on Linux 6.18 with Apptainer 1.4: a longer string gives "Argument list too long" (exit 126), more text in
total gives "engine configuration too big" (exit 255).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from router.errors import TooLarge
from router.workload import expand
from router.workload.fields import Findings
from router.workload.model import Container

_PREFIX: Final = len("SINGULARITYENV_")
"""Bytes of the prefix of a variable's name while it is passed to the runtime (Apptainer's has two less)."""
MOST_CONFIGURED: Final = 1_048_448 - 64 * 1024
"""Most bytes of all words and variables as JSON: Apptainer's MAX_ENGINE_CONFIG_SIZE, less its other content."""
_ESCAPED: Final = "<>&\u2028\u2029"
"""Characters that Go's encoding/json writes with six bytes, as every invalid byte; Python's json uses one or three."""
_FEW: Final = 16 * 1024
"""A text of at most this many characters always fits: a character takes six bytes at most."""


class _Size(NamedTuple):
    """Bytes of a text as it is passed on, and inside JSON. The sizes of a whole are the sums of its parts' sizes."""

    plain: int
    json: int


def check(container: Container, path: str, words: Iterable[str], variables: Mapping[str, str]) -> None:
    """Raise TooLarge, which names the field, if these words and variables are too large for the container's program.

    :param path: the container's field
    """
    given = tuple(words)
    if sum(map(len, given)) + sum([len(name) + len(value) for name, value in variables.items()]) <= _FEW:
        return
    sized = ((name, _size(value)) for name, value in variables.items())
    _check(container, path, ((index, _size(word)) for index, word in enumerate(given)), sized)


def judge_size(container: Container, findings: Findings) -> None:
    """Note an obstacle if the manifest alone gives too much text; the agent checks again when it stages files."""
    try:
        _check_written(container)
    except TooLarge as error:
        findings.block(error.path, error.message)


def _check_written(container: Container) -> None:
    """Raise TooLarge if the manifest itself gives too much text.

    A word is measured by its parts without being built, as a few bytes of references can make megabytes.
    """
    given = expand.written_argv(container)
    size = sum(map(len, given)) + sum([len(one.name) + len(one.value or "") for one in container.env])
    if size <= _FEW and not expand.refers_to_itself(container):
        return
    environment = expand.environment_of(container)
    sizes = {name: _size(value) for name, value in environment.values.items()}
    words = (
        (index, _expanded(word, names, sizes))
        for index, (word, names) in enumerate((word, expand.refers(word)) for word in given)
        if not any(map(environment.is_later, names))
    )
    _check(container, container.path, words, sizes.items())


def least_text(container: Container) -> int:
    """The least number of characters that a container's words and variables take in a script, quoted."""
    values = [variable.value for variable in container.env if variable.value]
    whole = "".join((*expand.written_argv(container), *values))
    written = len(whole) + whole.count("\n") + whole.count("'")
    if not expand.refers_to_itself(container):
        return written
    environment = expand.environment_of(container)
    known = sum(map(len, environment.values.values()))
    for word in expand.written_argv(container):
        names = expand.refers(word)
        if any(map(environment.is_later, names)):
            return max(written, known)  # the agent stages the words
        lengths = [len(environment.values[name]) for name in names if name in environment.values]
        known += len(expand.expand(word, dict.fromkeys(names, ""))) + sum(lengths)
    return max(written, known)


def _check(
    container: Container, path: str, words: Iterable[tuple[int, _Size]], variables: Iterable[tuple[str, _Size]]
) -> None:
    total = 0
    for index, size in words:
        if size.plain > expand.LONGEST_STRING:
            raise expand.string_too_large(f"{path}.{_field(container, index)}", size.plain)
        total = _added(total, size.json, path)
    for name, size in variables:
        named = _size(f"{name}=")
        if (whole := _PREFIX + named.plain + size.plain) > expand.LONGEST_STRING:
            raise expand.string_too_large(f"{path}.{_variable(container, name)}", whole)
        total = _added(total, named.json + size.json, path)


def _added(total: int, size: int, path: str) -> int:
    """The sum with one more text, its quotes and the comma. Raises TooLarge if it exceeds the limit."""
    if (total := total + size + len('"",')) > MOST_CONFIGURED:
        raise TooLarge(
            path,
            f"has words and variables of {total} bytes and more together, as JSON; the runtime takes "
            f"{MOST_CONFIGURED}, so put large values into files",
        )
    return total


def _expanded(word: str, names: Iterable[str], sizes: Mapping[str, _Size]) -> _Size:
    """The size of a word with its references resolved, without building it."""
    known = [name for name in names if name in sizes]
    rest = _size(expand.expand(word, dict.fromkeys(known, "")))
    return _Size(
        rest.plain + sum([sizes[name].plain for name in known]), rest.json + sum([sizes[name].json for name in known])
    )


def _size(text: str) -> _Size:
    plain = _bytes(text)
    if plain > expand.LONGEST_STRING:
        return _Size(plain, plain)  # too long by itself
    escaped = sum([text.count(one) for one in _ESCAPED])
    if not text.isascii():
        escaped += len(text) - len(text.encode(errors="ignore").decode())
    return _Size(plain, _bytes(json.dumps(text, ensure_ascii=False)) - len('""') + 5 * escaped)


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="surrogateescape"))


def _field(container: Container, index: int) -> str:
    """The field of a word, without its index if a launcher was lifted out of the command."""
    if container.launcher is not None:
        return "command"
    commands = len(container.command or ())
    return f"command[{index}]" if index < commands else f"args[{index - commands}]"


def _variable(container: Container, name: str) -> str:
    """The field of a variable: its last entry, or ``envFrom`` if the container's own list has none."""
    found = [index for index, variable in enumerate(container.env) if variable.name == name]
    return f"env[{found[-1]}]" if found else "envFrom"
