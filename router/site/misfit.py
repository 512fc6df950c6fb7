"""The error of laying out a Workload on a queue; it does not leave this room."""

from __future__ import annotations


class MisfitError(Exception):
    """Why a Workload does not fit. Its arguments: one clause with both figures, then the names of the figures."""
