"""Formats log records, one line each, as JSON or as readable text.

Callers pass fields as ``extra={"fields": {...}}``. They never pass a body, a script, an environment value or a key.
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

# A value that can be written without quotes: at least one character; no space, quote, control character or `=`.
_PLAIN = re.compile(r"^[^\s\"'=\\\x00-\x1f\x7f-\x9f]+$")


# json.dumps would make a new encoder for every line.
_ENCODER: Final = json.JSONEncoder(default=str, separators=(",", ":"))


class JsonFormatter(logging.Formatter):
    """Formats a record as one JSON object: time, level, message, then the fields."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        return _ENCODER.encode(_values(self, record))


class TextFormatter(logging.Formatter):
    """Formats a record as ``time level message key=value …``; an ambiguous value is quoted as in JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        values = _values(self, record)
        head = f"{values.pop('time')} {values.pop('level'):<7} {_one_line(values.pop('message'))}"
        return " ".join([head, *(f"{name}={_text(value)}" for name, value in values.items() if value is not None)])


def configure(log_format: LogFormat) -> logging.Logger:
    """The project's logger, which writes complete lines to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format is LogFormat.JSON else TextFormatter())
    logger = logging.getLogger(LOGGER)
    logger.handlers = [handler]
    logger.setLevel(logging.INFO)
    logger.propagate = False
    # A line names no place in the code, thread or process. Without looking for them it takes a quarter less time
    # (docs.python.org/howto/logging.html, "Optimization").
    logging._srcfile = None  # noqa: SLF001 - but documented
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
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
