"""Reads manifests: the files, directories and standard input that ``-f`` names.

Shell (files). Keeps each object's file and line. A file of recorded Jobs may have any size: it is read bit by bit.
"""

from __future__ import annotations

import codecs
import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from router.errors import InputError
from router.notation import documents, lists

ENDINGS: Final = (".yaml", ".yml", ".json")
LARGEST: Final = 64 * 1024 * 1024
_PIECE: Final = 64 * 1024
STDIN: Final = "-"


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object of a file: ``value`` as parsed, ``place`` as ``file:line``."""

    value: object
    place: str


def read_text(path: str) -> str:
    """The text of a file, or of standard input for ``-``. Raises InputError if it is unreadable or not UTF-8."""
    try:
        data = _stdin().read(LARGEST + 1) if path == STDIN else _read(Path(path))
    except OSError as error:
        raise _unreadable(path, error) from error
    if len(data) > LARGEST:
        raise InputError(f"{path}: is larger than {LARGEST // 1024**2} MiB")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _not_utf8(path, error, 1) from error


def _stdin() -> BinaryIO:
    if sys.stdin is None:
        raise InputError("standard input: cannot be read: it is closed")
    return sys.stdin.buffer


def _unreadable(path: str, error: OSError) -> InputError:
    return InputError(f"{path}: cannot be read: {error.strerror}")


def _not_utf8(path: str, error: UnicodeDecodeError, line: int) -> InputError:
    """:param line: the one in which what was decoded begins"""
    line += error.object[: error.start].count(b"\n")
    return InputError(f"{path}:{line}: is not UTF-8 (byte {error.object[error.start]:#04x}); save it as UTF-8")


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(LARGEST + 1)


def read_manifests(paths: Sequence[str], *, recursive: bool) -> list[Manifest]:
    """Every object of the given files, in order; Lists are split. A directory stands for the manifests in it."""
    found = [
        manifest
        for path in paths
        for file in files_of(path, recursive=recursive)
        for document in documents.parse(read_text(file), _named(file))
        for manifest in _objects(document)
    ]
    if not found:
        raise InputError(f"{', '.join(map(_named, paths))}: holds no object")
    return found


def each_object(files: Sequence[str], told: Callable[[int], None]) -> Iterator[Manifest]:
    """Every object of the given files, one after the other; Lists are split. Raises InputError.

    :param told: called with the number of bytes, each time some were read
    """
    found = False
    for file in files:
        with _opened(file) as opened:
            for value, line in lists.objects(_Reading(opened, _named(file), told).read, _named(file)):
                found = True
                yield Manifest(value, f"{_named(file)}:{line}")
    if not found:
        raise InputError(f"{', '.join(map(_named, files))}: holds no object")


def _named(file: str) -> str:
    return "standard input" if file == STDIN else file


@contextlib.contextmanager
def _opened(path: str) -> Iterator[BinaryIO]:
    with contextlib.ExitStack() as stack:
        try:
            file = _stdin() if path == STDIN else stack.enter_context(Path(path).open("rb"))
        except OSError as error:
            raise _unreadable(path, error) from error
        yield file


class _Reading:
    """The text of an open file, bit by bit."""

    def __init__(self, file: BinaryIO, name: str, told: Callable[[int], None]) -> None:
        self._file = file
        self._name = name
        self._told = told
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._line = 1

    def read(self, size: int) -> str:
        """Some text; empty at the end. Raises InputError."""
        while True:
            try:
                data = self._file.read(max(size, _PIECE))
            except OSError as error:
                raise _unreadable(self._name, error) from error
            self._told(len(data))
            try:
                text = self._decoder.decode(data, final=not data)
            except UnicodeDecodeError as error:
                raise _not_utf8(self._name, error, self._line) from error
            self._line += text.count("\n")
            if text or not data:
                return text


def files_of(path: str, *, recursive: bool) -> list[str]:
    """The files that a path stands for: itself, or the manifests in a directory. Raises InputError."""
    if path.startswith(("http://", "https://")):
        raise InputError(f"{path}: nothing is fetched from the network; give a file, or pipe it in with -f -")
    directory = Path(path)
    if path == STDIN or not directory.is_dir():
        return [path]
    within = directory.rglob("*") if recursive else directory.iterdir()
    found = sorted(str(file) for file in within if file.suffix in ENDINGS and file.is_file())
    if not found:
        below = "" if recursive else "; -R also looks in the directories below it"
        raise InputError(f"{path}: holds no file that ends in {', '.join(ENDINGS)}{below}")
    return found


def _objects(document: documents.Document) -> Iterator[Manifest]:
    value = document.value
    line, _ = document.position(())
    listed = isinstance(value, Mapping) and str(value.get("kind")).endswith("List")
    if listed and isinstance(value.get("items"), list):
        for index, item in enumerate(value["items"]):
            line, _ = document.position(("items", index))
            yield Manifest(lists.item_of(value, item), f"{document.source}:{line}")
    else:
        yield Manifest(value, f"{document.source}:{line}")
