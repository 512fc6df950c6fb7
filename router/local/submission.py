"""Parses a ``qsub``: its command line and the script's ``#PBS`` directives, as OpenPBS reads them.

Pure: takes words, text and the caller's variables, and returns values. The rules were measured on OpenPBS 23.06.06:
directives end at the first command, the command line overrides them, a trailing comment is an error.
"""

from __future__ import annotations

import getopt
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from router.local import resources
from router.local.resources import Asked, Rejection

USAGE: Final = """\
usage: qsub [-a date_time] [-A account_string] [-c interval]
	[-C directive_prefix] [-e path] [-f ] [-h ] [-I [-X]] [-j oe|eo] [-J X-Y[:Z]]
	[-k keep] [-l resource_list] [-m mail_options] [-M user_list]
	[-N jobname] [-o path] [-p priority] [-P project] [-q queue] [-r y|n]
	[-R o|e|oe] [-S path] [-u user_list] [-W otherattributes=value...]
	[-v variable_list] [-V ] [-z] [script | -- command [arg1 ...]]
       qsub --version"""
_OPTIONS: Final = "a:A:c:C:e:fGhIj:J:k:l:m:M:N:o:p:q:r:R:S:u:v:VW:XzP:"
_ILLEGAL_RC, _USAGE_RC, _ARRAY_RC, _NO_ATTRIBUTE_RC = 1, 2, 3, 154
_NAME_LIMIT: Final = 230
_NAME: Final = re.compile(rf"[A-Za-z0-9_.+-]{{1,{_NAME_LIMIT}}}")
_VALUES: Final = {
    "-N": _NAME,
    "-j": re.compile(r"oe|eo|n"),
    "-k": re.compile(r"n|(?=.*[oe])(?!.*(.).*\1)[oed]{1,3}"),
    "-r": re.compile(r"y|n"),
    "-p": re.compile(r"-?0*(?:\d{1,3}|10[01]\d|102[0-3])|-0*1024"),
    "-m": re.compile(r"n|[abej]+"),
    "-c": re.compile(r"[nsu]|[cw](?:=\d+)?"),
    "-o": re.compile(r"[\x00-\x7f]+"),
    "-e": re.compile(r"[\x00-\x7f]+"),
    "-S": re.compile(r".+", re.DOTALL),
}
_KNOWN_W: Final = frozenset({"umask", "block", "group_list", "sandbox", "run_count", "release_nodes_on_stageout"})
_UNSUPPORTED: Final = {"-I": "interactive jobs", "-a": "a start time", "-C": "another directive prefix", "-u": "-u"}
_DIRECTIVE: Final = re.compile(r"[ \t]*#PBS(?=[ \t-]|$)")
_WORD: Final = re.compile(r"""(?:"[^"]*"|'[^']*'|[^\s"'])+""")


@dataclass(frozen=True, slots=True)
class Request:
    """One submission, checked except against its queue. ``variables`` are those of -v and -V."""

    name: str
    asked: Asked
    options: Mapping[str, str]
    attributes: Mapping[str, str]
    variables: Mapping[str, str] = field(default_factory=dict)


def parse(
    words: Sequence[str], script: str, variables: Mapping[str, str], *, script_name: str
) -> tuple[Request, Sequence[str]]:
    """The request of a command line (options only) and a script. Raises Rejection with qsub's error.

    ``script_name`` is the job's name without ``-N``. The second value is the words after the options.
    """
    given, rest = _getopt(words)
    read = _Options()
    for flag, value in given:
        read.take(flag, value, directive=False)
    beaten = _Options()
    for text in directives(script):
        for flag, value in _directive(text):
            beaten.take(flag, value, directive=True)
    options = {**beaten.options, **read.options}
    asked = resources.asked({**beaten.resources, **read.resources})
    name = options.get("-N") or script_name
    exported = _variables(options, variables)
    return Request(name, asked, options, {**beaten.attributes, **read.attributes}, exported), rest


def _getopt(words: Sequence[str]) -> tuple[list[tuple[str, str]], list[str]]:
    try:
        return getopt.getopt(list(words), _OPTIONS)
    except getopt.GetoptError as error:
        kind = "option requires an argument" if "requires" in error.msg else "invalid option"
        raise Rejection(_USAGE_RC, f"{kind} -- '{error.opt}'\n{USAGE}") from error


