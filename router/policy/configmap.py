"""The policy files in a ConfigMap, and what a ConfigMap can hold.

Pure. The keys of a ConfigMap are read as the files of a directory are: ``kubectl create configmap NAME --from-file DIR``
and ``batchgate policy apply DIR`` give the same policy, with the same digest, as the directory itself.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import re
from collections.abc import Mapping
from typing import Any, Final

from router.errors import ConfigError, PolicyError, Problem

ENDINGS: Final = (".yaml", ".yml")
MOST_BYTES: Final = 1024 * 1024
"""Bytes of all values of a ConfigMap together (Kubernetes, ``core/validation``: MaxSecretSize)."""
_KEY: Final = re.compile(r"[-._a-zA-Z0-9]{1,253}")


def is_policy_file(name: str) -> bool:
    """Whether a file or key of this name is read as part of a policy."""
    return name.endswith(ENDINGS) and not name.startswith(".")


def decoded(data: bytes) -> str:
    """The text of a policy file, without a byte order mark. Raises ValueError with the line that is not UTF-8."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ValueError(f"line {line} is not UTF-8 (byte {data[error.start]:#04x}); save the file as UTF-8") from None


def texts_of(found: Mapping[str, Any], place: str) -> dict[str, str]:
    """The policy files of a ConfigMap: the texts of its keys ``*.yaml`` and ``*.yml``, by key, without hidden ones.

    :param place: of the ConfigMap, for messages
    :raises ConfigError: it holds no policy file; PolicyError with every key that is not UTF-8 text
    """
    texts: dict[str, str] = {}
    problems: list[Problem] = []
    for name, value in sorted(_values(found).items()):
        if not is_policy_file(name):
            continue
        try:
            texts[name] = decoded(value if isinstance(value, bytes) else value.encode("utf-8", "surrogatepass"))
        except ValueError as error:
            problems.append(Problem(name, 0, 0, "", str(error)))
    if problems:
        raise PolicyError(problems)
    if not texts:
        raise ConfigError(f"{place}: holds no policy file (a key *.yaml); see docs/policies.md for the least one")
    return texts


def _values(found: Mapping[str, Any]) -> dict[str, str | bytes]:
    """All values by key. kubectl puts files that are not UTF-8 into ``binaryData``; there every value is base64."""
    values: dict[str, str | bytes] = {str(key): str(text) for key, text in (found.get("data") or {}).items()}
    for key, text in (found.get("binaryData") or {}).items():
        with contextlib.suppress(binascii.Error):  # the API server refuses such a value
            values[str(key)] = base64.b64decode(str(text))
    return values


def demand_fits(texts: Mapping[str, str]) -> None:
    """Raise PolicyError with every file that a ConfigMap cannot hold, and if they are too large together."""
    problems = [
        Problem(name, 0, 0, "", "a key of a ConfigMap has letters, digits, '-', '_' and '.' only; rename the file")
        for name in sorted(texts)
        if not _KEY.fullmatch(name)
    ]
    size = sum(len(text.encode("utf-8", "surrogatepass")) for text in texts.values())
    if size > MOST_BYTES:
        words = f"{size} bytes together, but a ConfigMap holds {MOST_BYTES}; take out what no rule needs"
        problems.append(Problem("the files", 0, 0, "", words))
    if problems:
        raise PolicyError(problems)
