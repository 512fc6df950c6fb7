"""Log lines: one a record, as JSON or as text that a person can read.

Fields are given as ``extra={"fields": {...}}``. No line holds a body, a script, an environment value or a key:
nothing here or in its callers is given one.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from datetime import UTC, datetime
from typing import Any, Final

from router.startup.settings import LogFormat

LOGGER: Final = "batchgate"

# A value that needs no quotes: no space, quote, control character or `=`, and not empty.
_PLAIN = re.compile(r"^[^\s\"'=\\\x00-\x1f\x7f-\x9f]+$")


# json.dumps would make one anew for every line.
_ENCODER: Final = json.JSONEncoder(default=str, separators=(",", ":"))


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, message, then the fields."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        return _ENCODER.encode(_values(self, record))


class TextFormatter(logging.Formatter):
    """``time level message key=value …``; a value that could be misread stands in quotes, as JSON writes it."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        values = _values(self, record)
        head = f"{values.pop('time')} {values.pop('level'):<7} {_one_line(values.pop('message'))}"
        return " ".join([head, *(f"{name}={_text(value)}" for name, value in values.items() if value is not None)])


def configure(log_format: LogFormat) -> logging.Logger:
    """Our logger, writing complete lines to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format is LogFormat.JSON else TextFormatter())
    logger = logging.getLogger(LOGGER)
    logger.handlers = [handler]
    logger.setLevel(logging.INFO)
    logger.propagate = False
    return logger


def _values(formatter: logging.Formatter, record: logging.LogRecord) -> dict[str, Any]:
    moment = datetime.fromtimestamp(record.created, UTC)
    values = {
        "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "level": record.levelname.lower(),
        "message": record.getMessage(),
        **getattr(record, "fields", {}),
    }
    if record.exc_info:
        values["traceback"] = formatter.formatException(record.exc_info)
    return values


def _text(value: object) -> str:
    if isinstance(value, str) and _PLAIN.fullmatch(value):
        return value
    return json.dumps(value, default=str)


def _one_line(message: str) -> str:
    return message if message.isprintable() else json.dumps(message)
