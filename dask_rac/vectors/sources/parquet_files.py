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
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dask_rac.base.errors import InputError, Where, refuse_nulls, refuse_rows
from dask_rac.base.text import listed
from dask_rac.files.parquet_input import checked_groups
from dask_rac.files.ranges import opened
from dask_rac.files.reading import readable
from dask_rac.files.stamps import stamp
from dask_rac.files.urls import is_local, locate
from dask_rac.vectors.sources.source import FileSource, Part, check_shape, shown_name, widest

KINDS = {pa.float32(): "float32", pa.float64(): "float64", pa.uint8(): "uint8"}
BUFFER = 2**20  # bytes requested at a time, per column
FOOTERS = 64  # kept by each process
AT_ONCE = 16  # footers requested from an object store

PANDAS_INDEX = "__index_level_"  # prefix of columns that pandas made from an index
SHOWN = 8  # columns listed in a message


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

        for number, name in enumerate(self.columns):
            column: Any = batch.column(name)
            if column.null_count:
                refuse_nulls(column.is_null().to_numpy(zero_copy_only=False), name, where)
            if self.lists:
                out[:] = _list_values(column, name, self.dimensions, where).reshape(-1, self.dimensions)
            else:
                out[:, number] = column.to_numpy(zero_copy_only=False)


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
    chosen = tuple(columns) if columns is not None else _only_columns(all_facts[0][1], all_facts[0][0].shown)
    kinds = [_kind(schema, column, part.shown) for part, schema in all_facts for column in chosen]
    lists = {is_list for _, is_list in kinds}
    if True in lists and (len(lists) > 1 or len(chosen) > 1):
        raise InputError(
            f"columns {', '.join(chosen)} of {name} are lists and numbers: choose one column of lists, or only numbers"
        )
    parts = tuple(part for part, _ in all_facts)
    rows = sum(part.rows for part in parts)
    check_shape((rows, len(chosen)), name)
    dimensions = _list_length(name, parts, chosen[0]) if True in lists else len(chosen)
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
        lists=True in lists,
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


def _only_columns(schema: pa.Schema, shown: str) -> tuple[str, ...]:
    """Return the columns that must be the vectors: the only one with lists, or all; raise if that is not clear."""
    fields = [field for field in schema if not field.name.startswith(PANDAS_INDEX)]
    lists = [field.name for field in fields if _values(field.type) in KINDS and field.type not in KINDS]
    numbers = [field.name for field in fields if field.type in KINDS]
    if len(lists) == 1 and not numbers:
        return (lists[0],)
    if numbers and len(numbers) == len(fields):
        return tuple(numbers)
    others = sorted(fields, key=lambda field: field.name in numbers)  # those that are not numbers come first
    listed = ", ".join(f"{field.name} ({field.type})" for field in others[:SHOWN])
    more = f" and {len(others) - SHOWN} more" if len(others) > SHOWN else ""
    raise InputError(
        f"it is not clear which of the {len(fields)} columns of {shown} are the vectors: choose one of lists, or one "
        f"per dimension, of {', '.join(sorted(KINDS.values()))}, with columns=; there are {listed or 'none'}{more}"
    )


def _kind(schema: pa.Schema, column: str, shown: str) -> tuple[str, bool]:
    """Return the dtype of a column, and whether it holds lists."""
    names = schema.names
    if names.count(column) != 1:
        count = f"{names.count(column)} columns" if column in names else "no column"
        raise InputError(f"{shown} has {count} {column!r}: it has {listed(names)}; choose with columns=")
    kind = schema.field(column).type
    if _values(kind) not in KINDS:
        raise InputError(
            f"column {column!r} of {shown} is {kind}, not {', '.join(sorted(KINDS.values()))} or lists of them: cast "
            "it to float32"
        )
    return KINDS[_values(kind)], kind not in KINDS


def _values(kind: Any) -> pa.DataType:
    """Return the type of the values of a list type; other types are returned unchanged."""
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    values: pa.DataType = kind.value_type if is_list else kind
    return values


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


def _list_values(column: Any, name: str, dimensions: int, where: Where) -> NDArray[Any]:
    """Return the values of lists; raise unless all have the same length and no nulls."""
    lengths = pc.list_value_length(column).to_numpy(zero_copy_only=False)
    wrong = lengths != dimensions
    if wrong.any():
        at = int(wrong.argmax())
        raise InputError(
            f"column {name!r} has {lengths[at]} values in {where(at)}, the first row has {dimensions}: make all lists "
            "equally long"
        )
    values = column.flatten()
    if values.null_count:
        missing = values.is_null().to_numpy(zero_copy_only=False).reshape(-1, dimensions).any(axis=1)
        refuse_rows(missing, name, "null in part", "drop or fill them", where)
    array: NDArray[Any] = values.to_numpy(zero_copy_only=False)
    return array
