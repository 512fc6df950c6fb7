"""Values: dataclasses that are frozen for mypy, and as cheap to make as those that are not.

``dataclass(frozen=True)`` also guards each field while the program runs, for which it writes it by
``object.__setattr__``: a value of 18 fields takes eight times as long to make (measured), and a review makes a hundred
values. For these the check of types is guard enough. Knows nothing of what the values are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def unchanging(cls: type[T]) -> type[T]:
    """Make a class a dataclass with slots whose values are compared and hashed by their fields, and never changed."""
    return dataclass(slots=True, unsafe_hash=True)(cls)
