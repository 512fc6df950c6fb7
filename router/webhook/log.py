"""Gunicorn's own log lines, in the format and the stream of ours (``router.startup.logs``)."""

from __future__ import annotations

import logging
from typing import Any

from gunicorn import glogging

from router.startup.logs import LOGGER


class GunicornLog(glogging.Logger):  # type: ignore[misc]  # gunicorn has no types
    """Gunicorn's own lines, in the same format and the same stream as ours."""

    def setup(self, cfg: Any) -> None:
        """Send what gunicorn logs to the handlers of our logger."""
        super().setup(cfg)
        self.error_log.handlers = list(logging.getLogger(LOGGER).handlers)
