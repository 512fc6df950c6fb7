"""Reads a launcher's own part of a command line: its options, up to the program that it starts.

Pure. ``launcheroptions`` lists the options' names; this module knows their effect on a run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from router.workload.hints import LARGEST_COUNT
from router.workload.launcheroptions import (
    MPIRUN,
    MPIRUN_HOSTS,
    PLAIN_HOSTS,
    SRUN,
    SRUN_HOSTS,
    Meaning,
    Option,
)
from router.workload.model import Figure
from router.workload.shellwords import Word

Resolve = Callable[[Word], str | None]

_PER_NODE: Final = re.compile(r"(?:ppr:)(\d+):node(?::.*)?", re.IGNORECASE)
_SHARED: Final = re.compile(r"(?:^|[:,])oversubscribe(?:[:,]|$)", re.IGNORECASE)
_CORES: Final = re.compile(r"(?:^|[:,])pe=(\d+)(?:[:,]|$)", re.IGNORECASE)


class StaysError(Exception):
    """Why a launcher is not lifted, as a clause that follows its name."""


@dataclass(slots=True)
class Reading:
    """The values of the options, and the words of the program after them."""

    launcher: str
    origin: str
    ranks: Figure | None = None
    ranks_per_node: Figure | None = None
    nodes: Figure | None = None
    cores_per_rank: Figure | None = None
    environment: list[tuple[str, str | None]] = field(default_factory=list)
    working_dir: str = ""
    mapping: str = ""
    binding: str = ""
    dropped: list[str] = field(default_factory=list)
    program: Sequence[Word] = ()
    oversubscribes: bool = False
    reads_file: bool = False
    """Whether the programs are in a file of the launcher's (``--app FILE``)."""

    def figure(self, option: str, value: str, whole: str = "") -> Figure:
        """A count from 1 that an option gives.

        :param whole: the option's value as written, if the count is only a part of it
        """
        short = value.isascii() and value.isdigit() and len(value) <= len(str(LARGEST_COUNT))
        if not short or not 1 <= int(value) <= LARGEST_COUNT:
            part = f"where {value[:40]}" if whole not in ("", value) else "which"
            wrong = f"{(whole or value)[:40]}, {part} is not a whole number from 1 to {LARGEST_COUNT}"
            raise StaysError(f"has {option} {wrong}")
        return Figure(int(value), f"{self.launcher} {option} {whole or value} {self.origin}")

    def variable(self, name: str, value: str | None) -> None:
        """A variable that an option sets or, without a value, hands on."""
        if not name:
            raise StaysError("sets a variable without a name")
        self.environment.append((name, value))


def read_options(program: str, words: Sequence[Word], resolve: Resolve, origin: str) -> Reading:
    """Read a launcher's words. Raises StaysError if their meaning is uncertain."""
    reading = Reading(program, origin)
    table = SRUN if program.startswith("srun") else MPIRUN
    position = 0
    while position < len(words):
        word = words[position].text
        if word == "--":
            position += 1
            break
        if len(word) < 2 or word[0] != "-":
            break
        position = _read_option(reading, table, words, position, resolve)
    reading.program = words[position:]
    if not reading.program:
        raise StaysError("is followed by no program")
    if table is MPIRUN and any(word.text == ":" for word in reading.program):
        raise StaysError("starts several programs (':'), which cannot be told apart by rank here")
    return reading


def read_figures(program: str, words: Sequence[str | None], origin: str) -> tuple[Reading, str]:
    """What a launcher's words ask for, as far as it is known before they run, and why that is not all; else "".

    ``program`` of the reading is empty if the words name none, as in ``mpirun --version`` and ``mpirun --app FILE``.

    :param words: those after the launcher; None for one that is known only when it runs
    """
    reading = Reading(program, origin)
    table = SRUN if program.startswith("srun") else MPIRUN
    marked = [Word(word or "", expands=word is None) for word in words]
    unknown: list[str] = []
    position = 0
    while position < len(marked):
        word = marked[position]
        if word.expands:
            unknown.append("has words that are known only when it runs")
            break
        if word.text == "--" or len(word.text) < 2 or word.text[0] != "-":
            position += word.text == "--"
            break
        try:
            position = _read_figure(reading, table, marked, position, unknown)
        except StaysError as reason:
            unknown.append(str(reason))
            position += 1
            break
    reading.program = marked[position:]
    return reading, unknown[0] if unknown else ""


