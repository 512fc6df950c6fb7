"""Finds the MPI launchers that a container's command starts, also in shell text, and what each asks for.

Pure. Follows shells (``bash -c``), wrappers (``timeout 600``), functions, loops and variables in the tree of a real
shell parser. A launcher that is only named, in a comment, a string or a here-document, is none. What shells read from
files is out of sight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from router.values import unchanging
from router.workload import shelltree
from router.workload.expand import environment_of
from router.workload.launcherline import Reading, read_figures
from router.workload.launchernames import SHELLS, is_launcher, mention, shell_string
from router.workload.model import Container, Figure, Launch
from router.workload.shellvalues import Scope, quoted_text
from router.workload.shellwalk import ShellWord, Source, TooDeepError, Walk
from router.workload.wrappers import base, inner

_MOST_TEXTS: Final = 8
_SCRIPTS: Final = (".sh", ".bash")
_PRINTS: Final = frozenset(
    ["echo", "printf", "which", "type", "hash", "command", "whereis", "cat", "ls", "test", "[", "rm", "man"]
)
"""Commands that start none of the programs that they name."""
_LONGEST_SHOWN: Final = 60


@unchanging
class Found:
    """What a container's words start.

    :param launches: in the order of their places
    :param scripts: commands that run what is not looked into, such as ``bash /cfg/run.sh`` and ``ssh node mpirun a``
    :param unread: why a text was not looked into, as a clause; else empty
    :param unnamed: whether there is a command whose program is known only when it runs
    """

    launches: tuple[Launch, ...] = ()
    scripts: tuple[str, ...] = ()
    unread: str = ""
    unnamed: bool = False


def find_launches(container: Container) -> Found:
    """The launchers that a container's command and args start, as far as they can be known before they run."""
    environment = environment_of(container)
    words = [
        ShellWord(environment.known(word), Source(f"{container.path}.{name}[{index}]", word.encode("utf-8", "replace")))
        for name, part in (("command", container.command), ("args", container.args))
        for index, word in enumerate(part or ())
    ]
    cores = -(-container.cpu.value // 1000) if container.cpu and container.cpu.value else None
    search = _Search()
    search.run(words, Scope(environment, cores, ()))
    launches = sorted(search.launches.values(), key=lambda launch: (launch.field, launch.line, launch.column))
    unread = search.unread[0] if search.unread else ""
    return Found(tuple(launches), tuple(dict.fromkeys(search.scripts)), unread, search.unnamed)


def most(launches: Sequence[Launch], name: str) -> Figure | None:
    """The largest figure of that name (``ranks``) that any of the launches asks for; None without one."""
    figures: list[Figure] = [figure for launch in launches if (figure := getattr(launch, name)) is not None]
    return max(figures, key=lambda figure: figure.value, default=None)


def ranks_of(launches: Sequence[Launch], cpu: Figure | None) -> Figure:
    """The ranks of a container: the most that any of its launches asks for; without a number, one for each core.

    :param cpu: asked for, in millicores
    """
    if asked := most(launches, "ranks"):
        return asked
    per_node, nodes, cores = (most(launches, name) for name in ("ranks_per_node", "nodes", "cores_per_rank"))
    if per_node:
        return Figure(per_node.value * (nodes.value if nodes else 1), per_node.origin)
    threads = cores.value if cores else 1
    found = max(nodes.value if nodes else 1, (cpu.value if cpu else 0) // 1000 // threads)
    return Figure(found, "one for each share of the CPUs asked for, as no launcher gives a number")


class _Search:
    """Collects what commands start."""

    def __init__(self) -> None:
        self.launches: dict[tuple[str, int, int], Launch] = {}
        self.scripts: list[str] = []
        self.unread: list[str] = []
        self.unnamed = False
        self._walk = Walk(self._command)
        self._texts = 0

    def run(self, words: Sequence[ShellWord], scope: Scope) -> None:
        """Follow the container's command, then what it defines and does not call."""
        try:
            self._command(words, scope)
            self._walk.finish(scope)
        except TooDeepError:
            self.unread.append("is nested too deeply")

    def _command(self, words: Sequence[ShellWord], scope: Scope) -> None:
        position = inner([word.text for word in words])
        if position == len(words):
            return
        evaluated = position == len(words) - 1 and position > 0 and words[position - 1].text == "eval"
        words = words[position or 0 :]
        program = words[0].text
        if program is None:
            self.unnamed = True
            return
        name = base(program)
        if position is not None and is_launcher(program):
            self._launch(name, words)
        elif name in SHELLS:
            self._shell(words, scope)
        elif evaluated:
            self._text(program, words[0].inside(program), scope)
        elif not self._walk.call(program, [word.text for word in words], scope):
            named = mention([word.text or "" for word in words[1:]]) and name not in _PRINTS
            if named or name.endswith(_SCRIPTS):
                self._out_of_sight(words)

    def _launch(self, name: str, words: Sequence[ShellWord]) -> None:
        field, line, column = words[0].source.place(words[0].start)
        texts = tuple([word.text for word in words[1:]])
        origin = f"in {field}" if words[0].node is None else f"in {field}, line {line}"
        readings = [read_figures(name, part, origin) for part in _programs(name, texts)]
        if not all(reading.program for reading, _ in readings):
            return  # mpirun --version
        first = readings[0][0]
        launch = Launch(
            program=name,
            field=field,
            line=line,
            column=column,
            words=texts,
            ranks=_together([reading for reading, _ in readings]),
            ranks_per_node=first.ranks_per_node,
            nodes=first.nodes,
            cores_per_rank=first.cores_per_rank,
            unknown=next((why for _, why in readings if why), ""),
        )
        before = self.launches.get((field, line, column))
        self.launches[field, line, column] = launch if before is None else _larger(before, launch)

    def _shell(self, words: Sequence[ShellWord], scope: Scope) -> None:
        place = shell_string([word.text for word in words])
        if place is None:
            self._out_of_sight(words)
            return
        word = words[place]
        arguments = tuple([one.text for one in words[place + 1 :]]) or (words[0].text,)
        if (text := word.shell_text) is not None:
            self._text(text, word.inside(text), scope.copy(arguments))
            return
        text = quoted_text(word.node) if word.node is not None else None
        unnamed, self.unnamed = self.unnamed, text is None
        if text is not None:
            self._text(text, word.inside(text), scope.blinded())
        if self.unnamed:  # what it runs is in a variable
            self._out_of_sight(words)
        self.unnamed |= unnamed

    def _text(self, text: str, source: Source, scope: Scope) -> None:
        self._texts += 1
        root = shelltree.parse(text) if self._texts <= _MOST_TEXTS else f"starts more than {_MOST_TEXTS} shells"
        if isinstance(root, str):
            self.unread.append(root)
        else:
            self._walk.follow(root, source, scope)

    def _out_of_sight(self, words: Sequence[ShellWord]) -> None:
        shown = " ".join(["…" if word.text is None else word.text for word in words])
        self.scripts.append(shown if len(shown) <= _LONGEST_SHOWN else f"{shown[:_LONGEST_SHOWN]}…")


def _programs(name: str, words: tuple[str | None, ...]) -> list[tuple[str | None, ...]]:
    """The words of each program of ``mpirun -np 2 ./a : -np 2 ./b``."""
    parts: list[tuple[str | None, ...]] = [()]
    for word in words:
        if word == ":" and not name.startswith("srun"):
            parts.append(())
        else:
            parts[-1] += (word,)
    return parts


def _together(readings: Sequence[Reading]) -> Figure | None:
    """The ranks of all programs of one launcher; None unless each says a number."""
    figures = [reading.ranks for reading in readings]
    known = [figure for figure in figures if figure is not None]
    if len(known) < len(figures):
        return None
    if len(known) == 1:
        return known[0]
    return Figure(sum(figure.value for figure in known), " + ".join(figure.origin for figure in known))


def _larger(one: Launch, other: Launch) -> Launch:
    """The same place, followed twice: with the larger figure of each kind."""
    kept = one if other.ranks is None or (one.ranks and one.ranks.value >= other.ranks.value) else other
    return replace(
        kept,
        ranks=most([one, other], "ranks"),
        ranks_per_node=most([one, other], "ranks_per_node"),
        nodes=most([one, other], "nodes"),
        cores_per_rank=most([one, other], "cores_per_rank"),
        unknown=one.unknown or other.unknown,
    )
