"""The only place that knows Parquet and Arrow."""

from __future__ import annotations

from os import PathLike, fspath
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
from numpy.typing import NDArray

from dask_rac.config import EDGE_COLUMNS
from dask_rac.errors import InputError, Where, plain_row, refuse_nulls

PARQUET_ENDINGS = (".parquet", ".parq", ".pq")

Columns = dict[str, NDArray[Any]]


def is_table(edges: object) -> bool:
    """Whether `edges` is an Arrow table."""
    return isinstance(edges, pa.Table)


def read_edges(path: str | PathLike[str]) -> tuple[Columns, Where]:
    """The edge columns of a Parquet file or folder, and where each row is."""
    name = fspath(path)
    try:
        files, filesystem = _parquet_files(name)
        parts = [ds.dataset(file, format="parquet", filesystem=filesystem) for file in files]
        for part, file in zip(parts, files, strict=True):
            _check_schema(part.schema, f"file {file}")
        tables = [part.to_table(columns=list(EDGE_COLUMNS)) for part in parts]
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(f"{name} cannot be read as Parquet: {error}") from error
    ends = np.cumsum([len(table) for table in tables])

    def where(row: int) -> str:
        part = int(np.searchsorted(ends, row, side="right"))
        return f"row {row - (ends[part - 1] if part else 0)} of {files[part]}"

    return _to_columns(pa.concat_tables(tables, promote_options="permissive"), where), where


def table_edges(table: pa.Table) -> tuple[Columns, Where]:
    """The edge columns of an Arrow table, and where each row is."""
    _check_schema(table.schema, "the table")
    return _to_columns(table, plain_row), plain_row


def _parquet_files(name: str) -> tuple[list[str], Any]:
    """The Parquet files at `name`, sorted, with their file system."""
    if not name:
        raise InputError("edges='' is no path: give the path of a Parquet file or folder")
    try:
        filesystem, path = fsspec.core.url_to_fs(name)
    except (ImportError, ValueError) as error:
        raise InputError(f"{name} cannot be opened: {error}") from error
    if not filesystem.exists(path):
        raise InputError(f"{name} does not exist: give the path of a Parquet file or folder")
    if not filesystem.isdir(path):
        return [path], filesystem
    files = sorted(file for file in filesystem.find(path) if file.endswith(PARQUET_ENDINGS))
    if not files:
        raise InputError(f"{name} holds no Parquet file: names must end in {', '.join(PARQUET_ENDINGS)}")
    return files, filesystem


def _check_schema(schema: pa.Schema, what: str) -> None:
    """Raise unless the edge columns are there, as numbers."""
    for column in EDGE_COLUMNS:
        if column not in schema.names:
            raise InputError(
                f"{what} has no column {column!r}: it needs {', '.join(EDGE_COLUMNS)} and has {', '.join(schema.names)}"
            )
        if schema.names.count(column) > 1:
            raise InputError(f"{what} has {schema.names.count(column)} columns {column!r}: keep one")
        kind = schema.field(column).type
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind)):
            raise InputError(f"column {column!r} of {what} is {kind}, not a number: cast it first")


def _to_columns(table: pa.Table, where: Where) -> Columns:
    """Arrow columns as arrays; a null is an error."""
    for name in EDGE_COLUMNS:
        column = table.column(name)
        if column.null_count:
            refuse_nulls(column.is_null().to_numpy(), name, where)
    return {name: table.column(name).to_numpy() for name in EDGE_COLUMNS}
