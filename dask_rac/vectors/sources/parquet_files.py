"""Vectors in Parquet: one column of lists, or one column per dimension."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dask_rac.base.errors import InputError, refuse_nulls
from dask_rac.files.parquet_input import checked_groups
from dask_rac.files.ranges import opened
from dask_rac.files.reading import readable
from dask_rac.files.stamps import stamp
from dask_rac.files.urls import is_local, locate
from dask_rac.vectors.sources.arrow_columns import are_lists, column_kind, fill_rows, only_columns
from dask_rac.vectors.sources.source import FileSource, Part, check_shape, shown_name, widest

BUFFER = 2**20  # bytes requested at a time, per column
FOOTERS = 64  # kept by each process
AT_ONCE = 16  # footers requested from an object store


@dataclass(frozen=True, kw_only=True)
class ParquetPart(Part):
    """A Parquet file."""

    groups: tuple[int, ...]
    """Rows of each row group."""


@dataclass(frozen=True, kw_only=True)
class ParquetSource(FileSource):
    """Vectors in Parquet files; reading any rows decodes whole row groups."""

    columns: tuple[str, ...]
    lists: bool
    """Whether the vectors are one column of lists."""
    batch_values: int = 2**22
    """Values that are decoded at a time; tests hand over fewer."""

    @property
    def fingerprint(self) -> str:
        """A digest that identifies these columns of these files."""
        return sha256(json.dumps([super().fingerprint, self.columns]).encode()).hexdigest()

    def _part_rows(self, part: ParquetPart, first: int, last: int) -> NDArray[Any]:
        ends = np.cumsum(part.groups)
        groups = range(
            int(np.searchsorted(ends, first, side="right")), int(np.searchsorted(ends, last, side="left")) + 1
        )
        row = int(ends[groups[0]]) - part.groups[groups[0]]
        rows = np.empty((last - first, self.dimensions), self.dtype)
        most = max(1, self.batch_values // self.dimensions)
        for batch in _batches(self.name, part, list(groups), self.columns, most):
            begin, end = max(first, row), min(last, row + len(batch))
            if begin < end:
                self._fill(rows[begin - first : end - first], batch.slice(begin - row, end - begin), part, begin)
            row += len(batch)
            if row >= last:
                break
        else:
            raise InputError(f"{part.shown} ends at row {row}, before row {last - 1}: write it again")
        return rows

    def _fill(self, out: NDArray[Any], batch: pa.RecordBatch, part: ParquetPart, first: int) -> None:
        """Copy a batch, which begins with row `first` of its file, into an array."""

        def where(row: int) -> str:
            return f"row {first + row} of {part.shown}"

        fill_rows(out, batch, self.columns, self.lists, where)


def open_parquet(
    name: str, files: Sequence[str], infos: dict[str, Any], columns: Sequence[str] | None
) -> ParquetSource:
    """Open the Parquet files at a path, in the given order."""
    filesystem, root = locate(name)

    def facts(file: str) -> tuple[ParquetPart, pa.Schema]:
        return _facts(name, file, infos[file], shown_name(name, root, file))

    if is_local(filesystem):
        all_facts = list(map(facts, files))
    else:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            all_facts = list(pool.map(facts, files))
    chosen = tuple(columns) if columns is not None else only_columns(all_facts[0][1], all_facts[0][0].shown)
    kinds = [column_kind(schema, column, part.shown) for part, schema in all_facts for column in chosen]
    lists = are_lists(kinds, chosen, name)
    parts = tuple(part for part, _ in all_facts)
    rows = sum(part.rows for part in parts)
    check_shape((rows, len(chosen)), name)
    dimensions = _list_length(name, parts, chosen[0]) if lists else len(chosen)
    check_shape((rows, dimensions), name)
    source = ParquetSource(
        name=name,
        origin=None,
        rows=rows,
        dimensions=dimensions,
        dtype=widest([kind for kind, _ in kinds]),
        sparse=False,
        entries=rows * dimensions,
        bytes=sum(part.bytes for part in parts),
        on_disk=True,
        parts=parts,
        columns=chosen,
        lists=lists,
    )
    _check_lengths(source)
    return source


def _facts(url: str, path: str, info: dict[str, Any], shown: str) -> tuple[ParquetPart, pa.Schema]:
    """Return what the footer of a Parquet file states."""
    with readable(shown, "Parquet", url):
        footer = _footer(url, path, int(info["size"]), stamp(info))
        schema = footer.schema.to_arrow_schema()
        groups = checked_groups(footer, shown)
    size, rows = int(info["size"]), footer.num_rows
    return ParquetPart(path=path, shown=shown, rows=rows, bytes=size, stamp=stamp(info), groups=groups), schema


def _list_length(name: str, parts: Sequence[ParquetPart], column: str) -> int:
    """Return the length of the first list."""
    part = next(part for part in parts if part.rows)
    group = next(number for number, rows in enumerate(part.groups) if rows)
    with readable(part.shown, url=name):
        batch: Any = next(_batches(name, part, [group], (column,), 1))
    lists = batch.column(column)
    if lists.null_count:
        refuse_nulls(np.ones(1, np.bool_), column, lambda _: f"row 0 of {part.shown}")
    return len(lists[0])


def _check_lengths(source: ParquetSource) -> None:
    """Raise if lists differ in length, by reading the first row group whose number of values does not match."""
    first = 0
    for part in source.parts if source.lists else ():
        footer = _footer(source.name, part.path, part.bytes, part.stamp)
        names = [footer.schema.column(number).path for number in range(footer.num_columns)]
        leaf = next(number for number, path in enumerate(names) if path.startswith(f"{source.columns[0]}."))
        for number in range(footer.num_row_groups):
            group = footer.row_group(number)
            if group.column(leaf).num_values != group.num_rows * source.dimensions:
                source.read(first, first + group.num_rows)
            first += group.num_rows


def _batches(
    name: str, part: ParquetPart, groups: list[int], columns: Sequence[str], rows: int
) -> Iterator[pa.RecordBatch]:
    """Yield row groups of a file, some rows at a time."""
    filesystem, _ = locate(name)
    footer, far = _footer(name, part.path, part.bytes, part.stamp), not is_local(filesystem)
    with opened(filesystem, part.path, part.bytes) as file:
        parquet = pq.ParquetFile(
            file, metadata=footer, pre_buffer=far, buffer_size=0 if far else BUFFER, page_checksum_verification=True
        )
        yield from parquet.iter_batches(rows, row_groups=groups, columns=list(columns), use_threads=False)


@lru_cache(FOOTERS)
def _footer(name: str, path: str, size: int, _stamp: str) -> pq.FileMetaData:
    """Return the footer of a file; each process reads it only once."""
    with opened(locate(name)[0], path, size) as file:
        return pq.ParquetFile(file).metadata
