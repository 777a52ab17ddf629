"""Memory that tasks reuse, because fresh memory can cost more than the work done in it."""

import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

import numpy as np
from numpy.typing import DTypeLike, NDArray

_ALIGNED = 64  # bytes: a cache line
_NOTICED = 2**20  # bytes: returning what was freed takes milliseconds, which a small task would feel
_BLOCK = 2**25  # bytes: the most that glibc itself takes from memory that was freed
_MMAP_THRESHOLD = -3  # the number of this setting in malloc.h
_SLACK = 1.02  # so that a shard slightly larger than the last one needs no new memory


class _Slab:
    """The memory of one thread: handed out from the front, and all free again when the next task begins."""

    def __init__(self) -> None:
        self.memory = np.empty(0, np.uint8)
        self.taken = 0


_alone = threading.Lock()
_local = threading.local()
_slabs: WeakSet[_Slab] = WeakSet()  # a slab goes with its thread


def _slab() -> _Slab:
    """Return the slab of this thread."""
    if not hasattr(_local, "slab"):
        _local.slab = _Slab()
        _slabs.add(_local.slab)
    slab: _Slab = _local.slab
    return slab


def begin_task() -> None:
    """Take back all that this thread has borrowed."""
    slab = _slab()
    if slab.taken > _NOTICED:
        return_freed()
    if slab.taken > len(slab.memory):
        size = int(_SLACK * slab.taken)
        slab.memory = np.empty(0, np.uint8)  # release the old memory before the new is allocated
        slab.memory = np.empty(size, np.uint8)
    slab.taken = 0


def borrow(length: int, dtype: DTypeLike) -> NDArray[Any]:
    """Return an array with arbitrary contents, which belongs to this thread until its next task begins."""
    slab, wanted = _slab(), np.dtype(dtype)
    size = length * wanted.itemsize
    memory, start = slab.memory, slab.taken  # `end_tasks` of another thread may replace them at any moment
    stop = start + -(-size // _ALIGNED) * _ALIGNED
    slab.taken = stop
    if stop > len(memory):
        return np.empty(length, wanted)
    return memory[start : start + size].view(wanted)


def end_tasks() -> None:
    """Release the memory of all threads; borrowed arrays stay valid while they are referenced."""
    for slab in list(_slabs):
        slab.memory, slab.taken = np.empty(0, np.uint8), 0
    return_freed()


@contextmanager
def alone() -> Iterator[None]:
    """Let no other such block run in this process, and no thread keep memory for tasks to come."""
    with _alone:
        end_tasks()
        yield
        end_tasks()


def _of_glibc(name: str) -> Callable[..., object]:
    """Return a function of the C library, or one that does nothing if it has no such function."""
    try:
        found: Callable[..., object] = getattr(ctypes.CDLL(None), name)
    except (OSError, TypeError, AttributeError):  # glibc alone has it
        return lambda *_: None
    return found


def _keep_blocks() -> None:
    """Have arrays of up to 32 MB take memory that was freed before.

    glibc does so by itself, unless a trim threshold is set, as Dask does for its workers: then every array of 128 KB or
    more gets fresh memory from the system.
    """
    if "MALLOC_TRIM_THRESHOLD_" in os.environ and "MALLOC_MMAP_THRESHOLD_" not in os.environ:
        _of_glibc("mallopt")(_MMAP_THRESHOLD, _BLOCK)


_trim = _of_glibc("malloc_trim")
_keep_blocks()


def return_freed() -> None:
    """Give memory that was freed back to the system: glibc keeps up to 64 MB of it for every thread."""
    _trim(0)
