"""Lifts an MPI launcher out of a container's command, so that the script can start the ranks itself.

Pure. Finds ``mpirun`` and similar launchers in ``command`` and ``args``, also after ``sh -c``, ``exec``, ``env``,
``time`` and ``nice``, but only if the container does nothing else. Any other launcher stays in the command, with a
sentence that says why: a wrongly lifted launcher would run the wrong program many times.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from router.workload import shellwords
from router.workload.expand import environment_of, refers
from router.workload.launcherline import Reading, StaysError, read_options
from router.workload.model import Container, Launcher
from router.workload.shellwords import Word

LAUNCHERS: Final = frozenset(["mpirun", "mpiexec", "orterun", "prterun", "srun"])
_VARIANTS: Final = frozenset(["openmpi", "hydra", "mpich", "mpich2", "lam", "slurm"])
_MENTION: Final = re.compile(
    r"(?<![\w.-])(?:mpirun|mpiexec|orterun|prterun|srun)(?:\.(?:openmpi|hydra|mpich2?|lam|slurm))?(?![\w-]|\.\w)"
)
_LONGEST_SCRIPT: Final = 256 * 1024  # characters: an annotation, which holds the script, cannot be longer
_SHELLS: Final = frozenset(["sh", "bash", "dash", "ash", "ksh", "zsh"])
_LONG_OPTIONS: Final = frozenset(["--login", "--norc", "--noprofile", "--posix"])
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_VARIABLE: Final = re.compile(r"\$(?:(\w+)|\{(\w+)\}|\((\w+)\))", re.ASCII)
_SHELL_SYNTAX: Final = re.compile(r"[|&;<>()`'\"\\$#\n]")
_NAME: Final = re.compile(r"[\w.+-]{1,40}", re.ASCII)
_SPLITS: Final = re.compile(r"[\s*?\[]")


@dataclass(frozen=True, slots=True)
class NotLifted:
    """A launcher that stays in the command: its name, and the reason as one clause."""

    program: str
    why: str


@dataclass(slots=True)
class _Line:
    """The command as far as it has been unwrapped: the words still to read, and the settings of the wrappers."""

    words: Sequence[Word]
    text: str = ""
    shell: tuple[str, ...] = ()
    login: bool = False
    extra: tuple[str, ...] = ()
    environment: list[tuple[str, str | None]] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)


Resolve = Callable[[Word], str | None]


def find_launcher(container: Container, path: str) -> Launcher | NotLifted | None:
    """The launcher in a container's words; NotLifted if it is only a part of the command; None without one.

    :param path: the field that holds the words, for origins
    """
    written = (*(container.command or ()), *(container.args or ()))
    mentioned = mention(written)
    if not mentioned:
        return None
    try:
        return _lift(container, [Word(word) for word in written], path)
    except StaysError as reason:
        return NotLifted(mentioned, str(reason))


def mention(words: Sequence[str]) -> str:
    """The first launcher named in the words, or an empty string. Only the first 256 Ki characters of a word count."""
    for word in words:
        # Looking for plain names first is much faster than the expression, on short words and on long ones.
        if "run" in word or "mpiexec" in word:
            found = [place for stem in LAUNCHERS if (place := _place_of(stem, word)) is not None]
            if found:
                match = _MENTION.match(word, min(found))
                return match.group() if match else ""
    return ""


def _place_of(stem: str, word: str) -> int | None:
    """The place in a word where a launcher's name stands alone; None without one."""
    place = word.find(stem, 0, _LONGEST_SCRIPT)
    while place >= 0 and not _MENTION.match(word, place):
        place = word.find(stem, place + 1, _LONGEST_SCRIPT)
    return None if place < 0 else place


def _lift(container: Container, words: Sequence[Word], path: str) -> Launcher:
    environment = environment_of(container)
    values = environment.values
    line = _Line(words)

    def resolve(word: Word) -> str | None:
        if line.shell and word.expands:
            match = _VARIABLE.fullmatch(word.text)
            value = values.get(match[1] or match[2] or match[3]) if match else None
            return None if value is None or _SPLITS.search(value) else value
        return environment.known(word.text)

    _strip_prefixes(line, resolve, assignments=False)
    if line.words and _base(line.words[0].text) in _SHELLS:
        _open_shell(line)
        _refuse_shell_syntax(line.text, values)
        _strip_prefixes(line, resolve, assignments=True)
    if not line.words or not _is_launcher(line.words[0].text):
        raise StaysError(f"is not the first command of the container{_instead(line.words)}")
    program = _base(line.words[0].text)
    reading = read_options(program, line.words[1:], resolve, f"in {path}")
    return _launcher(program, line, reading, path)


