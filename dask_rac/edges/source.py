"""Edges on disk: Parquet files and Zarr groups, read whole or in pieces."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache, partial
from hashlib import sha256
from os import PathLike, fspath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dask_rac.base.errors import InputError, Where, plain_row, refuse_nulls
from dask_rac.base.names import NAMES_RECORD, NODES_KEY, PARQUET_ENDINGS, WEIGHTS_KEY
from dask_rac.base.settings import EDGE_COLUMNS
from dask_rac.base.text import listed
from dask_rac.edges.numbering import ENDS, as_text, is_text
from dask_rac.edges.records import check_record
from dask_rac.edges.text import TEXT_ENDINGS
from dask_rac.edges.units import EdgeFile, Unit
from dask_rac.files.listing import find_files, list_files
from dask_rac.files.parquet_input import checked_groups
from dask_rac.files.patience import asked
from dask_rac.files.ranges import opened
from dask_rac.files.reading import readable
from dask_rac.files.stamps import listing_stamp, stamp
from dask_rac.files.urls import is_local, locate

VECTOR_ENDINGS = (".npy", ".npz", ".fvecs", ".bvecs")
VECTORS = "vectors, build a graph from them first, with graph=dict(k=15) or knn_graph"
KNOWN = "the path of a Parquet file or folder, or of a Zarr group"
BATCH_ROWS = 1_000_000
FOOTERS = 16  # fetched at a time from an object store, and kept by each process
BUFFER = 2**18  # bytes of a column that are read at a time from a local file
FAR_BUFFER = 2**22  # the same of a row group on an object store that is too large to be fetched at once


Columns = dict[str, Any]
"""Arrays of numpy; ids that are text are Arrow arrays of large strings."""


@dataclass(frozen=True)
class EdgeSource:
    """All files of one input."""

    name: str
    zarr: bool
    files: tuple[EdgeFile, ...]
    batch_rows: int = BATCH_ROWS
    """Rows that are decoded at a time."""
    named: bool = False
    """Whether the names of the nodes are beside the files."""

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
    def text(self) -> bool:
        """Whether ids are text; then they have to be numbered before anything else."""
        return any(file.text for file in self.files if file.rows)

    @property
    def whole_rows(self) -> int:
        """Rows that can only be decoded together."""
        return max((file.whole_rows for file in self.files), default=0)

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
        batches, end = self._batches(unit), unit.first_row
        while True:
            with readable(unit.file, url=self.name):
                row, columns = next(batches, (0, None))
                if columns is not None:
                    columns = _checked_columns(columns, partial(_located, unit.file, row))
            if columns is None:
                pa.default_memory_pool().release_unused()
                break
            end = row + len(columns["weight"])
            yield columns, partial(_located, unit.file, row)
        if end != unit.first_row + unit.rows:
            raise InputError(
                f"{unit.file} ends at row {end}, before row {unit.first_row + unit.rows}, which its metadata states: "
                "write it again"
            )

    def reachable(self) -> bool:
        """Whether this process sees the first and the last file, or the Zarr group, unchanged since it was opened."""
        filesystem, root = locate(self.name)
        try:
            if self.zarr:
                found = asked(self.name, InputError, find_files, filesystem, root)
                return listing_stamp(root, found) == self.files[0].stamp
            ends = self.files[0], self.files[-1]
            infos = [asked(self.name, InputError, filesystem.info, file.path) for file in ends]
        except (FileNotFoundError, NotADirectoryError):
            return False
        return [(stamp(info), int(info["size"])) for info in infos] == [(file.stamp, file.bytes) for file in ends]

    def _batches(self, unit: Unit) -> Iterator[tuple[int, pa.RecordBatch | Columns]]:
        """Yield batches of a unit's rows, each with the number of its first row."""
        file = next(file for file in self.files if file.path == unit.file)
        if self.zarr:
            from dask_rac.edges.zarr_groups import zarr_batches  # noqa: PLC0415 - as below

            yield from zarr_batches(file, unit, self.batch_rows)
            return
        filesystem, _ = locate(self.name)
        row = unit.first_row
        with opened(filesystem, file.path, file.bytes) as handle:
            far = not is_local(filesystem)
            footer = _kept_footer(self.name, file) if far else None
            for groups in _bunches(file.groups, unit, self.batch_rows) if far else [list(unit.numbers)]:
                at_once = far and sum(file.groups[number] for number in groups) <= self.batch_rows
                # Without a buffer Arrow holds all columns of a row group as they are in the file, however large it is.
                buffer = 0 if at_once else FAR_BUFFER if far else BUFFER
                parquet = pq.ParquetFile(
                    handle, metadata=footer, pre_buffer=at_once, buffer_size=buffer, page_checksum_verification=True
                )
                for batch in parquet.iter_batches(
                    self.batch_rows, row_groups=groups, columns=list(EDGE_COLUMNS), use_threads=False
                ):
                    yield row, batch
                    row += len(batch)


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
        from dask_rac.edges.zarr_groups import zarr_file  # noqa: PLC0415 - takes a third of a second, mostly for nothing

        return EdgeSource(name, True, (zarr_file(root if is_local(filesystem) else name, root, infos),))
    files = [root] if root in infos else sorted(file for file in infos if file.endswith(PARQUET_ENDINGS))
    if not files:
        raise InputError(
            f"{name} holds no Parquet files and is not a Zarr group: file names must end in "
            f"{', '.join(PARQUET_ENDINGS)}"
        )
    if is_local(filesystem):
        found = tuple(_parquet_file(name, file, infos[file]) for file in files)
    else:
        with ThreadPoolExecutor(FOOTERS) as pool:
            found = tuple(pool.map(lambda file: _parquet_file(name, file, infos[file]), files))
    check_record(name, root, {file.path: file.rows for file in found}, infos)
    _refuse_mixture(found)
    return EdgeSource(name, False, found, named=f"{root}/{NAMES_RECORD}" in infos)


