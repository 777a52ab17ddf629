"""Edges that another library hands over piece by piece, such as a query of DuckDB: with a store they need not fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from dask_rac.base.errors import InputError
from dask_rac.base.settings import EDGE_COLUMNS
from dask_rac.edges.source import table_edges
from dask_rac.files.arrow_streams import stream_reader
from dask_rac.files.folder import Folder
from dask_rac.files.tables import ROW_GROUP, write_partition


@dataclass(frozen=True)
class EdgeStream:
    """Edges that can be read once."""

    reader: Any
    """A RecordBatchReader."""

    def write(self, folder: Folder) -> None:
        """Write all edges, a file for every million, so that tasks can read them as often as they need."""
        for number, table in enumerate(self._parts()):
            write_partition(table, folder, number)

    def _parts(self) -> Iterator[pa.Table]:
        """Yield the edges in tables of about a million; one is empty if there are none."""
        held: list[pa.RecordBatch] = []
        empty = True
        for batch in _readable(self.reader):
            held.append(batch.select(list(EDGE_COLUMNS)))
            if sum(map(len, held)) >= ROW_GROUP:
                yield pa.Table.from_batches(held)
                held, empty = [], False
        if held or empty:
            schema = pa.schema([self.reader.schema.field(name) for name in EDGE_COLUMNS])
            yield pa.Table.from_batches(held, schema)


def open_stream(given: Any) -> EdgeStream | None:
    """Open anything that offers an Arrow stream of edges; None if it does not."""
    reader = stream_reader(given)
    if reader is None:
        return None
    table_edges(reader.schema.empty_table())  # raises if a column is missing
    return EdgeStream(reader)


def _readable(reader: Any) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a reader; raise if it fails."""
    while True:
        try:
            batch = reader.read_next_batch()
        except StopIteration:
            return
        except pa.ArrowException as error:
            raise InputError(f"the Arrow stream of the edges cannot be read: {error}") from error
        yield batch
