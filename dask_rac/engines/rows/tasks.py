"""The steps of one shard out of core: load, run a kernel, save, return a receipt.

A state is all live clusters in the order of their ids, cut into shards by position. A round computes the next state:

1. `match` counts a shard's live clusters, its merges, and the entries that go to each bin, from the nearest of all.
2. `cut` collects these counts and cuts the leaders into the shards of the next state, as evenly as possible.
3. `split` writes the rows that must move: those of clusters that join a leader in another shard.
4. `fold` reads the rows in its range of leaders and those that moved there, folds them, and writes the shard of the
   next state and its merges.

Data passes through the store; tasks return only receipts. A task that runs twice writes to two locations, and the
receipt names the one that counts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dask_rac.base.names import moved_name, shard_name
from dask_rac.base.spans import even_bins, spread, starts_of
from dask_rac.engines.rows.leaving import Leaving
from dask_rac.engines.rows.packing import row_lengths, store_rows, write_round
from dask_rac.engines.rows.receipts import (
    PIECE_CHUNK,
    Borders,
    Clock,
    Folded,
    Job,
    Matched,
    Moved,
    fresh_name,
    piece_ranges,
)
from dask_rac.engines.rows.table import ClusterTable
from dask_rac.files.arrays import read_array, write_group
from dask_rac.kernels.arrays import Clusters, Ids, Pairs, Rows, empty_merges
from dask_rac.kernels.rows import move
from dask_rac.kernels.rows.fold import fold as fold_rows
from dask_rac.kernels.rows.match import find_fates, weigh_leaders
from dask_rac.store.manifest import ShardRecord, State
from dask_rac.tasks.cache import kept, kept_vector
from dask_rac.tasks.scratch import begin_task, borrow
from dask_rac.tasks.task_graph import TaskGraph


def round_graph(job: Job, state: State) -> TaskGraph:
    """One round: match, split, fold. There are as many folds as current shards; the next state may need fewer."""
    graph = TaskGraph(job.attempt)
    before, shards = graph.constant(state, "state"), range(len(state.shards))
    places = graph.add(cut, job, before, graph.together([graph.add(match, job, before, k) for k in shards]))
    moved = graph.gather([graph.add(split, job, before, places, k) for k in shards], "moved")
    for number in shards:
        graph.add(fold, job, before, places, moved, number)
    return graph


BINS = 4096  # into which positions are grouped to find shards of even size


def match(job: Job, state: State, number: int) -> Matched:
    """Count a shard's live clusters, its merges, and the entries that go to each bin."""
    clock, shard, store = Clock(), state.shards[number], job.store
    with clock.phase("read"):
        nearest = nearest_of(job, state)
        length = read_array(store, f"{shard.name}/length")
        clock.count("read", [length])
    width = bin_width(state)
    entries, clusters, joined = (np.zeros(BINS, np.int64) for _ in range(3))
    with clock.phase("relabel"):
        span = shard.first, shard.first + shard.clusters, width
        live, merges, updates = map(int, weigh_leaders(nearest, length, entries, clusters, joined, span))
    return Matched(live, merges, updates, entries, clusters, joined, seconds=clock.seconds, bytes=clock.bytes)


