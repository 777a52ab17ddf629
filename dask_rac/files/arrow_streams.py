"""Tables that other libraries hand over, and those that we hand over to them, as Arrow streams.

Arrow's stream protocol is one method, `__arrow_c_stream__`. Polars, DuckDB, ibis and pyarrow have it, and no library
needs to import another for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from dask_rac.base.errors import InputError
from dask_rac.base.settings import MERGE_COLUMNS
from dask_rac.base.spans import batches
from dask_rac.files.tables import MERGE_GROUP, merge_schema

PLAIN: dict[Any, Any] = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
"""Types that few functions of Arrow accept, and the same in plain."""


def as_table(given: Any) -> pa.Table | None:
    """Return anything that offers an Arrow stream as a table, a single column as a table of one; else None."""
    if isinstance(given, pa.Table):
        return _plain(given)
    if not offers_stream(given):
        return None
    try:
        return _plain(_read(given))
    except pa.ArrowException as error:
        raise InputError(f"the Arrow stream of a {type(given).__qualname__} cannot be read: {error}") from error


def stream_reader(given: Any) -> pa.RecordBatchReader | None:
    """Return a reader of the stream that an object offers; None if it is in memory as it is, or offers none."""
    if isinstance(given, pa.Table | pa.RecordBatch) or not offers_stream(given):
        return None
    if isinstance(given, pa.RecordBatchReader):
        return given
    try:
        return pa.RecordBatchReader.from_stream(given)
    except pa.ArrowException as error:
        raise InputError(f"the Arrow stream of a {type(given).__qualname__} cannot be read: {error}") from error


def offers_stream(given: Any) -> bool:
    """Whether an object offers an Arrow stream; a pandas object is left to those who know about its index."""
    known = hasattr(type(given), "__arrow_c_stream__")  # of the class: a Delayed claims to have any attribute
    return known and not isinstance(given, pd.DataFrame | pd.Series | pd.Index)


def table_if_any(given: Any) -> Any:
    """Return anything that offers an Arrow stream as a table, everything else as it is: a stream is read only once."""
    table = as_table(given)
    return given if table is None else table


def _read(given: Any) -> pa.Table:
    """Return a stream as a table."""
    if isinstance(given, pa.RecordBatchReader):
        return given.read_all()
    try:
        return pa.table(given)
    except pa.ArrowInvalid:  # a column, whose stream is not of rows; a stream that failed fails again
        column: Any = pa.chunked_array(given)
        return pa.table({str(getattr(given, "name", "") or ""): column})


def _plain(table: pa.Table) -> pa.Table:
    """Return a table without types that few functions accept."""
    fields = [field.with_type(PLAIN.get(field.type, field.type)) for field in table.schema]
    schema = pa.schema(fields).with_metadata(table.schema.metadata)
    return table if schema == table.schema else table.cast(schema)


def merges_stream(
    parts: Iterable[Mapping[str, NDArray[Any]]], wanted: object = None, columns: Iterable[str] = MERGE_COLUMNS
) -> object:
    """Return columns of merges as an Arrow stream, which reads each part when it is asked for."""
    schema = merge_schema(columns)
    reader: Any = pa.RecordBatchReader.from_batches(schema, _merge_batches(parts, schema))
    stream: object = reader.__arrow_c_stream__(wanted)
    return stream


def _merge_batches(parts: Iterable[Mapping[str, NDArray[Any]]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield merges, some rows at a time."""
    for part in parts:
        for start, stop in batches(0, len(part[MERGE_COLUMNS[0]]), MERGE_GROUP):
            columns = [
                pa.array(np.asarray(part[kind.name][start:stop], kind.type.to_pandas_dtype())) for kind in schema
            ]
            yield pa.record_batch(columns, schema=schema)