def host_options(program: str, words: Sequence[str | None]) -> list[tuple[str, str | None]]:
    """A launcher's options that name hosts, each with its value, up to the program that it starts.

    Behind a word whose meaning is open, which may be the program, only options that programs hardly have count.

    :param words: those after the launcher; None for one that is known only when it runs, like a value
    """
    table, hosts = (SRUN, SRUN_HOSTS) if program.startswith("srun") else (MPIRUN, MPIRUN_HOSTS)
    marked = [Word(word or "", expands=word is None) for word in words]
    found: list[tuple[str, str | None]] = []
    is_open = False
    position = 0
    while position < len(marked) and (marked[position].expands or _is_option(marked[position].text)):
        try:
            shown, name, inline = _parts(marked[position], table)
        except StaysError:
            name = ""
        option = None if marked[position].expands else table.get(name)
        if option is None:
            value = marked[position + 1 : position + 3]
            skipped = len(value) == 2 and not _is_option(value[0].text) and _is_option(value[1].text)
            is_open |= "=" not in marked[position].text
            position += 1 + (skipped and "=" not in marked[position].text and not marked[position].expands)
            continue
        values, position = _values(*option, inline, marked, position + 1)
        if name in hosts and (not is_open or shown in PLAIN_HOSTS):
            found.append((shown, values[0].text if values and not values[0].expands else None))
    return found


def names_hosts(program: str, option: str) -> bool:
    """Whether an option of a launcher, as written, names hosts."""
    return option.lstrip("-") in (SRUN_HOSTS if program.startswith("srun") else MPIRUN_HOSTS)


def _is_option(word: str) -> bool:
    return len(word) > 1 and word[0] == "-" and word != "--"


def _read_figure(
    reading: Reading, table: dict[str, Option], words: Sequence[Word], position: int, unknown: list[str]
) -> int:
    """Read one option as far as it asks for ranks, nodes or cores; return the position of the next word."""
    shown, name, inline = _parts(words[position], table)
    option = table.get(name)
    if option is None:
        return _drop_unknown(reading, words, position)
    meaning, count = option
    values, position = _values(meaning, count, inline, words, position + 1)
    reading.oversubscribes |= name == "oversubscribe" and table is MPIRUN
    if meaning in _FIGURES and count and not values:
        raise StaysError(f"has {shown} without its value")
    if meaning in _FIGURES and any(value.expands for value in values):
        unknown.append(f"has {shown} with a value that is known only when it runs")
    elif meaning in _FIGURES:
        _MEANINGS[meaning](reading, shown, [value.text for value in values])
    elif meaning is Meaning.SEVERAL_PROGRAMS and values:
        reading.reads_file = True
        unknown.append(f"has {shown}, whose file is not looked into")
    return position


def _read_option(
    reading: Reading, table: dict[str, Option], words: Sequence[Word], position: int, resolve: Resolve
) -> int:
    """Read one option and return the position of the next word."""
    word = words[position]
    shown, name, inline = _parts(word, table)
    option = table.get(name)
    if option is None:
        return _drop_unknown(reading, words, position)
    meaning, count = option
    if meaning is Meaning.SEVERAL_PROGRAMS:
        raise StaysError(f"has {shown}, which is not one program on many ranks")
    if inline is not None and not count and meaning is not Meaning.DROPPED:
        raise StaysError(f"has {word.text[:40]}, and {shown} takes no value")
    values, position = _values(meaning, count, inline, words, position + 1)
    if len(values) < (1 if _is_assignment(meaning, values) else count):
        raise StaysError(f"has {shown} without its value")
    if meaning is Meaning.DROPPED:
        reading.dropped.append(" ".join([word.text, *(value.text for value in values if value is not inline)]))
        return position
    known: list[str] = []
    for value in values:
        resolved = resolve(value)
        if resolved is None:
            raise StaysError(f"has {shown} {value.text}, whose value is known only when it runs; write it out")
        known.append(resolved)
    _MEANINGS[meaning](reading, shown, known)
    return position


def _parts(word: Word, table: dict[str, Option]) -> tuple[str, str, Word | None]:
    """An option as written, its name, and its value if the word contains it (``--ntasks=4``, srun's ``-n4``)."""
    text = word.text
    shown, equals, value = text.partition("=")
    name = shown.lstrip("-")
    if equals and name in table:
        return shown, name, Word(value, word.start, word.end, word.expands)
    if table is SRUN and len(text) > 2 and text[1] != "-" and text[1] in table:
        if table[text[1]][1] == 0 and any(table.get(flag, (None, 1))[1] for flag in text[1:]):
            raise StaysError(f"has {text}, several options in one; write them apart")
        kept = text[2:].removeprefix("=")
        return text[:2], text[1], Word(kept, word.start, word.end, word.expands)
    return text, text.lstrip("-"), None


def _values(
    meaning: Meaning, count: int, inline: Word | None, words: Sequence[Word], position: int
) -> tuple[Sequence[Word], int]:
    """The words of an option's value, as far as there are any, and the position of the next word."""
    if inline is not None:
        return [inline], position
    if _is_assignment(meaning, words[position : position + 1]):
        count = 1
    return words[position : position + count], position + count


