"""The clusters that leave a shard: those that join a leader in another shard of the next state."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.spans import starts_of
from dask_rac.engines.rows.packing import entry_columns
from dask_rac.engines.rows.receipts import Borders, Clock, Job
from dask_rac.files.arrays import array_dtype, read_array
from dask_rac.kernels.arrays import Ids
from dask_rac.kernels.rows import move
from dask_rac.store.manifest import ShardRecord, State
from dask_rac.tasks.scratch import borrow


class Leaving:
    """Clusters that leave a shard, and their rows, in the order of the new shards that they go to."""

    def __init__(self, job: Job, state: State, shard: ShardRecord, nearest: Ids, places: Borders, clock: Clock) -> None:
        self._job, self._state, self._shard, self._clock, self._store = job, state, shard, clock, job.store
        with clock.phase("read"):
            self._length = read_array(self._store, f"{shard.name}/length")
        with clock.phase("route"):
            goes = borrow(shard.clusters, np.int32)
            span = shard.first, shard.first + shard.clusters
            rows, entries = move.find_moves(nearest, self._length, np.array(places.places), goes, span)
            self.row_starts = starts_of(rows)
            """Number of rows before those of each new shard, then the total."""
            self.entry_starts = starts_of(entries)
            """Number of entries before those of each new shard, then the total."""
            count = int(self.row_starts[-1])
            self._place, self._own_length = np.empty(count, np.int64), np.empty(count, self._length.dtype)
            move.take_rows(goes, self.row_starts[:-1].copy(), self._length, (self._place, self._own_length))
            self._start = starts_of(self._length)
            self._leader = nearest[shard.first + self._place]

    def clusters(self) -> dict[str, NDArray[Any]]:
        """Return the columns of the clusters."""
        columns: dict[str, NDArray[Any]] = {"length": self._own_length, "leader": self._leader}
        if not self._state.round:
            return columns | {"ids": (self._shard.first + self._place).astype(self._job.ids)}
        for name in ("ids", "size", "top"):
            with self._clock.phase("read"):
                column = read_array(self._store, f"{self._shard.name}/{name}")
                self._clock.count("read", [column])
            columns[name] = column[self._place]
        return columns

    def entries(self) -> dict[str, NDArray[Any]]:
        """Return the columns of the entries of their rows, as stored on disk."""
        total = int(self.entry_starts[-1])
        read = self._shard.entries if total else 0
        room = borrow(read, np.float64)
        taken: dict[str, NDArray[Any]] = {}
        for name in entry_columns(self._shard):
            with self._clock.phase("read"):
                kind = array_dtype(self._store, f"{self._shard.name}/{name}")
                column = room.view(kind)[:read]
                if total:
                    read_array(self._store, f"{self._shard.name}/{name}", out=column)
                self._clock.count("read", [column])
            with self._clock.phase("route"):
                taken[name] = borrow(total, kind)
                move.copy_rows(self._place, self._start, self._length, column, taken[name])
        return taken
