"""Reads and writes files of certificates and keys.

Shell: only this module of ``certs`` writes files. Its files appear whole, and only their owner can read them.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from router.errors import ConfigError


def read(path: Path, what: str) -> bytes:
    """The bytes of a file. Raises a ConfigError of one line that says what the file must hold."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise ConfigError(f"{path} does not exist; it must hold {what}") from None
    except IsADirectoryError:
        raise ConfigError(f"{path} is a directory; name the file that holds {what}") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror}); it must hold {what}") from None


def present(directory: Path, names: Mapping[str, bytes]) -> list[str]:
    """The names of those files that exist already."""
    return [name for name in names if os.path.lexists(directory / name)]


def write_all(directory: Path, files: Mapping[str, bytes]) -> None:
    """Write files of mode 0600 into a directory (made with mode 0700), either all of them or, after an error, none.

    Each is written under a temporary name and renamed, so that a webhook which watches the directory never reads half
    a key. The renames come last, one after another. Between two of them certificate and key may not fit; the webhook
    then keeps the old pair until they do.

    :raises ConfigError: the directory or a file cannot be written
    """
    written: dict[Path, Path] = {}
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name, data in files.items():
            written[_written(directory, name, data)] = directory / name
        for temporary, final in written.items():
            temporary.replace(final)
    except OSError as error:
        for temporary in written:
            with contextlib.suppress(OSError):
                temporary.unlink()
        raise ConfigError(f"cannot write into {directory}: {error.strerror}") from None


def _written(directory: Path, name: str, data: bytes) -> Path:
    descriptor, path = tempfile.mkstemp(prefix=f".{name}.", dir=directory)  # mode 0600
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(descriptor)
    except OSError:
        Path(path).unlink(missing_ok=True)
        raise
    return Path(path)
