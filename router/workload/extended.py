"""What a Pod asks for beside cores, memory and storage. Pure data."""

from __future__ import annotations

from router.values import unchanging


@unchanging
class Extended:
    """A resource of a Pod beside cores, memory, storage: an extended resource, huge pages, or GPUs.

    :param amount: of the Pod, in whole units (bytes for huge pages)
    :param fields: paths of the fields that ask for it, each with a clause about where it comes from, or nothing
    """

    name: str
    amount: int
    fields: tuple[tuple[str, str], ...]
    is_gpu: bool = False
