"""Pieces: edges or rows on their way to shards, in one file for many readers, each of which reads a range of it.

A piece is arrays back to back, and the crc32c of them all. It is one request, and goes straight into the arrays of its
reader. Nothing in the file tells where a piece begins, or what is in it: who wrote it passes that on. So it is no Zarr
array, in which a reader of a few hundred items would read a chunk of each column; and no step needs it once it counts.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.errors import DamagedStoreError
from dask_rac.files.buffers import AT_ONCE, REQUEST, checksum, read_buffers, write_buffers
from dask_rac.files.folder import Folder

CHECKSUM = 4  # bytes


def write_pieces(folder: Folder, name: str, pieces: Iterable[Sequence[NDArray[Any]]]) -> int:
    """Write pieces to a new file, one after the other; return its bytes."""
    parts: list[NDArray[Any]] = []
    for piece in pieces:
        parts += [array for array in piece if len(array)]
        parts.append(np.array([checksum_of(piece)], "<u4"))
    if folder.local:
        os.makedirs(os.path.dirname(folder.at(name)), exist_ok=True)
    write_buffers(folder, name, parts)
    return sum(part.nbytes for part in parts)


def read_piece(folder: Folder, name: str, offset: int, out: Sequence[NDArray[Any]]) -> None:
    """Read the piece that begins at this byte into arrays, and check it."""
    read_pieces(folder, name, offset, [out])


def read_pieces(folder: Folder, name: str, offset: int, pieces: Sequence[Sequence[NDArray[Any]]]) -> None:
    """Read successive pieces, the first of which begins at this byte, into arrays, and check them."""
    sums, path = np.empty((len(pieces), 1), "<u4"), folder.at(name)
    parts: list[NDArray[Any]] = []
    for piece, stored in zip(pieces, sums, strict=True):
        parts += [part for array in piece for part in _in_requests(array)]
        parts.append(stored)
    try:
        for batch in _batches(parts):
            wanted = sum(part.nbytes for part in batch)
            if read_buffers(folder, name, offset, batch) != wanted:
                raise DamagedStoreError(f"{path} is cut short")
            offset += wanted
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        raise DamagedStoreError(f"{path} is missing") from None
    if [checksum_of(piece) for piece in pieces] != sums[:, 0].tolist():
        raise DamagedStoreError(f"{path} is damaged: the checksum of a piece does not match")


def checksum_of(arrays: Sequence[NDArray[Any]]) -> int:
    """Return the crc32c of arrays back to back."""
    found = 0
    for array in arrays:
        if len(array):
            found = checksum(array, found)
    return found


def _in_requests(array: NDArray[Any]) -> list[NDArray[Any]]:
    """Cut an array into parts that one request may ask for."""
    items = max(1, REQUEST // array.itemsize)
    return [array[first : first + items] for first in range(0, len(array), items)]


def _batches(parts: Sequence[NDArray[Any]]) -> list[list[NDArray[Any]]]:
    """Gather parts that are read together."""
    batches: list[list[NDArray[Any]]] = []
    held = REQUEST
    for part in parts:
        if held + part.nbytes > REQUEST or len(batches[-1]) == AT_ONCE:
            batches.append([])
            held = 0
        batches[-1].append(part)
        held += part.nbytes
    return batches
