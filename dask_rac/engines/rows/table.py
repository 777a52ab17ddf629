"""The table of one fold: the clusters that it folds, from the shards of a state and from rows that moved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.errors import DamagedStoreError
from dask_rac.base.spans import Span, starts_of
from dask_rac.engines.rows.packing import entry_columns, load_column, unpack_columns
from dask_rac.engines.rows.receipts import Arrival, Job, Piece
from dask_rac.files.arrays import read_array
from dask_rac.files.folder import Folder
from dask_rac.files.pieces import read_piece
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
        self._read_own(clusters, rows, span)
        self.height, self.leader = self._column("height", np.empty(own, reals)), np.empty(guests, ids)
        behind = {name: column[own:] for name, column in clusters.items()} | {"leader": self.leader}
        arrive(self._store, moved, behind, {name: column[entries:] for name, column in rows.items()})
        self.length, self.ids = clusters["length"], clusters["ids"]
        self.size = clusters["size"] if state.round else np.ones(len(self.ids), ids)
        self.top = clusters["top"] if state.round else np.full(len(self.ids), -np.inf)
        self.arrays: list[NDArray[Any]] = [self.height, self.leader, *clusters.values(), *rows.values()]
        self.rows = self._made(rows)

    def _read_own(self, clusters: dict[str, NDArray[Any]], rows: dict[str, NDArray[Any]], span: Span) -> None:
        """Read the clusters of the range, and their rows."""
        for name, column in clusters.items():
            if name == "ids" and not self._state.round:
                column[: span[1] - span[0]] = np.arange(*span)
            elif name == "length":
                np.concatenate([*self._lengths, column[:0]], out=column[: span[1] - span[0]])
                self._lengths.clear()
            else:
                self._column(name, column)
        at = 0
        for piece in self._own:
            last = at + piece.entries[1] - piece.entries[0]
            for name, column in rows.items():
                load_column(self._store, piece.name, name, piece.columns, piece.entries, column[at:last])
            at = last

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

    def _column(self, name: str, out: NDArray[Any]) -> NDArray[Any]:
        """Read a column of the clusters of the range."""
        at = 0
        for piece in self._own:
            last = at + piece.rows[1] - piece.rows[0]
            read_array(self._store, f"{piece.name}/{name}", *piece.rows, out[at:last])
            at = last
        return out


def arrive(
    store: Folder, moved: Sequence[Arrival], clusters: dict[str, NDArray[Any]], rows: dict[str, NDArray[Any]]
) -> None:
    """Read rows that moved, one after the other, into columns of clusters and of entries."""
    first, begin = 0, 0
    for arrival in moved:
        last, end = first + arrival.rows, begin + arrival.entries
        out = [clusters[name][first:last] for name, _ in arrival.clusters]
        stored = {name: _stored(rows, name, kind, (begin, end)) for name, kind in arrival.columns}
        read_piece(store, arrival.name, arrival.offset, [*out, *stored.values()])
        unpack_columns(stored, {name: column[begin:end] for name, column in rows.items()})
        first, begin = last, end


def _stored(rows: dict[str, NDArray[Any]], name: str, kind: str, span: tuple[int, int]) -> NDArray[Any]:
    """Return where a column goes as it is stored: where it belongs, unless it must be unpacked."""
    if name in rows and rows[name].dtype == kind:
        return rows[name][slice(*span)]
    return np.empty(span[1] - span[0], kind)
