"""What a run may use."""

from __future__ import annotations

from dataclasses import dataclass

import dask

from dask_rac.base.errors import InputError
from dask_rac.base.text import quoted


@dataclass(frozen=True)
class Budget:
    """What a run may use."""

    memory: int
    """Bytes, in all processes together."""
    processes: int
    threads: int
    """Threads per process."""

    @property
    def process(self) -> int:
        """Bytes that one process may use."""
        return self.memory // self.processes


SHARE = 0.5  # of the available memory, by default


def memory_bytes(memory: str | float | None, default: int) -> int:
    """Return a budget in bytes."""
    if memory is None:
        return default
    try:
        size = int(dask.utils.parse_bytes(memory))
    except (ValueError, TypeError, AttributeError, OverflowError):
        size = 0
    if size <= 0 or isinstance(memory, bool):
        raise InputError(f"memory={quoted(memory)} is not an amount of memory: give bytes, or text such as '6GB'")
    return size
