"""Reads that do not depend on each other: from an object store, which takes its time to answer, several at a time.

What is asked for at a time takes memory until it is where it belongs, so a task says how much it has room for. A read
that takes more is made alone. From a disk, reads are made one after the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from threading import Condition
from typing import Any

from numpy.typing import NDArray

from dask_rac.files.arrays import read_array
from dask_rac.files.buffers import REQUEST
from dask_rac.files.folder import Folder
from dask_rac.files.pieces import read_pieces

READERS = 8  # at a time


@dataclass(frozen=True)
class Read:
    """A read, which puts what it reads where it belongs."""

    size: int
    """Bytes that it takes meanwhile, at most."""
    make: Callable[[], object]


def array_read(folder: Folder, name: str, span: tuple[int, int] | None, out: NDArray[Any]) -> Read:
    """Return what reads a range of an array into `out`, or all of it, as much at a time as a request may ask for."""
    first, stop = span or (0, None)
    return Read(min(out.nbytes, REQUEST), lambda: read_array(folder, name, first, stop, out))


def pieces_read(folder: Folder, name: str, offset: int, pieces: Sequence[Sequence[NDArray[Any]]]) -> Read:
    """Return what reads successive pieces into arrays."""
    size = sum(array.nbytes for piece in pieces for array in piece)
    return Read(min(size, REQUEST), lambda: read_pieces(folder, name, offset, pieces))


def read_all(folder: Folder, reads: Sequence[Read], room: float = math.inf) -> None:
    """Make all reads, as many at a time as take no more than `room` bytes."""
    if folder.local:
        for read in reads:
            read.make()
        return
    held: list[int] = []
    changed = Condition()

    def make(read: Read) -> None:
        with changed:
            changed.wait_for(lambda: not held or sum(held) + read.size <= room)
            held.append(read.size)
        try:
            read.make()
        finally:
            with changed:
                held.remove(read.size)
                changed.notify_all()

    with ThreadPoolExecutor(READERS) as threads:
        made = [threads.submit(make, read) for read in reads]
        wait(made, return_when=FIRST_EXCEPTION)
        for one in made:
            one.cancel()  # none is left unless one has failed
        for one in made:
            if not one.cancelled():
                one.result()
