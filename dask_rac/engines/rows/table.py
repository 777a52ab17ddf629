"""The table of one fold: the clusters that it folds, from the shards of a state and from rows that moved."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.errors import DamagedStoreError
from dask_rac.base.spans import Span, starts_of
from dask_rac.engines.rows.packing import column_read, entry_columns, unpack_columns
from dask_rac.engines.rows.receipts import Arrival, Job, Piece
from dask_rac.files.arrays import read_array
from dask_rac.files.folder import Folder
from dask_rac.files.pieces import read_piece
from dask_rac.files.readers import Read, array_read, read_all
from dask_rac.kernels.arrays import Ids, Rows
from dask_rac.kernels.rows import ingest
from dask_rac.store.manifest import ShardRecord, State
from dask_rac.tasks.scratch import borrow


class ClusterTable:
    """The clusters in a range of positions, then those that moved there to join its leaders, and all their rows."""

    def __init__(self, job: Job, state: State, span: Span, moved: list[Arrival]) -> None:
        self._job, self._state, self._store = job, state, job.store
        self._lengths: list[Ids] = []  # of the rows of the range, as they are read to find these
        self._own = [piece for shard in state.shards if (piece := self._overlap(shard, *span))]
        own, guests = span[1] - span[0], sum(arrival.rows for arrival in moved)
        entries = sum(piece.entries[1] - piece.entries[0] for piece in self._own)
        ids, reals = np.dtype(job.ids), np.dtype(np.float64)
        kinds = {"length": ids, "ids": ids} | ({"size": ids, "top": reals} if state.round else {})
        clusters = {name: np.empty(own + guests, kind) for name, kind in kinds.items()}
        total = entries + sum(arrival.entries for arrival in moved)
        rows = {name: borrow(total, kind) for name, kind in job.columns(state.round).items()}
        self.height, self.leader = np.empty(own, reals), np.empty(guests, ids)
        behind = {name: column[own:] for name, column in clusters.items()} | {"leader": self.leader}
        reads = self._own_reads(clusters | {"height": self.height}, rows, span)
        reads += arrival_reads(self._store, moved, behind, {name: column[entries:] for name, column in rows.items()})
        read_all(self._store, reads, job.replies(state.clusters))
        self.length, self.ids = clusters["length"], clusters["ids"]
        self.size = clusters["size"] if state.round else np.ones(len(self.ids), ids)
        self.top = clusters["top"] if state.round else np.full(len(self.ids), -np.inf)
        self.arrays: list[NDArray[Any]] = [self.height, self.leader, *clusters.values(), *rows.values()]
        self.rows = self._made(rows)

    def _own_reads(self, clusters: dict[str, NDArray[Any]], rows: dict[str, NDArray[Any]], span: Span) -> list[Read]:
        """Return what reads the clusters of the range, and their rows; fill in what is known."""
        reads = []
        for name, column in clusters.items():
            if name == "ids" and not self._state.round:
                column[: span[1] - span[0]] = np.arange(*span)
            elif name == "length":
                np.concatenate([*self._lengths, column[:0]], out=column[: span[1] - span[0]])
                self._lengths.clear()
            else:
                reads += self._column(name, column)
        at = 0
        for piece in self._own:
            last = at + piece.entries[1] - piece.entries[0]
            for name, column in rows.items():
                place = column[at:last]
                reads.append(column_read(self._store, piece.name, name, piece.columns, piece.entries, place))
            at = last
        return reads

    def _made(self, columns: dict[str, NDArray[Any]]) -> Rows:
        """Return the rows, with ties and counts as the fold needs them."""
        ends = np.cumsum(self.length, dtype=np.int64)
        total, found = int(ends[-1]) if len(ends) else 0, len(columns["weight"])
        if found != total:
            raise DamagedStoreError(f"{self._store.url}: rows of a shard hold {found} entries and should hold {total}")
        edges = columns.get("edges", np.empty(0, self._job.counts))
        rows = Rows(ends - self.length, ends, columns["neighbour"], columns["weight"], edges, np.empty(0, np.uint16))
        if "tie" in columns:
            return rows._replace(tie=columns["tie"])
        rows = rows._replace(tie=borrow(total, np.uint16))
        ingest.fill_ties(rows, self.ids)
        return rows

    def _overlap(self, shard: ShardRecord, lo: int, hi: int) -> Piece | None:
        """Return the rows of a shard within a range of positions."""
        start, stop = max(lo, shard.first) - shard.first, min(hi, shard.first + shard.clusters) - shard.first
        if start >= stop:
            return None
        length = read_array(self._store, f"{shard.name}/length", out=np.empty(shard.clusters, self._job.ids))
        before = starts_of(length)
        self._lengths.append(length[start:stop])
        return Piece(shard.name, entry_columns(shard), (start, stop), (int(before[start]), int(before[stop])))

    def _column(self, name: str, out: NDArray[Any]) -> list[Read]:
        """Return what reads a column of the clusters of the range."""
        reads, at = [], 0
        for piece in self._own:
            last = at + piece.rows[1] - piece.rows[0]
            reads.append(array_read(self._store, f"{piece.name}/{name}", piece.rows, out[at:last]))
            at = last
        return reads


def arrival_reads(
    store: Folder, moved: Sequence[Arrival], clusters: dict[str, NDArray[Any]], rows: dict[str, NDArray[Any]]
) -> list[Read]:
    """Return what reads rows that moved, one after the other, into columns of clusters and of entries."""
    reads, first, begin = [], 0, 0
    for arrival in moved:
        last, end = first + arrival.rows, begin + arrival.entries
        own = {name: column[first:last] for name, column in clusters.items()}
        entries = {name: column[begin:end] for name, column in rows.items()}
        reads.append(Read(2 * arrival.bytes, partial(_arrive, store, arrival, own, entries)))
        first, begin = last, end
    return reads


def _arrive(store: Folder, arrival: Arrival, clusters: dict[str, NDArray[Any]], rows: dict[str, NDArray[Any]]) -> None:
    """Read a piece of rows that moved."""
    stored = {name: _stored(rows, name, kind, arrival.entries) for name, kind in arrival.columns}
    read_piece(
        store, arrival.name, arrival.offset, [*(clusters[name] for name, _ in arrival.clusters), *stored.values()]
    )
    unpack_columns(stored, rows)


def _stored(rows: dict[str, NDArray[Any]], name: str, kind: str, entries: int) -> NDArray[Any]:
    """Return where a column goes as it is stored: where it belongs, unless it must be unpacked."""
    if name in rows and rows[name].dtype == kind:
        return rows[name]
    return np.empty(entries, kind)
