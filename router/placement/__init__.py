"""Writes a decision into a copy of a Job (the routed copy), and removes all of it again.

Pure. Knows the fields of a ``batch/v1`` Job that a decision may change, but not how decisions are made. The functions
leave their arguments unchanged; copies share every unchanged part.
"""

from __future__ import annotations

from router.placement.change import Record
from router.placement.place import hand_over, place, with_signature
from router.placement.restore import Restored, is_routed, keep_reserved, replace_record, restore
from router.placement.size import (
    KUBERNETES_LIMIT,
    LARGEST_ANNOTATIONS,
    largest_field,
    largest_of_record,
    oversize,
    record_oversize,
)
from router.placement.strip import Stripped, Taken, strip
from router.placement.warn import Difference, differences, foreign_keys, goes_to_hpc

__all__ = [
    "KUBERNETES_LIMIT",
    "LARGEST_ANNOTATIONS",
    "Difference",
    "Record",
    "Restored",
    "Stripped",
    "Taken",
    "differences",
    "foreign_keys",
    "goes_to_hpc",
    "hand_over",
    "is_routed",
    "keep_reserved",
    "largest_field",
    "largest_of_record",
    "oversize",
    "place",
    "record_oversize",
    "replace_record",
    "restore",
    "strip",
    "with_signature",
]
