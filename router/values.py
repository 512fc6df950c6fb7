"""Makes dataclasses that are frozen for mypy, but as cheap to create as others.

Pure. ``dataclass(frozen=True)`` also guards each field at run time, by writing it with ``object.__setattr__``. So a
value of 18 fields takes eight times as long to create (measured), and a review makes a hundred values. For these values
the type check is enough.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def unchanging(cls: type[T]) -> type[T]:
    """Make a class a dataclass with slots whose values are compared and hashed by their fields, and never changed."""
    return dataclass(slots=True, unsafe_hash=True)(cls)
