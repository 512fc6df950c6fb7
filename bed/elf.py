"""Changes a program that was linked against a newer glibc so that it runs with the machine's.

Pure: bytes to bytes. Programs linked against glibc 2.38 or later call ``strtol`` and its relatives by names like
``__isoc23_strtol`` (which also read C23's ``0b``). The programs of the bed need only these symbols of the newer glibc.
The layout of ELF files is from the System V ABI, the symbol versions from the Linux Standard Base.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_PREFIX: Final = "__isoc23_"
_LITTLE_64: Final = b"\x7fELF\x02\x01"
_DYNSYM: Final = 11
_VERNEED: Final = 0x6FFFFFFE
_VERSYM: Final = 0x6FFFFFFF
_ANY_VERSION: Final = 1
"""VER_NDX_GLOBAL: a symbol of that name with any version."""


class UnsuitableError(ValueError):
    """The program needs further symbols of the newer glibc, or is not an ELF program."""


@dataclass(frozen=True, slots=True)
class _Section:
    kind: int
    offset: int
    size: int
    link: int


def with_older_glibc(program: bytes, newest: tuple[int, int]) -> bytes:
    """The program, changed so that it needs no version newer than ``newest``.

    :param newest: the machine's glibc, for example (2, 36)
    :raises UnsuitableError: not a 64-bit little-endian ELF file, or it needs another symbol of a newer glibc
    """
    if program[:6] != _LITTLE_64:
        raise UnsuitableError("not a 64-bit little-endian ELF file")
    sections = _sections(program)
    by_kind = {section.kind: section for section in sections}
    if not {_DYNSYM, _VERNEED, _VERSYM} <= set(by_kind):
        return program
    changed = bytearray(program)
    needs = by_kind[_VERNEED]
    too_new = set()
    for versions in _needs(program, needs.offset, sections[needs.link].offset):
        known = [at for at, name in versions if not _is_newer(name, newest)]
        for at, name in versions:
            if _is_newer(name, newest):
                too_new.add(_ask_for_older(program, changed, at, known))
    symbols = by_kind[_DYNSYM]
    for number in range(symbols.size // 24):
        version_at = by_kind[_VERSYM].offset + 2 * number
        if struct.unpack_from("<H", program, version_at)[0] & 0x7FFF not in too_new:
            continue
        symbol_at = symbols.offset + 24 * number
        (name_at,) = struct.unpack_from("<I", program, symbol_at)
        name = _text(program, sections[symbols.link].offset + name_at)
        if not name.startswith(_PREFIX):
            raise UnsuitableError(f"it needs {name} of a newer glibc")
        # A name may begin anywhere in the string table: ``strtol`` is the end of ``__isoc23_strtol``.
        struct.pack_into("<I", changed, symbol_at, name_at + len(_PREFIX))
        struct.pack_into("<H", changed, version_at, _ANY_VERSION)
    return bytes(changed)


def _sections(program: bytes) -> list[_Section]:
    (table,) = struct.unpack_from("<Q", program, 0x28)
    size, count = struct.unpack_from("<HH", program, 0x3A)
    found = []
    for number in range(count):
        fields = struct.unpack_from("<IIQQQQIIQQ", program, table + number * size)
        found.append(_Section(kind=fields[1], offset=fields[4], size=fields[5], link=fields[6]))
    return found


def _ask_for_older(program: bytes, changed: bytearray, at: int, known: list[int]) -> int:
    """Make one record of a needed version name an older version, which the library has; returns the version's index.

    Records cannot be removed, and the loader warns of each version that is missing.
    """
    if not known:
        raise UnsuitableError("it needs a library of which no older version would do")
    hashed, _, _, name, _ = struct.unpack_from("<IHHII", program, known[0])
    struct.pack_into("<I", changed, at, hashed)
    struct.pack_into("<I", changed, at + 8, name)
    return int(struct.unpack_from("<H", program, at + 6)[0])


def _needs(program: bytes, start: int, strings: int) -> Iterator[list[tuple[int, str]]]:
    """For each library its needed versions: the record's offset, and the version's name."""
    library = start
    while True:
        _, count, _, first, step = struct.unpack_from("<HHIII", program, library)
        at, versions = library + first, []
        for _ in range(count):
            _, _, _, name, following = struct.unpack_from("<IHHII", program, at)
            versions.append((at, _text(program, strings + name)))
            at += following
        yield versions
        if not step:
            return
        library += step


def _is_newer(version: str, newest: tuple[int, int]) -> bool:
    family, _, number = version.partition("_")
    parts = number.split(".")
    if family != "GLIBC" or not all(part.isdecimal() for part in parts):
        return False
    return tuple(map(int, parts)) > newest


def _text(program: bytes, at: int) -> str:
    return program[at : program.index(b"\0", at)].decode("ascii")
