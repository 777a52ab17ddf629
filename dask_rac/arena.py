"""Memory that tasks use again and again: fresh memory can cost more than the work done in it."""

import threading
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

_ALIGNED = 64  # bytes: a line of the cache
_SLACK = 1.02  # so that a shard a little larger than the last one needs no new memory


class _Slab:
    """One thread's memory: handed out from the front, all of it free again when the next task begins."""

    def __init__(self) -> None:
        self.memory = np.empty(0, np.uint8)
        self.taken = 0


_local = threading.local()
_slabs: list[_Slab] = []


def _slab() -> _Slab:
    """The slab of this thread."""
    if not hasattr(_local, "slab"):
        _local.slab = _Slab()
        _slabs.append(_local.slab)
    slab: _Slab = _local.slab
    return slab


def begin_task() -> None:
    """Take back all that this thread has borrowed."""
    slab = _slab()
    if slab.taken > len(slab.memory):
        size = int(_SLACK * slab.taken)
        slab.memory = np.empty(0, np.uint8)  # gone before the next comes
        slab.memory = np.empty(size, np.uint8)
    slab.taken = 0


def borrow(length: int, dtype: DTypeLike) -> NDArray[Any]:
    """An array that holds anything, this thread's until its next task begins."""
    slab, wanted = _slab(), np.dtype(dtype)
    size = length * wanted.itemsize
    start = slab.taken
    slab.taken += -(-size // _ALIGNED) * _ALIGNED
    if slab.taken > len(slab.memory):
        return np.empty(length, wanted)
    return slab.memory[start : start + size].view(wanted)


def end_tasks() -> None:
    """Give up the memory of all threads; what is borrowed stays valid as long as it is held."""
    for slab in _slabs:
        slab.memory, slab.taken = np.empty(0, np.uint8), 0
