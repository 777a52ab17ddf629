"""The handover: what is left of a run fits in memory and is done there, by rounds and the finisher, in one task."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.events import RoundRecord
from dask_rac.base.spans import batches, starts_of
from dask_rac.engines.contract import MergeList
from dask_rac.engines.linkage import needs_counts, rule_of
from dask_rac.engines.rows.columns import read_column
from dask_rac.engines.rows.in_memory import Start
from dask_rac.engines.rows.needs import finisher_bytes
from dask_rac.engines.rows.packing import column_read, entry_columns, write_round
from dask_rac.engines.rows.receipts import Job
from dask_rac.engines.rows.state import Shard, Space
from dask_rac.engines.rows.within import ending_of, merges_within
from dask_rac.files.arrays import read_array
from dask_rac.files.buffers import REQUEST
from dask_rac.files.folder import Folder
from dask_rac.files.readers import Read, read_all
from dask_rac.files.tables import TableRecord
from dask_rac.kernels.arrays import Rows, part
from dask_rac.kernels.rows import ingest
from dask_rac.kernels.tree.merges import raise_heights
from dask_rac.store.manifest import State
from dask_rac.store.statistics import reporting
from dask_rac.tasks import scratch
from dask_rac.tasks.cache import forget_state
from dask_rac.tasks.team import Team


@dataclass(frozen=True)
class Rest:
    """What the last step did."""

    merges: tuple[TableRecord, ...]
    records: tuple[RoundRecord, ...]
    short: int = 0
    """Bytes that the process would need, if it may not use as many; then nothing is written."""


def finish_rest(job: Job, state: State, merged: int, pays: bool, finisher_edges: int, threads: int) -> Rest:
    """Merge what is left of a state, in the memory of this process."""
    forget_state()
    scratch.end_tasks()
    with Team(threads) as team, reporting(job.store, job.attempt) as report:
        rule = rule_of(job.settings)._replace(scale=job.rule(state.round).scale)
        rows, top = _load(job, state, ties=not _merges_well(job, state, pays))
        if short := _short(job, state, rows, pays):
            return Rest((), (), short)
        space = Space(rows, ("neighbour", "weight", "tie", "edges"), needs_counts(job.settings))
        clusters = space.clusters(state.clusters)
        _load_clusters(job, state, clusters)
        start = Start(Shard(rows, clusters), space, rule, state.round, merged, job.nodes, pays, finisher_edges, top=top)
        well = _merges_well(job, state, pays)
        tops = np.full(0 if well else job.nodes, -np.inf)
        if not well:
            tops[clusters.ids] = top
        del rows, clusters, space, top
        found = ending_of(job.settings)(start, job.settings, team, report, job.limits)
    if found.stalled:
        assert job.room is not None
        return Rest((), (), finisher_bytes(job.room.sizes, state.clusters, found.stalled))
    scratch.return_freed()
    if not well:  # good merges know what is below them
        raise_heights(found.merges.left, found.merges.right, found.merges.height, tops)
    return Rest(_write_parts(job, found), tuple(found.records))


def _merges_well(job: Job, state: State, pays: bool) -> bool:
    """Whether good merges begin at once: they do not look at ties."""
    return merges_within(job.settings) and job.settings.finisher and bool(state.round) and not pays


def _short(job: Job, state: State, rows: Rows, pays: bool) -> int:
    """Return the bytes that this process needs for the rest, if it may not use as many; 0 otherwise."""
    if job.room is None:
        return 0
    if _merges_well(job, state, pays):
        return job.room.good_short(state.clusters, state.entries)
    if pays or not job.settings.finisher or merges_within(job.settings):
        return job.room.rest_short(state.clusters, state.entries, _widest(rows))
    return 0  # the finisher comes at once, for which there is room


def _widest(rows: Rows) -> int:
    """Return the most entries that two rows have together."""
    return int(np.sort(np.partition(rows.stop - rows.start, -2)[-2:]).sum()) if len(rows.start) > 1 else 0


def _write_parts(job: Job, found: MergeList) -> tuple[TableRecord, ...]:
    """Write merges in files of bounded size."""
    merges, rounds, ratio = found.merges, found.round, found.ratio
    return tuple(
        write_round(
            job, number, part(merges, *span), rounds[slice(*span)], ratio=None if ratio is None else ratio[slice(*span)]
        )
        for number, span in enumerate(batches(0, len(rounds), job.limits.part_merges))
    )


def _load(job: Job, state: State, ties: bool) -> tuple[Rows, NDArray[np.float64]]:
    """Return all rows of a state, with ties or without, and the height of each cluster's last merge."""
    length = read_column(job.store, state.shards, "length", np.empty(state.clusters, job.ids))
    starts = starts_of(length)
    columns: dict[str, NDArray[Any]] = {
        name: np.empty(state.entries, np.float64 if name == "weight" else kind)
        for name, kind in job.columns(state.round).items()
        if ties or name != "tie"
    }
    places = starts_of(np.array([shard.entries for shard in state.shards]))
    reads = [
        _weight_read(job.store, shard.name, column[first:stop])
        if name == "weight" and not state.round
        else column_read(job.store, shard.name, name, entry_columns(shard), (0, shard.entries), column[first:stop])
        for shard, (first, stop) in zip(state.shards, pairwise(places), strict=True)
        for name, column in columns.items()
    ]
    read_all(job.store, reads, REQUEST)
    tie = columns.get("tie")
    rows = Rows(
        starts[:-1].copy(),
        starts[1:].copy(),
        columns["neighbour"],
        columns["weight"],
        columns.get("edges", np.empty(0, job.counts)),
        np.empty(0 if state.round else state.entries, np.uint16) if tie is None else tie,
    )
    if not state.round:
        ingest.fill_ties(rows, np.arange(state.clusters, dtype=job.ids))
        return rows, np.full(state.clusters, -np.inf)
    return rows, read_column(job.store, state.shards, "top", np.empty(state.clusters))


def _weight_read(store: Folder, shard: str, out: NDArray[np.float64]) -> Read:
    """Return what reads the weights of a shard of the first state, in their own dtype."""

    def read() -> None:
        out[:] = read_array(store, f"{shard}/weight")

    return Read(2 * out.nbytes, read)


def _load_clusters(job: Job, state: State, clusters: Any) -> None:
    """Fill in the clusters of a state."""
    for name in ("nearest", "height", *(("ids", "size") if state.round else ())):
        read_column(job.store, state.shards, name, getattr(clusters, name))
    if not state.round:
        clusters.ids[:], clusters.size[:] = np.arange(state.clusters), 1
