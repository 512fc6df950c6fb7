"""Finds the MPI launchers that a container's command starts, also in shell text, and what each asks for.

Pure. Follows shells (``bash -c``), wrappers (``timeout 600``), functions, loops and variables in the tree of a real
shell parser. It fails closed. A launcher may be named in a comment, in the words of a launch, and in an argument of a
command that only prints to the log; anywhere else it makes the text unread. What shells read from files is out of
sight.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from router.workload.expand import Environment, environment_of, refers
from router.workload.launchernames import SHELLS, is_launcher, mention, mentions, shell_string
from router.workload.launchfigures import larger, launch_of
from router.workload.model import Container, Launch, Started, Unseen
from router.workload.shellbudget import ShellBudget, UnreadError
from router.workload.shellbuiltins import run_builtin
from router.workload.shellcommands import Command, expanded
from router.workload.shellmentions import harmless, only_prints, outside
from router.workload.shellscope import Scope
from router.workload.shellsource import PARAMETERS, ShellWord, Source, references
from router.workload.shellvalues import MANY, Expanded, arguments_of, quoted_text
from router.workload.shellwalk import Walk
from router.workload.wrappers import WRAPPERS, base, inner

if TYPE_CHECKING:
    from tree_sitter import Node

_KEYWORDS: Final = frozenset(["!", "time"])
"""Wrappers behind which a shell still runs its own functions."""
_BUILTIN: Final = frozenset([*_KEYWORDS, "builtin", "command"])
"""Wrappers behind which a shell still runs its own commands."""
_FOREIGN_SHELLS: Final = frozenset(["csh", "elvish", "fish", "mksh", "nu", "pwsh", "rc", "tcsh", "xonsh", "yash"])
"""Shells whose texts are not followed."""
_PREPARING: Final = frozenset(
    [
        ":",
        "[",
        "cat",
        "cd",
        "chmod",
        "cp",
        "date",
        "echo",
        "exit",
        "export",
        "hostname",
        "ln",
        "ls",
        "mkdir",
        "mv",
        "printf",
        "rm",
        "set",
        "shopt",
        "sleep",
        "test",
        "trap",
        "true",
        "ulimit",
        "umask",
        "unset",
    ]
)
"""Commands that do not make a text the program: with only these, it is what the file does that it reads."""
_SYNTAX: Final = re.compile(r"[|&;<>(){}`'\"\\$#\n*?\[~!]")
_LONGEST_SHOWN: Final = 60
_MOST_UNSEEN: Final = 20
"""Most places of a kind that are noted."""


class _Mentions(Enum):
    """What becomes of launchers that a command's words name."""

    JUDGED = auto()
    PASSED_ON = auto()  # they become parameters of a text that is followed
    OPEN = auto()


