"""New folders of edges in Parquet, which get their name when they are complete."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from fsspec.implementations.local import LocalFileSystem
from numpy.typing import NDArray

from dask_rac.config import EDGE_COLUMNS
from dask_rac.errors import InputError

GROUP_OVERHEAD = 16_384  # bytes, more than the headers and statistics of a row group


@dataclass(frozen=True)
class NewFolder:
    """A folder that is being written."""

    filesystem: Any
    path: str

    def write(self, file: str, groups: Iterable[Sequence[NDArray[Any]]]) -> None:
        """Write a file, a row group for each three columns; when the next are asked for, they may be written over."""
        writer: pq.ParquetWriter | None = None
        try:
            for columns in groups:
                table = _to_table(columns)
                writer = writer or pq.ParquetWriter(
                    f"{self.path}/{file}",
                    table.schema,
                    filesystem=self.filesystem,
                    compression="none",
                    use_dictionary=False,
                    write_page_checksum=True,
                )
                writer.write_table(table, row_group_size=len(table))
        finally:
            if writer is not None:
                writer.close()


def edges_size(edges: int, groups: int, ids: np.dtype[Any]) -> int:
    """Bytes on disk, at most, of so many edges in so many row groups."""
    return edges * (2 * ids.itemsize + 4) + groups * GROUP_OVERHEAD


@contextmanager
def new_folder(store: str | os.PathLike[str], size: int) -> Iterator[NewFolder]:
    """A folder for `size` bytes: named `store` when all went well, deleted when not, `store`.partial till then."""
    filesystem, path = _locate(store)
    partial = f"{path}.partial"
    try:
        _refuse_taken(filesystem, path, partial)
        if isinstance(filesystem, LocalFileSystem):
            _refuse_small(path, size)
        filesystem.makedirs(partial, exist_ok=False)
    except OSError as error:
        raise InputError(f"{store} cannot be written: {error}; give a folder that can be made") from error
    try:
        yield NewFolder(filesystem, partial)
    except BaseException:
        filesystem.rm(partial, recursive=True)
        raise
    _rename(filesystem, partial, path)


def _locate(store: str | os.PathLike[str]) -> tuple[Any, str]:
    """The file system and the path on it; links on a local one are followed."""
    name = os.fspath(store) if isinstance(store, str | os.PathLike) else None
    if not name or not isinstance(name, str):
        raise InputError(f"store={store!r} is no path: give the path or URL of a folder to be made")
    try:
        filesystem, path = fsspec.core.url_to_fs(name)
    except (ImportError, ValueError) as error:
        raise InputError(f"{name} cannot be opened: {error}") from error
    return filesystem, os.path.realpath(path) if isinstance(filesystem, LocalFileSystem) else path


def _refuse_taken(filesystem: Any, path: str, partial: str) -> None:
    """Raise if there is something at `path` that a new folder cannot replace, or somebody at work."""
    filesystem.invalidate_cache()
    if filesystem.exists(path):
        if not filesystem.isdir(path):
            raise InputError(f"{path} is a file: give the path of a folder to be made")
        if filesystem.ls(path, detail=False):
            raise InputError(f"{path} exists and is not empty: delete it or give another path")
        if isinstance(filesystem, LocalFileSystem) and (os.path.ismount(path) or Path(path).samefile(os.curdir)):
            raise InputError(f"{path} is mounted or the working folder, and cannot be replaced: give a folder in it")
    if filesystem.exists(partial):
        raise InputError(
            f"{partial} is left of a run that was killed, or of one at work: delete it or give another path"
        )


def _refuse_small(path: str, size: int) -> None:
    """Raise if the disk has no room for so many bytes."""
    present = next(folder for folder in Path(path).parents if folder.exists())
    free = shutil.disk_usage(present).free
    if size > free:
        raise InputError(
            f"{path} needs {size / 1e9:.1f} GB and {free / 1e9:.1f} GB are free: make room, give a path on another "
            "disk, or fewer nodes"
        )


def _rename(filesystem: Any, partial: str, path: str) -> None:
    """Give a folder its name: at once on a local disk, file by file on object stores."""
    try:
        if isinstance(filesystem, LocalFileSystem):
            os.replace(partial, path)
        else:
            if filesystem.exists(path):
                filesystem.rmdir(path)
            filesystem.mv(partial, path, recursive=True)
    except OSError as error:
        raise InputError(f"{partial} is complete but cannot be renamed: {error}; rename it") from error


def _to_table(columns: Sequence[NDArray[Any]]) -> pa.Table:
    """Three columns without nulls, not copied."""
    arrays = [pa.array(column) for column in columns]
    fields = [pa.field(name, array.type, nullable=False) for name, array in zip(EDGE_COLUMNS, arrays, strict=True)]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))
