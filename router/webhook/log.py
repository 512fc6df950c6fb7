"""Writes gunicorn's log lines in our format and stream (``router.startup.logs``)."""

from __future__ import annotations

import logging
from typing import Any

from gunicorn import glogging

from router.startup.logs import LOGGER


class GunicornLog(glogging.Logger):  # type: ignore[misc]  # gunicorn has no types
    """Gunicorn's logger, with our format and stream."""

    def setup(self, cfg: Any) -> None:
        """Send what gunicorn logs to the handlers of our logger."""
        super().setup(cfg)
        self.error_log.handlers = list(logging.getLogger(LOGGER).handlers)
