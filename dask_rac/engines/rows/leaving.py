"""The rows that leave a shard, in the order of the shards that they go to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.names import moved_name
from dask_rac.base.spans import starts_of
from dask_rac.engines.rows.packing import entry_columns
from dask_rac.engines.rows.receipts import PIECE_CHUNK, Clock, Job, Moved, fresh_name, piece_ranges
from dask_rac.files.arrays import array_dtype, read_array, write_group
from dask_rac.kernels.arrays import Ids
from dask_rac.kernels.rows import move
from dask_rac.store.manifest import ShardRecord, State
from dask_rac.tasks.scratch import borrow

Find = Callable[[Ids, NDArray[np.int32]], tuple[NDArray[np.int64], NDArray[np.int64]]]
"""Given the lengths of rows, write the shard that each goes to, -1 if to none; return rows and entries per shard."""


class Leaving:
    """Clusters that leave a shard, and their rows, in the order of the new shards that they go to."""

    def __init__(self, job: Job, state: State, shard: ShardRecord, clock: Clock, find: Find) -> None:
        self._job, self._state, self._shard, self._clock, self._store = job, state, shard, clock, job.store
        with clock.phase("read"):
            self._length = read_array(self._store, f"{shard.name}/length")
        with clock.phase("route"):
            goes = borrow(shard.clusters, np.int32)
            rows, entries = find(self._length, goes)
            self.row_starts = starts_of(rows)
            """Number of rows before those of each new shard, then the total."""
            self.entry_starts = starts_of(entries)
            """Number of entries before those of each new shard, then the total."""
            count = int(self.row_starts[-1])
            self._place, self._own_length = np.empty(count, np.int64), np.empty(count, self._length.dtype)
            move.take_rows(goes, self.row_starts[:-1].copy(), self._length, (self._place, self._own_length))
            self._start = starts_of(self._length)

    @property
    def positions(self) -> NDArray[np.int64]:
        """Their positions among all clusters."""
        return self._shard.first + self._place

    def clusters(self, *names: str) -> dict[str, NDArray[Any]]:
        """Return columns of the clusters, and the lengths of their rows; before the first round, clusters are nodes."""
        columns: dict[str, NDArray[Any]] = {"length": self._own_length}
        if not self._state.round:
            return columns | {"ids": self.positions.astype(self._job.ids)}
        for name in names:
            with self._clock.phase("read"):
                column = read_array(self._store, f"{self._shard.name}/{name}")
                self._clock.count("read", [column])
            columns[name] = column[self._place]
        return columns

    def entries(self, *but: str) -> dict[str, NDArray[Any]]:
        """Return the columns of the entries of their rows, as stored on disk, without some."""
        total = int(self.entry_starts[-1])
        read = self._shard.entries if total else 0
        room = borrow(read, np.float64)
        taken: dict[str, NDArray[Any]] = {}
        for name in (name for name in entry_columns(self._shard) if name not in but):
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

    def write(self, number: int, clusters: dict[str, NDArray[Any]], entries: dict[str, NDArray[Any]]) -> Moved:
        """Write these columns, in one group for several new shards."""
        names: list[str | None] = []
        sizes: list[int] = []
        for group, (first, stop) in enumerate(piece_ranges(len(self.row_starts) - 1)):
            rows, items = (slice(starts[first], starts[stop]) for starts in (self.row_starts, self.entry_starts))
            if rows.start == rows.stop:  # half of all pieces, in small graphs: a dozen files each
                names.append(None)
                sizes.append(0)
                continue
            pieces = {name: column[rows] for name, column in clusters.items()}
            pieces |= {name: column[items] for name, column in entries.items()}
            with self._clock.phase("write"):
                names.append(name := fresh_name(self._job, moved_name(group, number)))
                sizes.append(sum(file.bytes for file in write_group(self._store, name, pieces, PIECE_CHUNK)))
                self._clock.count("write", list(pieces.values()))
        return Moved(
            tuple(names),
            tuple(entries),
            tuple(self.row_starts.tolist()),
            tuple(self.entry_starts.tolist()),
            tuple(sizes),
            seconds=self._clock.seconds,
            bytes=self._clock.bytes,
        )
