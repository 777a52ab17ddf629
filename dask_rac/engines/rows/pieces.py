"""The edges of a run in pieces, each edge once: what an audit reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dask_rac.edges.source import EdgeSource
from dask_rac.edges.units import Unit
from dask_rac.engines.contract import EdgeArrays, EdgePiece, Work
from dask_rac.engines.rows.intake import intake_graph
from dask_rac.engines.rows.layout import lay_out
from dask_rac.engines.rows.needs import EntrySizes
from dask_rac.engines.rows.receipts import new_job
from dask_rac.engines.rows.scanning import Histogram, count_entries, counts_of, remove_counts, scan_graph
from dask_rac.files.arrays import read_array
from dask_rac.files.folder import Folder
from dask_rac.store.manifest import ShardRecord

ENTRY = 40  # bytes of an entry of a shard: its columns, its source, and those of them that are added


@dataclass(frozen=True)
class UnitPiece:
    """A piece of the input as it is."""

    source: EdgeSource
    """With the one file that the piece is in."""
    unit: Unit
    edge_bytes: int
    """Bytes that an edge takes while it is read."""

    @property
    def bytes(self) -> int:
        """Bytes that a thread holds while it reads them; a row group is read whole before it is unpacked."""
        packed = self.source.bytes / self.source.rows * self.unit.rows / self.unit.groups
        return int(self.edge_bytes * min(self.unit.rows, self.source.batch_rows) + packed)

    def read(self) -> Iterator[EdgeArrays]:
        """Read the rows, some at a time."""
        for columns, _ in self.source.read(self.unit):
            yield _as_integers(columns["source"]), _as_integers(columns["target"]), columns["weight"]


@dataclass(frozen=True)
class ShardPiece:
    """A shard of a first state, in which edges that were given twice are united."""

    folder: Folder
    shard: ShardRecord

    @property
    def bytes(self) -> int:
        """Bytes that a thread holds while it reads them."""
        return ENTRY * self.shard.entries + 16 * self.shard.clusters

    def read(self) -> Iterator[EdgeArrays]:
        """Read the entries that point to a later node: every edge is in two rows."""
        names = (f"{self.shard.name}/{name}" for name in ("length", "neighbour", "weight"))
        length, target, weight = (read_array(self.folder, name) for name in names)
        row = np.repeat(np.arange(self.shard.first, self.shard.first + self.shard.clusters), length)
        once = row < target
        yield row[once], target[once], weight[once]


def edge_pieces(source: EdgeSource, unite: bool, work: Work) -> Sequence[EdgePiece]:
    """Cut the input into pieces as it is or, where edges may occur twice, into shards as a run reads it."""
    if not unite:
        files = {file.path: replace(source, files=(file,)) for file in source.files}
        return [
            UnitPiece(files[unit.file], unit, work.limits.audit_edge) for unit in source.units(work.limits.audit_rows)
        ]
    assert work.facts is not None
    nodes, task = work.facts.nodes, work.budget.process // work.budget.threads
    sizes = EntrySizes.of(work.settings, nodes, source.rows, work.header.weights)
    rows = max(1, min(work.limits.unit_rows, task // (8 * (2 * sizes.ids + sizes.weight))))
    units = source.units(rows)
    job, room = new_job(work, nodes, work.facts.edges, 0), max(1, task // (16 * sizes.entry))
    histogram = Histogram.of(2 * source.rows // room, job)
    results = work.compute(scan_graph(work.attempt, source, units, (nodes, work.settings), histogram))
    counted = count_entries(counts_of(results), nodes, histogram)
    remove_counts(results, work.store)
    layout = lay_out(counted, nodes, room).within(len(units), work.limits)
    built = work.compute(intake_graph(job, source, units, layout, rows))["build"]
    return [ShardPiece(work.store, receipt.shard) for receipt in built]


def _as_integers(column: NDArray[Any]) -> NDArray[Any]:
    """Return a column of ids, which may be floats in the input, as integers."""
    return column if column.dtype.kind in "iu" else column.astype(np.int64)
