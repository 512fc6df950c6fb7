"""Lifts an MPI launcher out of a container's command, so that the script can start the ranks itself.

Pure. Finds ``mpirun`` and similar launchers in ``command`` and ``args``, also after ``sh -c``, ``exec``, ``env``,
``nice``, ``nohup``, ``time``, ``timeout`` and first processes such as ``tini``, but only if the container does nothing
else. ``plainform`` says what a shell's text may hold beside the launcher. Any other launcher stays in the command, with
a sentence that says why: a wrongly lifted launcher would run the wrong program many times.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from router.workload.expand import environment_of, refers
from router.workload.launcherline import Reading, StaysError, read_options
from router.workload.launchernames import LONG_OPTIONS, SHELLS, is_launcher, mention
from router.workload.model import Container, Launcher
from router.workload.plainform import reduce
from router.workload.shellbudget import ShellBudget
from router.workload.shellwords import Word
from router.workload.wrappers import base

_ASSIGNMENT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_VARIABLE: Final = re.compile(r"\$(?:(\w+)|\{(\w+)\}|\((\w+)\))", re.ASCII)
_SHELL_SYNTAX: Final = re.compile(r"[|&;<>()`'\"\\$#\n]")
_NAME: Final = re.compile(r"[\w.+-]{1,40}", re.ASCII)
_TERM: Final = re.compile(r"(?:SIG)?TERM|15")
_SIGNAL: Final = re.compile(r"(?:-s|--signal=)(.+)")
_DURATION: Final = re.compile(r"(\d{1,9})([smhd]?)", re.ASCII)
_SECONDS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_SPLITS: Final = re.compile(r"[\s*?\[]")


@dataclass(frozen=True, slots=True)
class NotLifted:
    """A launcher that stays in the command: its name, and the reason as one clause."""

    program: str
    why: str


@dataclass(slots=True)
class _Line:
    """The command as far as it has been unwrapped: the words still to read, and the settings of the wrappers.

    :param written: the shell's text, of which ``text`` has only the one command, at the same place
    :param shell: the shell with its options, up to ``-c``
    :param login: whether the shell reads profiles, so that each rank needs it
    :param extra: the shell's words behind its text: ``$0``, ``$1``, …
    :param before: settings of the shell that go before the program, as text; ``after`` is its redirection
    :param time_limit: seconds, by ``timeout``; 0 without
    """

    words: Sequence[Word]
    written: str = ""
    text: str = ""
    shell: tuple[str, ...] = ()
    login: bool = False
    extra: tuple[str, ...] = ()
    environment: list[tuple[str, str | None]] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    before: str = ""
    after: str = ""
    time_limit: int = 0


Resolve = Callable[[Word], str | None]


def find_launcher(container: Container, path: str, budget: ShellBudget) -> Launcher | NotLifted | None:
    """The launcher in a container's words; NotLifted if it is only a part of the command; None without one.

    :param path: the field that holds the words, for origins
    :param budget: of the Job's shell texts; a text beyond it is not lifted
    """
    written = (*(container.command or ()), *(container.args or ()))
    mentioned = mention(written)
    if not mentioned:
        return None
    try:
        return _lift(container, [Word(word) for word in written], path, budget)
    except StaysError as reason:
        return NotLifted(mentioned, str(reason))


def _lift(container: Container, words: Sequence[Word], path: str, budget: ShellBudget) -> Launcher:
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
    if line.words and base(line.words[0].text) in SHELLS:
        _open_shell(line, budget)
        _refuse_shell_syntax(line.written, values)
        _strip_prefixes(line, resolve, assignments=True)
    if not line.words or not is_launcher(line.words[0].text):
        raise StaysError(f"is not the first command of the container{_instead(line.words)}")
    program = base(line.words[0].text)
    reading = read_options(program, line.words[1:], resolve, f"in {path}")
    return _launcher(program, line, reading, path)


def _launcher(program: str, line: _Line, reading: Reading, path: str) -> Launcher:
    tail = reading.program
    if line.shell and (line.login or line.after or any(word.expands for word in tail)):
        command = f"{line.before}exec {line.text[tail[0].start : tail[-1].end]}{line.after}"
        argv = (*line.shell, command, *line.extra)
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
        time_limit=line.time_limit,
    )


def _instead(words: Sequence[Word]) -> str:
    """A clause that names the first program, if its name is short and plain."""
    name = base(words[0].text) if words else ""
    return f", which is {name}" if _NAME.fullmatch(name) else ""


def _open_shell(line: _Line, budget: ShellBudget) -> None:
    """Replace ``sh [options] -c STRING [name [argument …]]`` by the words of STRING."""
    words = [word.text for word in line.words]
    position = 1
    while position < len(words) and words[position].startswith("-"):
        option = words[position]
        if option not in LONG_OPTIONS and (option.startswith("--") or "i" in option or "s" in option):
            raise StaysError(f"stands behind {words[0]} {option}")
        line.login = line.login or option == "--login" or (option not in LONG_OPTIONS and "l" in option)
        position += 1
        if option not in LONG_OPTIONS:
            position += option.endswith("o")  # -o pipefail
            if "c" in option:
                _take_string(line, words, position, budget)
                return
    raise StaysError(f"stands in a script that {words[0]} reads from a file")


def _take_string(line: _Line, words: Sequence[str], position: int, budget: ShellBudget) -> None:
    if position >= len(words):
        raise StaysError(f"stands behind {words[0]} -c without a command")
    line.shell, line.extra = tuple(words[:position]), tuple(words[position + 1 :])
    plain = reduce(words[position], words[0], budget)
    if isinstance(plain, str):
        raise StaysError(f"stands in {plain}")
    line.written, line.text, line.words = words[position], plain.text, plain.words
    line.before, line.after = plain.before, plain.after


def _refuse_shell_syntax(text: str, values: Mapping[str, str]) -> None:
    """Kubernetes puts the value of ``$(VAR)`` into the string before the shell reads it, so it may hold syntax."""
    for name in refers(text):
        if _SHELL_SYNTAX.search(values.get(name, "")):
            raise StaysError(f"stands in a command whose $({name}) holds shell syntax")


def _strip_prefixes(line: _Line, resolve: Resolve, *, assignments: bool) -> None:
    """Take what stands before the launcher off the front: ``X=y``, ``exec``, and commands that start another one.

    :param assignments: whether a shell reads the words, which knows ``X=y`` and commands of its own
    """
    words = line.words
    position = 0
    in_shell = assignments
    while position < len(words):
        word = words[position]
        if assignments and (match := _ASSIGNMENT.fullmatch(word.text)):
            line.environment.append((match[1], _assigned(word, match, resolve)))
            position += 1
            continue
        prefix = base(word.text)
        if prefix not in _PREFIXES or word.expands:
            break
        if prefix in _SHELLS_OWN and (not in_shell or word.text != prefix):
            raise StaysError(f"stands behind {word.text}, which is no program")
        position = _PREFIXES[prefix](line, words, position + 1)
        assignments = prefix == "env"
        in_shell = in_shell and prefix == "command"
    line.words = words[position:]


def _assigned(word: Word, match: re.Match[str], resolve: Resolve) -> str:
    value = resolve(Word(match[2], word.start, word.end, word.expands))
    if value is None:
        raise StaysError(f"gets {match[1]} from a value that is known only when it runs; set it in env")
    return value


def _bare(_line: _Line, words: Sequence[Word], position: int) -> int:
    """A prefix command without known options. The position is that of the word behind it, like the result."""
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


def _timeout(line: _Line, words: Sequence[Word], position: int) -> int:
    """``timeout 1h``: TERM to the launcher after that time. Other signals and a KILL later have other ends."""
    texts = [word.text for word in words]
    while position < len(texts) and texts[position].startswith("-") and texts[position] != "--":
        option, value = texts[position], texts[position + 1 : position + 2]
        joined = _SIGNAL.fullmatch(option)
        if option == "--foreground" or (joined and _TERM.fullmatch(joined[1])):
            position += 1
        elif option in ("-s", "--signal") and value and _TERM.fullmatch(value[0]):
            position += 2
        else:
            raise StaysError(f"stands behind timeout {option}")
    position += position < len(texts) and texts[position] == "--"
    match = _DURATION.fullmatch(texts[position]) if position < len(texts) else None
    if match is None:
        raise StaysError("stands behind a timeout that is not a whole number of seconds, minutes, hours or days")
    seconds = int(match[1]) * _SECONDS[match[2]]
    line.time_limit = min(seconds, line.time_limit) if seconds and line.time_limit else seconds or line.time_limit
    return position + 1


def _init(line: _Line, words: Sequence[Word], position: int) -> int:
    """A first process, which hands on signals and the exit code. The runtime's own does the same."""
    while position < len(words) and words[position].text in ("-s", "-g", "-v", "-vv", "-w"):
        position += 1
    return _bare(line, words, position)


_SHELLS_OWN: Final = frozenset(["command", "exec"])
"""Known only to a shell: ``timeout 5 exec mpirun`` starts nothing."""
_PREFIXES: Final = {
    "exec": _bare,
    "env": _bare,
    "nohup": _bare,
    "command": _bare,
    "time": _time,
    "nice": _nice,
    "timeout": _timeout,
    **dict.fromkeys(["tini", "tini-static", "docker-init", "dumb-init"], _init),
}
