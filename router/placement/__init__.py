"""The routed copy of a Job: what Batchgate writes into it, and how all of that is taken out again.

Pure. Knows the fields of a ``batch/v1`` Job that a decision may change and nothing of how it came about. No function
changes what it is given; copies share every part that stays as it is.
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
