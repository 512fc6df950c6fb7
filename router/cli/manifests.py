"""Reads manifests: the files, directories and standard input that ``-f`` names.

Shell (files). Keeps each object's file and line.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from router.errors import InputError
from router.notation import documents

ENDINGS: Final = (".yaml", ".yml", ".json")
LARGEST: Final = 64 * 1024 * 1024
STDIN: Final = "-"


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object of a file: ``value`` as parsed, ``place`` as ``file:line``."""

    value: object
    place: str


def read_text(path: str) -> str:
    """The text of a file, or of standard input for ``-``. Raises InputError if it is unreadable or not UTF-8."""
    try:
        data = sys.stdin.buffer.read(LARGEST + 1) if path == STDIN else _read(Path(path))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    if len(data) > LARGEST:
        raise InputError(f"{path}: is larger than {LARGEST // 1024**2} MiB")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise InputError(f"{path}:{line}: is not UTF-8 (byte {data[error.start]:#04x}); save it as UTF-8") from error


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(LARGEST + 1)


def read_manifests(paths: Sequence[str], *, recursive: bool) -> list[Manifest]:
    """Every object of the given files, in order; Lists are split. A directory stands for the manifests in it."""
    found = [
        manifest
        for path in paths
        for file in _files(path, recursive=recursive)
        for document in documents.parse(read_text(file), "standard input" if file == STDIN else file)
        for manifest in _objects(document)
    ]
    if not found:
        raise InputError(f"{', '.join('standard input' if path == STDIN else path for path in paths)}: holds no object")
    return found


def _files(path: str, *, recursive: bool) -> list[str]:
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
    if isinstance(value, Mapping) and value.get("kind") == "List" and isinstance(value.get("items"), list):
        for index, item in enumerate(value["items"]):
            line, _ = document.position(("items", index))
            yield Manifest(item, f"{document.source}:{line}")
    else:
        yield Manifest(value, f"{document.source}:{line}")
