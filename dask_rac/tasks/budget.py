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
    alone_memory: int = 0
    """Bytes that a process may use while the others are idle; 0 for its share."""
    alone_threads: int = 0
    """Threads that it may use then; 0 for its own."""

    @property
    def process(self) -> int:
        """Bytes that one process may use."""
        return self.memory // self.processes

    @property
    def most_threads(self) -> int:
        """Threads of a task that runs alone."""
        return max(self.threads, self.alone_threads)

    def evened(self, tasks: int) -> int:
        """Return at least so many tasks that none runs while other threads have nothing more to do.

        Fewer tasks than threads stay as they are, as they are small; and so do many for each thread, where one more
        hardly shows.
        """
        width = self.processes * self.threads
        return -(-tasks // width) * width if width <= tasks <= MOST_EVENED * width else tasks


MOST_EVENED = 8  # tasks for each thread
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
