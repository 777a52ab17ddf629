"""Merges and spooled edges as Parquet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from io import BytesIO
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dask_rac.base.errors import DamagedStoreError
from dask_rac.base.names import partition_name
from dask_rac.base.settings import MERGE_COLUMNS, RATIO, Settings
from dask_rac.base.spans import batches
from dask_rac.files.folder import Folder

ROW_GROUP = 1_000_000

MERGE_GROUP = 2**18  # rows, which are converted at a time

MERGE_TYPES = (np.int64, np.int64, np.float64, np.int64, np.int32)
MERGE_SCHEMA = pa.schema(
    [(name, pa.from_numpy_dtype(np.dtype(kind))) for name, kind in zip(MERGE_COLUMNS, MERGE_TYPES, strict=True)]
)


RATIO_FIELD = pa.field(RATIO, pa.float64())

END_COLUMNS = ("source", "target")
"""By single linkage, the nodes of the edge that made a merge."""

DICTIONARIES = ["size", "round"]  # the columns with few values
ENCODINGS = dict.fromkeys(("left", "right", *END_COLUMNS), "DELTA_BINARY_PACKED") | dict.fromkeys(
    ("height", RATIO), "BYTE_STREAM_SPLIT"
)
"""Of the other columns: a third of the time and three quarters of the bytes that dictionaries take."""


@dataclass(frozen=True)
class TableRecord:
    """What a manifest records about a Parquet file."""

    name: str
    rows: int
    low: float
    """The smallest height; infinite if there are no rows."""
    high: float
    """The largest height."""
    bytes: int
    digest: str
    """sha256 of the file."""
    ratio: float | None = None
    """The largest ratio, if merges have ratios; only then it is written."""

    def fields(self) -> dict[str, Any]:
        """What is written."""
        return {name: value for name, value in asdict(self).items() if name != RATIO or value is not None}


def merge_columns(settings: Settings) -> dict[str, type[np.generic]]:
    """Return the columns of the merges of a run, and the type of each."""
    columns: dict[str, type[np.generic]] = dict(zip(MERGE_COLUMNS, MERGE_TYPES, strict=True))
    return {**columns, RATIO: np.float64} if settings.epsilon else columns


def with_ratios(part: Mapping[str, NDArray[Any]], settings: Settings) -> Mapping[str, NDArray[Any]]:
    """Return merges with the columns that those of a run have: an engine that is exact leaves out ratios, all 1."""
    if not settings.epsilon or RATIO in part:
        return part
    return {**part, RATIO: np.ones(len(part["left"]))}


def merge_schema(columns: Iterable[str]) -> pa.Schema:
    """Return the schema of merges with some columns, which may be `RATIO` or those of an edge."""
    others = [RATIO_FIELD if name == RATIO else pa.field(name, pa.int64()) for name in columns]
    return pa.schema([*MERGE_SCHEMA, *(field for field in others if field.name not in MERGE_COLUMNS)])


def write_merges(
    folder: Folder,
    name: str,
    columns: Iterable[NDArray[Any]],
    ends: Iterable[NDArray[Any]] | None = None,
    ratio: NDArray[np.float64] | None = None,
) -> TableRecord:
    """Write merges as a new Parquet file, with the edge that made each if `ends` are given, and with their ratios.

    They are flushed with the next step that must survive a power failure: a task would wait for what others write.
    """
    given, buffer = dict(zip(MERGE_COLUMNS, columns, strict=True)), BytesIO()
    given |= {} if ratio is None else {RATIO: ratio}
    given |= {} if ends is None else dict(zip(END_COLUMNS, ends, strict=True))
    rows, height, schema = len(given["left"]), given["height"], merge_schema(given)
    encodings = {name: ENCODINGS[name] for name in given if name not in DICTIONARIES}
    with pq.ParquetWriter(
        buffer,
        schema,
        compression="zstd",
        use_dictionary=DICTIONARIES,  # type: ignore[arg-type] # the stubs know no lists
        column_encoding=encodings,
        write_page_checksum=True,
    ) as writer:
        for start, stop in batches(0, max(rows, 1), MERGE_GROUP):
            typed = (np.asarray(given[kind.name][start:stop], kind.type.to_pandas_dtype()) for kind in schema)
            writer.write_table(pa.table([pa.array(column) for column in typed], schema=schema), MERGE_GROUP)
    pa.default_memory_pool().release_unused()
    data = buffer.getvalue()
    folder.write(name, data, flush=False)
    low, high = float(height.min(initial=np.inf)), float(height.max(initial=-np.inf))
    most = None if ratio is None else float(ratio.max(initial=1.0))
    return TableRecord(name, rows, low, high, len(data), sha256(data).hexdigest(), most)


def write_frame(frame: pd.DataFrame, folder: Folder, number: int) -> None:
    """Write a partition of edges unchanged."""
    write_partition(pa.Table.from_pandas(frame, preserve_index=False), folder, number)


def write_partition(table: pa.Table, folder: Folder, number: int) -> None:
    """Write some of the edges unchanged."""
    buffer = BytesIO()
    pq.write_table(table, buffer, row_group_size=ROW_GROUP, compression="none", write_page_checksum=True)
    folder.write(partition_name(number), buffer.getvalue())


def check_table(folder: Folder, record: TableRecord) -> None:
    """Raise unless a table is what was written, bit for bit."""
    _sound(folder, record)


def _sound(folder: Folder, record: TableRecord) -> bytes:
    """Return the bytes of a table; raise unless they are what was written."""
    try:
        data = folder.read(record.name)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        raise DamagedStoreError(f"{folder.at(record.name)} is missing") from None
    if sha256(data).hexdigest() != record.digest:
        raise DamagedStoreError(
            f"{folder.at(record.name)} is damaged: it is not what was written; restore a copy, or "
            "cluster again in another folder"
        )
    return data


def read_ends(folder: Folder, record: TableRecord) -> Mapping[str, NDArray[Any]] | None:
    """Return the edge that made each merge of a file, and its height; None if the file does not hold them."""
    columns = _read(folder, record, (*MERGE_COLUMNS, *END_COLUMNS))
    if not all(name in columns for name in END_COLUMNS):
        return None
    return {name: columns[name] for name in (*END_COLUMNS, "height")}


def read_merges(folder: Folder, record: TableRecord) -> Mapping[str, NDArray[Any]]:
    """Return the columns of a file of merges, their ratios if they have any; raise unless it is what was written."""
    return _read(folder, record, (*MERGE_COLUMNS, RATIO))


def _read(folder: Folder, record: TableRecord, names: Sequence[str]) -> Mapping[str, NDArray[Any]]:
    """Return those of some columns that a file of merges has; raise unless it is what was written."""
    data = _sound(folder, record)
    try:
        # Arrow's threads sometimes abort a program that exits soon after they have started.
        file = pq.ParquetFile(pa.BufferReader(data), pre_buffer=False)
        table = file.read([name for name in names if name in file.schema_arrow.names], use_threads=False)
        columns = {name: table.column(name).to_numpy() for name in (*MERGE_COLUMNS, *table.column_names)}
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        raise DamagedStoreError(
            f"{folder.at(record.name)} cannot be read: {error}; restore a copy, or cluster again in another folder"
        ) from error
    if len(table) != record.rows or any(columns[n].dtype != t for n, t in zip(MERGE_COLUMNS, MERGE_TYPES, strict=True)):
        raise DamagedStoreError(
            f"{folder.at(record.name)} does not hold the {record.rows:,} merges that were written; restore a copy, or "
            "cluster again in another folder"
        )
    return columns