def _launcher(program: str, line: _Line, reading: Reading, path: str) -> Launcher:
    tail = reading.program
    if line.shell and (line.login or any(word.expands for word in tail)):
        argv = (*line.shell, f"exec {line.text[tail[0].start : tail[-1].end]}", *line.extra)
    else:
        argv = tuple([word.text for word in tail])
    return Launcher(
        program=program,
        argv=argv,
        source=path,
        ranks=reading.ranks,
        ranks_per_node=reading.ranks_per_node,
        environment=tuple(line.environment + reading.environment),
        working_dir=reading.working_dir,
        mapping=reading.mapping,
        binding=reading.binding,
        dropped=tuple(line.dropped + reading.dropped),
        nodes=reading.nodes,
        cores_per_rank=reading.cores_per_rank,
    )


def _instead(words: Sequence[Word]) -> str:
    """A clause that names the first program, if its name is short and plain."""
    name = _base(words[0].text) if words else ""
    return f", which is {name}" if _NAME.fullmatch(name) else ""


def _base(word: str) -> str:
    return word.rpartition("/")[2]


def _is_launcher(word: str) -> bool:
    name, _, variant = _base(word).partition(".")
    return name in LAUNCHERS and (not variant or variant in _VARIANTS)


def _open_shell(line: _Line) -> None:
    """Replace ``sh [options] -c STRING [name [argument …]]`` by the words of STRING."""
    words = [word.text for word in line.words]
    position = 1
    while position < len(words) and words[position].startswith("-"):
        option = words[position]
        if option not in _LONG_OPTIONS and (option.startswith("--") or "i" in option or "s" in option):
            raise StaysError(f"stands behind {words[0]} {option}")
        line.login = line.login or option == "--login" or (option not in _LONG_OPTIONS and "l" in option)
        position += 1
        if option not in _LONG_OPTIONS:
            position += option.endswith("o")  # -o pipefail
            if "c" in option:
                _take_string(line, words, position)
                return
    raise StaysError(f"stands in a script that {words[0]} reads from a file")


def _take_string(line: _Line, words: Sequence[str], position: int) -> None:
    if position >= len(words):
        raise StaysError(f"stands behind {words[0]} -c without a command")
    line.shell, line.text, line.extra = tuple(words[:position]), words[position], tuple(words[position + 1 :])
    split = shellwords.split(line.text)
    if isinstance(split, str):
        raise StaysError(f"stands in {split}")
    line.words = split


def _refuse_shell_syntax(text: str, values: Mapping[str, str]) -> None:
    """Kubernetes puts the value of ``$(VAR)`` into the string before the shell reads it, so it may hold syntax."""
    for name in refers(text):
        if _SHELL_SYNTAX.search(values.get(name, "")):
            raise StaysError(f"stands in a command whose $({name}) holds shell syntax")


def _strip_prefixes(line: _Line, resolve: Resolve, *, assignments: bool) -> None:
    """Take ``X=y``, ``env``, ``exec``, ``time``, ``nice`` and ``nohup`` off the front."""
    words = line.words
    position = 0
    while position < len(words):
        word = words[position]
        if assignments and (match := _ASSIGNMENT.fullmatch(word.text)):
            line.environment.append((match[1], _assigned(word, match, resolve)))
            position += 1
            continue
        prefix = _base(word.text)
        if prefix not in _PREFIXES or word.expands:
            break
        position = _PREFIXES[prefix](line, words, position + 1)
        assignments = prefix == "env"
    line.words = words[position:]


def _assigned(word: Word, match: re.Match[str], resolve: Resolve) -> str:
    value = resolve(Word(match[2], word.start, word.end, word.expands))
    if value is None:
        raise StaysError(f"gets {match[1]} from a value that is known only when it runs; set it in env")
    return value


def _bare(_line: _Line, words: Sequence[Word], position: int) -> int:
    """A prefix command without known options."""
    if position < len(words) and words[position].text.startswith("-") and words[position].text != "--":
        raise StaysError(f"stands behind {words[position - 1].text} {words[position].text}")
    return position + (position < len(words) and words[position].text == "--")


def _time(line: _Line, words: Sequence[Word], position: int) -> int:
    line.dropped.append("time")
    while position < len(words) and words[position].text in ("-p", "-v", "--verbose", "--portability"):
        position += 1
    return _bare(line, words, position)


def _nice(line: _Line, words: Sequence[Word], position: int) -> int:
    line.dropped.append("nice")
    if position < len(words):
        option = words[position].text
        if option in ("-n", "--adjustment"):
            return position + 2
        if re.fullmatch(r"-n?-?\d+|--adjustment=-?\d+", option):
            return position + 1
    return _bare(line, words, position)


_PREFIXES: Final = {"exec": _bare, "env": _bare, "nohup": _bare, "command": _bare, "time": _time, "nice": _nice}
