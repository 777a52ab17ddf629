"""Vectors in a table of Arrow that is in memory, as Polars, DuckDB and others hand it over."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from dask_rac.base.errors import plain_row, refuse_nulls
from dask_rac.vectors.sources.arrow_columns import are_lists, column_kind, fill_rows, only_columns
from dask_rac.vectors.sources.memory import NAME, ArraySource, open_array
from dask_rac.vectors.sources.source import check_shape, widest

TABLE = "the table"


def open_table(table: pa.Table, columns: Sequence[str] | None) -> ArraySource:
    """Open the rows of a table: its column of lists, or its columns, one per dimension."""
    chosen = tuple(columns) if columns is not None else only_columns(table.schema, TABLE)
    kinds = [column_kind(table.schema, column, TABLE) for column in chosen]
    lists = are_lists(kinds, chosen, TABLE)
    check_shape((len(table), len(chosen)), NAME)
    dimensions = _first_length(table, chosen[0]) if lists else len(chosen)
    check_shape((len(table), dimensions), NAME)
    rows, row = np.empty((len(table), dimensions), widest([kind for kind, _ in kinds])), 0
    for batch in table.select(chosen).to_batches():
        fill_rows(rows[row : row + len(batch)], batch, chosen, lists, partial(_row_after, row))
        row += len(batch)
    return open_array(rows)


def _row_after(first: int, row: int) -> str:
    """Name a row, counted from row `first` of the table."""
    return plain_row(first + row)


def _first_length(table: pa.Table, column: str) -> int:
    """Return the length of the first list."""
    first = table.column(column)[0]
    if not first.is_valid:
        refuse_nulls(np.ones(1, np.bool_), column, plain_row)
    return len(first.values)
