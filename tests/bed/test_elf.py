"""Programs linked against a newer glibc."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bed import elf

STRINGS = b"\0libc.so.6\0GLIBC_2.38\0GLIBC_2.2.5\0__isoc23_strtol\0puts\0"
NEW, OLD = 0x11111111, 0x22222222
"""Hashes of the two versions."""


def place(name: bytes) -> int:
    return STRINGS.index(name + b"\0")


def program(new_symbol: bytes = b"__isoc23_strtol", versions: int = 2) -> bytes:
    """A file with what the loader reads of it: two symbols, ``puts`` of an old version and another of a new one."""
    symbols = bytes(24) + struct.pack("<I20x", place(new_symbol)) + struct.pack("<I20x", place(b"puts"))
    of_symbols = struct.pack("<HHH", 0, 5, 6)
    needs = struct.pack("<HHIII", 1, versions, place(b"libc.so.6"), 16, 0)
    needs += struct.pack("<IHHII", NEW, 0, 5, place(b"GLIBC_2.38"), 16)
    needs += struct.pack("<IHHII", OLD, 0, 6, place(b"GLIBC_2.2.5"), 0)
    parts = [(0, b"", 0), (11, symbols, 2), (3, STRINGS, 0), (0x6FFFFFFF, of_symbols, 1), (0x6FFFFFFE, needs, 2)]
    body, table = b"", b""
    for kind, content, link in parts:
        table += struct.pack("<IIQQQQIIQQ", 0, kind, 0, 0, 64 + len(body), len(content), link, 0, 0, 0)
        body += content
    header = b"\x7fELF\x02\x01".ljust(0x28, b"\0") + struct.pack("<Q10xHHH", 64 + len(body), 64, len(parts), 2)
    return header.ljust(64, b"\0") + body + table


def test_a_new_name_becomes_the_old_one() -> None:
    before = program()
    after = elf.with_older_glibc(before, (2, 36))

    symbols, of_symbols = 64, 64 + 72 + len(STRINGS)
    needs = of_symbols + 6
    (name,) = struct.unpack_from("<I", after, symbols + 24)
    assert STRINGS[name : STRINGS.index(b"\0", name)] == b"strtol"
    assert struct.unpack_from("<HHH", after, of_symbols) == (0, 1, 6)
    assert struct.unpack_from("<IHHI", after, needs + 16) == (OLD, 0, 5, place(b"GLIBC_2.2.5"))
    assert after[needs + 32 :] == before[needs + 32 :]
    assert elf.with_older_glibc(after, (2, 36)) == after


def test_with_a_glibc_that_is_new_enough_nothing_changes() -> None:
    assert elf.with_older_glibc(program(), (2, 38)) == program()


def test_another_new_symbol_cannot_be_had() -> None:
    with pytest.raises(elf.UnsuitableError, match="puts"):
        elf.with_older_glibc(program(b"puts"), (2, 36))


def test_a_library_without_an_older_version_cannot_be_had() -> None:
    with pytest.raises(elf.UnsuitableError, match="no older version"):
        elf.with_older_glibc(program(versions=1), (2, 36))


@given(st.binary())
def test_what_is_no_program(content: bytes) -> None:
    with pytest.raises(elf.UnsuitableError):
        elf.with_older_glibc(b"#!" + content, (2, 36))


def test_a_real_program_of_this_machine_needs_no_change() -> None:
    content = Path(sys.executable).resolve().read_bytes()
    if content[:6] != b"\x7fELF\x02\x01":
        pytest.skip("this Python is no 64-bit little-endian ELF file")

    assert elf.with_older_glibc(content, (99, 0)) == content