class _Options:
    """Options in the order of reading; a later one wins. It changes only within this module."""

    def __init__(self) -> None:
        self.options: dict[str, str] = {}
        self.resources: dict[str, str] = {}
        self.attributes: dict[str, str] = {}

    def take(self, flag: str, value: str, *, directive: bool) -> None:
        """Check one option and keep it."""
        if flag in _UNSUPPORTED:
            raise Rejection(_ILLEGAL_RC, f"the embedded queue has no support for {_UNSUPPORTED[flag]}")
        if flag == "-J":
            raise Rejection(_ARRAY_RC, "Array job exceeds server or queue size limit")
        if flag == "-l":
            self._resources(value, directive=directive)
        elif flag == "-W":
            self.attributes.update(_attributes(value))
        else:
            pattern = _VALUES.get(flag)
            if pattern is not None and not pattern.fullmatch(value):
                raise _illegal(flag)
            if flag == "-P" and "/" in value:
                raise Rejection(166, f"{resources.ILLEGAL} project")
            self.options[flag] = value

    def _resources(self, value: str, *, directive: bool) -> None:
        try:
            self.resources.update(resources.split_list(value))
        except ValueError as error:
            raise (Rejection(_ILLEGAL_RC, "illegal -l value") if directive else _illegal("-l")) from error


def _illegal(flag: str) -> Rejection:
    return Rejection(_USAGE_RC, f"illegal {flag} value\n{USAGE}")


def _attributes(value: str) -> dict[str, str]:
    found = {}
    for item in value.split(","):
        name, equals, content = item.partition("=")
        if not equals:
            raise _illegal("-W")
        if name not in _KNOWN_W:
            raise Rejection(_NO_ATTRIBUTE_RC, "Error (15002) submitting job")
        if name == "umask" and not content.isdigit():
            raise _illegal("-W")
        if name == "block" and content.lower() != "false":
            raise Rejection(_ILLEGAL_RC, "the embedded queue has no support for -W block")
        found[name] = content
    return found


def directives(script: str) -> list[str]:
    """The text after ``#PBS`` on each directive line, up to the first command.

    Blank lines, comments and lines that begin with a colon are skipped; a byte order mark counts as a command. Raises
    Rejection for a script with Windows line ends.
    """
    if "\r\n" in script:
        raise Rejection(_ILLEGAL_RC, "script contains cr, lf")
    found: list[str] = []
    continued = False
    for line in script.split("\n"):
        match = _DIRECTIVE.match(line)
        plain = line.strip()
        if match is None and not continued and plain and plain[0] not in "#:":
            break
        if match is None and not continued:
            continue
        text = line[match.end() :] if match else line
        if continued:
            found[-1] = found[-1].rstrip()[:-1] + text
        else:
            found.append(text)
        continued = text.rstrip().endswith("\\")
    return found


def _directive(text: str) -> list[tuple[str, str]]:
    words = [_unquoted(word) for word in _WORD.findall(text)]
    try:
        given, rest = getopt.getopt(words, _OPTIONS)
    except getopt.GetoptError as error:
        raise Rejection(_ILLEGAL_RC, f"directive error: {text.strip()} ") from error
    if rest:
        # In `-l a=1, b=2` the illegal value is reported before the word that is left over.
        for flag, value in given:
            _Options().take(flag, value, directive=True)
        raise Rejection(_ILLEGAL_RC, f"directive error: {text.strip()} ")
    return given


def _unquoted(word: str) -> str:
    whole = len(word) > 1 and word[0] == word[-1] and word[0] in "\"'" and word[0] not in word[1:-1]
    return word[1:-1] if whole else word


_NO_ENVIRONMENT: Final = "cannot send environment with the job"


def _variables(options: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    exported = dict(environment) if "-V" in options else {}
    for item in _split(options["-v"]) if "-v" in options else ():
        name, equals, value = item.partition("=")
        if not equals:
            if name not in environment:
                raise Rejection(_ILLEGAL_RC, _NO_ENVIRONMENT)
            value = environment[name]
        if not name or "\0" in item:
            raise Rejection(_ILLEGAL_RC, _NO_ENVIRONMENT)
        exported[name] = value
    return {name: value for name, value in exported.items() if not name.startswith("PBS_O_")}


def _split(text: str) -> list[str]:
    r"""The items of ``-v``: quotes group and vanish, ``\,`` is a comma, any other backslash arrives doubled."""
    items, item, quote, position = [], "", "", 0
    while position < len(text):
        char = text[position]
        if quote:
            quote, item = ("", item) if char == quote else (quote, item + char)
        elif char in "\"'":
            quote = char
        elif char == "\\":
            following = text[position + 1 : position + 2]
            item += "," if following == "," else "\\\\"
            position += following == ","
        elif char == ",":
            items.append(item)
            item = ""
        else:
            item += char
        position += 1
    if quote:
        raise Rejection(_ILLEGAL_RC, _NO_ENVIRONMENT)
    return [part.rstrip() for part in (*items, item)]


def operands(words: Sequence[str]) -> list[str]:
    """The words after the options of a command line. Raises Rejection for invalid options."""
    return _getopt(words)[1]
