"""What descriptors and documents share: chance that is the same on every machine, and where they are written.

Rows are made in blocks, each from nothing but the seed and its number. So that every machine gets the same, chance is
the raw output of Philox, sums are of whole numbers that their type holds exactly, whatever their order, and beyond
these there are only operations that IEEE 754 rounds correctly: no logarithm, no power, no sum that its order changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from os import PathLike, fspath
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.errors import InputError
from dask_rac.base.events import Event, Listener
from dask_rac.files.folder import Folder
from dask_rac.files.full import refuse_small_disk

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]
Halves = NDArray[np.uint16]
Whole = NDArray[np.int64]
Block = TypeVar("Block")


MOST_NODES = 2**62
FEWER_NODES = "make room, choose a path on another disk, or use fewer nodes"


def checked_store(store: str | PathLike[str], endings: tuple[str, ...]) -> str:
    """Return the path of a new file, if its extension is known."""
    path = fspath(store) if isinstance(store, str | PathLike) else None
    if not path or not isinstance(path, str):
        raise InputError(f"store={store!r} is not a path: give the path or URL of a file to create")
    if not path.endswith(endings):
        raise InputError(f"store={path!r} has an unknown extension: use {' or '.join(endings)}")
    return path


def check_room(path: str, size: int) -> None:
    """Raise if the disk has no space for the given number of bytes."""
    refuse_small_disk(Folder(path), size, FEWER_NODES)


def reported(blocks: Iterable[Block], nodes: int, rows: int, report: Listener) -> Iterator[Block]:
    """Yield blocks of `rows` rows, and report each that has been written."""
    total = -(-nodes // rows)
    for done, block in enumerate(blocks, 1):
        yield block
        report(Event("generate", done=done, total=total))


class Stream:
    """Random bits that are the same on every machine."""

    def __init__(self, seed: int, *block: int) -> None:
        self._raw = np.random.Philox(np.random.SeedSequence(seed, spawn_key=block))

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return numbers of 64 bits."""
        return np.asarray(self._raw.random_raw(count), np.dtype("<u8"))

    def halves(self, rows: int, columns: int) -> Halves:
        """Return numbers of 16 bits."""
        return self.words(-(-rows * columns // 4)).view("<u2")[: rows * columns].reshape(rows, columns)

    def bytes(self, rows: int, columns: int) -> Bytes:
        """Return numbers of 8 bits."""
        return self.words(-(-rows * columns // 8)).view(np.uint8)[: rows * columns].reshape(rows, columns)

    def bells(self, rows: int, columns: int) -> NDArray[np.int32]:
        """Return nearly normal numbers from -510 to 510, with a standard deviation of 148."""
        four = self.bytes(rows * columns, 4).astype(np.int32)
        return (four[:, 0] + four[:, 1] + four[:, 2] + four[:, 3] - 510).reshape(rows, columns)


def picked(first: Halves, second: Halves, count: int) -> Whole:
    """Return numbers below `count`, small ones more often."""
    both = first.astype(np.uint64) * second
    return ((both * np.uint64(count)) >> np.uint64(32)).astype(np.int64)


def sources(copied: NDArray[np.bool], draw: Halves) -> Whole:
    """Return for each row the row it is a copy of: an earlier row that is not a copy, or the row itself."""
    rows = np.arange(len(copied))
    original = np.maximum.accumulate(np.where(copied, 0, rows))  # row 0 is never a copy
    return np.where(copied, original[(draw * rows) >> 16], rows)
