"""New folders of edges in Parquet, which receive their name once they are complete."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dask_rac.base.errors import InputError
from dask_rac.base.names import NODES_KEY, WEIGHTS_KEY
from dask_rac.base.settings import EDGE_COLUMNS
from dask_rac.files.folder import Folder
from dask_rac.files.full import refuse_small_disk
from dask_rac.files.output import refuse_left_over, refuse_taken_folder, writable, written_whole

GROUP_EDGES = 2**20  # edges per row group
FILE_GROUPS = 4  # row groups per file
GROUP_OVERHEAD = 16_384  # bytes, more than the headers and statistics of a row group
ANOTHER_DISK = "make room, or choose a path on another disk"


Metadata = dict[bytes | str, bytes | str] | None


@dataclass(frozen=True)
class FileSizes:
    """How edges are cut into files, which readers do not notice; tests hand over smaller ones."""

    group_edges: int = GROUP_EDGES
    """Edges per row group."""
    file_groups: int = FILE_GROUPS
    """Row groups per file."""
    text_bytes: int = 2**26
    """Bytes of names and edges that are numbered at a time, where ids are text."""


@dataclass(frozen=True)
class NewFolder:
    """A folder that is being written."""

    folder: Folder
    nodes: int | None = None
    """Number of nodes, if it cannot be inferred from the edges."""
    weights: str | None = None
    """Whether weights are distances or similarities, if known."""

    def write(self, file: str, groups: Iterable[Sequence[NDArray[Any]]]) -> int:
        """Write a file, one row group per three columns, and return the number of edges.

        `groups` may reuse their arrays for the next three.
        """
        if self.folder.local:
            with self.folder.new_file(file) as path:
                edges = _write_groups(path, groups, self._metadata)
        else:
            buffer = pa.BufferOutputStream()
            edges = _write_groups(buffer, groups, self._metadata)
            self.folder.write(file, buffer.getvalue().to_pybytes())
        return edges

    @property
    def _metadata(self) -> Metadata:
        """What files state besides their edges."""
        known = {NODES_KEY: self.nodes, WEIGHTS_KEY: self.weights}
        return {name: str(value).encode() for name, value in known.items() if value is not None} or None


def _write_groups(where: Any, groups: Iterable[Sequence[NDArray[Any]]], metadata: Metadata) -> int:
    """Write row groups as they arrive, and return the number of edges."""
    writer: pq.ParquetWriter | None = None
    edges = 0
    try:
        for columns in groups:
            table = _to_table(columns, metadata)
            writer = writer or pq.ParquetWriter(
                where, table.schema, compression="none", use_dictionary=False, write_page_checksum=True
            )
            writer.write_table(table, row_group_size=max(1, len(table)))
            edges += len(table)
    finally:
        if writer is not None:
            writer.close()
    return edges


def row_groups(
    blocks: Iterable[Sequence[NDArray[Any]]], kinds: Sequence[np.dtype[Any]], size: int
) -> Iterator[Sequence[NDArray[Any]]]:
    """Yield edges in row groups of equal size; each reuses the arrays of the one before."""
    room = [np.empty(size, kind) for kind in kinds]
    filled = 0
    for block in blocks:
        start, stop = 0, len(block[0])
        while start < stop:
            taken = min(size - filled, stop - start)
            for whole, part in zip(room, block, strict=True):
                whole[filled : filled + taken] = part[start : start + taken]
            start, filled = start + taken, filled + taken
            if filled == size:
                yield room
                filled = 0
    if filled:
        yield [column[:filled] for column in room]


def edges_size(edges: int, groups: int, ids: np.dtype[Any], weight: int = 4) -> int:
    """Return the most bytes that edges take on disk; `weight` is the size of one weight."""
    return edges * (2 * ids.itemsize + weight) + groups * GROUP_OVERHEAD


@contextmanager
def new_folder(store: str | os.PathLike[str], size: int, remedy: str = ANOTHER_DISK) -> Iterator[NewFolder]:
    """Yield a folder for `size` bytes, which is kept if the block succeeds and deleted if it fails."""
    target = _locate(store)
    refuse_left_over(target)
    with writable(target.url, "folder"):
        refuse_taken_folder(target)
        refuse_small_disk(target, size, remedy)
    with writable(target.url, "folder"), written_whole(target) as folder:
        yield NewFolder(folder)


def _locate(store: str | os.PathLike[str]) -> Folder:
    """Return the folder to create; links on a local disk are followed."""
    name = os.fspath(store) if isinstance(store, str | os.PathLike) else None
    if not name or not isinstance(name, str):
        raise InputError(f"store={store!r} is not a path: give the path or URL of a new folder")
    folder = Folder(name)
    return Folder(os.path.realpath(folder.path)) if folder.local else folder


def _to_table(columns: Sequence[NDArray[Any]], metadata: Metadata) -> pa.Table:
    """Return a table of three columns without nulls, without copying."""
    arrays = [pa.array(column) for column in columns]
    fields = [pa.field(name, array.type, nullable=False) for name, array in zip(EDGE_COLUMNS, arrays, strict=True)]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields, metadata=metadata))