def cut(job: Job, state: State, matched: Sequence[Matched]) -> Borders:
    """Cut the next state into shards of about equal size, no more than it needs."""
    entries, clusters, joined = (
        np.sum([getattr(receipt, name) for receipt in matched], axis=0) for name in ("entries", "clusters", "joined")
    )
    load, least = entries, int(entries.sum())
    if job.room is not None:
        sizes = job.room.sizes
        load = entries + sizes.row_load * (spread(state.clusters, BINS, bin_width(state)) + joined)
        least = max(int(load.sum()), sizes.load(int(clusters.sum()), least))
    asked = -(-int(entries.sum()) // job.asked_entries) if job.asked_entries else 1
    borders = even_bins(load, min(len(state.shards), max(1, asked, -(-least // job.shard_entries))))
    short = 0
    if job.room is not None:
        largest = int(np.diff(starts_of(load)[borders]).max())
        short = job.room.short(state.clusters, largest, len(borders) - 1, int(entries.max()))
    return Borders(
        sum(receipt.live for receipt in matched),
        sum(receipt.merges for receipt in matched),
        sum(receipt.updates for receipt in matched),
        tuple(np.minimum(borders * bin_width(state), state.clusters).tolist()),
        tuple(starts_of(clusters)[borders].tolist()),
        tuple(np.diff(starts_of(entries)[borders]).tolist()),
        short,
    )


def split(job: Job, state: State, places: Borders, number: int) -> Moved | None:
    """Write the rows of a shard whose leader is in another new shard."""
    if places.idle:
        return None
    begin_task()
    clock = Clock()
    leaving = Leaving(job, state, state.shards[number], nearest_of(job, state), places, clock)
    clusters, entries = leaving.clusters(), leaving.entries()
    names: list[str | None] = []
    sizes: list[int] = []
    for group, (first, stop) in enumerate(piece_ranges(len(places.entries))):
        rows, items = (slice(starts[first], starts[stop]) for starts in (leaving.row_starts, leaving.entry_starts))
        if rows.start == rows.stop:  # half of all pieces, in small graphs: a dozen files each
            names.append(None)
            sizes.append(0)
            continue
        pieces = {name: column[rows] for name, column in clusters.items()}
        pieces |= {name: column[items] for name, column in entries.items()}
        with clock.phase("write"):
            names.append(name := fresh_name(job, moved_name(group, number)))
            sizes.append(sum(file.bytes for file in write_group(job.store, name, pieces, PIECE_CHUNK)))
            clock.count("write", list(pieces.values()))
    return Moved(
        tuple(names),
        tuple(entries),
        tuple(leaving.row_starts.tolist()),
        tuple(leaving.entry_starts.tolist()),
        tuple(sizes),
        seconds=clock.seconds,
        bytes=clock.bytes,
    )


def fold(job: Job, state: State, places: Borders, moved: Sequence[Moved | None], number: int) -> Folded | None:
    """Fold one shard of the next state; return None if there is no such shard."""
    if number >= len(places.entries) or places.idle:
        return None
    begin_task()
    clock, store = Clock(), job.store
    lo, hi = places.places[number : number + 2]
    with clock.phase("read"):
        nearest = nearest_of(job, state)
        table = ClusterTable(job, state, (lo, hi), [m.piece(number) for m in moved if m is not None])
        rows = table.load_rows()
        clock.count("read", table.arrays)
    with clock.phase("relabel"):
        fate, merged_ids, merged_size = fates_of(job, state, places)
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
        out = _room(job, after, int(pairs[2][-1]))
        clusters = Clusters(merged_ids, merged_size, borrow(after, job.ids), borrow(after, np.float64))
        rule = job.rule(state.round)
        end, later = map(int, fold_rows(rows, Pairs(*pairs, fate), clusters, rule, out, (0, after, 0, base)))
    with clock.phase("write"):
        columns = {
            "ids": merged_ids[base : base + after],
            "size": merged_size[base : base + after],
            "top": top,
            "nearest": clusters.nearest,
            "height": clusters.height,
            "length": row_lengths(out, job.ids),
        } | store_rows(job, out, end, rows)
        name = fresh_name(job, shard_name(number))
        files = write_group(store, name, columns)
        clock.count("write", list(columns.values()))
    shard = ShardRecord(name, base, after, end, tuple(files))
    return Folded(number, shard, later, merges_file, seconds=clock.seconds, bytes=clock.bytes)


def nearest_of(job: Job, state: State) -> Ids:
    """Return the nearest of every cluster of a state; each process reads it once."""
    return kept_vector((job.url, state.shards[0].name), lambda: _whole(job, state, "nearest"))


def fates_of(job: Job, state: State, places: Borders) -> tuple[Ids, Ids, Ids]:
    """Return the fate of every cluster of a state, and ids and sizes after the round; computed once per process."""

    def make() -> tuple[Ids, Ids, Ids]:
        nearest, ids = nearest_of(job, state), np.dtype(job.ids)
        if state.round:
            old_ids, old_size = _whole(job, state, "ids"), _whole(job, state, "size")
        else:
            old_ids, old_size = np.arange(state.clusters, dtype=ids), np.ones(state.clusters, ids)
        fate = np.empty(2 * state.clusters, ids)
        merged = np.empty(places.bases[-1], ids), np.empty(places.bases[-1], ids)
        find_fates(nearest, old_ids, old_size, merged, fate, (0, state.clusters, 0))
        return fate, *merged

    return kept("fates", (job.url, state.shards[0].name), make)


def _whole(job: Job, state: State, name: str) -> Ids:
    """Read a column of all clusters of a state."""
    out: Ids = np.empty(state.clusters, job.ids)
    for shard in state.shards:
        place = slice(shard.first, shard.first + shard.clusters)
        read_array(job.store, f"{shard.name}/{name}", out=out[place])
    return out


def bin_width(state: State) -> int:
    """Return the number of positions in a bin."""
    return max(1, -(-state.clusters // BINS))


def _room(job: Job, rows: int, entries: int) -> Rows:
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