def read_edges(source: EdgeSource) -> tuple[Columns, Where]:
    """Return all edge columns of a source, with a function that locates a row."""
    blocks = [columns for unit in source.units(BATCH_ROWS) for columns, _ in source.read(unit)]
    ends = np.cumsum([file.rows for file in source.files])

    def where(row: int) -> str:
        number = int(np.searchsorted(ends, row, side="right"))
        return f"row {row - (ends[number - 1] if number else 0)} of {source.files[number].path}"

    if not blocks:
        return {name: np.empty(0, np.int64) for name in EDGE_COLUMNS}, where
    join = {name: pa.concat_arrays if source.text and name in ENDS else np.concatenate for name in EDGE_COLUMNS}
    return {name: join[name]([block[name] for block in blocks]) for name in EDGE_COLUMNS}, where


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
    with readable(path, "Parquet", url), opened(locate(url)[0], path, int(info["size"])) as file:
        parquet = pq.ParquetFile(file)
        metadata, schema = parquet.metadata, parquet.schema_arrow
        groups = checked_groups(metadata, path)
        text = _check_schema(schema, f"file {path}")
        largest_id = None if text else _top_id(metadata)
    kind = schema.field("weight").type
    weight = "float32" if pa.types.is_float32(kind) else "float64"
    stated_nodes = (schema.metadata or {}).get(NODES_KEY, b"")
    nodes = int(stated_nodes) if stated_nodes.isdigit() else None
    known = (schema.metadata or {}).get(WEIGHTS_KEY)
    facts = stamp(info), int(info["size"]), largest_id, nodes, None if known is None else known.decode(errors="replace")
    return EdgeFile(path, metadata.num_rows, groups, weight, *facts, text=text)


def _refuse_mixture(files: tuple[EdgeFile, ...]) -> None:
    """Raise if the ids of some files are text and those of others are numbers."""
    filled = [file for file in files if file.rows]
    texts = [file.path for file in filled if file.text]
    numbers = [file.path for file in filled if not file.text]
    if texts and numbers:
        raise InputError(
            f"the ids in {texts[0]} are text and those in {numbers[0]} are numbers: write all as text, or all as whole "
            "numbers 0, 1, 2, ..."
        )


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


def _check_schema(schema: pa.Schema, what: str) -> bool:
    """Raise unless the edge columns exist, and are numeric or names of nodes; return whether they are names."""
    texts = []
    for column in EDGE_COLUMNS:
        if column not in schema.names:
            raise InputError(
                f"{what} has no column {column!r}: it needs {', '.join(EDGE_COLUMNS)} and has {listed(schema.names)}"
            )
        if schema.names.count(column) > 1:
            raise InputError(f"{what} has {schema.names.count(column)} columns named {column!r}: keep one")
        kind = schema.field(column).type
        if column in ENDS and is_text(kind):
            texts.append(column)
        elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind)):
            raise InputError(f"column {column!r} of {what} is {kind}, not a number: cast it first")
    if len(texts) == 1:
        other = next(name for name in ENDS if name not in texts)
        raise InputError(
            f"column {texts[0]!r} of {what} is text and column {other!r} is {schema.field(other).type}: write both as "
            "text, or both as whole numbers 0, 1, 2, ..."
        )
    return bool(texts)


def _located(file: str, first: int, row: int) -> str:
    """Name a row, counted from row `first` of a file."""
    return f"row {first + row} of {file}"


def _checked_columns(table: pa.Table | pa.RecordBatch | Columns, where: Where) -> Columns:
    """Return columns as arrays; raise if there is a null."""
    if isinstance(table, dict):
        return table
    columns = {name: table.column(name) for name in EDGE_COLUMNS}
    found: Columns = {}
    for name, column in columns.items():
        if column.null_count:
            refuse_nulls(column.is_null().to_numpy(zero_copy_only=False), name, where)
        text = as_text(column, name, where) if name in ENDS else None
        found[name] = column.to_numpy(zero_copy_only=False) if text is None else text
    return found
