"""Columns of edges in the files that people have: delimited text, and Parquet with any column names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from os import PathLike, fspath
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from dask_rac.base.errors import InputError, Where, refuse_nulls
from dask_rac.base.names import PARQUET_ENDINGS
from dask_rac.base.text import listed
from dask_rac.edges.numbering import as_text, is_text
from dask_rac.edges.records import check_record
from dask_rac.edges.text import TEXT_ENDINGS, Arrays, Column, Part, TextLayout, TextLimits, read_text
from dask_rac.files.listing import list_files
from dask_rac.files.parquet_input import checked_groups
from dask_rac.files.reading import readable
from dask_rac.files.urls import locate

BATCH_ROWS = 2**18
BUFFER = 2**20  # bytes requested at a time, per column


@dataclass(frozen=True)
class ColumnSource:
    """Files of one input, all text or all Parquet."""

    name: str
    filesystem: Any
    files: tuple[str, ...]
    layout: TextLayout
    rows: int | None
    """Rows in all files, if they state it."""
    single: bool
    """Whether all weights are float32."""
    named: bool = False
    """Whether ids are text; in delimited text this shows only when it is read."""
    limits: TextLimits = field(default_factory=TextLimits)
    """How text is read."""

    def read(self) -> Iterator[Part]:
        """Yield the columns, many rows at a time; what is wrong with some rows is raised when they are called."""
        for file in self.files:
            if file.endswith(PARQUET_ENDINGS):
                yield from _read_parquet(self.filesystem, file, self.layout.columns)
            else:
                yield from read_text(self.filesystem, file, self.layout, self.limits, self.named)


def open_columns(path: str | PathLike[str], layout: TextLayout) -> ColumnSource:
    """Open the files at a path; the columns of Parquet files are checked."""
    name = fspath(path)
    if not name:
        raise InputError("edges='' is not a path: give the path of a file or folder of edges")
    filesystem, _ = locate(name)
    root, paths = list_files(name, "give the path of a file or folder of edges")
    known = (*PARQUET_ENDINGS, *TEXT_ENDINGS)
    files = tuple(sorted(file for file in paths if file.endswith(known)))
    parquet = [file for file in files if file.endswith(PARQUET_ENDINGS)]
    if not files:
        raise InputError(f"{name} is not an edge list and holds none: file names must end in {', '.join(known)}")
    if not parquet:
        return ColumnSource(name, filesystem, files, layout, None, False)
    if len(parquet) < len(files):
        text = next(file for file in files if file not in parquet)
        raise InputError(f"{name} holds both Parquet ({parquet[0]}) and text ({text}): convert one after the other")
    facts = [_parquet_facts(filesystem, file, layout.columns) for file in files]
    check_record(name, root, {file: fact.rows for file, fact in zip(files, facts, strict=True)}, paths)
    _refuse_mixture(files, facts)
    rows, named = sum(fact.rows for fact in facts), any(fact.named for fact in facts if fact.rows)
    return ColumnSource(name, filesystem, files, layout, rows, all(fact.single for fact in facts), named)


class _Facts(NamedTuple):
    """What the footer of a Parquet file states."""

    rows: int
    single: bool
    """Whether weights are float32."""
    named: bool
    """Whether ids are text."""


def _refuse_mixture(files: tuple[str, ...], facts: list[_Facts]) -> None:
    """Raise if the ids of some files are text and those of others are numbers."""
    kinds = {fact.named: file for file, fact in zip(files, facts, strict=True) if fact.rows}
    if len(kinds) > 1:
        raise InputError(
            f"the ids in {kinds[True]} are text and those in {kinds[False]} are numbers: convert them apart, or write "
            "all as text"
        )


def _parquet_facts(filesystem: Any, path: str, columns: tuple[Column, ...]) -> _Facts:
    """Return the rows of a file, and what its columns hold."""
    with readable(path, "Parquet"), filesystem.open(path, "rb") as file:
        parquet = pq.ParquetFile(file)
        metadata, schema = parquet.metadata, parquet.schema_arrow
        rows = sum(checked_groups(metadata, path))
    kinds = [schema.field(_named(column, schema, path)).type for column in columns]
    texts = [is_text(kind) for kind in kinds[:2]]
    if texts[0] != texts[1]:
        raise InputError(
            f"columns {columns[0]!r} and {columns[1]!r} of {path} are {kinds[0]} and {kinds[1]}: write both as text, "
            "or both as whole numbers"
        )
    for column, kind in list(zip(columns, kinds, strict=True))[2 * texts[0] :]:
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind)):
            raise InputError(f"column {column!r} of {path} is {kind}, not a number: cast it first")
    return _Facts(rows, len(kinds) == 3 and pa.types.is_float32(kinds[2]), texts[0])


def _named(column: Column, schema: pa.Schema, path: str) -> str:
    """Return the name of a column."""
    names = schema.names
    if isinstance(column, int) and column < len(names):
        column = names[column]
    if not isinstance(column, str) or names.count(column) != 1:
        count = f"{names.count(column)} columns" if column in names else "no column"
        raise InputError(
            f"{path} has {count} {column!r}: it has {listed(names)}; choose with columns=, where None in place of "
            "the weight gives all edges the weight 1"
        )
    return column


def _read_parquet(filesystem: Any, path: str, columns: tuple[Column, ...]) -> Iterator[Part]:
    """Yield the columns of a Parquet file, many rows at a time."""
    batches, first = _batches(filesystem, path, columns), 0
    while True:
        with readable(path, f"Parquet from row {first} on"):
            names, batch, rows = next(batches)
        if batch is None:
            break

        def where(row: int, first: int = first) -> str:
            return f"row {first + row} of {path}"

        yield partial(_filled_columns, batch, names, where)
        first += len(batch)
    if first != rows:
        raise InputError(f"{path} ends at row {first}, before row {rows}, which its footer states: write it again")


def _batches(
    filesystem: Any, path: str, columns: tuple[Column, ...]
) -> Iterator[tuple[list[str], pa.RecordBatch | None, int]]:
    """Yield the names of the columns, many rows of them, at last none, and the number of all rows."""
    with filesystem.open(path, "rb") as file:
        # With pre-buffering, the whole file would be in memory.
        parquet = pq.ParquetFile(file, pre_buffer=False, buffer_size=BUFFER, page_checksum_verification=True)
        names, rows = [_named(column, parquet.schema_arrow, path) for column in columns], parquet.metadata.num_rows
        for batch in parquet.iter_batches(BATCH_ROWS, columns=names, use_threads=False):
            yield names, batch, rows
        yield names, None, rows


def _filled_columns(batch: pa.RecordBatch, names: list[str], where: Where) -> tuple[Arrays, Where]:
    """Return columns as arrays, with a function that locates a row; raise if there is a null."""
    columns = [batch.column(name) for name in names]
    for name, column in zip(names, columns, strict=True):
        if column.null_count:
            refuse_nulls(column.is_null().to_numpy(zero_copy_only=False), name, where)
    texts = [as_text(column, name, where) for name, column in zip(names[:2], columns, strict=False)]
    if texts[0] is not None:
        return [*texts, *(column.to_numpy(zero_copy_only=False) for column in columns[2:])], where
    return [column.to_numpy(zero_copy_only=False) for column in columns], where