def _is_assignment(meaning: Meaning, values: Sequence[Word]) -> bool:
    """Whether a variable and its value are one word: ``-genv A=1`` for ``-genv A 1``."""
    return meaning is Meaning.SET and bool(values) and "=" in values[0].text


def _drop_unknown(reading: Reading, words: Sequence[Word], position: int) -> int:
    """Drop an unknown option if it is certain that the next word is not its value; else raise StaysError."""
    word = words[position].text
    rest = words[position + 1 :]
    follows_option = bool(rest) and rest[0].text.startswith("-")
    if "=" not in word and not follows_option and len(rest) != 1:
        raise StaysError(
            f"has the unknown option {word}, after which it cannot be told where the program starts; "
            "write it before another option, or leave it out"
        )
    reading.dropped.append(word)
    return position + 1


def _ranks(reading: Reading, option: str, values: Sequence[str]) -> None:
    reading.ranks = reading.figure(option, values[0])


def _ranks_per_node(reading: Reading, option: str, values: Sequence[str]) -> None:
    reading.ranks_per_node = reading.figure(option, values[0])


def _one_per_node(reading: Reading, option: str, _values: Sequence[str]) -> None:
    reading.ranks_per_node = Figure(1, f"{reading.launcher} {option} {reading.origin}")


def _nodes(reading: Reading, option: str, values: Sequence[str]) -> None:
    reading.nodes = reading.figure(option, values[0].partition("-")[0], values[0])  # srun: -N min-max


def _cores(reading: Reading, option: str, values: Sequence[str]) -> None:
    reading.cores_per_rank = reading.figure(option, values[0])


def _mapping(reading: Reading, option: str, values: Sequence[str]) -> None:
    value = f"ppr:{values[0]}" if option.lstrip("-") == "ppr" else values[0]
    reading.mapping = value
    reading.oversubscribes |= bool(_SHARED.search(value))
    if match := _PER_NODE.fullmatch(value):
        reading.ranks_per_node = reading.figure(option, match[1], values[0])
    if match := _CORES.search(value):
        reading.cores_per_rank = reading.figure(option, match[1], values[0])


def _mapping_word(reading: Reading, option: str, _values: Sequence[str]) -> None:
    reading.mapping = option.lstrip("-").removeprefix("by")


def _binding(reading: Reading, _option: str, values: Sequence[str]) -> None:
    reading.binding = values[0]


def _binding_word(reading: Reading, option: str, _values: Sequence[str]) -> None:
    reading.binding = option.lstrip("-").removeprefix("bind-to-")


def _export(reading: Reading, _option: str, values: Sequence[str]) -> None:
    name, equals, value = values[0].partition("=")
    reading.variable(name, value if equals else None)


def _export_list(reading: Reading, _option: str, values: Sequence[str]) -> None:
    for name in filter(None, values[0].split(",")):
        reading.variable(name, None)


def _set(reading: Reading, _option: str, values: Sequence[str]) -> None:
    name, equals, value = values[0].partition("=")
    reading.variable(name, value if equals else values[1])


def _srun_export(reading: Reading, option: str, values: Sequence[str]) -> None:
    for item in values[0].split(","):
        if item in ("ALL", "NONE", "NIL"):
            if item != "ALL":
                reading.dropped.append(f"{option}={item}")
        elif item:
            _export(reading, option, [item])


def _working_dir(reading: Reading, _option: str, values: Sequence[str]) -> None:
    reading.working_dir = values[0]


_MEANINGS: Final[dict[Meaning, Callable[[Reading, str, Sequence[str]], None]]] = {
    Meaning.RANKS: _ranks,
    Meaning.RANKS_PER_NODE: _ranks_per_node,
    Meaning.ONE_PER_NODE: _one_per_node,
    Meaning.NODES: _nodes,
    Meaning.CORES_PER_RANK: _cores,
    Meaning.MAPPING: _mapping,
    Meaning.MAPPING_WORD: _mapping_word,
    Meaning.BINDING: _binding,
    Meaning.BINDING_WORD: _binding_word,
    Meaning.EXPORT: _export,
    Meaning.EXPORT_LIST: _export_list,
    Meaning.SET: _set,
    Meaning.SRUN_EXPORT: _srun_export,
    Meaning.WORKING_DIR: _working_dir,
}
_FIGURES: Final = frozenset(
    [
        Meaning.RANKS,
        Meaning.RANKS_PER_NODE,
        Meaning.ONE_PER_NODE,
        Meaning.NODES,
        Meaning.CORES_PER_RANK,
        Meaning.MAPPING,
    ]
)
