"""Edges on disk: Parquet files and Zarr groups, read whole or in pieces."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from os import PathLike, fspath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dask_rac.base.errors import InputError, Where, plain_row, refuse_nulls
from dask_rac.base.names import NODES_KEY, PARQUET_ENDINGS, WEIGHTS_KEY
from dask_rac.base.settings import EDGE_COLUMNS
from dask_rac.edges.text import TEXT_ENDINGS
from dask_rac.files.listing import list_files
from dask_rac.files.ranges import opened
from dask_rac.files.stamps import listing_stamp, stamp
from dask_rac.files.urls import explained, is_local, locate

VECTOR_ENDINGS = (".npy", ".npz", ".fvecs", ".bvecs")
VECTORS = "vectors, build a graph from them first, with graph=dict(k=15) or knn_graph"
KNOWN = "the path of a Parquet file or folder, or of a Zarr group"
BATCH_ROWS = 1_000_000
FOOTERS = 16  # fetched at a time from an object store, and kept by each process


Columns = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class EdgeFile:
    """A Parquet file or a Zarr group of edges."""

    path: str
    rows: int
    groups: tuple[int, ...]
    """Rows of each unit of reading: a row group or a chunk."""
    weight: str
    """dtype of the weights."""
    stamp: str
    """Size and time of the file."""
    bytes: int
    largest_id: int | None = None
    """The largest id, where the file says so."""
    nodes: int | None = None
    """Number of nodes, if the file states it: some may have no edges."""
    kind: str | None = None
    """Whether weights are distances or similarities, if the file states it."""


@dataclass(frozen=True)
class Unit:
    """Consecutive groups of a file: what one task reads."""

    file: str
    first_group: int
    groups: int
    first_row: int
    rows: int

    @property
    def numbers(self) -> range:
        """Numbers of the groups."""
        return range(self.first_group, self.first_group + self.groups)


@dataclass(frozen=True)
class EdgeSource:
    """All files of one input."""

    name: str
    zarr: bool
    files: tuple[EdgeFile, ...]
    batch_rows: int = BATCH_ROWS
    """Rows that are decoded at a time."""

    @property
    def rows(self) -> int:
        """Rows in all files."""
        return sum(file.rows for file in self.files)

    @property
    def bytes(self) -> int:
        """Size on disk."""
        return sum(file.bytes for file in self.files)

    @property
    def weight_dtype(self) -> str:
        """The dtype that holds all weights: float32 only if they all are."""
        return "float32" if {file.weight for file in self.files} == {"float32"} else "float64"

    @property
    def largest_id(self) -> int | None:
        """The largest id, where all files say so."""
        largest = [-1 if not file.rows else file.largest_id for file in self.files]
        return None if None in largest else max(number for number in largest if number is not None)

    @property
    def nodes(self) -> int | None:
        """Number of nodes, if the files state it: some may have no edges."""
        return max((file.nodes for file in self.files if file.nodes is not None), default=None)

    @property
    def kind(self) -> str | None:
        """Whether weights are distances or similarities, if the files state it."""
        return next((file.kind for file in self.files if file.kind is not None), None)

    @property
    def fingerprint(self) -> str:
        """A digest that identifies these files: their names, sizes and times."""
        facts = [(file.path.removeprefix(self.files[0].path), file.rows, file.bytes, file.stamp) for file in self.files]
        return sha256(json.dumps(facts).encode()).hexdigest()

    def units(self, rows: int) -> list[Unit]:
        """Return the files in pieces of at most `rows` rows; a larger group stays whole."""
        units = []
        for file in self.files:
            first, row, count, taken = 0, 0, 0, 0
            for number, group in enumerate(file.groups):
                if taken and taken + group > rows:
                    units.append(Unit(file.path, first, count, row, taken))
                    first, row, count, taken = number, row + taken, 0, 0
                count, taken = count + 1, taken + group
            if taken:
                units.append(Unit(file.path, first, count, row, taken))
        return units

    def read(self, unit: Unit) -> Iterator[tuple[Columns, Where]]:
        """Yield the columns of a unit, some rows at a time, with a function that locates a row."""
        batches = self._batches(unit)
        while True:
            try:
                with explained(self.name, InputError):
                    row, columns = next(batches, (0, None))
            except (pa.ArrowException, OSError, ValueError) as error:
                if isinstance(error, InputError):
                    raise
                raise InputError(f"{unit.file} cannot be read: {error}; write it again") from error
            if columns is None:
                return

            def where(at: int, row: int = row) -> str:
                return f"row {row + at} of {unit.file}"

            yield _checked_columns(columns, where), where

    def reachable(self) -> bool:
        """Whether this process sees the first and the last file, or the Zarr group, unchanged since it was opened."""
        filesystem, root = locate(self.name)
        try:
            with explained(self.name, InputError):
                if self.zarr:
                    return listing_stamp(root, filesystem.find(root, detail=True)) == self.files[0].stamp
                infos = [filesystem.info(file.path) for file in (self.files[0], self.files[-1])]
        except (FileNotFoundError, NotADirectoryError):
            return False
        return [(stamp(info), int(info["size"])) for info in infos] == [
            (file.stamp, file.bytes) for file in (self.files[0], self.files[-1])
        ]

    def _batches(self, unit: Unit) -> Iterator[tuple[int, pa.RecordBatch | Columns]]:
        """Yield batches of a unit's rows, each with the number of its first row."""
        if self.zarr:
            yield from self._zarr_batches(unit)
            return
        filesystem, _ = locate(self.name)
        file = next(file for file in self.files if file.path == unit.file)
        row = unit.first_row
        with opened(filesystem, file.path, file.bytes) as handle:
            far = not is_local(filesystem)
            footer = _kept_footer(self.name, file) if far else None
            parquet = pq.ParquetFile(handle, metadata=footer, pre_buffer=far, page_checksum_verification=True)
            for groups in _bunches(file.groups, unit, self.batch_rows) if far else [unit.numbers]:
                for batch in parquet.iter_batches(
                    self.batch_rows, row_groups=list(groups), columns=list(EDGE_COLUMNS), use_threads=False
                ):
                    yield row, batch
                    row += len(batch)

    def _zarr_batches(self, unit: Unit) -> Iterator[tuple[int, Columns]]:
        """Yield batches of a unit of Zarr arrays; no chunk is read twice."""
        group = _open_zarr(unit.file)
        arrays = {name: group[name] for name in EDGE_COLUMNS}
        chunk = max(int(array.chunks[0]) for array in arrays.values())
        end, step = unit.first_row + unit.rows, max(chunk, self.batch_rows // chunk * chunk)
        for start in range(unit.first_row, end, step):
            columns = {name: np.asarray(array[start : min(start + step, end)]) for name, array in arrays.items()}
            for at in range(0, len(columns["weight"]), self.batch_rows):
                yield start + at, {name: column[at : at + self.batch_rows] for name, column in columns.items()}


def is_table(edges: object) -> bool:
    """Whether `edges` is an Arrow table."""
    return isinstance(edges, pa.Table)


def open_edges(path: str | PathLike[str], complete: bool = True) -> EdgeSource:
    """Open the Parquet files or Zarr group at a path and check the columns; `complete` refuses unfinished folders."""
    name = fspath(path)
    if not name:
        raise InputError(f"edges='' is not a path: give {KNOWN}")
    filesystem, root = locate(name)
    if name.endswith(TEXT_ENDINGS) and not filesystem.isdir(root):
        raise InputError(f"{name} is text, not Parquet: dask_rac.ingest({name!r}, 'edges') converts it")
    if name.endswith(VECTOR_ENDINGS):
        raise InputError(f"{name} holds no edges: if these are {VECTORS}")
    root, infos = list_files(name, f"give {KNOWN}", complete)
    if f"{root}/zarr.json" in infos or f"{root}/.zgroup" in infos:
        with explained(name, InputError):
            return EdgeSource(name, True, (_zarr_file(root if is_local(filesystem) else name, root, infos),))
    files = [root] if root in infos else sorted(file for file in infos if file.endswith(PARQUET_ENDINGS))
    if not files:
        raise InputError(
            f"{name} holds no Parquet files and is not a Zarr group: file names must end in "
            f"{', '.join(PARQUET_ENDINGS)}"
        )
    if is_local(filesystem):
        return EdgeSource(name, False, tuple(_parquet_file(name, file, infos[file]) for file in files))
    with ThreadPoolExecutor(FOOTERS) as pool:
        return EdgeSource(name, False, tuple(pool.map(lambda file: _parquet_file(name, file, infos[file]), files)))


def read_edges(source: EdgeSource) -> tuple[Columns, Where]:
    """Return all edge columns of a source, with a function that locates a row."""
    blocks = [columns for unit in source.units(BATCH_ROWS) for columns, _ in source.read(unit)]
    ends = np.cumsum([file.rows for file in source.files])

    def where(row: int) -> str:
        number = int(np.searchsorted(ends, row, side="right"))
        return f"row {row - (ends[number - 1] if number else 0)} of {source.files[number].path}"

    if not blocks:
        return {name: np.empty(0, np.int64) for name in EDGE_COLUMNS}, where
    return {name: np.concatenate([block[name] for block in blocks]) for name in EDGE_COLUMNS}, where


def table_edges(table: pa.Table) -> tuple[Columns, Where]:
    """Return the edge columns of an Arrow table, with a function that locates a row."""
    _check_schema(table.schema, "the table")
    return _checked_columns(table, plain_row), plain_row


@lru_cache(FOOTERS)
def _kept_footer(url: str, file: EdgeFile) -> pq.FileMetaData:
    """Return the footer of a file; each process reads it only once."""
    return pq.ParquetFile(opened(locate(url)[0], file.path, file.bytes)).metadata


def _bunches(rows: tuple[int, ...], unit: Unit, most: int) -> Iterator[list[int]]:
    """Yield the groups of a unit in bunches of a batch, `most` rows, so that each bunch is requested at once."""
    bunch: list[int] = []
    for number in unit.numbers:
        if bunch and sum(rows[k] for k in bunch) + rows[number] > most:
            yield bunch
            bunch = []
        bunch.append(number)
    yield bunch


def _parquet_file(url: str, path: str, info: dict[str, Any]) -> EdgeFile:
    """Return what the footer of a Parquet file states."""
    try:
        with explained(url, InputError), opened(locate(url)[0], path, int(info["size"])) as file:
            parquet = pq.ParquetFile(file)
            metadata, schema = parquet.metadata, parquet.schema_arrow
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(f"{path} cannot be read as Parquet: {error}") from error
    _check_schema(schema, f"file {path}")
    groups = tuple(metadata.row_group(number).num_rows for number in range(metadata.num_row_groups))
    kind = schema.field("weight").type
    weight = "float32" if pa.types.is_float32(kind) else "float64"
    stated_nodes = (schema.metadata or {}).get(NODES_KEY, b"")
    nodes = int(stated_nodes) if stated_nodes.isdigit() else None
    known = (schema.metadata or {}).get(WEIGHTS_KEY)
    facts = stamp(info), int(info["size"]), _top_id(metadata), nodes, None if known is None else known.decode()
    return EdgeFile(path, metadata.num_rows, groups, weight, *facts)


def _zarr_file(name: str, root: str, files: dict[str, Any]) -> EdgeFile:
    """Return what the metadata of a Zarr group states."""
    group = _open_zarr(name)
    names = sorted(group.array_keys())
    for column in EDGE_COLUMNS:
        if column not in names:
            raise InputError(
                f"{name} has no array {column!r}: it needs {', '.join(EDGE_COLUMNS)} and has {', '.join(names)}"
            )
        if group[column].ndim != 1 or group[column].dtype.kind not in "iuf":
            raise InputError(
                f"array {column!r} of {name} is {group[column].ndim}-dimensional {group[column].dtype}: store one "
                "dimension of numbers"
            )
    lengths = {column: group[column].shape[0] for column in EDGE_COLUMNS}
    if len(set(lengths.values())) > 1:
        raise InputError(f"the arrays of {name} must have equal lengths, not {lengths}")
    rows, chunk = lengths["source"], int((group["weight"].shards or group["weight"].chunks)[0])
    groups = tuple(min(chunk, rows - start) for start in range(0, rows, chunk))
    size = sum(int(info["size"] or 0) for info in files.values())
    return EdgeFile(name, rows, groups, str(group["weight"].dtype), listing_stamp(root, files), size)


def _top_id(metadata: pq.FileMetaData) -> int | None:
    """Return the largest id by the statistics of a file, if they are complete."""
    names = [metadata.schema.column(k).path for k in range(metadata.num_columns)]
    top = -1
    for group in range(metadata.num_row_groups):
        for name in EDGE_COLUMNS[:2]:
            statistics = metadata.row_group(group).column(names.index(name)).statistics
            if statistics is None or not statistics.has_min_max or not isinstance(statistics.max, int):
                return None
            top = max(top, statistics.max)
    return top


def _open_zarr(name: str) -> Any:
    """Open a Zarr group for reading."""
    try:
        import zarr  # noqa: PLC0415 - takes a third of a second, and most edges are Parquet

        return zarr.open_group(name, mode="r")
    except (FileNotFoundError, ValueError, TypeError) as error:
        raise InputError(f"{name} cannot be read as a Zarr group: {error}") from error


def _check_schema(schema: pa.Schema, what: str) -> None:
    """Raise unless the edge columns exist and are numeric."""
    for column in EDGE_COLUMNS:
        if column not in schema.names:
            raise InputError(
                f"{what} has no column {column!r}: it needs {', '.join(EDGE_COLUMNS)} and has {', '.join(schema.names)}"
            )
        if schema.names.count(column) > 1:
            raise InputError(f"{what} has {schema.names.count(column)} columns named {column!r}: keep one")
        kind = schema.field(column).type
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind)):
            raise InputError(f"column {column!r} of {what} is {kind}, not a number: cast it first")


def _checked_columns(table: pa.Table | pa.RecordBatch | Columns, where: Where) -> Columns:
    """Return columns as arrays; raise if there is a null."""
    if isinstance(table, dict):
        return table
    columns = {name: table.column(name) for name in EDGE_COLUMNS}
    for name, column in columns.items():
        if column.null_count:
            refuse_nulls(column.is_null().to_numpy(zero_copy_only=False), name, where)
    return {name: column.to_numpy(zero_copy_only=False) for name, column in columns.items()}
