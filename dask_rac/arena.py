"""Memory that tasks use again: fresh memory costs more than the work done in it."""

import threading
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

_SLACK = 1.05  # so that a shard a little larger than the last one needs no new memory

_local = threading.local()
_arenas: list[dict[str, NDArray[Any]]] = []


def borrow(name: str, length: int, dtype: DTypeLike) -> NDArray[Any]:
    """An array that holds anything, this thread's until it borrows the same name again."""
    if not hasattr(_local, "buffers"):
        _local.buffers = {}
        _arenas.append(_local.buffers)
    wanted = np.dtype(dtype)
    size = length * wanted.itemsize
    buffers: dict[str, NDArray[Any]] = _local.buffers
    if name not in buffers or len(buffers[name]) < size:
        buffers.pop(name, None)
        buffers[name] = np.empty(int(size * _SLACK), np.uint8)
    return buffers[name][:size].view(wanted)


def release() -> None:
    """Give up the memory of all threads; what was borrowed stays valid where it is still held."""
    for buffers in _arenas:
        buffers.clear()
