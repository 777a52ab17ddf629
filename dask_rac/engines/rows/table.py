"""The table of one fold: the clusters that it folds, from the shards of a state and from rows that moved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.errors import DamagedStoreError
from dask_rac.base.spans import starts_of
from dask_rac.engines.rows.packing import entry_columns, load_column
from dask_rac.engines.rows.receipts import Job, Piece
from dask_rac.files.arrays import read_array
from dask_rac.kernels.arrays import Rows
from dask_rac.kernels.rows import ingest
from dask_rac.store.manifest import ShardRecord, State
from dask_rac.tasks.scratch import borrow


class ClusterTable:
    """The clusters in a range of positions, then those that moved there to join its leaders."""

    def __init__(self, job: Job, state: State, span: tuple[int, int], moved: list[Piece]) -> None:
        self._job, self._state, self._store = job, state, job.store
        self._own = [piece for shard in state.shards if (piece := self._overlap(shard, *span))]
        self._guests = [piece for piece in moved if piece.rows[0] < piece.rows[1]]
        self.arrays: list[NDArray[Any]] = []
        ids, reals = np.dtype(job.ids), np.dtype(np.float64)
        self.length = self._column("length", ids, self._own + self._guests)
        self.leader = self._column("leader", ids, self._guests)
        self.height = self._column("height", reals, self._own)
        if state.round:
            everyone = self._own + self._guests
            self.ids, self.size = self._column("ids", ids, everyone), self._column("size", ids, everyone)
            self.top = self._column("top", reals, everyone)
        else:
            self.ids = np.concatenate((np.arange(*span, dtype=ids), self._column("ids", ids, self._guests)))
            self.size = np.ones(len(self.ids), ids)
            self.top = np.full(len(self.ids), -np.inf)

    def load_rows(self) -> Rows:
        """Load all entries, with ties and counts as the fold needs them."""
        ends = np.cumsum(self.length, dtype=np.int64)
        total = int(ends[-1]) if len(ends) else 0
        columns = {name: borrow(total, kind) for name, kind in self._job.columns(self._state.round).items()}
        at = 0
        for piece in self._own + self._guests:
            last = at + piece.entries[1] - piece.entries[0]
            for name, column in columns.items():
                load_column(self._store, piece.name, name, piece.columns, piece.entries, column[at:last])
            at = last
        if at != total:
            raise DamagedStoreError(f"{self._store.url}: rows of a shard hold {at} entries and should hold {total}")
        self.arrays += columns.values()
        tie = columns.get("tie")
        edges = columns.get("edges", np.empty(0, self._job.counts))
        start = ends - self.length
        rows = Rows(start, ends, columns["neighbour"], columns["weight"], edges, np.empty(0, np.uint16))
        if tie is None:
            rows = rows._replace(tie=borrow(total, np.uint16))
            ingest.fill_ties(rows, self.ids)
            return rows
        return rows._replace(tie=tie)

    def _overlap(self, shard: ShardRecord, lo: int, hi: int) -> Piece | None:
        """Return the rows of a shard within a range of positions."""
        start, stop = max(lo, shard.first) - shard.first, min(hi, shard.first + shard.clusters) - shard.first
        if start >= stop:
            return None
        before = starts_of(read_array(self._store, f"{shard.name}/length"))
        return Piece(shard.name, entry_columns(shard), (start, stop), (int(before[start]), int(before[stop])))

    def _column(self, name: str, kind: np.dtype[Any], pieces: Sequence[Piece]) -> NDArray[Any]:
        """Read a column of clusters."""
        out = np.empty(sum(piece.rows[1] - piece.rows[0] for piece in pieces), kind)
        at = 0
        for piece in pieces:
            last = at + piece.rows[1] - piece.rows[0]
            read_array(self._store, f"{piece.name}/{name}", *piece.rows, out[at:last])
            at = last
        self.arrays.append(out)
        return out
