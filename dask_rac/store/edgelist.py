"""New folders of edges in Parquet, which get their name when they are complete."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dask_rac.config import EDGE_COLUMNS, size_text
from dask_rac.errors import InputError, ResourceError
from dask_rac.store.edges import INCOMPLETE, KIND, NODES
from dask_rac.store.files import UNFINISHED, Folder

GROUP_OVERHEAD = 16_384  # bytes, more than the headers and statistics of a row group


Metadata = dict[bytes | str, bytes | str] | None


@dataclass(frozen=True)
class NewFolder:
    """A folder that is being written."""

    folder: Folder
    nodes: int | None = None
    """How many there are, where edges may not tell."""
    weights: str | None = None
    """Whether they are distances or similarities, where that is known."""

    def write(self, file: str, groups: Iterable[Sequence[NDArray[Any]]]) -> None:
        """Write a file, a row group for each three columns; when the next are asked for, they may be written over."""
        if self.folder.local:
            _write_groups(self.folder.at(file + UNFINISHED), groups, self._metadata)
            os.replace(self.folder.at(file + UNFINISHED), self.folder.at(file))
        else:
            buffer = pa.BufferOutputStream()
            _write_groups(buffer, groups, self._metadata)
            self.folder.write(file, buffer.getvalue().to_pybytes())

    @property
    def _metadata(self) -> Metadata:
        """What files say beside their edges."""
        known = {NODES: self.nodes, KIND: self.weights}
        return {name: str(value).encode() for name, value in known.items() if value is not None} or None


def _write_groups(where: Any, groups: Iterable[Sequence[NDArray[Any]]], metadata: Metadata) -> None:
    """Write row groups as they come."""
    writer: pq.ParquetWriter | None = None
    try:
        for columns in groups:
            table = _to_table(columns, metadata)
            writer = writer or pq.ParquetWriter(
                where, table.schema, compression="none", use_dictionary=False, write_page_checksum=True
            )
            writer.write_table(table, row_group_size=max(1, len(table)))
    finally:
        if writer is not None:
            writer.close()


def row_groups(
    blocks: Iterable[Sequence[NDArray[Any]]], kinds: Sequence[np.dtype[Any]], size: int
) -> Iterator[Sequence[NDArray[Any]]]:
    """Edges in row groups of one size, each written over the one before."""
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
    """Bytes on disk, at most, of so many edges in so many row groups, with weights of so many bytes."""
    return edges * (2 * ids.itemsize + weight) + groups * GROUP_OVERHEAD


@contextmanager
def new_folder(store: str | os.PathLike[str], size: int) -> Iterator[NewFolder]:
    """A folder for `size` bytes, which is there when all went well, and deleted when not.

    On a local disk it is `store`.partial till then. To rename on an object store is to copy, so that there files get
    their names at once, and another one, `_incomplete`, says that more are to come.
    """
    target = _locate(store)
    with _new_local(target, size) if target.local else _new_remote(target) as folder:
        yield NewFolder(folder)


@contextmanager
def _new_local(target: Folder, size: int) -> Iterator[Folder]:
    """A folder beside `target`, renamed at the end."""
    partial = Folder(f"{target.path}.partial")
    try:
        _refuse_taken(target.path)
        if partial.exists():
            raise InputError(
                f"{partial.path} is left of a run that was killed, or of one at work: delete it or give another path"
            )
        _refuse_small(target.path, size)
        os.makedirs(partial.path)
    except OSError as error:
        raise InputError(f"{target.path} cannot be written: {error}; give a folder that can be made") from error
    try:
        yield partial
    except BaseException:
        partial.remove("")
        raise
    try:
        os.replace(partial.path, target.path)
    except OSError as error:
        raise InputError(f"{partial.path} is complete but cannot be renamed: {error}; rename it") from error


@contextmanager
def _new_remote(target: Folder) -> Iterator[Folder]:
    """A folder that says of itself that it is not complete, until the end."""
    if target.is_file():
        raise InputError(f"{target.url} is a file: give the path of a folder to be made")
    present = target.names()
    if INCOMPLETE in present or (not present and not target.create(INCOMPLETE, uuid.uuid4().bytes)):
        raise InputError(
            f"{target.url} is left of a run that was killed, or of one at work: delete it or give another path"
        )
    if present:
        raise InputError(f"{target.url} exists and is not empty: delete it or give another path")
    try:
        yield target
    except BaseException:
        target.remove("")
        raise
    target.remove(INCOMPLETE)


def _locate(store: str | os.PathLike[str]) -> Folder:
    """The folder to be made; links on a local disk are followed."""
    name = os.fspath(store) if isinstance(store, str | os.PathLike) else None
    if not name or not isinstance(name, str):
        raise InputError(f"store={store!r} is no path: give the path or URL of a folder to be made")
    folder = Folder(name)
    return Folder(os.path.realpath(folder.path)) if folder.local else folder


def refuse_taken_folder(target: Folder) -> None:
    """Raise if there is something that a new folder cannot replace; one that is not complete may be gone on with."""
    if target.local:
        _refuse_taken(target.path)
    elif target.is_file():
        raise InputError(f"{target.url} is a file: give the path of a folder to be made")
    elif (present := target.names()) and INCOMPLETE not in present:
        raise InputError(f"{target.url} exists and is not empty: delete it or give another path")


def _refuse_taken(path: str) -> None:
    """Raise if there is something at `path` that a new folder cannot replace."""
    if os.path.exists(path):
        if not os.path.isdir(path):
            raise InputError(f"{path} is a file: give the path of a folder to be made")
        if os.listdir(path):
            raise InputError(f"{path} exists and is not empty: delete it or give another path")
        if os.path.ismount(path) or Path(path).samefile(os.curdir):
            raise InputError(f"{path} is mounted or the working folder, and cannot be replaced: give a folder in it")


def _refuse_small(path: str, size: int) -> None:
    """Raise if the disk has no room for so many bytes."""
    present = next(folder for folder in Path(path).parents if folder.exists())
    free = shutil.disk_usage(present).free
    if size > free:
        raise ResourceError(
            f"{path} needs {size_text(size)} and {size_text(free)} are free: make room, give a path on another disk, "
            "or fewer nodes"
        )


def _to_table(columns: Sequence[NDArray[Any]], metadata: Metadata) -> pa.Table:
    """Three columns without nulls, not copied."""
    arrays = [pa.array(column) for column in columns]
    fields = [pa.field(name, array.type, nullable=False) for name, array in zip(EDGE_COLUMNS, arrays, strict=True)]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields, metadata=metadata))
