"""Holds the variables of a shell at one place of its text, as far as they are known before it runs.

Pure. A value is known only if it is certain. What a sourced file sets is out of sight: there, a variable counts as it
was before.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Final, Literal

from router.values import unchanging
from router.workload.expand import Environment
from router.workload.shellbudget import ShellBudget

if TYPE_CHECKING:
    from tree_sitter import Node

    from router.workload.shellsource import Source

_LONGEST_VALUE: Final = 1024  # characters; names, options and numbers are shorter, and values may grow in a loop
_BEYOND: Final = 10**8
"""The place of no parameter."""
_SHELLS_OWN: Final = re.compile(
    r"S?RANDOM|SECONDS|LINENO|(?:OLD)?PWD|HOST(?:NAME|TYPE)|(?:OS|MACH)TYPE|P?P?ID|E?UID|SHLVL|IFS|OPT\w+|PS\d|BASH\w*|"
    r"EPOCH\w+|GROUPS|DIRSTACK|FUNCNAME|PIPESTATUS|REPLY|COLUMNS|LINES|HOME|PATH|TERM|USER|_"
)
_SITES_OWN: Final = re.compile(r"(?:SLURM|PBS|OMP|OMPI|PMIX?|PRTE|HYDRA|I_MPI|MPI|CUDA|ROCR)_\w+|NCPUS")
"""Variables that the batch system or the site may add."""


class _Unset(Enum):
    UNSET = 0


UNSET: Final = _Unset.UNSET
Value = str | None | Literal[_Unset.UNSET]
"""A variable's value, None if it is known only when it runs, or UNSET."""
Arguments = tuple[str | None, ...] | None
"""The positional parameters from ``$0`` on; None if they are known only when it runs."""


@unchanging
class Function:
    """A function's body, with the text that holds it."""

    name: str
    body: Node
    source: Source


class Scope:
    """The variables, parameters and functions of a shell.

    :param environment: the container's variables
    :param cores: what ``nproc`` prints; None if that is unknown
    """

    def __init__(self, environment: Environment, cores: int | None, arguments: Arguments, budget: ShellBudget) -> None:
        self.environment = environment
        self.cores = cores
        self.arguments = arguments
        self.budget = budget
        self.values: dict[str, Value] = {}
        self.functions: dict[str, tuple[Function, ...]] = {}
        """By name, all that may be in force: several if it is open which of them was defined last."""
        self.exported: set[str] = set()
        self.kept: set[str] = set()
        """Variables of the container that are no longer exported."""
        self.local: set[str] = set()
        self.fixed: set[str] = set()
        """Variables that do not take values as they are written: read-only, a number, a reference."""
        self.in_function = False
        self.blind = False
        """Whether every variable is unknown, whatever is set."""
        self.lost = False
        """Whether a variable is known only if it is among the values."""
        self.captured = False
        """Whether what a command prints goes elsewhere than to the container's log."""

    def copy(self) -> Scope:
        """A scope for a subshell or a branch."""
        self.budget.step(1 + len(self.values) // 16)
        other = Scope(self.environment, self.cores, self.arguments, self.budget)
        other.values, other.functions = dict(self.values), dict(self.functions)
        other.exported, other.kept = set(self.exported), set(self.kept)
        other.local, other.fixed = set(self.local), set(self.fixed)
        other.blind, other.lost, other.captured = self.blind, self.lost, self.captured
        other.in_function = self.in_function
        return other

    def child(self, arguments: Arguments) -> Scope:
        """A scope for a shell that is started here: with the exported variables and no functions."""
        other = self.copy()
        other.arguments, other.functions, other.local = arguments, {}, set()
        other.in_function = False
        for name in other.values:
            if name not in self.exported and (name not in self.environment.values or name in self.kept):
                other.values[name] = None
        return other

    def blinded(self) -> Scope:
        """A scope in which no variable is known."""
        other = self.copy()
        other.blind, other.arguments = True, None
        return other

    def get(self, name: str) -> Value:
        """The value of a variable or a positional parameter."""
        if self.blind or _SHELLS_OWN.fullmatch(name):
            return None
        if name.isdigit():
            return self._parameter(int(name) if len(name) < 8 else _BEYOND)
        if name in self.values:
            return self.values[name]
        if self.lost or self.environment.is_later(name):
            return None
        found = self.environment.values.get(name, UNSET)
        return None if found is UNSET and _SITES_OWN.fullmatch(name) else found

    def _parameter(self, place: int) -> Value:
        if self.arguments is None:
            return None
        return self.arguments[place] if place < len(self.arguments) else UNSET

    def may_have(self, name: str) -> bool:
        """Whether the manifest or the text may set a variable."""
        inherited = name in self.environment.values or self.environment.is_later(name)
        return self.blind or self.lost or inherited or name in self.values

    @property
    def splits_at_blanks(self) -> bool:
        """Whether the shell splits words at blanks only: nothing has set IFS."""
        return not self.blind and not self.lost and "IFS" not in self.values

    def set(self, name: str, value: Value) -> None:
        """Note an assignment."""
        long = isinstance(value, str) and len(value) > _LONGEST_VALUE
        self.values[name] = None if long or name in self.fixed else value
        if value is UNSET:
            self.kept.add(name)
            self.exported.discard(name)

    def forget(self, *names: str) -> None:
        """Make variables unknown."""
        for name in names:
            self.values[name] = None

    def lose(self) -> None:
        """Make all variables and parameters unknown."""
        self.lost, self.values, self.arguments = True, {}, None

    def adopt(self, other: Scope) -> None:
        """Become another scope, as after a part that surely ran."""
        self.values, self.functions, self.arguments, self.cores = (
            other.values,
            other.functions,
            other.arguments,
            other.cores,
        )
        self.exported, self.kept, self.local, self.fixed = other.exported, other.kept, other.local, other.fixed
        self.blind, self.lost, self.captured = other.blind, other.lost, other.captured

    def join(self, others: Sequence[Scope]) -> None:
        """Make unknown what any of the branches left otherwise: it is open which of them ran."""
        for other in others:
            self.budget.step(1 + (len(self.values) + len(other.values)) // 16)
            for name in {**self.values, **other.values}:
                if self.get(name) != other.get(name):
                    self.values[name] = None
            for name, bodies in other.functions.items():
                self.functions[name] = tuple(dict.fromkeys((*self.functions.get(name, ()), *bodies)))
            self.arguments = self.arguments if self.arguments == other.arguments else None
            self.cores = self.cores if self.cores == other.cores else None
            self.exported &= other.exported
            self.kept |= other.kept
            self.local |= other.local
            self.fixed |= other.fixed
            self.blind |= other.blind
            self.lost |= other.lost
            self.captured |= other.captured