def find_launches(container: Container, budget: ShellBudget) -> Started:
    """What a container's command and args start, as far as it can be known before they run.

    :param budget: of the whole Job; what is beyond it is unread
    """
    environment = environment_of(container)
    words = [
        _word(word, f"{container.path}.{name}[{index}]", environment)
        for name, part in (("command", container.command), ("args", container.args))
        for index, word in enumerate(part or ())
    ]
    cores = -(-container.cpu.value // 1000) if container.cpu and container.cpu.value else None
    search = _Search(budget)
    if words:
        search.run(words, Scope(environment, cores, (), budget))
    search.check_variables(container)
    launches = sorted(search.launches.values(), key=lambda launch: (launch.field, launch.line, launch.column))
    return Started(tuple(launches), tuple(search.scripts), tuple(search.unread))


def variables_mention(container: Container) -> str:
    """The first launcher that is named in a variable to which the container's words refer; else empty."""
    values = [one for one in container.env if one.value is not None and ("run" in one.value or "mpiexec" in one.value)]
    naming = [(one.name, found) for one in values if (found := mention([one.value or ""]))]
    if not naming:
        return ""
    referred = _referred(container)
    return next((found for name, found in naming if name in referred), "")


def _referred(container: Container) -> frozenset[str]:
    """The variables to which a container's words refer."""
    words = (*(container.command or ()), *(container.args or ()))
    return references("\n".join(words).encode("utf-8", "replace"))


def _word(word: str, field: str, environment: Environment) -> ShellWord:
    """A word of the manifest. As text of a shell it is taken as written, so that its places are those of the manifest.

    References of Kubernetes are then values in it, but for those whose values hold syntax of the shell.
    """
    text = environment.known(word)
    syntax = "$$" in word or any(_SYNTAX.search(environment.values.get(name, "")) for name in refers(word))
    source = Source(field, (text if syntax and text is not None else word).encode("utf-8", "replace"))
    return ShellWord(text, source, references=frozenset(refers(word)))


class _Search:
    """Collects what commands start."""

    def __init__(self, budget: ShellBudget) -> None:
        self.launches: dict[tuple[str, int, int], Launch] = {}
        self.scripts: list[Unseen] = []
        self.unread: list[Unseen] = []
        self._budget = budget
        self._walk = Walk(self._visit, budget)
        self._texts: dict[Source, Node | None] = {}
        """The root of each text; None where a bound or a syntax error is in the way."""
        self._here = Source("", b"")
        self._sourced: Sequence[ShellWord] = ()
        """The last command of the shell that reads a file of commands."""
        self._runs_programs = False
        self._judged: dict[Source, list[tuple[int, int]]] = defaultdict(list)
        self._passed: dict[Source, list[tuple[int, int]]] = defaultdict(list)
        self._unnamed = False
        """Whether a command was followed whose program is known only when it runs."""
        self._used: set[str] = set()
        """Variables that hold a launcher which was found, or a text that was followed."""
        self._unsure: set[str] = set()
        """Variables that hold a program, or a text, which is known only when it runs."""

    def run(self, words: Sequence[ShellWord], scope: Scope) -> None:
        """Follow the container's command, then what it defines and does not call, and look at what is left."""
        self._here = words[0].source
        try:
            self._visit(Command(tuple(words), words[0].source, (), scope, captured=False), scope)
            if self._sourced and not self._runs_programs:
                self._out_of_sight(self._sourced)
            self._walk.finish(scope)
            self._check_texts()
        except UnreadError as error:
            self._note(self.unread, str(error), self._here, 0)

    def check_variables(self, container: Container) -> None:
        """Note launchers in variables to which the words refer, unless one was found through them."""
        referred = _referred(container)
        for index, variable in reversed(tuple(enumerate(container.env))):
            text = (variable.value or "").encode("utf-8", "replace")
            if variable.name in self._used:
                self._used |= references(text)  # a variable refers to those before it
            elif variable.name in referred:
                self._refuse(Source(f"{container.path}.env[{index}].value", text), mentions(text))

    def _visit(self, command: Command, scope: Scope) -> None:
        fate = self._run(command, scope)
        if command.words[0].node is None:
            self._visit_manifest(command.words, fate)
            return
        if fate is _Mentions.PASSED_ON:
            self._passed[command.source] += command.spans
            return
        self._judged[command.source] += command.spans
        if fate is _Mentions.OPEN:
            for start, end in command.spans:
                found = mentions(command.source.text[start:end])
                self._refuse(command.source, [(start + place, name) for place, name in found])

    def _visit_manifest(self, words: Sequence[ShellWord], fate: _Mentions) -> None:
        """The words of the manifest: each is a text of its own."""
        followed = {source.field for source in self._texts}
        for word in words:
            if fate is _Mentions.OPEN:
                self._refuse(word.source, mentions(word.source.text))
            elif fate is _Mentions.PASSED_ON and word.source.field not in followed:
                self._passed[word.source].append((0, len(word.source.text)))

    def _run(self, command: Command, scope: Scope) -> _Mentions:
        """Follow a command to what it starts."""
        words = command.words
        position = inner([word.text for word in words])
        before, rest = words[: position or 0], words[position or 0 :]
        wrappers = [word.text for word in before if word.text in WRAPPERS]
        if self._calls(words, scope) or (wrappers and _KEYWORDS.issuperset(wrappers) and self._calls(rest, scope)):
            return _Mentions.PASSED_ON
        if not rest:
            return _Mentions.OPEN
        program = rest[0].text or ""
        if position is not None and is_launcher(program):
            self._runs_programs = True
            return self._launch(rest)
        if base(program) in SHELLS:
            return self._shell(rest, _environment(before, command.environment))
        if rest[0].text is None:
            self._unnamed = True
            self._unsure |= rest[0].names
        if base(program) in _FOREIGN_SHELLS:
            self._out_of_sight(rest)
        if program in (".", "source"):
            self._sourced = rest
        else:
            self._runs_programs |= base(program) not in _PREPARING
        fate = self._builtin(program, rest, scope) if _BUILTIN.issuperset(wrappers) else _Mentions.OPEN
        prints = fate is _Mentions.OPEN and not command.captured and only_prints(rest)
        return _Mentions.JUDGED if prints else fate

    def _calls(self, words: Sequence[ShellWord], scope: Scope) -> bool:
        """Follow a call of a function; False if it is none."""
        return bool(words) and self._walk.call(words[0].text or "", expanded(words), scope)

    def _builtin(self, program: str, words: Sequence[ShellWord], scope: Scope) -> _Mentions:
        """A command of the shell itself, if it is one."""
        fate = _Mentions.OPEN
        if program == "eval" and len(words) > 1:
            fate = self._eval(words, scope)
        elif program == "trap":
            fate = self._trap(words, scope)
        elif program == "set":
            fate = _Mentions.PASSED_ON
        run_builtin(expanded(words), scope)
        return fate

    def _launch(self, words: Sequence[ShellWord]) -> _Mentions:
        launch = launch_of(words)
        if launch is not None:  # mpirun --version starts nothing
            place = (launch.field, launch.line, launch.column)
            before = self.launches.get(place)
            self.launches[place] = launch if before is None else larger(before, launch)
        self._used |= words[0].names
        return _Mentions.JUDGED

    def _eval(self, command: Sequence[ShellWord], scope: Scope) -> _Mentions:
        """``eval "mpirun -np 4" ./a``: its words are one text."""
        words = command[1:]
        texts = [word.text for word in words]
        known = [text for text in texts if text is not None]
        if len(known) < len(texts):
            self._out_of_sight(command)
            scope.lose()
            return _Mentions.OPEN
        text, first = " ".join(known), words[0]
        self._used.update(*[word.names for word in words])
        source = first.inside(text)
        if len(words) > 1:
            source = Source(first.source.field, text.encode("utf-8", "replace"), first.source, first.start, exact=False)
        self._text(text, source, scope)
        return _Mentions.JUDGED

    def _trap(self, words: Sequence[ShellWord], scope: Scope) -> _Mentions:
        text = words[1].text if len(words) > 2 else None  # trap TEXT SIGNAL
        if text is None or text.startswith("-"):
            return _Mentions.OPEN
        self._used |= words[1].names
        self._text(text, words[1].inside(text), scope.blinded())
        return _Mentions.JUDGED

    def _shell(self, words: Sequence[ShellWord], scope: Scope) -> _Mentions:
        place = shell_string([word.text for word in words])
        if place is None:
            self._out_of_sight(words)
            return _Mentions.OPEN
        word, rest = words[place], expanded(words[place + 1 :])
        text, inside = word.shell_text, scope.child(_parameters(rest, words[0].text))
        if text is None and word.node is not None and (text := quoted_text(word.node)) is not None:
            inside = inside.blinded()  # it is open which of the two shells replaces a variable
        if base(words[0].text or "") == "zsh":
            inside = inside.blinded()  # it splits no variables into words
        before, self._unnamed = self._unnamed, word.shell_text is None and text is None
        if text is not None:
            self._used |= word.names
            if word.node is not None:
                self._judged[word.source].append((word.start, word.node.end_byte))
            self._text(text, word.inside(text), inside)
        if self._unnamed and word.shell_text is None:  # the text, or its command, is in a variable
            self._out_of_sight(words)
        self._unnamed |= before
        return _Mentions.OPEN if text is None else _Mentions.PASSED_ON

    def _text(self, text: str, source: Source, scope: Scope) -> None:
        root = self._budget.tree(text)
        self._texts[source] = None if isinstance(root, str) else root
        if isinstance(root, str):
            self._note(self.unread, root, source, 0)
            scope.lose()
            return
        before, self._here = self._here, source
        self._walk.follow(root, source, scope)
        self._here = before

    def _check_texts(self) -> None:
        """Refuse launchers that a text names outside of the commands that were followed."""
        used = self._closure(self._used) - self._closure(self._unsure)
        for source in () if PARAMETERS in used else [one for one in self._passed if one not in self._texts]:
            self._refuse(source, mentions(source.text))
        if PARAMETERS in used:
            for source, spans in self._passed.items():
                self._judged[source] += spans
        for one in self._walk.assigned.values():
            if one.name in used:
                self._judged[one.source].append((one.start, one.end))
        for source, root in self._texts.items():
            if root is not None and (found := mentions(source.text)):
                self._refuse(source, outside(found, [*self._judged[source], *harmless(root, self._budget)]))

    def _closure(self, names: set[str]) -> set[str]:
        """Variables, with those to which their values refer."""
        waiting = list(names)
        values: dict[str, set[str]] = defaultdict(set)
        for one in self._walk.assigned.values():
            values[one.name] |= one.references
        while waiting:
            new = values[waiting.pop()] - names
            names |= new
            waiting += new
        return names

    def _refuse(self, source: Source, found: Iterable[tuple[int, str]]) -> None:
        for place, name in found:
            self._note(self.unread, f"names {name} where it is open whether it runs", source, place)

    def _out_of_sight(self, words: Sequence[ShellWord]) -> None:
        self._unsure.update(*[word.names for word in words if word.text is None])
        text, first = " ".join(["…" if word.text is None else word.text for word in words]), words[0]
        shown = text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
        self._note(self.scripts, shown, first.source, first.start)

    def _note(self, unseen: list[Unseen], what: str, source: Source, place: int) -> None:
        if len(unseen) < _MOST_UNSEEN:
            one = Unseen(what, *source.place(place))
            unseen += [] if one in unseen else [one]


def _parameters(rest: Sequence[Expanded], shell: str | None) -> tuple[str | None, ...] | None:
    """What ``bash -c TEXT name a b`` makes of the words behind TEXT."""
    if not rest:
        return (shell,)
    return None if rest[0] is MANY else arguments_of(rest[1:], rest[0])


def _environment(wrappers: Sequence[ShellWord], scope: Scope) -> Scope:
    """The variables behind ``env A=b`` and the like."""
    texts = [word.text or "" for word in wrappers]
    names = [base(text) for text in texts]
    if "sudo" in names or ("env" in names and any(text.startswith("-") for text in texts)):
        return scope.blinded()
    if "exec" in names and any(text.startswith("-") for text in texts):
        return scope.blinded()
    inside = scope.copy()
    for text in texts:
        name, equals, value = text.partition("=")
        if equals and name.isidentifier():
            inside.set(name, value)
            inside.exported.add(name)
    return inside
