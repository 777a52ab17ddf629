"""Columns over all clusters of a state, which every process needs: who is whose nearest, and their ids and sizes.

They are read from its shards. Where there are many, each of P processes would ask S shards for each column: then tasks
first copy each column of about the square root of S successive shards to one file, and everybody reads from as few
files as that.

What a column takes on its way is at most what it takes in the end, and is counted: a process that reads one holds no
more than two others, and has room for five (`needs.VECTORS`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dask_rac.base.names import copied_name
from dask_rac.base.spans import starts_of
from dask_rac.engines.rows.groups import Groups, groups_of
from dask_rac.engines.rows.receipts import Clock, Job, Receipt, United, fresh_name
from dask_rac.files.folder import Folder
from dask_rac.files.pieces import write_pieces
from dask_rac.files.readers import array_read, pieces_read, read_all
from dask_rac.kernels.arrays import Ids
from dask_rac.store.manifest import ShardRecord, State
from dask_rac.tasks.cache import forget_state, kept_vector


@dataclass(frozen=True)
class Copied(Receipt):
    """Columns of the clusters of some successive shards, a file each."""

    names: dict[str, str]
    """The file of each column."""
    clusters: int
    disk: int
    """Bytes of the files."""


def round_groups(job: Job, state: State) -> Groups | None:
    """Return the groups by way of which the shards of a state exchange rows, None if they do so directly."""
    shards = len(state.shards)
    return groups_of(shards) if shards > job.limits.direct_shards else None


def copied_bytes(job: Job, state: State) -> int:
    """Return the bytes of the columns that a round copies."""
    return 0 if round_groups(job, state) is None else len(_columns(state)) * np.dtype(job.ids).itemsize * state.clusters


def copy_columns(job: Job, state: State, batch: int) -> Copied:
    """Copy what every process needs of the clusters of a batch of shards, a column at a time."""
    groups, clock = round_groups(job, state), Clock()
    assert groups is not None
    forget_state()
    first, stop = groups.batches(len(state.shards))[batch]
    shards = state.shards[first:stop]
    names, disk, clusters = {}, 0, sum(shard.clusters for shard in shards)
    for column in _columns(state):
        with clock.phase("read"):
            values = read_column(job.store, shards, column, np.empty(clusters, job.ids))
            clock.count("read", [values])
        with clock.phase("write"):
            names[column] = fresh_name(job, copied_name(column, batch))
            disk += write_pieces(job.store, names[column], [[values]])
            clock.count("write", [values])
    return Copied(names, clusters, disk, seconds=clock.seconds, bytes=clock.bytes)


def whole(job: Job, state: State, copies: Sequence[Copied], name: str, kind: DTypeLike | None = None) -> NDArray[Any]:
    """Read a column of all clusters of a state, ids or of another kind: from copies, if there are any."""
    out: NDArray[Any] = np.empty(state.clusters, kind or job.ids)
    if not copies:
        return read_column(job.store, state.shards, name, out)
    places = starts_of(np.array([copy.clusters for copy in copies]))

    parts = [out[first:stop] for first, stop in pairwise(places)]
    read_all(
        job.store,
        [pieces_read(job.store, copy.names[name], 0, [[part]]) for copy, part in zip(copies, parts, strict=True)],
    )
    return out


def _columns(state: State) -> tuple[str, ...]:
    """Return what every process needs of all clusters; in the first round, these are the nodes."""
    return ("nearest", "length", "ids", "size") if state.round else ("nearest", "length")


def nearest_of(job: Job, state: State, copies: Sequence[Copied]) -> Ids:
    """Return the nearest of every cluster of a state; each process reads it once."""
    return kept_vector((job.url, state.shards[0].name), lambda: whole(job, state, copies, "nearest"))


def read_column(store: Folder, shards: Sequence[ShardRecord | United], name: str, out: NDArray[Any]) -> NDArray[Any]:
    """Read a column of the clusters of successive shards."""
    places = starts_of(np.array([shard.clusters for shard in shards]))
    parts = [out[first:stop] for first, stop in pairwise(places)]
    read_all(
        store,
        [array_read(store, f"{shard.name}/{name}", None, part) for shard, part in zip(shards, parts, strict=True)],
    )
    return out
