"""The rows that leave a shard, in the order of the shards that they go to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dask_rac.base.names import moved_name
from dask_rac.base.spans import Span, even_spans, starts_of
from dask_rac.engines.rows.packing import entry_columns
from dask_rac.engines.rows.receipts import Clock, Job, Kinds, Moved, fresh_name, piece_ranges
from dask_rac.files.arrays import CHUNK, array_dtype, read_array
from dask_rac.files.pieces import write_pieces
from dask_rac.files.readers import array_read, read_all
from dask_rac.kernels.arrays import Ids
from dask_rac.kernels.rows import move
from dask_rac.store.manifest import ShardRecord, State
from dask_rac.tasks.scratch import borrow

APART = CHUNK  # entries between two rows beyond which they are read one by one
Columns = dict[str, NDArray[Any]]
Starts = NDArray[np.int64]
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
        with self._clock.phase("read"):
            held = {name: self._room(name, self._shard.clusters, np.empty) for name in names}
            self._read([(name, None, column) for name, column in held.items()])
            self._clock.count("read", list(held.values()))
        return columns | {name: column[self._place] for name, column in held.items()}

    def entries(self, *but: str) -> dict[str, NDArray[Any]]:
        """Return the columns of the entries of their rows, as stored on disk, without some."""
        runs, start = self._runs()
        places = starts_of(np.array([stop - first for first, stop in runs], np.int64))
        with self._clock.phase("read"):
            names = [name for name in entry_columns(self._shard) if name not in but]
            held = {name: self._room(name, int(places[-1]), borrow) for name in names}
            self._read(
                (name, run, column[begin:end])
                for name, column in held.items()
                for run, (begin, end) in zip(runs, pairwise(places), strict=True)
            )
            self._clock.count("read", list(held.values()))
        taken = {name: borrow(int(self.entry_starts[-1]), column.dtype) for name, column in held.items()}
        with self._clock.phase("route"):
            for name, column in held.items():
                move.copy_rows(np.arange(len(start)), start, self._own_length, column, taken[name])
        return taken

    def _room(self, name: str, length: int, make: Callable[[int, DTypeLike], NDArray[Any]]) -> NDArray[Any]:
        """Return room for a column of the shard."""
        return make(length, array_dtype(self._store, f"{self._shard.name}/{name}"))

    def _read(self, wanted: Iterable[tuple[str, Span | None, NDArray[Any]]]) -> None:
        """Read columns of the shard, or ranges of them."""
        reads = [array_read(self._store, f"{self._shard.name}/{name}", span, out) for name, span, out in wanted]
        read_all(self._store, reads, self._job.replies(self._state.clusters))

    def _runs(self) -> tuple[list[Span], NDArray[np.int64]]:
        """Return the ranges of entries that hold all of the rows, and where each row begins in these.

        Where clusters have numbers in the order of their places, only those near the ends of a shard leave it.
        """
        start, order = self._start[self._place], np.argsort(self._place)
        first, stop = start[order], start[order] + self._own_length[order]
        cuts = np.flatnonzero(first[1:] > stop[:-1] + APART) + 1
        begins = first[np.concatenate(([0], cuts)) if len(first) else []]
        ends = stop[np.concatenate((cuts - 1, [len(stop) - 1])) if len(stop) else []]
        run = np.searchsorted(begins, start, side="right") - 1
        before = starts_of(ends - begins)[run]
        return list(zip(begins.tolist(), ends.tolist(), strict=True)), start - begins[run] + before

    def write(
        self,
        number: int,
        clusters: dict[str, NDArray[Any]],
        entries: dict[str, NDArray[Any]],
        borders: Sequence[int] | None = None,
    ) -> Moved:
        """Write these columns: a piece for each new shard, or for each group of them that begins at `borders`."""
        starts = self.row_starts, self.entry_starts
        if borders is not None:
            starts = starts[0][list(borders)], starts[1][list(borders)]
        ranges = piece_ranges(len(starts[0]) - 1)
        names = [moved_name(group, number) for group in range(len(ranges))]
        return write_moved(self._job, self._clock, names, (clusters, entries), starts)


def write_moved(
    job: Job, clock: Clock, names: Sequence[str], columns: tuple[Columns, Columns], starts: tuple[Starts, Starts]
) -> Moved:
    """Write columns of clusters and entries, in pieces that begin at `starts`, to files that begin with these names."""
    written: list[str] = []
    sizes: list[int] = []
    for name, pieces in zip(names, even_spans(len(starts[0]) - 1, len(names)), strict=True):
        if starts[0][pieces[0]] == starts[0][pieces[1]]:
            written.append("")
            sizes.append(0)
            continue
        with clock.phase("write"):
            written.append(fresh_name(job, name))
            there = (_piece(columns, starts, number) for number in range(*pieces))
            sizes.append(write_pieces(job.store, written[-1], there))
    clock.bytes["write"] = clock.bytes.get("write", 0) + sum(sizes)
    kinds = _kinds(columns[0]), _kinds(columns[1])
    return Moved(tuple(written), *kinds, *starts, tuple(sizes), seconds=clock.seconds, bytes=clock.bytes)


def _piece(columns: tuple[Columns, Columns], starts: tuple[Starts, Starts], number: int) -> list[NDArray[Any]]:
    """Return what goes to one place."""
    return [
        column[start[number] : start[number + 1]]
        for held, start in zip(columns, starts, strict=True)
        for column in held.values()
    ]


def _kinds(columns: Columns) -> Kinds:
    """Return the names and dtypes of columns."""
    return tuple((name, column.dtype.name) for name, column in columns.items())
