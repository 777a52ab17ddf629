"""The steps of one shard out of core: load, run a kernel, save, return a receipt.

A state is all live clusters in the order of their ids, cut into shards by position. Where there are many of these,
`columns.py` first copies what every process needs of all clusters to fewer files. A round computes the next state:

1. `cut` counts what the round does, and cuts the leaders into the shards of the next state, as evenly as possible.
2. `split` writes the rows that must move: those of clusters that join a leader in another shard. Where there are many
   shards they take two steps: `exchange.py`.
3. `fold` reads the rows in its range of leaders and those that moved there, folds them, and writes the shard of the
   next state and its merges.

Data passes through the store; tasks return only receipts. A task that runs twice writes to two locations, and the
receipt names the one that counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.names import shard_name
from dask_rac.engines.rows.columns import Copied, copy_columns, nearest_of, round_groups, whole
from dask_rac.engines.rows.exchange import arrived_at, exchange, gather
from dask_rac.engines.rows.groups import Groups
from dask_rac.engines.rows.leaving import Leaving
from dask_rac.engines.rows.packing import row_lengths, store_rows, write_round
from dask_rac.engines.rows.receipts import (
    Borders,
    Clock,
    Folded,
    Job,
    Moved,
    fresh_name,
)
from dask_rac.engines.rows.table import ClusterTable
from dask_rac.files.arrays import write_group
from dask_rac.kernels.arrays import Clusters, Ids, Pairs, Rows, empty_merges
from dask_rac.kernels.rows import move
from dask_rac.kernels.rows.fold import fold as fold_rows
from dask_rac.kernels.rows.match import cut_leaders, find_fates, weigh_leaders
from dask_rac.store.manifest import ShardRecord, State
from dask_rac.tasks.cache import forget_state, kept
from dask_rac.tasks.scratch import begin_task, borrow
from dask_rac.tasks.task_graph import Task, TaskGraph


def round_graph(job: Job, state: State) -> TaskGraph:
    """One round: cut, split, fold. There are as many folds as current shards; the next state may need fewer."""
    graph = TaskGraph(job.attempt)
    before, shards = graph.constant(state, "state"), range(len(state.shards))
    groups = round_groups(job, state)
    copies = _copies(graph, job, before, groups) if groups is not None else ()
    places = graph.add(cut, job, before, copies)
    sent = [graph.add(split, job, before, copies, places, number) for number in shards]
    if groups is None:
        arrived = [graph.gather(sent, "moved")]
    else:
        take = partial(graph.add, gather, job, before, places, groups)
        arrived = exchange(graph, groups, sent, take, "moved")
    for number in shards:
        there = arrived[0 if groups is None else number // groups.width]
        graph.add(fold, job, before, copies, places, there, number)
    return graph


def _copies(graph: TaskGraph, job: Job, before: Task, groups: Groups) -> Task:
    """Add the tasks that copy columns of all clusters; return what they have copied."""
    batches = range(groups.count)
    return graph.gather([graph.add(copy_columns, job, before, batch, name="copy") for batch in batches], "copies")


def cut(job: Job, state: State, copies: Sequence[Copied]) -> Borders:
    """Count what the round does, and cut the next state into shards of about equal size, no more than it needs."""
    forget_state()
    clock = Clock()
    with clock.phase("read"):
        nearest, length = nearest_of(job, state, copies), whole(job, state, copies, "length")
        clock.count("read", [nearest, length])
    sizes = job.room.sizes if job.room else None
    row_load = sizes.row_load if sizes else 0
    with clock.phase("relabel"):
        live, merges, updates, entries, load, widest = map(int, weigh_leaders(nearest, length, row_load))
        asked = -(-entries // job.asked_entries) if job.asked_entries else 1
        least = max(load, sizes.load(live - merges, entries)) if sizes else load
        count = max(1, asked, -(-least // job.shard_entries))
        if job.room and not job.asked_entries:
            count = job.room.budget.evened(count)
        count = min(len(state.shards), count)
        borders = np.empty((count + 1, 4), np.int64)
        shards = cut_leaders(nearest, length, row_load, load, borders)
    places, bases, before, loads = borders[: shards + 1].T
    short = 0
    if job.room is not None:
        short = job.room.short(state.clusters, int(np.diff(loads).max()), shards, widest)
    return Borders(
        live,
        merges,
        updates,
        tuple(places.tolist()),
        tuple(bases.tolist()),
        tuple(np.diff(before).tolist()),
        short,
        seconds=clock.seconds,
        bytes=clock.bytes,
    )


def split(job: Job, state: State, copies: Sequence[Copied], places: Borders, number: int) -> Moved | None:
    """Write the rows of a shard whose leader is in another new shard."""
    if places.idle:
        return None
    begin_task()
    clock, shard, nearest = Clock(), state.shards[number], nearest_of(job, state, copies)
    cuts, span = np.array(places.places), (shard.first, shard.first + shard.clusters)
    leaving = Leaving(job, state, shard, clock, lambda length, goes: move.find_moves(nearest, length, cuts, goes, span))
    clusters = leaving.clusters("ids", "size", "top") | {"leader": nearest[leaving.positions]}
    groups = round_groups(job, state)
    borders = None if groups is None else groups.borders(len(places.entries))
    return leaving.write(number, clusters, leaving.entries(), borders)


def fold(
    job: Job, state: State, copies: Sequence[Copied], places: Borders, arrived: Sequence[Any], number: int
) -> Folded | None:
    """Fold one shard of the next state; return None if there is no such shard."""
    if number >= len(places.entries) or places.idle:
        return None
    begin_task()
    clock = Clock()
    lo, hi = places.places[number : number + 2]
    with clock.phase("read"):
        nearest = nearest_of(job, state, copies)
        table = ClusterTable(job, state, (lo, hi), arrived_at(round_groups(job, state), arrived, number))
        rows = table.rows
        clock.count("read", table.arrays)
    with clock.phase("relabel"):
        fate, merged_ids, merged_size = fates_of(job, state, copies)
    after, base = places.bases[number + 1] - places.bases[number], places.bases[number]
    with clock.phase("route"):
        pairs = borrow(after, job.ids), borrow(after, job.ids), borrow(after + 1, np.int64)
        _, count = move.pair_rows(nearest, rows.start, table.length, table.leader, pairs, (lo, hi))
        merges = empty_merges(count, np.dtype(job.ids))
        top = np.empty(after)
        move.list_merges(pairs[1], table.height, table.top, (pairs[0], table.ids, table.size, top), merges)
    with clock.phase("write"):
        merges_file = write_round(job, number, merges, state.round + 1)
        del table, merges  # what is folded next takes their place
    with clock.phase("fold"):
        out = room_for(job, after, int(pairs[2][-1]))
        clusters = Clusters(merged_ids, merged_size, borrow(after, job.ids), borrow(after, np.float64))
        rule = job.rule(state.round)
        end, later = map(int, fold_rows(rows, Pairs(*pairs, fate), clusters, rule, out, (0, after, 0, base)))
    shard = save_shard(job, (number, base), clusters, top, (out, end, rows), clock)
    return Folded(number, shard, later, merges_file, seconds=clock.seconds, bytes=clock.bytes)


def save_shard(
    job: Job,
    place: tuple[int, int],
    clusters: Clusters,
    top: NDArray[np.float64],
    folded: tuple[Rows, int, Rows],
    clock: Clock,
) -> ShardRecord:
    """Write a shard with its number and the position of its first cluster; ids and sizes are those of all clusters.

    The folded rows come with the number of their entries, and with the rows that they were folded from.
    """
    (number, base), (rows, entries, spare), after = place, folded, len(top)
    with clock.phase("write"):
        columns = {
            "ids": clusters.ids[base : base + after],
            "size": clusters.size[base : base + after],
            "top": top,
            "nearest": clusters.nearest,
            "height": clusters.height,
            "length": row_lengths(rows, job.ids),
        } | store_rows(job, rows, entries, spare)
        name = fresh_name(job, shard_name(number))
        files = write_group(job.store, name, columns)
        clock.count("write", list(columns.values()))
    return ShardRecord(name, base, after, entries, tuple(files))


def fates_of(job: Job, state: State, copies: Sequence[Copied]) -> tuple[Ids, Ids, Ids]:
    """Return the fate of every cluster of a state, and ids and sizes after the round; computed once per process."""

    def make() -> tuple[Ids, Ids, Ids]:
        nearest, ids = nearest_of(job, state, copies), np.dtype(job.ids)
        if state.round:
            old_ids, old_size = (whole(job, state, copies, name) for name in ("ids", "size"))
        else:
            old_ids, old_size = np.arange(state.clusters, dtype=ids), np.ones(state.clusters, ids)
        fate = np.empty(2 * state.clusters, ids)
        after = int(find_fates(nearest, old_ids, old_size, (old_ids, old_size), fate, (0, state.clusters, 0)))
        return fate, old_ids[:after], old_size[:after]

    return kept("fates", (job.url, state.shards[0].name), make)


def room_for(job: Job, rows: int, entries: int) -> Rows:
    """Return room for rows that are folded from at most `entries` entries."""
    counted = job.counted(1)
    return Rows(
        borrow(rows, np.int64),
        borrow(rows, np.int64),
        borrow(entries, job.ids),
        borrow(entries, np.float64),
        borrow(entries if counted else 0, job.counts),
        borrow(entries, np.uint16),
    )
